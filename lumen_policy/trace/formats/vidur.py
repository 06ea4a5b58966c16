"""Vidur-style CSV: ``arrived_at,num_prefill_tokens,num_decode_tokens``, arrivals in seconds.

Further columns (``num_total_tokens``, ``pd_ratio``) are ignored; pd_ratio means prefill/decode in some
copies and decode/prefill in others.

Source: github.com/microsoft/vidur, data/processed_traces (MIT).
"""

from __future__ import annotations

from lumen_policy.trace.csv_rows import csv_rows
from lumen_policy.trace.csv_text import header
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile

__all__ = ["FORMAT"]

_COLUMNS = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")


class _Vidur:
    name = "vidur"
    summary = "Vidur CSV: arrived_at,num_prefill_tokens,num_decode_tokens"
    kind = "requests"
    generic = False

    def recognises(self, file: TraceFile) -> bool:
        return not file.is_parquet and set(_COLUMNS) <= set(header(file))

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        arrival, prompt, output = _COLUMNS
        return csv_rows(
            file,
            header(file),
            arrival=arrival,
            prompt=prompt,
            output=output,
            unit=options.time_unit or "s",
            drop_unreadable=options.drop_unreadable,
        )


FORMAT = _Vidur()
