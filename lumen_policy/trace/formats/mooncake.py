"""Mooncake traces: JSON lines with times in milliseconds and hash ids of 512-token prompt blocks.

``{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, …]}``

Source: github.com/kvcache-ai/Mooncake, FAST25-release (Apache-2.0); Qin et al., FAST 2025.
"""

from __future__ import annotations

from dataclasses import replace

from lumen_policy.trace.evidence import check_unit, with_prefix
from lumen_policy.trace.json_lines import first_object, json_columns
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile

__all__ = ["FORMAT"]

_FIELDS = ("timestamp", "input_length", "output_length")


class _Mooncake:
    name = "mooncake"
    summary = "Mooncake JSON lines: milliseconds, 512-token hash blocks"
    kind = "requests"
    generic = False

    def recognises(self, file: TraceFile) -> bool:
        keys = first_object(file).keys()
        return {"input_length", "output_length", "hash_ids"} <= keys and "chat_id" not in keys

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        unit = options.time_unit or "ms"
        columns = json_columns(file, _FIELDS, options, unit=unit, hash_field="hash_ids")
        note = check_unit(file, columns.rows, unit, "s", 1000.0, options)
        rows = replace(columns.rows, notes=(*columns.rows.notes, note))
        return with_prefix(file, replace(columns, rows=rows), 512, options)


FORMAT = _Mooncake()
