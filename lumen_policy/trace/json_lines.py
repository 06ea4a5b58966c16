"""JSON lines as requests, hash ids of prompt blocks included."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.parse import Clock, Where, tokens
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.table import IntArray

__all__ = ["JsonColumns", "first_object", "json_columns"]

_U64 = (1 << 64) - 1
_I64_MIN = -(1 << 63)

_record = msgspec.json.Decoder(dict[str, msgspec.Raw])
_scalar = msgspec.json.Decoder(int | float | str | None)
_integers = msgspec.json.Decoder(list[int] | None)
_numbers = msgspec.json.Decoder(list[int | float] | None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonColumns:
    """The fields of a JSON-lines file, one entry per readable line.

    Attributes:
        rows: arrival, prompt and output tokens.
        lines: line number of each row.
        hash_counts: hash ids of each row; -1 where the row has none.
        hash_ids: all hash ids, one after another; ids from 2⁶³ on as their 64-bit pattern.
        hash_floats: whether an id was written as a float.
    """

    rows: Rows
    lines: IntArray
    hash_counts: IntArray
    hash_ids: IntArray
    hash_floats: bool


def first_object(file: TraceFile) -> dict[str, object]:
    """The first line as a JSON object; empty where it is none."""
    try:
        value = msgspec.json.decode(file.head.split(b"\n", 1)[0])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def json_columns(
    file: TraceFile, fields: Sequence[str], options: ReadOptions, *, unit: str, hash_field: str | None = None
) -> JsonColumns:
    """Read the fields of every line.

    Args:
        fields: names of arrival, prompt tokens and output tokens.
        unit: of the arrival.
        hash_field: name of the list of hash ids.

    Raises:
        InputError: a line that is no JSON object, or a missing or unreadable field, unless
        ``drop_unreadable``.
    """
    found = _Found(file, fields, hash_field, options.drop_unreadable)
    for first_line, block in file.blocks():
        for number, line in enumerate(block.split(b"\n"), first_line):
            if line.strip():
                found.add(number, line)
    if not found.lines and not found.dropped:
        raise InputError(f"{file.path}: no rows")
    return found.columns(unit)


class _Found:
    """What the lines held so far."""

    def __init__(
        self, file: TraceFile, fields: Sequence[str], hash_field: str | None, drop_unreadable: bool
    ) -> None:
        self.file = file
        self.fields = fields
        self.hash_field = hash_field
        self.drop_unreadable = drop_unreadable
        self.text: tuple[list[str], list[str], list[str]] = ([], [], [])
        self.lines = array("q")
        self.counts = array("q")
        self.ids = array("Q")
        self.floats = False
        self.dropped: dict[str, int] = {}

    def add(self, number: int, line: bytes) -> None:
        """Take one line, or refuse it."""
        try:
            record = _record.decode(line)
            values = [_value(record.get(name)) for name in self.fields]
            ids = self._hash_ids(record)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
            self._refuse(number, f"not a readable record: {error}", "unreadable row")
            return
        for name, value in zip(self.fields, values, strict=True):
            if value is None:
                shown = ", ".join(repr(key[:40]) for key in list(record)[:10])
                what = f"{name!r} is missing; found {shown}; expected {', '.join(map(repr, self.fields))}"
                remedy = "name others with --map field=column, or drop such rows with --drop-unreadable"
                self._refuse(number, f"{what} ({remedy})", f"missing {self._meaning(name)}")
                return
        for column, value in zip(self.text, values, strict=True):
            column.append(str(value))
        self.lines.append(number)
        self.counts.append(-1 if ids is None else len(ids))
        if ids is not None:
            self.ids.extend(ids)

    def columns(self, unit: str) -> JsonColumns:
        """The text turned into integers."""
        import polars as pl

        lines, counts = (np.array(column, np.int64) for column in (self.lines, self.counts))
        ids = np.array(self.ids, np.uint64).view(np.int64)
        ok = np.ones(len(lines), bool)
        parsed: list[IntArray] = []
        for name, column in zip(self.fields, self.text, strict=True):
            bad: list[IntArray] = []
            collect = bad if self.drop_unreadable else None
            where = Where(self.file.path, name, 0, lines)
            text = pl.Series(column, dtype=pl.String)
            is_time = not parsed
            read = Clock(unit).read if is_time else tokens
            parsed.append(read(text, where, unreadable=collect))
            for rows in bad:
                self._count(f"unreadable {self._meaning(name)}", int(ok[rows].sum()))
                ok[rows] = False
        if not ok.all():
            ids = ids[np.repeat(ok, np.maximum(counts, 0))]
            lines, counts = lines[ok], counts[ok]
            parsed = [column[ok] for column in parsed]
        return JsonColumns(
            rows=Rows(
                arrival_ps=parsed[0], prompt_tokens=parsed[1], output_tokens=parsed[2], dropped=self.dropped
            ),
            lines=lines,
            hash_counts=counts,
            hash_ids=ids,
            hash_floats=self.floats,
        )

    def _hash_ids(self, record: dict[str, msgspec.Raw]) -> list[int] | None:
        if self.hash_field is None or self.hash_field not in record:
            return None
        raw = record[self.hash_field]
        try:
            ids = _integers.decode(raw)
        except msgspec.ValidationError:
            numbers = _numbers.decode(raw) or []
            if any(value != int(value) for value in numbers):
                raise ValueError(f"{self.hash_field} holds a number that is not whole") from None
            self.floats = True
            ids = [int(value) for value in numbers]
        if ids is None:
            return None
        if ids and not _I64_MIN <= min(ids) <= max(ids) <= _U64:
            raise ValueError(f"{self.hash_field} holds an id outside −2⁶³ … 2⁶⁴ − 1")
        return [value & _U64 for value in ids]

    def _meaning(self, name: str) -> str:
        return ("time", "prompt tokens", "output tokens")[list(self.fields).index(name)]

    def _refuse(self, number: int, what: str, reason: str) -> None:
        if not self.drop_unreadable:
            raise InputError(f"{self.file.path}: line {number}: {what}")
        self._count(reason, 1)

    def _count(self, reason: str, count: int) -> None:
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count


def _value(raw: msgspec.Raw | None) -> str | None:
    """The text of a number exactly as written, or a string's content; None for null or nothing."""
    if raw is None:
        return None
    value = _scalar.decode(raw)
    return value if value is None or isinstance(value, str) else bytes(raw).decode()
