"""BurstGPT CSV, releases 1 to 3: times in seconds, failed requests as rows of zero response tokens.

Releases 1 and 2: ``Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type``; release 3 inserts
``Session ID`` and ``Elapsed time``. Columns are found by name.

Source: github.com/HPMLL/BurstGPT (data CC-BY 4.0); Wang et al., arXiv 2401.17644.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lumen_policy.trace.csv_rows import csv_rows_with
from lumen_policy.trace.csv_text import header
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.table import IntArray
from lumen_policy.trace.turns import resolve_turns

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FORMAT"]

_COLUMNS = ("Timestamp", "Request tokens", "Response tokens")
_SESSION = "Session ID"


class _BurstGpt:
    name = "burstgpt"
    summary = "BurstGPT CSV: Timestamp, Request tokens, Response tokens (releases 1-3)"
    kind = "requests"
    generic = False

    def recognises(self, file: TraceFile) -> bool:
        return not file.is_parquet and set(_COLUMNS) <= set(header(file))

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        names = header(file)
        arrival, prompt, output = _COLUMNS
        rows, sessions = csv_rows_with(
            file,
            names,
            arrival=arrival,
            prompt=prompt,
            output=output,
            unit=options.time_unit or "s",
            drop_unreadable=options.drop_unreadable,
            extra=_SESSION if _SESSION in names else None,
        )
        if sessions is None:
            return rows
        prompts, note = resolve_turns(file, rows, _codes(sessions), options)
        return replace(rows, prompt_tokens=prompts, notes=(*rows.notes, note) if note else rows.notes)


def _codes(sessions: pl.Series) -> IntArray:
    """A number for each session, −1 for rows without one."""
    ranks = sessions.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return ranks - 1


FORMAT = _BurstGpt()
