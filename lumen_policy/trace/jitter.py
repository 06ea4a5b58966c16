"""A trace with every arrival moved a little: what a measure says where nothing happened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lumen_policy.trace.keyed import keyed
from lumen_policy.trace.table import PS_PER_S, Trace

__all__ = ["jitter"]

JITTER = 74
"""Purpose of the draws: (0, request)."""
_LOW_BITS = np.uint64(32)


def jitter(trace: Trace, most_ps: int, seed: int) -> Trace:
    """Each arrival moved by a uniform draw from [-most, +most], keyed by request, and sorted again.

    The i-th request gets the i-th smallest of the moved arrivals, so that order and lengths stay and no
    arrival moves by more than `most_ps`. The first arrival stays at 0.

    Args:
        trace: any.
        most_ps: 0 … 1,000 s; counts in whole microseconds.
        seed: of the draws.
    """
    draws = (keyed(seed, JITTER, 0, len(trace)) >> _LOW_BITS).astype(np.int64)
    # steps of 1 µs keep the product inside int64
    steps = 2 * (most_ps // 10**6) + 1
    moved = trace.arrival_ps + ((draws * steps >> 32) - steps // 2) * 10**6
    arrival = np.sort(np.maximum(moved, 0))
    arrival[0] = 0
    note = f"arrivals moved by up to {most_ps / PS_PER_S:g} s (seed {seed})"
    return replace(trace, arrival_ps=arrival, accounting=trace.accounting.note(note))
