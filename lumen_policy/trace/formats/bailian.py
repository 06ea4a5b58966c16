"""Qwen-Bailian traces: JSON lines with times in seconds and hash ids of 16-token prompt blocks.

``{"chat_id": 159, "parent_chat_id": 55, "timestamp": 61.114, "input_length": 521, "output_length": 132,
"type": "text", "turn": 2, "hash_ids": [1089, …]}``. The hash ids cover input_length, so a later turn's input
holds its history.

Source: github.com/alibaba-edu/qwen-bailian-usagetraces-anon (Apache-2.0); Wang et al., USENIX ATC 2025.
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


class _Bailian:
    name = "bailian"
    summary = "Qwen-Bailian JSON lines: seconds, 16-token hash blocks"
    kind = "requests"
    generic = False

    def recognises(self, file: TraceFile) -> bool:
        return {"chat_id", "input_length", "output_length", "hash_ids"} <= first_object(file).keys()

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        unit = options.time_unit or "s"
        columns = json_columns(file, _FIELDS, options, unit=unit, hash_field="hash_ids")
        note = check_unit(file, columns.rows, unit, "ms", 0.001, options)
        rows = replace(columns.rows, notes=(*columns.rows.notes, note))
        return with_prefix(file, replace(columns, rows=rows), 16, options)


FORMAT = _Bailian()
