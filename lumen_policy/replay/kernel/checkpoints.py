"""Checkpoint accounting, exact and lazy.

No iteration waits for a checkpoint, so the accounting may lag behind the workers: ``follow`` brings it up to an
instant whenever somebody is about to look or something is about to leave. It takes the ends of iterations in their true
order. Here are links that take no time; ``links`` has the others. An iteration costs two rows of counters (``rows``)
where every holder has room for what it gets; otherwise the instant is taken holder by holder, and in order of copies at
those that are short of pages.
"""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.kernel.arrivals import arrive, send_up_to
from lumen_policy.replay.kernel.books import give_back, integrate
from lumen_policy.replay.kernel.links import follow_links
from lumen_policy.replay.kernel.rows import expand, join_row, leave_row, make_own
from lumen_policy.replay.kernel.state import (
    ALIVE,
    CANDIDATES,
    COMPLETIONS,
    DECODE,
    ENDING,
    FAR,
    FREE,
    HELD,
    HOT_HOLDER,
    KV_TOKENS,
    PAGES,
    PORTION,
    SPECIALS,
    SYNC_NEXT,
    SYNCS,
    TOTAL,
    WAITING,
)
from lumen_policy.replay.kernel.structures import sort_keys, tree_update

__all__ = ["follow", "release_old", "settle"]


def release_old(s: Any, r: int, t: int) -> None:
    """Drop the copy a request was to be restored from."""
    q = s.requests[r]
    if q.old_saved >= 0:
        give_back(s, q.old_holder, q.old_arrived, t)
        q.old_saved = -1
        q.old_arrived = 0


def _advance(s: Any, t: int) -> bool:
    """Follow the iterations that end at or before t, one after the other.

    Returns:
        True when done; False where the next instant, ``sync_min``, must be taken by ``_take_instant``.
    """
    g = s.g[0]
    workers, by_worker, copies, trees = s.workers, s.by_worker, s.copies, s.trees
    count = g.holders
    while True:
        i = trees[SYNCS, 1]
        now = by_worker[SYNC_NEXT, i]
        g.sync_min = now
        if now > t:
            return True
        w = workers[i]
        decodes = w.sync_decodes
        if decodes > 0:
            if w.by_number > 0:
                return False
            if w.own > 0 and g.hot > 0:
                waiting = 0
                for h in range(count):
                    waiting += copies[i, WAITING, h] * by_worker[HOT_HOLDER, h]
                if waiting > 0:
                    return False
        end = FAR
        if w.sync_left > 1:
            end = now + w.sync_duration + w.sync_growth
        by_worker[SYNC_NEXT, i] = end
        tree_update(trees[SYNCS], by_worker[SYNC_NEXT], i)
        short = by_worker[SYNC_NEXT, trees[SYNCS, 1]] == now
        if decodes > 0 and w.regular > 0 and not short:
            phase = w.sync_steps & 15
            low = by_worker[FREE, 0] - copies[i, phase, 0]
            for h in range(1, count):
                low = min(low, by_worker[FREE, h] - copies[i, phase, h])
            short = low < 0
            if not short:
                for h in range(count):
                    by_worker[FREE, h] -= copies[i, phase, h]
                    by_worker[HELD, h] += copies[i, TOTAL, h]
                _count_arrived(g, w.regular, now)
                g.sent_tokens += w.regular
                w.sync_wrote = now
        if short:
            by_worker[SYNC_NEXT, i] = now
            tree_update(trees[SYNCS], by_worker[SYNC_NEXT], i)
            return False
        if decodes > 0:
            w.sync_steps += 1
            by_worker[KV_TOKENS, i] += decodes
        w.sync_left -= 1
        w.sync_duration += w.sync_growth


@inline
def _count_arrived(g: Any, tokens: int, t: int) -> None:
    g.arrived_tokens += tokens
    if g.holders == g.workers:  # a store is no worker
        integrate(g, tokens, t)


@inline
def _next_iteration(s: Any, i: int, now: int) -> None:
    """Worker i's iteration that ends now is followed."""
    w = s.workers[i]
    if w.sync_decodes > 0:
        w.sync_steps += 1
        s.by_worker[KV_TOKENS, i] += w.sync_decodes
    w.sync_left -= 1
    w.sync_duration += w.sync_growth
    s.by_worker[SYNC_NEXT, i] = now + w.sync_duration if w.sync_left > 0 else FAR
    tree_update(s.trees[SYNCS], s.by_worker[SYNC_NEXT], i)


@inline
def _want(s: Any, c: int, existing: int, count: int) -> int:
    """An OWN copy may send: count the pages it wants; returns the number of candidates with it."""
    slot = s.slots[c]
    upto = send_up_to(s, slot, existing)
    if upto <= slot.arrived:
        return count
    s.g[0].sent_tokens += upto - slot.arrived
    slot.sent = upto
    s.by_worker[PORTION, slot.holder] += ((upto + 15) >> 4) - ((slot.arrived + 15) >> 4)
    s.scratch[CANDIDATES, count] = c
    return count + 1


def _own_wants(s: Any, i: int, count: int) -> int:
    """The OWN copies of server i whose iteration ends now; returns the number of candidates with them."""
    g = s.g[0]
    w = s.workers[i]
    for j in range(w.own):
        c = s.own[i, j]
        if s.by_worker[HOT_HOLDER, s.slots[c].holder] != 0:
            q = s.requests[c >> g.copy_shift]
            if q.rested == 0:
                count = _want(s, c, q.offset + w.sync_steps - 1, count)
    if w.by_number != 0:
        for j in range(w.decoding):
            s.requests[s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF].rested = 0
    return count


def _take_instant(s: Any, now: int, specials: int) -> None:
    """Follow one instant, in order of copies at the holders that have no room for all they get.

    ``specials`` transfers of prefill belong to it.
    """
    g = s.g[0]
    for h in range(g.holders):
        s.by_worker[PORTION, h] = 0
    count = 0
    ending = 0
    while True:
        i = s.trees[SYNCS, 1]
        if s.by_worker[SYNC_NEXT, i] != now:
            break
        w = s.workers[i]
        if w.sync_decodes > 0:
            phase = w.sync_steps & 15
            for h in range(g.holders):
                s.by_worker[PORTION, h] += s.copies[i, phase, h]
            s.by_worker[ENDING, ending] = i
            ending += 1
        _next_iteration(s, i, now)
        if w.sync_decodes > 0:
            count = _own_wants(s, i, count)
    g.sync_min = s.by_worker[SYNC_NEXT, s.trees[SYNCS, 1]]
    for j in range(specials):
        r = s.scratch[SPECIALS, j]
        q = s.requests[r]
        if q.state != DECODE or s.workers[q.server].sync_decodes == 0:
            for c in range(r * g.replicas, (r + 1) * g.replicas):
                if s.slots[c].holder >= 0 and s.by_worker[ALIVE, s.slots[c].holder] != 0:
                    count = _want(s, c, q.kv, count)
    for h in range(g.holders):
        s.by_worker[PAGES, h] = 1 if s.by_worker[PORTION, h] > s.by_worker[FREE, h] else 0
    for j in range(ending):
        count = _grow_rows(s, s.by_worker[ENDING, j], count, now)
    _grow_own(s, count, now)


def _grow_rows(s: Any, i: int, count: int, now: int) -> int:
    """The rows of server i; at holders that are short only members that need no page grow by count.

    Returns:
        The number of candidates with those that have left their rows.
    """
    g = s.g[0]
    w = s.workers[i]
    step = w.sync_steps - 1
    if w.regular > 0:
        w.sync_wrote = now
    for h in range(g.holders):
        members = s.copies[i, TOTAL, h]
        if members > 0:
            if s.by_worker[PAGES, h] != 0:
                if g.eviction != 0:
                    g.sent_tokens += members
                    count = expand(s, i, h, step, count, step + 1)
                    members = 0
                else:
                    count = _stop_short(s, i, h, step, count)
                    members = s.copies[i, TOTAL, h]
            else:
                s.by_worker[FREE, h] -= s.copies[i, step & 15, h]
            s.by_worker[HELD, h] += members
            _count_arrived(g, members, now)
            g.sent_tokens += members
    return count


def _stop_short(s: Any, i: int, h: int, step: int, count: int) -> int:
    """Members of a row that open a page at a holder that is short become OWN copies.

    They send only where there is a page at all; returns the number of candidates with these.
    """
    g = s.g[0]
    c = s.heads[i, h]
    while c >= 0:
        following = s.slots[c].mate_next
        offset = s.requests[c >> g.copy_shift].offset
        if (1 - offset) & 15 == step & 15:
            before = offset + step - 1
            leave_row(s, c, before, before)
            make_own(s, c)
            if s.by_worker[FREE, h] > 0:
                g.sent_tokens += 1
                s.slots[c].sent = before + 1
                s.scratch[CANDIDATES, count] = c
                count += 1
        c = following
    return count


def _grow_own(s: Any, count: int, now: int) -> None:
    """Candidates grow by what they sent: at holders with room as they come, at the others in order of copies."""
    g = s.g[0]
    kept = 0
    for j in range(count):
        c = s.scratch[CANDIDATES, j]
        h = s.slots[c].holder
        if s.by_worker[PAGES, h] == 0:
            arrive(s, c, now)
            join_row(s, c)
        else:
            s.scratch[CANDIDATES, kept] = (h << 32) | c
            kept += 1
    if kept > 0:
        g.ordered_syncs += 1
        sort_keys(s.scratch[CANDIDATES], 0, kept)
        for j in range(kept):
            c = s.scratch[CANDIDATES, j] & 0xFFFFFFFF
            if s.slots[c].holder >= 0:
                arrive(s, c, now)
        for j in range(kept):
            join_row(s, s.scratch[CANDIDATES, j] & 0xFFFFFFFF)


def _catch_up(s: Any, t: int) -> None:
    g = s.g[0]
    if g.linked != 0:
        follow_links(s, t)
        return
    while g.sync_min <= t and not _advance(s, t):
        _take_instant(s, g.sync_min, 0)


@inline
def follow(s: Any, t: int) -> None:
    """Bring the accounting up to and including instant t."""
    if s.g[0].sync_min <= t or s.g[0].link_next <= t:
        _catch_up(s, t)


def settle(s: Any, t: int) -> None:
    """The transfers of instant t, those of prefill among them."""
    g = s.g[0]
    if g.linked != 0:
        follow_links(s, t)
    else:
        follow(s, t - 1)
        _take_instant(s, t, g.specials)
    g.specials = 0
