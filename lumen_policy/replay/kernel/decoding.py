"""The decoding requests of a worker: when they finish, when they open a page, what they have delivered.

Nothing is updated per token. A request stores ``offset``, its context less the worker's decode steps; its end is a step
in a heap; how many requests open a page at a step is a histogram of 16 phases.
"""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.kernel.state import (
    COMPLETIONS,
    DECODE,
)
from lumen_policy.replay.kernel.structures import heap_push

__all__ = ["join_decode", "leave_decode", "opened_pages", "settle_decode_clock"]


@inline
def join_decode(s: Any, i: int, r: int) -> None:
    w = s.workers[i]
    q = s.requests[r]
    context = q.prompt + q.delivered
    if w.decoding == 0:  # nobody counts in steps: start anew, so that 32 bits last
        w.steps = 0
        w.sync_steps = 0
    q.state = DECODE
    q.offset = context - w.steps
    heap_push(s.batches[COMPLETIONS, i], w.decoding, ((w.steps + q.output - q.delivered) << 32) | r)
    w.decoding += 1
    w.context += context
    w.page_phase[(1 - q.offset) & 15] += 1


@inline
def settle_decode_clock(s: Any, i: int, r: int) -> None:
    """Write down what a decoding request has delivered and when it last did."""
    w = s.workers[i]
    q = s.requests[r]
    context = q.offset + w.steps
    q.delivered = context - q.prompt
    if q.high < context - 1:
        q.high = context - 1
    if q.odd != 0:
        q.odd = 0
        w.odd -= 1
    elif q.last < w.last_decode_end:
        q.last = w.last_decode_end


@inline
def leave_decode(s: Any, i: int, r: int) -> int:
    """Take a request out of the decode sums (its heap entry is the caller's); returns the pages it held."""
    w = s.workers[i]
    q = s.requests[r]
    context = q.offset + w.steps
    w.context -= context
    w.page_phase[(1 - q.offset) & 15] -= 1
    q.draft_kv = 0
    q.verify = 0
    return max(q.held_pages, (context + 14) >> 4)


@inline
def opened_pages(s: Any, i: int, count: int) -> int:
    """Pages that the decoding requests of worker i open in its next ``count`` steps."""
    w = s.workers[i]
    total = (count >> 4) * w.decoding
    for j in range(count & 15):
        total += w.page_phase[(w.steps + j) & 15]
    return total
