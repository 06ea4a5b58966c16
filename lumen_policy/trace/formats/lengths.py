"""CSV of lengths without times: ``num_prefill_tokens,num_decode_tokens`` and other spellings. Needs
``--arrivals``.

Source of the first spelling: github.com/microsoft/vidur, data/processed_traces (MIT); of the others:
request-length files of vLLM and SGLang benchmarks (``input_len,output_len``; ``prompt_len,output_len``).
"""

from __future__ import annotations

from dataclasses import replace

from lumen_policy.errors import InputError
from lumen_policy.trace.csv_rows import csv_rows
from lumen_policy.trace.csv_text import header
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile

__all__ = ["FORMAT"]

_SPELLINGS = (
    ("num_prefill_tokens", "num_decode_tokens"),
    ("prompt_tokens", "output_tokens"),
    ("input_len", "output_len"),
    ("prompt_len", "output_len"),
    ("input_length", "output_length"),
)
_TIMES = ("arrived_at", "arrival_s", "arrival_timestamp", "timestamp", "time")


class _Lengths:
    name = "lengths"
    summary = "CSV of lengths without times (needs --arrivals)"
    kind = "lengths"
    generic = False

    def recognises(self, file: TraceFile) -> bool:
        if file.is_parquet:
            return False
        names = header(file)
        timed = any(name.lower() in _TIMES for name in names)
        return not timed and _spelling(names) is not None

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        names = header(file)
        spelling = _spelling(names) or _SPELLINGS[0]
        if options.arrivals is None:
            raise InputError(
                f"{file.path}: holds lengths but no known time column; name it with --map arrival_s=COLUMN, "
                "or say how requests arrive, e.g. --arrivals poisson:5"
            )
        rows = csv_rows(
            file,
            names,
            arrival=None,
            prompt=spelling[0],
            output=spelling[1],
            drop_unreadable=options.drop_unreadable,
        )
        return replace(
            rows,
            arrival_ps=options.arrivals.generate(len(rows.arrival_ps)),
            notes=(*rows.notes, options.arrivals.describe()),
        )


def _spelling(names: list[str]) -> tuple[str, str] | None:
    return next((pair for pair in _SPELLINGS if set(pair) <= set(names)), None)


FORMAT = _Lengths()
