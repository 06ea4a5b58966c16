"""Transformations that change which requests there are, or how long they are: extend, cap gaps, limit the
context.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace import keyed
from lumen_policy.trace.table import MAX_SPAN_PS, PS_PER_S, Accounting, PrefixBlocks, Trace

__all__ = ["cap_gaps", "extend", "limit_context"]


def extend(trace: Trace, span_s: float, block_s: float, seed: int) -> Trace:
    """A trace of another length by a circular block bootstrap; rate, bursts within blocks and lengths stay
    as they are.

    Blocks of `block_s` start at uniform instants of the trace (wrapping at its end) and are laid one after
    another until `span_s` is filled; the last one is cut.

    Args:
        span_s: > 0, at most 90 days.
        block_s: > 0, at most the trace's span; longer blocks keep slower patterns.
        seed: key of the blocks' starts.
    """
    if not 0 < span_s <= MAX_SPAN_PS / PS_PER_S:
        raise InputError(f"extend: the span must be above 0 and at most 90 days, not {span_s} s")
    if not 0 < block_s <= trace.span_s:
        raise InputError(
            f"extend: blocks must be above 0 and at most the trace's {trace.span_s:g} s, not {block_s} s"
        )
    n = len(trace)
    period = trace.span_ps + max(1, trace.span_ps // max(1, n - 1))
    span, block = round(span_s * PS_PER_S), round(block_s * PS_PER_S)
    blocks = math.ceil(span / block)
    if blocks * (block / period) * n > 200_000_000:
        raise InputError(f"extend: {span_s:g} s make more than 200 million requests")
    starts = keyed.keyed(seed, keyed.RESAMPLE, 1, blocks)
    arrivals, rows = [], []
    for i, draw in enumerate(starts.tolist()):
        start = draw * period >> 64
        length = min(block, span - i * block)
        first = int(np.searchsorted(trace.arrival_ps, start))
        after = int(np.searchsorted(trace.arrival_ps, min(start + length, period)))
        arrivals.append(trace.arrival_ps[first:after] - start + i * block)
        rows.append(np.arange(first, after))
        if start + length > period:
            after = int(np.searchsorted(trace.arrival_ps, start + length - period))
            arrivals.append(trace.arrival_ps[:after] + (period - start) + i * block)
            rows.append(np.arange(after))
    arrival, row = np.concatenate(arrivals), np.concatenate(rows)
    if not len(arrival):
        raise InputError(f"extend: the {blocks} blocks of {block_s:g} s drawn hold no request")
    note = f"block bootstrap: {blocks} blocks of {block_s:g} s from a trace of {n} requests (seed {seed})"
    accounting = Accounting(read=len(row), kept=len(row), notes=(*trace.accounting.notes, note))
    return replace(
        trace,
        arrival_ps=arrival - arrival[0],
        prompt_tokens=trace.prompt_tokens[row],
        output_tokens=trace.output_tokens[row],
        prefix=None if trace.prefix is None else trace.prefix.take(row),
        accounting=accounting,
    )


def cap_gaps(trace: Trace, gap_s: float) -> Trace:
    """Shorten every gap between arrivals that is longer than `gap_s` to it; later arrivals move up. Says by
    how much.
    """
    if not 0 < gap_s < math.inf:
        raise InputError(f"gap cap must be a positive finite number of seconds, not {gap_s}")
    cap = min(round(gap_s * PS_PER_S), MAX_SPAN_PS)
    gaps = np.diff(trace.arrival_ps)
    long = int((gaps > cap).sum())
    arrival = np.zeros(len(trace), np.int64)
    np.cumsum(np.minimum(gaps, cap), out=arrival[1:])
    removed_s = (trace.span_ps - int(arrival[-1])) / PS_PER_S
    note = f"clock cut: {long} gaps longer than {gap_s:g} s capped, {removed_s:g} s taken out"
    return replace(trace, arrival_ps=arrival, accounting=trace.accounting.note(note))


def limit_context(trace: Trace, tokens: int, mode: str) -> Trace:
    """Bring every request to prompt + output ≤ `tokens`.

    Args:
        tokens: ≥ 2.
        mode: ``refuse`` drops longer requests, counted; ``cut`` shortens the prompt at its end (hash ids
            with it) down to 1 token, then the output, counted in the notes.
    """
    if tokens < 2:
        raise InputError(f"context limit must be at least 2 tokens, not {tokens}")
    if mode not in ("refuse", "cut"):
        raise InputError(f"context limit mode {mode!r}: allowed are refuse, cut")
    long = trace.prompt_tokens + trace.output_tokens > tokens
    count = int(long.sum())
    if mode == "refuse":
        accounting = trace.accounting.drop(f"longer than {tokens} tokens", count)
        return trace.take(np.flatnonzero(~long), accounting) if count else trace
    output = np.minimum(trace.output_tokens, tokens - 1)
    prompt = np.where(long, np.minimum(trace.prompt_tokens, tokens - output), trace.prompt_tokens)
    note = f"context limit {tokens} tokens: {count} requests cut"
    return replace(
        trace,
        prompt_tokens=prompt,
        output_tokens=output,
        prefix=None if trace.prefix is None else _shorten(trace.prefix, prompt),
        accounting=trace.accounting.note(note),
    )


def _shorten(prefix: PrefixBlocks, prompt: np.ndarray) -> PrefixBlocks:
    counts = np.minimum(np.diff(prefix.offsets), -(-prompt // prefix.block_tokens))
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    index = np.arange(offsets[-1]) + np.repeat(prefix.offsets[:-1] - offsets[:-1], counts)
    return PrefixBlocks(block_tokens=prefix.block_tokens, offsets=offsets, ids=prefix.ids[index])
