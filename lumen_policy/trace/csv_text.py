"""CSV as blocks of text columns: physical lines are rows, and every row is accounted for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.table import IntArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["CsvBlock", "header", "read_blocks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvBlock:
    """Some rows of a CSV file.

    Attributes:
        first_line: line number of the first row.
        columns: text columns by name; row i stands on line first_line + i.
        blank: rows that are blank lines.
        ragged: rows with another number of fields than the header (only where the caller drops them).
    """

    first_line: int
    columns: dict[str, pl.Series]
    blank: IntArray
    ragged: IntArray


def header(file: TraceFile) -> list[str]:
    """The column names of the first line, quotes and outer blanks removed."""
    return [name.strip().strip('"').strip() for name in file.first_line().split(",")]


def read_blocks(
    file: TraceFile,
    names: Sequence[str],
    wanted: Sequence[str],
    *,
    skip_header: bool = True,
    drop_ragged: bool = False,
) -> Iterator[CsvBlock]:
    """The wanted columns, block by block.

    Args:
        names: all columns of the file, in order.
        wanted: the columns to read.
        skip_header: whether the first line holds the names.
        drop_ragged: report rows with too many or too few fields in `ragged` instead of an error.
    """
    for first_line, block in file.blocks():
        if skip_header and first_line == 1:
            _, _, block = block.partition(b"\n")
            first_line = 2
        block = block.rstrip(b"\r\n")
        if block:
            yield _parse(file, first_line, block, names, wanted, drop_ragged)


def _parse(
    file: TraceFile,
    first_line: int,
    block: bytes,
    names: Sequence[str],
    wanted: Sequence[str],
    drop_ragged: bool,
) -> CsvBlock:
    import polars as pl

    ragged: list[int] = []
    quoted = b'"' in block
    # A header of our own fixes the number of fields; a row with fewer gets nulls, a row with more is an
    # error.
    keys = [f"c{i}" for i in range(len(names))]
    pick = [names.index(name) for name in wanted]
    for attempt in range(2):
        try:
            frame = pl.read_csv(
                ",".join(keys).encode() + b"\n" + block,
                infer_schema=False,
                quote_char='"' if quoted else None,
                columns=[keys[i] for i in sorted(set(pick))],
            )
            break
        except pl.exceptions.PolarsError as error:
            if attempt or not drop_ragged:
                raise _explain(file, first_line, block, len(names), error) from error
            block, ragged = _without_ragged(block, len(names))
    lines = block.count(b"\n") + 1
    if frame.height != lines:
        line = _line_of_open_quote(block)
        at = f"line {first_line + line}: " if line is not None else ""
        raise InputError(
            f"{file.path}: {at}a quoted field does not end on its line ({lines} lines, {frame.height} rows)"
        )
    columns = {name: frame[keys[i]] for name, i in zip(wanted, pick, strict=True)}
    empty = frame.select(pl.all_horizontal(pl.all().is_null()))[:, 0]
    blank: list[int] = []
    if empty.any():
        text = block.split(b"\n")
        blank = [i for i in empty.arg_true().to_list() if not text[i].strip() and i not in ragged]
    return CsvBlock(
        first_line=first_line,
        columns=columns,
        blank=np.array(blank, np.int64),
        ragged=np.array(ragged, np.int64),
    )


def _without_ragged(block: bytes, fields: int) -> tuple[bytes, list[int]]:
    """The block with its unparseable rows emptied, and which they are."""
    lines = block.split(b"\n")
    bad = []
    for i, line in enumerate(lines):
        if line.count(b",") >= fields or b'"' in line or not _is_utf8(line):
            bad.append(i)
            lines[i] = b"," * (fields - 1) or b"-"
    return b"\n".join(lines), bad


def _explain(file: TraceFile, first_line: int, block: bytes, fields: int, error: Exception) -> InputError:
    for i, line in enumerate(block.split(b"\n")):
        where = f"{file.path}: line {first_line + i}: "
        if not _is_utf8(line):
            return InputError(f"{where}is not valid UTF-8")
        if line.count(b'"') % 2:
            return InputError(f"{where}a quoted field does not end on its line")
        if line.count(b",") >= fields and b'"' not in line:
            return InputError(f"{where}{line.count(b',') + 1} fields, but the header has {fields}")
    return InputError(f"{file.path}: not readable as CSV: {str(error).strip().splitlines()[0]}")


def _line_of_open_quote(block: bytes) -> int | None:
    for i, line in enumerate(block.split(b"\n")):
        if line.count(b'"') % 2:
            return i
    return None


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
