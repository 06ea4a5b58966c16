"""Azure LLM inference traces 2023 and 2024: wall-clock CSV.

``TIMESTAMP,ContextTokens,GeneratedTokens``; TIMESTAMP is ``YYYY-MM-DD HH:MM:SS.fffffff`` (2023: 7 fraction
digits, no zone, CRLF, no end of the last line; 2024: up to 6 digits and a zone). Further columns are ignored.

Source: github.com/Azure/AzurePublicDataset (CC-BY 4.0).
"""

from __future__ import annotations

from lumen_policy.trace.csv_rows import csv_rows
from lumen_policy.trace.csv_text import header
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile

__all__ = ["FORMAT"]

_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


class _Azure:
    name = "azure"
    summary = "Azure/Splitwise CSV: TIMESTAMP,ContextTokens,GeneratedTokens"
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
            drop_unreadable=options.drop_unreadable,
        )


FORMAT = _Azure()
