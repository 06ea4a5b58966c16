"""Generic CSV: ``arrival_s,prompt_tokens,output_tokens``, or other columns named with ``--map``."""

from __future__ import annotations

from lumen_policy.trace.csv_rows import csv_rows
from lumen_policy.trace.csv_text import header
from lumen_policy.trace.options import FIELDS, ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile

__all__ = ["FORMAT"]


class _Csv:
    name = "csv"
    summary = "CSV with arrival_s,prompt_tokens,output_tokens (or --map)"
    generic = True

    def recognises(self, file: TraceFile) -> bool:
        line = file.first_line()
        return not file.is_parquet and "," in line and not line.lstrip().startswith(("{", "["))

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        arrival, prompt, output = (options.columns.get(name, name) for name in FIELDS)
        return csv_rows(
            file,
            header(file),
            arrival=arrival,
            prompt=prompt,
            output=output,
            unit=options.time_unit or "s",
            drop_unreadable=options.drop_unreadable,
        )


FORMAT = _Csv()
