"""`trace info`: one document for whatever a file holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lumen_policy.trace.arrivals import ArrivalProcess
from lumen_policy.trace.fault_log import fault_figures, is_fault_log, read_fault_log
from lumen_policy.trace.figures import (
    arrival_figures,
    correlation,
    equal_rows,
    length_figures,
    prefix_figures,
)
from lumen_policy.trace.formats import by_name, recognise
from lumen_policy.trace.formats.servegen import FORMAT as SERVEGEN
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.table import MAX_SPAN_PS, Trace

__all__ = ["SCHEMA_VERSION", "describe_trace", "inspect_built_in", "inspect_file"]

SCHEMA_VERSION = 1
_NO_TIMES = ("span_s", "rate_per_s", "window_s", "window_count_cv", "window_count_max", "window_empty_share")


def inspect_file(
    path: str | Path,
    *,
    format: str | None = None,
    options: ReadOptions | None = None,
    cache_blocks: int | None = None,
    nodes: int | None = None,
    watched_days: float | None = None,
) -> dict[str, Any]:
    """What is in a file: requests, lengths without times, rate windows or faults.

    Args:
        path: the file.
        format: a reader's name; default: recognised.
        options: for the reader.
        cache_blocks: also report prefix reuse in a cache of so many blocks.
        nodes: nodes a fault log watched.
        watched_days: how long it watched them; default: from the first to the last start.

    Returns:
        A document with ``kind`` (requests, lengths, rate_windows or faults), ``format`` and figures; JSON
        values only.
    """
    options = options or ReadOptions()
    file = TraceFile(Path(path))
    head = {"schema_version": SCHEMA_VERSION, "source": Path(path).name}
    if format in (None, "faults") and is_fault_log(file):
        figures = fault_figures(read_fault_log(file), nodes, watched_days)
        return {**head, "kind": "faults", "format": "faults", **figures}
    reader = recognise(file, options) if format is None else by_name(format)
    head["format"] = reader.name
    if reader.kind == "rate_windows" and options.lengths is None:
        return {**head, "kind": "rate_windows", **_rate_windows(file)}
    timed = reader.kind != "lengths" or options.arrivals is not None
    if not timed:
        options = replace(options, arrivals=ArrivalProcess(family="at_once"))
    rows = reader.read(file, options)
    trace = rows.trace(Path(path).name, reader.name, options.window_s)
    document = {**head, "kind": "requests" if timed else "lengths", **describe_trace(trace, cache_blocks)}
    document["all_rows"] = _all_rows(rows)
    if not timed:
        for part in filter(None, (document, document["all_rows"])):
            part.update(dict.fromkeys((*_NO_TIMES, "gap_cv", "gap_max_s")))
    return document


def inspect_built_in(seed: int = 0) -> dict[str, Any]:
    """The document of the built-in trace."""
    from lumen_policy.trace.synthetic import built_in_trace

    return {"schema_version": SCHEMA_VERSION, "kind": "requests", **describe_trace(built_in_trace(seed))}


def describe_trace(trace: Trace, cache_blocks: int | None = None) -> dict[str, Any]:
    """Figures of the requests a trace holds; JSON values only."""
    accounting = trace.accounting
    return {
        "source": trace.source,
        "format": trace.format,
        "digest": trace.digest(),
        "rows": {"read": accounting.read, "kept": accounting.kept, "dropped": dict(accounting.dropped)},
        "notes": list(accounting.notes),
        **arrival_figures(trace.arrival_ps),
        "prompt_tokens": length_figures(trace.prompt_tokens),
        "output_tokens": length_figures(trace.output_tokens),
        "correlation": correlation(trace.prompt_tokens, trace.output_tokens),
        "one_token_outputs": int((trace.output_tokens == 1).sum()),
        "equal_rows": equal_rows(trace.arrival_ps, trace.prompt_tokens, trace.output_tokens),
        "prefix": None if trace.prefix is None else prefix_figures(trace.prefix, cache_blocks),
    }


def _all_rows(rows: Rows) -> dict[str, Any] | None:
    """The same figures over every readable row, those without tokens (failed requests) included.

    None where the rows span more than can be measured, which only a window makes readable.
    """
    if int(rows.arrival_ps.max()) - int(rows.arrival_ps.min()) > MAX_SPAN_PS:
        return None
    return {
        "count": len(rows.arrival_ps),
        **arrival_figures(np.sort(rows.arrival_ps)),
        "prompt_tokens": length_figures(rows.prompt_tokens),
        "output_tokens": length_figures(rows.output_tokens),
        "correlation": correlation(rows.prompt_tokens, rows.output_tokens),
    }


def _rate_windows(file: TraceFile) -> dict[str, Any]:
    windows = SERVEGEN.windows(file)
    rate = windows.rate_per_s
    return {
        "windows": len(rate),
        "window_s": windows.window_s,
        "empty_windows": int((rate == 0).sum()),
        "span_s": len(rate) * windows.window_s,
        "rate_per_s": float(rate.mean()),
        "rate_max_per_s": float(rate.max()),
        "expected_requests": float(rate.sum() * windows.window_s),
        "families": {name: windows.family.count(name) for name in sorted(set(windows.family) - {""})},
    }
