"""Transformations of a trace. Each says in the accounting's notes what it did to the clock and the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace import keyed
from lumen_policy.trace.table import MAX_SPAN_PS, PS_PER_S, Accounting, IntArray, Trace

__all__ = ["limit", "rate_scale", "segment", "superpose", "window"]

MAX_REQUESTS = 200_000_000


def limit(trace: Trace, count: int) -> Trace:
    """The first `count` requests; fewer stay as they are. The clock is unchanged."""
    if count < 1:
        raise InputError(f"limit must be at least 1 request, not {count}")
    if count >= len(trace):
        return trace
    accounting = trace.accounting.drop("after the limit", len(trace) - count, f"first {count} requests")
    return trace.take(np.arange(count), accounting)


def rate_scale(trace: Trace, factor: float) -> Trace:
    """Compress the clock: every arrival time divided by `factor`, rounded to picoseconds.

    Bursts become sharper and patterns faster by the same factor; `superpose` raises the rate without that.

    Args:
        factor: > 0; 2 doubles the rate, 0.5 halves it.
    """
    if not 0 < factor < float("inf"):
        raise InputError(f"rate scale must be a positive finite number, not {factor}")
    if trace.span_ps / factor > MAX_SPAN_PS:
        raise InputError(f"rate scale {factor} stretches {trace.source} beyond 90 days")
    arrival = np.rint(trace.arrival_ps / float(factor))
    verb = "compressed" if factor >= 1 else "stretched"
    note = f"clock {verb}: rate × {factor:g}, times ÷ {factor:g}"
    return replace(trace, arrival_ps=arrival.astype(np.int64), accounting=trace.accounting.note(note))


def window(trace: Trace, start_s: float, end_s: float) -> Trace:
    """The requests with start_s ≤ arrival < end_s, re-based to the first of them. The clock's speed is
    unchanged.
    """
    if not 0 <= start_s < end_s:
        raise InputError(f"window must have 0 ≤ start < end, not {start_s} … {end_s} s")
    last = trace.span_s + 1.0
    start, end = (round(min(edge, last) * PS_PER_S) for edge in (start_s, end_s))
    return _cut(trace, start, end, f"window {start_s:g} … {end_s:g} s")


def segment(trace: Trace, start_ps: int, end_ps: int) -> Trace:
    """The requests with start_ps ≤ arrival < end_ps, re-based to the first of them; integer edges."""
    return _cut(trace, start_ps, end_ps, f"segment {start_ps / PS_PER_S:g} … {end_ps / PS_PER_S:g} s")


def _cut(trace: Trace, start_ps: int, end_ps: int, what: str) -> Trace:
    first, after = np.searchsorted(trace.arrival_ps, np.array([start_ps, end_ps]), side="left")
    if first >= after:
        raise InputError(f"{trace.source}: no requests in {what} (the trace spans {trace.span_s:g} s)")
    accounting = trace.accounting.drop("outside the window", len(trace) - int(after - first), what)
    return trace.take(np.arange(first, after), accounting)


def superpose(trace: Trace, target_rate_per_s: float, seed: int, *, period_ps: int | None = None) -> Trace:
    """Raise or lower the rate by adding up circularly shifted copies; the clock keeps its speed.

    r = target rate · period / requests. ⌊r⌋ whole copies and one of round((r − ⌊r⌋)·n) requests, each
    shifted by its own uniform offset on the circle of length `period_ps`, merged in order of (arrival, copy,
    row) and re-based to the first arrival. Which requests the fractional copy keeps is keyed by request: a
    smaller fraction keeps a subset.

    Args:
        target_rate_per_s: > 0.
        seed: key of offsets and of the fractional copy.
        period_ps: length of the circle, > span; default: span + the mean gap.

    Returns:
        A trace of round(r·n) requests inside one period. Its accounting starts anew: read = kept = its
        requests.
    """
    if not 0 < target_rate_per_s < float("inf"):
        raise InputError(
            f"target rate must be a positive finite number of requests/s, not {target_rate_per_s}"
        )
    n = len(trace)
    if period_ps is None:
        period_ps = trace.span_ps + max(1, trace.span_ps // max(1, n - 1))
    if period_ps <= trace.span_ps:
        raise InputError(f"period {period_ps} ps must exceed the span {trace.span_ps} ps")
    total = round(target_rate_per_s * (period_ps / PS_PER_S))
    if total < 1:
        raise InputError(
            f"{trace.source}: {target_rate_per_s:g} requests/s leave no request in {period_ps / PS_PER_S:g} s"
        )
    if total > MAX_REQUESTS:
        raise InputError(f"{trace.source}: {target_rate_per_s:g} requests/s make {total} requests; too many")
    whole, rest = divmod(total, n)
    # offset = ⌊draw · period / 2⁶⁴⌋, exact in Python integers.
    draws = keyed.keyed(seed, keyed.SHIFT, 0, whole + 1)
    arrivals, rows = [], []
    for copy in range(whole + (rest > 0)):
        kept = np.arange(n) if copy < whole else _thinned(n, rest, seed)
        offset = int(draws[copy]) * period_ps >> 64
        arrival = trace.arrival_ps[kept]
        wrap = int(np.searchsorted(arrival, period_ps - offset))
        arrivals += [arrival[wrap:] - (period_ps - offset), arrival[:wrap] + offset]
        rows += [kept[wrap:], kept[:wrap]]
    arrival = np.concatenate(arrivals)
    order = np.argsort(arrival, kind="stable")
    source_row = np.concatenate(rows)[order]
    arrival = arrival[order]
    copies = total / n
    note = f"{copies:.6g} circularly shifted copies (seed {seed}), clock unchanged"
    return replace(
        trace,
        arrival_ps=arrival - arrival[0],
        prompt_tokens=trace.prompt_tokens[source_row],
        output_tokens=trace.output_tokens[source_row],
        prefix=None if trace.prefix is None else trace.prefix.take(source_row),
        accounting=Accounting(read=total, kept=total, notes=(*trace.accounting.notes, note)),
    )


def _thinned(n: int, keep: int, seed: int) -> IntArray:
    """The `keep` requests with the smallest keyed draws, in order (ties by index)."""
    draws = keyed.keyed(seed, keyed.THIN, 0, n)
    threshold = np.partition(draws, keep - 1)[keep - 1]
    kept = np.flatnonzero(draws <= threshold)
    return kept[:keep] if len(kept) > keep else kept
