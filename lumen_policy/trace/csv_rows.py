"""Rows of a CSV file whose columns are known by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.csv_text import read_blocks
from lumen_policy.trace.parse import Clock, Where, tokens
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.table import IntArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["csv_rows", "csv_rows_with", "require"]


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
    arrival: str | None,
    prompt: str,
    output: str,
    unit: str = "s",
    drop_unreadable: bool = False,
) -> Rows:
    """Read the columns of a CSV file.

    Args:
        names: the header.
        arrival: column with the time; None where there is none (arrivals are 0).
        prompt, output: columns with prompt and output tokens.
        unit: of a numeric time column.
        drop_unreadable: drop and count rows with a missing or unreadable field instead of refusing the file.
    """
    rows, _ = csv_rows_with(
        file, names, arrival=arrival, prompt=prompt, output=output, unit=unit, drop_unreadable=drop_unreadable
    )
    return rows


def csv_rows_with(
    file: TraceFile,
    names: Sequence[str],
    *,
    arrival: str | None,
    prompt: str,
    output: str,
    unit: str = "s",
    drop_unreadable: bool = False,
    extra: str | None = None,
) -> tuple[Rows, pl.Series | None]:
    """As `csv_rows`, with one more text column, row for row."""
    import polars as pl

    wanted = [name for name in (arrival, prompt, output, extra) if name is not None]
    require(file, names, wanted)
    clock = Clock(unit)
    parts: dict[str, list[IntArray]] = {"time": [], "prompt tokens": [], "output tokens": []}
    extras: list[pl.Series] = []
    dropped: dict[str, int] = {}
    for block in read_blocks(file, names, wanted, drop_ragged=drop_unreadable):
        columns = block.columns
        keep = np.ones(len(columns[prompt]), bool)
        keep[block.blank] = False
        keep[block.ragged] = False
        _count(dropped, "unreadable row", len(block.ragged))
        if not keep.all():
            columns = {name: column.filter(pl.Series(keep)) for name, column in columns.items()}
        lines = np.flatnonzero(keep)
        ok = np.ones(len(lines), bool)
        parsed: dict[str, IntArray] = {}
        for what, name in zip(parts, (arrival, prompt, output), strict=True):
            bad: list[IntArray] = []
            collect = bad if drop_unreadable else None
            if name is None:
                parsed[what] = np.zeros(len(lines), np.int64)
                continue
            where = Where(file.path, name, block.first_line, lines)
            read = clock.read if what == "time" else tokens
            parsed[what] = read(columns[name], where, unreadable=collect)
            for rows in bad:
                _count(dropped, f"unreadable {what}", int(ok[rows].sum()))
                ok[rows] = False
        for what, column in parsed.items():
            parts[what].append(column if ok.all() else column[ok])
        if extra is not None:
            extras.append(columns[extra].filter(pl.Series(ok)))
    if not parts["time"]:
        raise InputError(f"{file.path}: no rows below the header")
    arrivals, prompts, outputs = (np.concatenate(column) for column in parts.values())
    found = Rows(arrival_ps=arrivals, prompt_tokens=prompts, output_tokens=outputs, dropped=dropped)
    return found, pl.concat(extras) if extras else None


def _count(counts: dict[str, int], reason: str, count: int) -> None:
    if count:
        counts[reason] = counts.get(reason, 0) + count
