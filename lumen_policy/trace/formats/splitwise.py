"""CSV of the Splitwise simulator: ``request_id,…,arrival_timestamp,batch_size,prompt_size,token_size``,
seconds.

Source: github.com/Mutinifni/splitwise-sim (MIT); Patel et al., ISCA 2024.
"""

from __future__ import annotations

from lumen_policy.trace.csv_rows import csv_rows
from lumen_policy.trace.csv_text import header
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile

__all__ = ["FORMAT"]

_COLUMNS = ("arrival_timestamp", "prompt_size", "token_size")


class _Splitwise:
    name = "splitwise"
    summary = "Splitwise simulator CSV: arrival_timestamp,prompt_size,token_size"
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


FORMAT = _Splitwise()
