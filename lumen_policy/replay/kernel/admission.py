"""Who is in a worker's batch: admission, pages, preemption, restores."""

from __future__ import annotations

from typing import Any

from lumen_policy.replay.draws import RESTORE
from lumen_policy.replay.kernel import decisions
from lumen_policy.replay.kernel.checkpoints import follow, release_old
from lumen_policy.replay.kernel.decoding import join_decode, leave_decode, settle_decode_clock
from lumen_policy.replay.kernel.rows import freeze_copies, grow_copies
from lumen_policy.replay.kernel.state import (
    COMPLETIONS,
    DECODE,
    FAR,
    NEXT_RESTORE,
    PREFILL,
    PREFILLS,
    QUEUED,
    RESTORED,
    RESTORES,
    RESTORING,
    RESTORINGS,
    SITTING_OUT,
    VERIFIED,
)
from lumen_policy.replay.kernel.stretch import look
from lumen_policy.replay.kernel.structures import heap_remove, tree_update

__all__ = ["admit", "end_restore", "plan_decodes", "take_pages"]


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
    s.by_worker[NEXT_RESTORE, i] = s.recovery[s.batches[RESTORINGS, i, 0]].until if w.restoring > 0 else FAR
    tree_update(s.trees[RESTORES], s.by_worker[NEXT_RESTORE], i)
    q = s.requests[r]
    q.kv = 0
    if decisions.draw(g.seed, RESTORE, r, s.recovery[r].interruptions) < g.restore_failure:
        g.failed_restores += 1
    else:
        q.kv = q.old_saved
        s.recovery[r].restored += q.old_saved
        g.restores += 1
        g.restored_bytes_tokens += q.old_saved
        if s.recovery[r].old_holder != i:
            g.remote_restores += 1
        if q.high < q.kv:
            q.high = q.kv
    release_old(s, r, t)
    q.state = RESTORED
    s.batches[PREFILLS, i, w.prefilling] = r
    w.prefilling += 1
    w.restored += 1
    look(s, i)


def _take_restored(s: Any, i: int) -> None:
    """Requests whose restore ended take their place: in decode if one token is left to compute, else in prefill."""
    w = s.workers[i]
    kept = 0
    for j in range(w.prefilling):
        r = s.batches[PREFILLS, i, j]
        q = s.requests[r]
        if q.state == RESTORED and q.prompt + q.delivered - q.kv == 1:
            join_decode(s, i, r)
            q.odd = 1
            w.odd += 1
            w.irregular = 1
            grow_copies(s, r)
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


def _begin_restore(s: Any, i: int, r: int, t: int) -> None:
    """Reserve the links that a restore needs."""
    g = s.g[0]
    w = s.workers[i]
    q = s.requests[r]
    past = s.recovery[r]
    pages = q.old_saved >> 4
    if past.old_holder == i:
        past.until = max(t, w.link_free) + s.tables[g.at_restore + pages]
    elif past.old_holder == g.workers:
        past.until = max(t, w.link_free, g.store_free) + s.tables[g.at_store_restore + pages]
        g.store_free = past.until
    else:
        source = s.workers[past.old_holder]
        past.until = max(t, w.link_free, source.nic_free) + s.tables[g.at_remote_restore + pages]
        source.nic_free = past.until
    w.link_free = past.until
    q.state = RESTORING


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
            _begin_restore(s, i, r, t)
            s.batches[RESTORINGS, i, w.restoring] = r
            w.restoring += 1
            if w.restoring == 1:
                s.by_worker[NEXT_RESTORE, i] = s.recovery[r].until
                tree_update(s.trees[RESTORES], s.by_worker[NEXT_RESTORE], i)
        else:
            q.state = PREFILL
            q.kv = 0
            s.batches[PREFILLS, i, w.prefilling] = r
            w.prefilling += 1


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
        freeze_copies(s, victim)
        w.used -= leave_decode(s, i, victim)
        heap_remove(s.batches[COMPLETIONS, i], w.decoding, place)
        w.decoding -= 1
    else:
        w.used -= q.held_pages
        if q.state == PREFILL:
            kept = 0
            for j in range(w.prefilling):
                if s.batches[PREFILLS, i, j] != victim:
                    s.batches[PREFILLS, i, kept] = s.batches[PREFILLS, i, j]
                    kept += 1
            w.prefilling = kept
        else:
            kept = 0
            for j in range(w.restoring):
                if s.batches[RESTORINGS, i, j] != victim:
                    s.batches[RESTORINGS, i, kept] = s.batches[RESTORINGS, i, j]
                    kept += 1
            w.restoring = kept
            s.by_worker[NEXT_RESTORE, i] = s.recovery[s.batches[RESTORINGS, i, 0]].until if kept > 0 else FAR
            tree_update(s.trees[RESTORES], s.by_worker[NEXT_RESTORE], i)
            release_old(s, victim, t)
    q.kv = 0
    q.state = QUEUED
    s.recovery[victim].preemptions += 1
    q.link = w.head
    w.head = victim
    if w.tail < 0:
        w.tail = victim


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
            if q.verify == VERIFIED:
                tokens = min(context + drafts, q.prompt + q.output - 1)
            have = max(q.held_pages, (context + 14) >> 4)
            need = max(have, (tokens + 15) >> 4)
            covered = (context + 15) >> 4
            if q.verify == SITTING_OUT:
                need = have
                covered = (context + 14) >> 4
            missing += need - have
            if need > covered:
                ahead = 1
        if missing <= g.pool_pages - w.used:
            break
        _preempt_last(s, i, t)
    for j in range(w.decoding):
        q = s.requests[s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF]
        context = q.offset + w.steps
        tokens = context
        if q.verify == VERIFIED:
            tokens = min(context + drafts, q.prompt + q.output - 1)
        q.held_pages = max(q.held_pages, (context + 14) >> 4)
        if q.verify != SITTING_OUT:
            q.held_pages = max(q.held_pages, (tokens + 15) >> 4)
    w.used += missing
    w.irregular = ahead
    w.run_pages_done = 1


def plan_decodes(s: Any, i: int, t: int) -> None:
    """Make sure that the pages of the next plain decode iteration are there."""
    g = s.g[0]
    w = s.workers[i]
    w.run_pages_done = 0
    if w.decoding > 0 and (w.irregular != 0 or w.page_phase[w.steps & 15] > g.pool_pages - w.used):
        take_pages(s, i, 0, t)
