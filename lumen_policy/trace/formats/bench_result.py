"""Result files of the vLLM and SGLang serving benchmarks: ``input_lens``, ``output_lens`` and, newer,
``start_times``.

One JSON object (vLLM ``--save-result --save-detailed``; SGLang ``--output-details`` writes one a line).
Times are seconds of a process clock; without them the file needs ``--arrivals``.

Source: github.com/vllm-project/vllm, vllm/benchmarks/serve.py; github.com/sgl-project/sglang,
bench_serving.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.parse import Clock, Where, tokens
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FORMAT"]

Number = int | float | None


class _Result(msgspec.Struct):
    input_lens: list[Number]
    output_lens: list[Number]
    start_times: list[Number] | None = None
    request_rate: float | str | None = None


class _BenchResult:
    name = "bench_result"
    summary = "vLLM/SGLang benchmark result JSON: input_lens, output_lens[, start_times]"
    kind = "requests"
    generic = False

    def recognises(self, file: TraceFile) -> bool:
        head = file.head.lstrip()
        return head.startswith(b"{") and (b'"input_lens"' in head or b'"total_input_tokens"' in head)

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        result = _decode(file)
        n = len(result.input_lens)
        if len(result.output_lens) != n:
            raise InputError(f"{file.path}: {n} input_lens but {len(result.output_lens)} output_lens")
        if not n:
            raise InputError(f"{file.path}: no rows")
        columns = {"input_lens": result.input_lens, "output_lens": result.output_lens}
        lengths = [
            tokens(_text(values), Where(file.path, name, unit="entry")) for name, values in columns.items()
        ]
        if result.start_times is not None and options.arrivals is None:
            if len(result.start_times) != n:
                raise InputError(f"{file.path}: {n} input_lens but {len(result.start_times)} start_times")
            arrival = Clock("s").read(
                _text(result.start_times), Where(file.path, "start_times", unit="entry")
            )
            note = "arrivals are the requests' start times"
        elif options.arrivals is not None:
            arrival = options.arrivals.generate(n)
            note = options.arrivals.describe()
        else:
            rate = result.request_rate
            hint = f"poisson:{rate}" if isinstance(rate, float) and np.isfinite(rate) else "poisson:RATE"
            raise InputError(
                f"{file.path}: has no start_times; say how requests arrive, e.g. --arrivals {hint}"
            )
        return Rows(arrival_ps=arrival, prompt_tokens=lengths[0], output_tokens=lengths[1], notes=(note,))


def _decode(file: TraceFile) -> _Result:
    lines = [line for line in file.all().split(b"\n") if line.strip()]
    content = b"\n".join(lines)
    try:
        return msgspec.json.decode(content, type=_Result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if len(lines) > 1 and all(line.lstrip().startswith(b"{") for line in lines):
            raise InputError(
                f"{file.path}: holds {len(lines)} benchmark results, one a line; give one of them"
            ) from error
        if "missing required field" in str(error):
            raise InputError(
                f"{file.path}: {error}; --save-detailed (vLLM) or --output-details (SGLang) write the lengths"
            ) from error
        raise InputError(f"{file.path}: not a readable benchmark result: {error}") from error


def _text(values: list[Number]) -> pl.Series:
    import polars as pl

    return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)


FORMAT = _BenchResult()
