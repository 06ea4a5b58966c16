"""Generic Parquet: ``arrival_s,prompt_tokens,output_tokens``, or other columns named with ``--map``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.csv_rows import require
from lumen_policy.trace.evidence import time_unit_of
from lumen_policy.trace.options import FIELDS, ReadOptions
from lumen_policy.trace.parse import Clock, Where, tokens
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.table import IntArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FORMAT"]

_SLICE_ROWS = 1 << 20


class _Parquet:
    name = "parquet"
    summary = "Parquet with arrival_s, prompt_tokens, output_tokens (or --map)"
    kind = "requests"
    generic = True

    def recognises(self, file: TraceFile) -> bool:
        return file.is_parquet

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        import polars as pl

        columns = [options.columns.get(name, name) for name in FIELDS]
        # polars panics on some damaged files, and says so on stderr before Python sees it.
        try:
            with _no_panic_report():
                names = list(pl.read_parquet_schema(file.path))
                require(file, names, columns)
                frame = pl.read_parquet(file.path, columns=columns)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, MemoryError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(f"{file.path}: not readable as Parquet: {reason[:200]}") from error
        for name in columns:
            kind = frame.schema[name]
            if not (kind.is_numeric() or kind in (pl.String, pl.Datetime) or isinstance(kind, pl.Datetime)):
                raise InputError(f"{file.path}: column {name!r} has type {kind}; expected numbers")
        sample = frame[columns[0]].head(1).to_list()
        unit, notes = time_unit_of(file, columns[0], sample[0] if sample else "", options)
        clock = Clock(unit)
        parts: list[list[IntArray]] = []
        # Numbers go through their shortest decimal text, so that a float and a written decimal mean the same
        # instant.
        for first in range(0, frame.height, _SLICE_ROWS):
            piece = frame.slice(first, _SLICE_ROWS)
            text = [_text(piece[name]) for name in columns]
            where = [Where(file.path, name, first + 1, unit="row") for name in columns]
            parts.append(
                [clock.read(text[0], where[0]), tokens(text[1], where[1]), tokens(text[2], where[2])]
            )
        if not parts:
            raise InputError(f"{file.path}: no rows")
        arrival, prompt, output = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Rows(arrival_ps=arrival, prompt_tokens=prompt, output_tokens=output, notes=notes)


@contextmanager
def _no_panic_report() -> Iterator[None]:
    """Send the process's stderr nowhere: a panic hook of a library writes to the descriptor itself."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _text(column: pl.Series) -> pl.Series:
    import polars as pl

    if isinstance(column.dtype, pl.Datetime):
        return column.dt.strftime("%Y-%m-%d %H:%M:%S%.9f")
    return column.cast(pl.String)


FORMAT = _Parquet()
