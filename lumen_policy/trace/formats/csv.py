"""Generic CSV: ``arrival_s,prompt_tokens,output_tokens``, or other columns named with ``--map``."""

from __future__ import annotations

from dataclasses import replace

from lumen_policy.trace.csv_rows import csv_rows, require
from lumen_policy.trace.csv_text import header
from lumen_policy.trace.evidence import time_unit_of
from lumen_policy.trace.options import FIELDS, ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile

__all__ = ["FORMAT"]


class _Csv:
    name = "csv"
    summary = "CSV with arrival_s,prompt_tokens,output_tokens (or --map)"
    kind = "requests"
    generic = True

    def recognises(self, file: TraceFile) -> bool:
        line = file.first_line()
        return not file.is_parquet and "," in line and not line.lstrip().startswith(("{", "["))

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        arrival, prompt, output = (options.columns.get(name, name) for name in FIELDS)
        names = header(file)
        require(file, names, (arrival, prompt, output))
        unit, notes = time_unit_of(file, arrival, _first_value(file, names.index(arrival)), options)
        rows = csv_rows(
            file,
            names,
            arrival=arrival,
            prompt=prompt,
            output=output,
            unit=unit,
            drop_unreadable=options.drop_unreadable,
        )
        return replace(rows, notes=notes)


def _first_value(file: TraceFile, column: int) -> str:
    """The column's field in the first row, quotes removed; empty where there is none."""
    rows = file.head.split(b"\n", 2)[1:2]
    fields = rows[0].decode("utf-8", "replace").split(",") if rows else []
    return fields[column].strip().strip('"') if column < len(fields) else ""


FORMAT = _Csv()
