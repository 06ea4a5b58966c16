"""Rows of a CSV file whose columns are known by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.csv_text import read_blocks
from lumen_policy.trace.parse import Clock, Where, tokens
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.table import IntArray

__all__ = ["csv_rows", "require"]


def require(file: TraceFile, found: Sequence[str], expected: Sequence[str]) -> None:
    """Refuse a file that lacks a column, naming what was found and what is expected."""
    missing = [name for name in expected if name not in found]
    if missing:
        shown = ", ".join(repr(name[:40]) for name in found[:12])
        raise InputError(
            f"{file.path}: missing column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}; "
            f"found {shown}; expected {', '.join(map(repr, expected))} (name others with --map field=column)"
        )
    for name in expected:
        if list(found).count(name) > 1:
            raise InputError(f"{file.path}: column {name!r} appears twice in the header")


def csv_rows(
    file: TraceFile,
    names: Sequence[str],
    *,
    arrival: str,
    prompt: str,
    output: str,
    unit: str = "s",
    drop_unreadable: bool = False,
    notes: tuple[str, ...] = (),
) -> Rows:
    """Read three columns of a CSV file.

    Args:
        names: the header.
        arrival, prompt, output: columns with time, prompt and output tokens.
        unit: of a numeric time column.
        drop_unreadable: drop and count rows with a missing or unreadable field instead of refusing the file.
    """
    import polars as pl

    require(file, names, (arrival, prompt, output))
    clock = Clock(unit)
    parts: list[tuple[IntArray, IntArray, IntArray]] = []
    dropped: dict[str, int] = {}
    for block in read_blocks(file, names, (arrival, prompt, output), drop_ragged=drop_unreadable):
        columns = block.columns
        keep = np.ones(len(columns[arrival]), bool)
        keep[block.blank] = False
        keep[block.ragged] = False
        _count(dropped, "unreadable row", len(block.ragged))
        if not keep.all():
            columns = {name: column.filter(pl.Series(keep)) for name, column in columns.items()}
        lines = np.flatnonzero(keep)
        ok = np.ones(len(lines), bool)
        parsed = []
        for name, what in ((arrival, "time"), (prompt, "prompt tokens"), (output, "output tokens")):
            bad: list[IntArray] = []
            collect = bad if drop_unreadable else None
            where = _Lines(str(file.path), name, block.first_line, lines)
            if name == arrival:
                parsed.append(clock.read(columns[name], where, unreadable=collect))
            else:
                parsed.append(tokens(columns[name], where, unreadable=collect))
            if bad:
                _count(dropped, f"unreadable {what}", int(ok[bad[0]].sum()))
                ok[bad[0]] = False
        if not ok.all():
            parsed = [column[ok] for column in parsed]
        parts.append((parsed[0], parsed[1], parsed[2]))
    if not parts:
        raise InputError(f"{file.path}: no rows below the header")
    arrivals, prompts, outputs = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Rows(
        arrival_ps=arrivals, prompt_tokens=prompts, output_tokens=outputs, dropped=dropped, notes=notes
    )


class _Lines(Where):
    """Places in a block from which rows were left out."""

    __slots__ = ("lines",)

    def __init__(self, file: str, column: str, first_line: int, lines: IntArray) -> None:
        super().__init__(file, column, first_line)
        self.lines = lines

    def bad(self, row: int, value: object, allowed: str) -> InputError:
        return super().bad(int(self.lines[row]), value, allowed)


def _count(counts: dict[str, int], reason: str, count: int) -> None:
    if count:
        counts[reason] = counts.get(reason, 0) + count
