"""Text columns to integers: token counts exactly, times to the picosecond, each failure with its line."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.table import MAX_TOKENS, IntArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FAR_PS", "UNITS", "Clock", "Where", "tokens"]

FAR_PS = (1 << 63) - 1
"""Stands for a time too far from the first one for int64 picoseconds (106 days)."""
UNITS = {"s": 12, "ms": 9, "us": 6, "ns": 3}
"""Units of a numeric time column: decimal digits from the unit down to a picosecond."""
_DATE_FORMATS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f")
_ZONED = "%#z"


class Where:
    """Names a place in a file for an error message: ``FILE: line N: COLUMN …``.

    Args:
        file: its path.
        column: the field.
        first: number of the column's first row.
        lines: int64, offsets from `first` of the rows, where some were left out; None = one after another.
        unit: what is counted: line, row or entry.
    """

    __slots__ = ("column", "file", "first", "lines", "unit")

    def __init__(
        self, file: object, column: str, first: int = 0, lines: IntArray | None = None, unit: str = "line"
    ) -> None:
        self.file = file
        self.column = column
        self.first = first
        self.lines = lines
        self.unit = unit

    def bad(self, row: int, value: object, allowed: str) -> InputError:
        """The error for the given row of the column."""
        number = self.first + (row if self.lines is None else int(self.lines[row]))
        found = "is missing" if value is None else f"is {str(value)[:60]!r}"
        return InputError(f"{self.file}: {self.unit} {number}: {self.column} {found}; expected {allowed}")


def tokens(text: pl.Series, where: Where, *, unreadable: list[IntArray] | None = None) -> IntArray:
    """Token counts, shape (len(text),): integers 0 … 10⁹, also written as ``374.0``.

    Args:
        unreadable: where given, collects the rows that cannot be read (their count is 0) instead of an error.
    """
    import polars as pl

    numbers = text.cast(pl.Int64, strict=False)
    if numbers.null_count():
        retry = text.str.strip_chars().str.replace(r"\.0*$", "").cast(pl.Int64, strict=False)
        numbers = numbers.fill_null(retry)
    bad = numbers.is_null() | ~numbers.is_between(0, MAX_TOKENS)
    bad = bad.fill_null(True)
    if bad.any():
        rows = bad.arg_true().to_numpy().astype(np.int64)
        if unreadable is None:
            raise where.bad(int(rows[0]), text[int(rows[0])], f"a whole number of tokens, 0 … {MAX_TOKENS}")
        unreadable.append(rows)
        numbers = numbers.to_frame("n").select(pl.when(~bad).then(pl.col("n")).otherwise(0))["n"]
    return numbers.to_numpy().astype(np.int64, copy=False)


class Clock:
    """Turns blocks of a time column into int64 picoseconds from one origin.

    Numbers are read as decimals (at most 26 digits before the point) and cut to picoseconds, never through a
    float; time stamps (``YYYY-MM-DD HH:MM:SS[.fraction]``, blank or T between, with or without a zone) to
    nanoseconds. The first block decides which of the two the column holds.
    """

    __slots__ = ("_dates", "_digits", "_format", "_origin")

    def __init__(self, unit: str = "s") -> None:
        self._digits = UNITS[unit]
        self._dates: bool | None = None
        self._format = ""
        self._origin: int | None = None

    def read(self, text: pl.Series, where: Where, *, unreadable: list[IntArray] | None = None) -> IntArray:
        """Picoseconds from the origin (the first readable value), shape (len(text),); ± ``FAR_PS`` where too
        far.
        """
        import polars as pl

        if self._dates is None:
            self._choose(text)
        values = self._parse(text)
        if values.null_count() and text.str.contains(r"^\s|\s$").any():
            values = values.fill_null(self._parse(text.str.strip_chars()))
        if self._origin is None and values.null_count() < len(values):
            self._origin = values.drop_nulls()[0]
        scale = 1000 if self._dates else 1
        offset = pl.col("t").cast(pl.Int128) - pl.lit(self._origin or 0, dtype=pl.Int128)
        shifted = values.to_frame("t").select((offset * scale).clip(-FAR_PS, FAR_PS).cast(pl.Int64))["t"]
        if shifted.null_count():
            rows = shifted.is_null().arg_true().to_numpy().astype(np.int64)
            row = int(rows[0])
            if unreadable is None:
                raise where.bad(row, text[row], "a time stamp" if self._dates else "a number")
            unreadable.append(rows)
            shifted = shifted.fill_null(0)
        return shifted.to_numpy().astype(np.int64, copy=False)

    def _choose(self, text: pl.Series) -> None:
        sample = text.drop_nulls().head(1)
        value = str(sample[0]).strip() if len(sample) else ""
        self._dates = len(value) >= 10 and value[4:5] == "-" and value[7:8] == "-"
        if self._dates:
            self._format = _DATE_FORMATS["T" in value]
            clock = value[11:]
            if clock.endswith("Z") or "+" in clock or "-" in clock:
                self._format += _ZONED

    def _parse(self, text: pl.Series) -> pl.Series:
        import polars as pl

        if not self._dates:
            numbers = text.cast(pl.Decimal(38, self._digits), strict=False)
            if numbers.null_count() and text.str.contains("[eE]").any():
                # Not every polars version reads exponents.
                plain = pl.Series([None if value is None else _without_exponent(value) for value in text])
                numbers = numbers.fill_null(plain.cast(pl.Decimal(38, self._digits), strict=False))
            return numbers.to_physical()
        if self._format.endswith(_ZONED):
            text = text.str.replace("Z$", "+00:00")
        return text.str.to_datetime(self._format, time_unit="ns", strict=False).to_physical()


def _without_exponent(text: str) -> str | None:
    """``1.7e-3`` as ``0.0017``; None where it is no number of a usable size."""
    try:
        number = Decimal(text)
    except ArithmeticError:
        return None
    return format(number, "f") if number.is_finite() and abs(number.adjusted()) < 40 else None
