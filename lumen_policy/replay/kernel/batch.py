"""Continuous batching on one worker: admission, pages, chunks, stretches of plain decode taken in one leap.

While a worker only decodes, iteration j of a stretch lasts run_first + j·run_growth (the cost is affine in the context),
so n iterations last n·a + g·n(n-1)/2 and the worker leaps to its next completion. An arrival, a restore or a drafter cuts
the leap at the first boundary that could see it.
"""

from __future__ import annotations

from typing import Any

from lumen_policy.replay.kernel.checkpoints import follow, freeze, make_explicit, release, release_old
from lumen_policy.replay.kernel.jit import compile_inline, compile_plain
from lumen_policy.replay.kernel.state import (
    COMPLETIONS,
    DECODE,
    DONE,
    ENDS,
    FAR,
    IDLE,
    KV_TOKENS,
    LEAP,
    NEXT_END,
    NEXT_RESTORE,
    NO_COPY,
    PREFILL,
    PREFILLS,
    QUEUE,
    QUEUED,
    RESTORED,
    RESTORES,
    RESTORING,
    RESTORINGS,
    SINGLE,
    SPECIALS,
    STARTS,
    STATIC,
    SYNC_NEXT,
    SYNCS,
)
from lumen_policy.replay.kernel.structures import heap_pop, heap_push, heap_remove, tree_update

__all__ = [
    "admit",
    "boundary",
    "chunk_and_run",
    "close_run",
    "cut",
    "end_restore",
    "end_run",
    "look",
    "plan_decodes",
    "push_gap",
    "settle_decode_clock",
    "take_pages",
    "take_prefill",
]


# --- small pieces -----------------------------------------------------------------------------------------------
@compile_inline
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


@compile_inline
def _opened_pages(s: Any, i: int, count: int) -> int:
    """Pages that the decoding requests of worker i open in its next ``count`` steps."""
    w = s.workers[i]
    total = (count >> 4) * w.decoding
    for j in range(count & 15):
        total += w.page_phase[(w.steps + j) & 15]
    return total


@compile_inline
def _join_decode(s: Any, i: int, r: int) -> None:
    w = s.workers[i]
    q = s.requests[r]
    context = q.prompt + q.delivered
    q.state = DECODE
    q.offset = context - w.steps
    heap_push(s.batches[COMPLETIONS, i], w.decoding, ((w.steps + q.output - q.delivered) << 32) | r)
    w.decoding += 1
    w.context += context
    w.page_phase[(1 - q.offset) & 15] += 1


@compile_inline
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


@compile_inline
def _leave_decode(s: Any, i: int, r: int) -> int:
    """Take a request out of the decode sums (its heap entry is the caller's); returns the pages it held."""
    w = s.workers[i]
    q = s.requests[r]
    context = q.offset + w.steps
    w.context -= context
    w.page_phase[(1 - q.offset) & 15] -= 1
    q.draft_kv = 0
    q.verify = 0
    return max(q.held_pages, (context + 14) >> 4)


@compile_inline
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


# --- the end of a stretch ---------------------------------------------------------------------------------------
@compile_inline
def _finish(s: Any, i: int, r: int, pages: int, t: int) -> None:
    w = s.workers[i]
    q = s.requests[r]
    release(s, r, t)
    w.used -= pages
    s.by_worker[QUEUE, i] -= 1
    s.by_worker[KV_TOKENS, i] -= q.prompt + q.output
    q.delivered = q.output
    q.last = t
    q.state = DONE


@compile_inline
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
        w.used += _opened_pages(s, i, count)
    first_end = w.run_start + w.run_first
    stall = w.run_start - w.last_decode_end if g.prefill_first != 0 else 0
    if decodes > w.odd:
        push_gap(s, first_end, w.run_first + stall, w.run_growth, count, decodes - w.odd)
    if w.odd > 0:
        for j in range(w.decoding):
            q = s.requests[s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF]
            if q.odd != 0:
                push_gap(s, first_end, first_end - q.last, 0, 1, 1)
                q.odd = 0
                q.last = first_end
                if q.log >= 0:
                    s.interruptions[q.log].next = first_end
                    q.log = -1
        w.odd = 0
    w.steps += count
    w.context += decodes * count
    w.last_decode_end = end


@compile_inline
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
                q.recomputed += min(q.kv, q.high) - before
            if q.kv > q.high:
                q.high = q.kv
            if q.kv == q.prompt + q.delivered:
                if q.delivered == 0:
                    q.first = t
                else:
                    push_gap(s, t, t - q.last, 0, 1, 1)
                if q.log >= 0:
                    s.interruptions[q.log].next = t
                    q.log = -1
                q.delivered += 1
                q.last = t
                s.by_worker[KV_TOKENS, i] += 1
                if q.delivered == q.output:
                    _finish(s, i, r, q.held_pages, t)
                else:
                    _join_decode(s, i, r)
                    if g.prefill_first != 0:
                        q.odd = 1
                        w.odd += 1
                    if q.holder >= 0:
                        if q.growth == NO_COPY:
                            q.growth = STATIC
                        s.scratch[SPECIALS, g.specials] = r
                        g.specials += 1
                continue
        s.batches[PREFILLS, i, kept] = r
        kept += 1
    w.prefilling = kept


@compile_inline
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
        _finish(s, i, r, _leave_decode(s, i, r), t)


@compile_inline
def look(s: Any, i: int) -> None:
    """Let worker i look at its queue when this instant's events are done (or at its next boundary)."""
    g = s.g[0]
    w = s.workers[i]
    if w.pending == 0:
        w.pending = 1
        s.by_worker[STARTS, g.starts] = i
        g.starts += 1


@compile_inline
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


@compile_plain
def end_restore(s: Any, i: int, t: int) -> None:
    """The first restore on worker i's host link is complete."""
    g = s.g[0]
    w = s.workers[i]
    if g.tracking != 0:
        follow(s, t)
    r = s.batches[RESTORINGS, i, 0]
    w.restoring -= 1
    for j in range(w.restoring):
        s.batches[RESTORINGS, i, j] = s.batches[RESTORINGS, i, j + 1]
    s.by_worker[NEXT_RESTORE, i] = s.requests[s.batches[RESTORINGS, i, 0]].until if w.restoring > 0 else FAR
    tree_update(s.trees[RESTORES], s.by_worker[NEXT_RESTORE], i)
    q = s.requests[r]
    q.kv = q.old_saved
    q.restored += q.old_saved
    g.restores += 1
    g.restored_bytes_tokens += q.old_saved
    if q.high < q.kv:
        q.high = q.kv
    release_old(s, r, t)
    q.state = RESTORED
    s.batches[PREFILLS, i, w.prefilling] = r
    w.prefilling += 1
    w.restored += 1
    look(s, i)


# --- the beginning of a stretch -----------------------------------------------------------------------------------
@compile_plain
def _take_restored(s: Any, i: int) -> None:
    """Requests whose restore ended take their place: in decode if one token is left to compute, else in prefill."""
    w = s.workers[i]
    kept = 0
    for j in range(w.prefilling):
        r = s.batches[PREFILLS, i, j]
        q = s.requests[r]
        if q.state == RESTORED and q.prompt + q.delivered - q.kv == 1:
            _join_decode(s, i, r)
            q.odd = 1
            w.odd += 1
            w.irregular = 1
            if q.holder >= 0:
                make_explicit(s, r)
            continue
        q.state = PREFILL
        place = kept
        while place > 0 and s.requests[s.batches[PREFILLS, i, place - 1]].order > q.order:
            s.batches[PREFILLS, i, place] = s.batches[PREFILLS, i, place - 1]
            place -= 1
        s.batches[PREFILLS, i, place] = r
        kept += 1
    w.prefilling = kept
    w.restored = 0


@compile_inline
def admit(s: Any, i: int, t: int) -> None:
    """Admit from the head of worker i's queue while batch slots and pages allow."""
    g = s.g[0]
    w = s.workers[i]
    if w.restored > 0:
        _take_restored(s, i)
    while w.head >= 0:
        r = w.head
        q = s.requests[r]
        admitted = w.decoding + w.prefilling + w.restoring
        need = (q.prompt + q.delivered + 15) >> 4
        reserve = g.watermark if admitted > 0 else 0
        if admitted >= g.max_batch or w.used + need + reserve > g.pool_pages:
            break
        w.head = q.link
        if w.head < 0:
            w.tail = -1
        w.used += need
        q.held_pages = need
        q.order = g.order
        g.order += 1
        if q.old_saved >= 0:
            begin = max(t, w.link_free)
            q.until = begin + s.tables[g.at_restore + (q.old_saved >> 4)]
            w.link_free = q.until
            q.state = RESTORING
            s.batches[RESTORINGS, i, w.restoring] = r
            w.restoring += 1
            if w.restoring == 1:
                s.by_worker[NEXT_RESTORE, i] = q.until
                tree_update(s.trees[RESTORES], s.by_worker[NEXT_RESTORE], i)
        else:
            q.state = PREFILL
            q.kv = 0
            s.batches[PREFILLS, i, w.prefilling] = r
            w.prefilling += 1


@compile_inline
def take_prefill(s: Any, i: int, r: int) -> None:
    """Take a request out of the list of those in prefill."""
    w = s.workers[i]
    kept = 0
    for j in range(w.prefilling):
        if s.batches[PREFILLS, i, j] != r:
            s.batches[PREFILLS, i, kept] = s.batches[PREFILLS, i, j]
            kept += 1
    w.prefilling = kept


@compile_plain
def _preempt_last(s: Any, i: int, t: int) -> None:
    """Send the last admitted request of worker i back to the front of its queue."""
    w = s.workers[i]
    latest = -1
    victim = -1
    place = -1
    for j in range(w.decoding):
        r = s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF
        if s.requests[r].order > latest:
            latest = s.requests[r].order
            victim = r
            place = j
    for j in range(w.prefilling):
        r = s.batches[PREFILLS, i, j]
        if s.requests[r].order > latest:
            latest = s.requests[r].order
            victim = r
    for j in range(w.restoring):
        r = s.batches[RESTORINGS, i, j]
        if s.requests[r].order > latest:
            latest = s.requests[r].order
            victim = r
    q = s.requests[victim]
    if q.state == DECODE:
        settle_decode_clock(s, i, victim)
        freeze(s, victim)
        w.used -= _leave_decode(s, i, victim)
        heap_remove(s.batches[COMPLETIONS, i], w.decoding, place)
        w.decoding -= 1
    else:
        w.used -= q.held_pages
        if q.state == PREFILL:
            take_prefill(s, i, victim)
        else:
            kept = 0
            for j in range(w.restoring):
                if s.batches[RESTORINGS, i, j] != victim:
                    s.batches[RESTORINGS, i, kept] = s.batches[RESTORINGS, i, j]
                    kept += 1
            w.restoring = kept
            s.by_worker[NEXT_RESTORE, i] = s.requests[s.batches[RESTORINGS, i, 0]].until if kept > 0 else FAR
            tree_update(s.trees[RESTORES], s.by_worker[NEXT_RESTORE], i)
            release_old(s, victim, t)
    q.kv = 0
    q.state = QUEUED
    q.preemptions += 1
    q.link = w.head
    w.head = victim
    if w.tail < 0:
        w.tail = victim


@compile_plain
def take_pages(s: Any, i: int, drafts: int, t: int) -> None:
    """Decoding requests take their pages, one by one; verified ones room for their drafts."""
    g = s.g[0]
    w = s.workers[i]
    while True:
        missing = 0
        ahead = 0
        for j in range(w.decoding):
            q = s.requests[s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF]
            context = q.offset + w.steps
            tokens = context
            if q.verify != 0:
                tokens = min(context + drafts, q.prompt + q.output - 1)
            have = max(q.held_pages, (context + 14) >> 4)
            need = max(have, (tokens + 15) >> 4)
            missing += need - have
            if need > (context + 15) >> 4:
                ahead = 1
        if missing <= g.pool_pages - w.used:
            break
        _preempt_last(s, i, t)
    for j in range(w.decoding):
        q = s.requests[s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF]
        context = q.offset + w.steps
        tokens = context
        if q.verify != 0:
            tokens = min(context + drafts, q.prompt + q.output - 1)
        q.held_pages = max(q.held_pages, (context + 14) >> 4, (tokens + 15) >> 4)
    w.used += missing
    w.irregular = ahead
    w.run_pages_done = 1


@compile_inline
def plan_decodes(s: Any, i: int, t: int) -> None:
    """Make sure that the pages of the next plain decode iteration are there."""
    g = s.g[0]
    w = s.workers[i]
    w.run_pages_done = 0
    if w.decoding > 0 and (w.irregular != 0 or w.page_phase[w.steps & 15] > g.pool_pages - w.used):
        take_pages(s, i, 0, t)


@compile_inline
def chunk_and_run(
    s: Any, i: int, t: int, decodes: int, rows: int, sequences: int, context: int, extra_ps: int
) -> None:
    """Fill the rest of the token budget with prefill chunks and start worker i's next iteration or leap.

    Args:
        s: the state.
        i: the worker.
        t: now.
        decodes: decoding requests that run.
        rows: their tokens (verified ones count their drafts), which are also their LM head rows.
        sequences: decode sequences.
        context: context tokens read by them.
        extra_ps: draft and round trip of a drafted pass.
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
    duration = (
        s.tables[g.at_token + tokens]
        + s.tables[g.at_lm_head + rows + last_chunks]
        + g.pair_ps * pairs
        + g.context_ps * context
        + g.sequence_ps * sequences
        + extra_ps
    )
    count = 1
    growth = 0
    w.mode = SINGLE
    if w.prefilling == 0 and w.drafter < 0 and w.pass_k == 0:
        w.mode = LEAP
        if w.odd == 0 and w.run_pages_done == 0 and (g.prefill_first == 0 or w.last_decode_end == t):
            count = (s.batches[COMPLETIONS, i, 0] >> 32) - w.steps
            growth = g.context_ps * decodes
            free = g.pool_pages - w.used
            if decodes * ((count + 15) >> 4) > free:
                low, high = 1, count + 1  # low fits, high may not
                while high - low > 1:
                    middle = (low + high) >> 1
                    if _opened_pages(s, i, middle) <= free:
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
