"""Stretches of iterations: a leap of plain decodes, or one iteration with chunks or verification.

While a worker only decodes, iteration j of a stretch lasts run_first + j·run_growth (the cost is affine in the
context), so n iterations last n·a + g·n(n-1)/2 and the worker leaps to its next completion. An arrival, a restore or a
drafter cuts the leap at the first boundary that could see it.
"""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.contract import FULL_SPEED_PPM
from lumen_policy.replay.kernel.checkpoints import follow
from lumen_policy.replay.kernel.decoding import join_decode, leave_decode, opened_pages
from lumen_policy.replay.kernel.rows import grow_copies
from lumen_policy.replay.kernel.slots import drop_copies
from lumen_policy.replay.kernel.state import (
    COMPLETIONS,
    DECODE,
    DONE,
    ENDS,
    FAR,
    IDLE,
    KV_SEEN,
    KV_TOKENS,
    LEAP,
    LONGEST_LEAP,
    MOST_STEPS,
    NEXT_END,
    PREFILLS,
    QUEUE,
    SINGLE,
    SLOW_PS,
    SPECIALS,
    STARTS,
    SYNC_NEXT,
    SYNCS,
)
from lumen_policy.replay.kernel.structures import heap_pop, tree_update

__all__ = [
    "boundary",
    "chunk_and_run",
    "close_run",
    "cut",
    "deliver_odd",
    "end_run",
    "existing_tokens",
    "look",
    "push_gap",
]


@inline
def scaled(cost_ps: int, ppm: int) -> int:
    """floor(cost · ppm / 10⁶) without overflow."""
    return cost_ps // FULL_SPEED_PPM * ppm + cost_ps % FULL_SPEED_PPM * ppm // FULL_SPEED_PPM


@inline
def look(s: Any, i: int) -> None:
    """Let worker i look at its queue when this instant's events are done (or at its next boundary)."""
    g = s.g[0]
    w = s.workers[i]
    if w.pending == 0:
        w.pending = 1
        s.by_worker[STARTS, g.starts] = i
        g.starts += 1


@inline
def push_gap(s: Any, end: int, gap: int, growth: int, steps: int, sequences: int) -> None:
    """Log ``sequences`` gaps at each of ``steps`` decode steps."""
    g = s.g[0]
    record = s.gaps[g.gaps]
    record.end = end
    record.gap = gap
    record.growth = growth
    record.steps = steps
    record.sequences = sequences
    g.gaps += 1


def deliver_odd(s: Any, i: int, q: Any, delivered: int, tokens: int, t: int) -> None:
    """A sequence with a clock of its own has ``tokens`` more, ``delivered`` in all; its client may not see all."""
    unseen = min(tokens, max(0, q.seen - delivered + tokens))
    s.g[0].regenerated_tokens += unseen
    if unseen == tokens:
        return
    if q.first < 0:
        q.first = t
    else:
        push_gap(s, t, t - q.last, 0, 1, 1)
    q.odd = 0
    s.workers[i].odd -= 1
    q.last = t
    if q.log >= 0:
        s.interruptions[q.log].next = t
        q.log = -1


@inline
def boundary(w: Any, t: int) -> tuple[int, int]:
    """The first boundary of a stretch at or after t: (iterations done, its time)."""
    count = 1
    duration = w.run_first
    end = w.run_start + duration
    while end < t and count < 24:
        duration += w.run_growth
        end += duration
        count += 1
    if end < t:
        low, high = count, w.run_count  # the boundary lies in (low, high]
        while high - low > 1:
            middle = (low + high) >> 1
            if w.run_start + middle * w.run_first + w.run_growth * ((middle * (middle - 1)) >> 1) < t:
                low = middle
            else:
                high = middle
        count = high
        end = w.run_start + count * w.run_first + w.run_growth * ((count * (count - 1)) >> 1)
    return count, end


def existing_tokens(s: Any, r: int, i: int, t: int) -> int:
    """KV tokens an admitted request has on its server at t."""
    q = s.requests[r]
    w = s.workers[i]
    if q.state == DECODE:
        ahead = 0
        if w.mode == LEAP:
            count, end = boundary(w, t)
            ahead = count if end <= t else count - 1
        return q.offset + w.steps + ahead - 1
    return q.kv


def close_run(s: Any, i: int, count: int, end: int) -> None:
    """Book ``count`` plain decode iterations of worker i, the last of which ended at ``end``."""
    g = s.g[0]
    w = s.workers[i]
    decodes = w.run_decodes
    g.iterations += count
    if count > 1:
        g.leaps += count
        g.leap_count += 1
    g.decode_tokens += decodes * count
    if w.run_pages_done == 0:
        w.used += opened_pages(s, i, count)
    first_end = w.run_start + w.run_first
    stall = w.run_start - w.last_decode_end if g.prefill_first != 0 else 0
    if decodes > w.odd:
        push_gap(s, first_end, w.run_first + stall, w.run_growth, count, decodes - w.odd)
    if w.odd > 0:
        for j in range(w.decoding):
            q = s.requests[s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF]
            if q.odd != 0:
                deliver_odd(s, i, q, q.offset + w.steps + 1 - q.prompt, 1, first_end)
    w.steps += count
    w.context += decodes * count
    w.last_decode_end = end
    if w.steps > MOST_STEPS:
        g.too_long = 1


def cut(s: Any, i: int, t: int) -> None:
    """End a leap at its first boundary at or after t; at t itself the worker is idle afterwards."""
    g = s.g[0]
    w = s.workers[i]
    count, end = boundary(w, t)
    if count >= w.run_count:
        return
    if g.tracking != 0:
        follow(s, t)
        w.sync_left = count - (w.run_count - w.sync_left)
        if w.sync_left == 0:
            s.by_worker[SYNC_NEXT, i] = FAR
            tree_update(s.trees[SYNCS], s.by_worker[SYNC_NEXT], i)
    w.run_count = count
    if end == t:
        close_run(s, i, count, t)
        w.mode = IDLE
        s.by_worker[NEXT_END, i] = FAR
    else:
        s.by_worker[NEXT_END, i] = end
    tree_update(s.trees[ENDS], s.by_worker[NEXT_END], i)


def _finish(s: Any, i: int, r: int, pages: int, t: int) -> None:
    w = s.workers[i]
    q = s.requests[r]
    drop_copies(s, r, -1, t)
    w.used -= pages
    s.by_worker[QUEUE, i] -= 1
    s.by_worker[KV_TOKENS, i] -= q.prompt + q.output
    s.by_worker[KV_SEEN, i] -= q.prompt + q.output
    if w.draining != 0 and s.by_worker[QUEUE, i] == 0:
        s.g[0].drained = 1
    q.delivered = q.output
    q.last = t
    q.state = DONE


def _end_chunks(s: Any, i: int, t: int) -> None:
    """Book the prefill chunks of an iteration; requests whose last chunk ran deliver a token."""
    g = s.g[0]
    w = s.workers[i]
    kept = 0
    for j in range(w.prefilling):
        r = s.batches[PREFILLS, i, j]
        q = s.requests[r]
        chunk = q.chunk
        if chunk > 0:
            q.chunk = 0
            before = q.kv
            q.kv = before + chunk
            g.prefill_tokens += chunk
            if q.high > before:
                s.recovery[r].recomputed += min(q.kv, q.high) - before
            if q.kv > q.high:
                q.high = q.kv
            if q.kv == q.prompt + q.delivered:
                q.delivered += 1
                unseen = q.delivered <= q.seen
                if unseen:
                    g.regenerated_tokens += 1
                else:
                    if q.first < 0:
                        q.first = t
                    else:
                        push_gap(s, t, t - q.last, 0, 1, 1)
                    if q.log >= 0:
                        s.interruptions[q.log].next = t
                        q.log = -1
                    q.last = t
                s.by_worker[KV_TOKENS, i] += 1
                if q.delivered == q.output:
                    _finish(s, i, r, q.held_pages, t)
                else:
                    join_decode(s, i, r)
                    if g.prefill_first != 0 or unseen:
                        q.odd = 1
                        w.odd += 1
                    if g.placement != 0:
                        grow_copies(s, r)
                        s.scratch[SPECIALS, g.specials] = r
                        g.specials += 1
                continue
            if g.stream_prefill != 0 and g.placement != 0:
                s.scratch[SPECIALS, g.specials] = r
                g.specials += 1
        s.batches[PREFILLS, i, kept] = r
        kept += 1
    w.prefilling = kept


def end_run(s: Any, i: int, t: int) -> None:
    """The stretch of worker i ends as planned (a drafted pass has been booked before)."""
    g = s.g[0]
    w = s.workers[i]
    mode = w.mode
    w.mode = IDLE
    s.by_worker[NEXT_END, i] = FAR
    tree_update(s.trees[ENDS], s.by_worker[NEXT_END], i)
    if g.tracking != 0:
        follow(s, t - 1)
    if w.run_decodes == 0:
        g.iterations += 1
    elif w.pass_k == 0:
        close_run(s, i, w.run_count, t)
    w.pass_k = 0
    g.plain_assisted_passes += w.plain_assisted
    w.plain_assisted = 0
    g.vetoed_passes += w.vetoed
    w.vetoed = 0
    if mode == SINGLE:
        _end_chunks(s, i, t)
    heap = s.batches[COMPLETIONS, i]
    while w.decoding > 0 and (heap[0] >> 32) == w.steps:
        r = heap[0] & 0xFFFFFFFF
        heap_pop(heap, w.decoding)
        w.decoding -= 1
        q = s.requests[r]
        if q.odd != 0:
            q.odd = 0
            w.odd -= 1
        _finish(s, i, r, leave_decode(s, i, r), t)


def chunk_and_run(
    s: Any, i: int, t: int, decodes: int, rows: int, context: int, extra_ps: int, floor_ps: int
) -> None:
    """Fill the rest of the token budget with prefill chunks and start worker i's next iteration or leap.

    Args:
        s: the state.
        i: the worker.
        t: now.
        decodes: decoding requests that run.
        rows: their tokens (verified ones count their drafts), which are also their LM head rows.
        context: context tokens read by them.
        extra_ps: draft and round trip of a drafted pass that come before it.
        floor_ps: those beside it.
    """
    g = s.g[0]
    w = s.workers[i]
    left = g.token_budget - rows
    tokens = rows
    pairs = 0
    last_chunks = 0
    for j in range(w.prefilling):
        if left <= 0:
            break
        q = s.requests[s.batches[PREFILLS, i, j]]
        rest = q.prompt + q.delivered - q.kv
        chunk = min(left, rest)
        q.chunk = chunk
        pairs += chunk * q.kv + ((chunk * (chunk + 1)) >> 1)
        tokens += chunk
        left -= chunk
        if chunk == rest:
            last_chunks += 1
    if tokens == 0:
        return
    context_ps = g.context_ps
    slow = w.slow_ppm != FULL_SPEED_PPM and t < w.slow_until
    if slow:
        ppm = w.slow_ppm
        context_ps = scaled(g.context_ps, ppm)
        duration = (
            scaled(s.tables[g.at_token + tokens], ppm)
            + scaled(s.tables[g.at_lm_head + rows + last_chunks], ppm)
            + scaled(g.pair_ps, ppm) * pairs
            + context_ps * context
            + scaled(g.sequence_ps, ppm) * decodes
        )
    else:
        duration = (
            s.tables[g.at_token + tokens]
            + s.tables[g.at_lm_head + rows + last_chunks]
            + g.pair_ps * pairs
            + g.context_ps * context
            + g.sequence_ps * decodes
        )
    duration = max(duration, floor_ps) + extra_ps
    count = 1
    growth = 0
    w.mode = SINGLE
    if w.prefilling == 0 and w.drafter < 0 and w.pass_k == 0:
        w.mode = LEAP
        if (
            w.odd == 0
            and w.run_pages_done == 0
            and (g.prefill_first == 0 or w.last_decode_end == t)
            and duration < SLOW_PS
        ):
            count = min((s.batches[COMPLETIONS, i, 0] >> 32) - w.steps, LONGEST_LEAP)
            growth = context_ps * decodes
            free = g.pool_pages - w.used
            if decodes * ((count + 15) >> 4) > free:
                low, high = 1, count + 1  # low fits, high may not
                while high - low > 1:
                    middle = (low + high) >> 1
                    if opened_pages(s, i, middle) <= free:
                        low = middle
                    else:
                        high = middle
                count = low
            if slow and t + count * duration + growth * ((count * (count - 1)) >> 1) > w.slow_until:
                low, high = 1, count + 1  # iterations that begin in time
                while high - low > 1:
                    middle = (low + high) >> 1
                    before = middle - 1
                    if t + before * duration + growth * ((before * (before - 1)) >> 1) < w.slow_until:
                        low = middle
                    else:
                        high = middle
                count = low
    end = t + count * duration + growth * ((count * (count - 1)) >> 1)
    w.run_start = t
    w.run_first = duration
    w.run_growth = growth
    w.run_count = count
    w.run_decodes = decodes
    s.by_worker[NEXT_END, i] = end
    tree_update(s.trees[ENDS], s.by_worker[NEXT_END], i)
    if g.tracking != 0:
        w.sync_duration = duration
        w.sync_growth = growth
        w.sync_left = count
        w.sync_steps = w.steps
        w.sync_decodes = decodes
        s.by_worker[SYNC_NEXT, i] = t + duration
        tree_update(s.trees[SYNCS], s.by_worker[SYNC_NEXT], i)
        if t + duration < g.sync_min:
            g.sync_min = t + duration
