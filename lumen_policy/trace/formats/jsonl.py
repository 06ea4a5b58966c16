"""Generic JSON lines: ``{"arrival_s": …, "prompt_tokens": …, "output_tokens": …}``, or other keys named with
``--map``.
"""

from __future__ import annotations

from dataclasses import replace

from lumen_policy.trace.evidence import time_unit_of, with_prefix
from lumen_policy.trace.json_lines import first_object, json_columns
from lumen_policy.trace.options import FIELDS, ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile

__all__ = ["FORMAT"]


class _JsonLines:
    name = "jsonl"
    summary = "JSON lines with arrival_s, prompt_tokens, output_tokens[, hash_ids] (or --map)"
    kind = "requests"
    generic = True

    def recognises(self, file: TraceFile) -> bool:
        return file.first_line().lstrip().startswith("{")

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        fields = [options.columns.get(name, name) for name in FIELDS]
        first = first_object(file)
        unit, notes = time_unit_of(file, fields[0], first.get(fields[0], ""), options)
        columns = json_columns(file, fields, options, unit=unit, hash_field="hash_ids")
        rows = replace(columns.rows, notes=notes)
        stated = first.get("block_tokens")
        size = stated if isinstance(stated, int) and stated > 0 else None
        return with_prefix(file, replace(columns, rows=rows), size, options)


FORMAT = _JsonLines()
