"""Checkpoint accounting, exact and lazy.

No iteration waits for a checkpoint, so the accounting may lag behind the workers: ``follow`` brings it up to an
instant whenever somebody is about to look or something is about to leave. It takes the ends of iterations in their true
order. Copies that have caught up are REGULAR: each grows by one token at each decode step of its server and opens a
page at the steps of its phase, so an iteration costs two rows of counters. Only where a page is short, where copies
wait for one, or where two iterations end at one instant are the transfers taken one by one, by (holder, request).
"""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.kernel.books import give_back, integrate, refresh_hot
from lumen_policy.replay.kernel.links import follow_links
from lumen_policy.replay.kernel.slots import drop_slots, open_slot, take_old_slot
from lumen_policy.replay.kernel.state import (
    ALIVE,
    CANDIDATES,
    EXPLICIT,
    EXPLICIT_AT,
    EXPLICITS,
    FAR,
    FREE,
    HELD,
    HOT_HOLDER,
    KV_TOKENS,
    NO_COPY,
    PAGES,
    PARTIAL,
    REGULAR,
    SPECIALS,
    STATIC,
    SYNC_NEXT,
    SYNCS,
    TOTAL,
    WAITING,
)
from lumen_policy.replay.kernel.structures import sort_keys, tree_update

__all__ = [
    "arrived_tokens",
    "follow",
    "freeze",
    "make_explicit",
    "open_copy",
    "rejoin_regular",
    "release",
    "release_old",
    "settle",
    "take_old_copy",
]


@inline
def arrived_tokens(s: Any, q: Any) -> int:
    """Tokens of a request's copy, as far as the accounting has come."""
    if q.growth == REGULAR:
        return q.offset + s.workers[q.server].sync_steps - 1
    return q.arrived


@inline
def _register(s: Any, r: int) -> None:
    """A caught-up copy starts to grow with every decode iteration of its server."""
    q = s.requests[r]
    s.copies[q.server, TOTAL, q.holder] += 1
    s.copies[q.server, (1 - q.offset) & 15, q.holder] += 1
    w = s.workers[q.server]
    w.regular += 1
    phase = (1 - q.offset) & 15
    q.phase_next = w.phase_head[phase]
    q.phase_last = -1
    if q.phase_next >= 0:
        s.requests[q.phase_next].phase_last = r
    w.phase_head[phase] = r
    q.growth = REGULAR


@inline
def _unregister(s: Any, q: Any) -> None:
    """Stop counting a REGULAR copy; its number is written down."""
    w = s.workers[q.server]
    q.arrived = q.offset + w.sync_steps - 1
    s.copies[q.server, TOTAL, q.holder] -= 1
    s.copies[q.server, (1 - q.offset) & 15, q.holder] -= 1
    w.regular -= 1
    if q.phase_next >= 0:
        s.requests[q.phase_next].phase_last = q.phase_last
    if q.phase_last >= 0:
        s.requests[q.phase_last].phase_next = q.phase_next
    else:
        w.phase_head[(1 - q.offset) & 15] = q.phase_next
    q.growth = STATIC


@inline
def _is_partial(q: Any) -> int:
    return 1 if q.arrived & 15 != 0 else 0


def make_explicit(s: Any, r: int) -> None:
    """Let a copy grow by its own number from its server's next decode iteration on."""
    q = s.requests[r]
    if q.growth == EXPLICIT or q.holder < 0 or s.by_worker[ALIVE, q.holder] == 0:
        return
    if q.growth == REGULAR:
        _unregister(s, q)
    w = s.workers[q.server]
    s.batches[EXPLICITS, q.server, w.explicit] = r
    w.explicit += 1
    s.by_worker[EXPLICIT_AT, q.holder] += 1
    s.copies[q.server, WAITING, q.holder] += 1
    s.by_worker[PARTIAL, q.holder] += _is_partial(q)
    q.growth = EXPLICIT
    refresh_hot(s, q.holder)


def _leave_explicit(s: Any, r: int) -> None:
    q = s.requests[r]
    w = s.workers[q.server]
    for i in range(w.explicit):
        if s.batches[EXPLICITS, q.server, i] == r:
            s.batches[EXPLICITS, q.server, i] = s.batches[EXPLICITS, q.server, w.explicit - 1]
            break
    w.explicit -= 1
    s.by_worker[EXPLICIT_AT, q.holder] -= 1
    s.copies[q.server, WAITING, q.holder] -= 1
    s.by_worker[PARTIAL, q.holder] -= _is_partial(q)
    q.growth = STATIC
    refresh_hot(s, q.holder)


def rejoin_regular(s: Any, r: int) -> bool:
    """Let an EXPLICIT copy that has caught up grow by count again; False if it has not."""
    q = s.requests[r]
    if q.arrived != q.offset + s.workers[q.server].sync_steps - 1:
        return False
    _leave_explicit(s, r)
    _register(s, r)
    return True


def freeze(s: Any, r: int) -> None:
    """The copy stops growing and keeps what has arrived."""
    q = s.requests[r]
    if q.growth == REGULAR:
        _unregister(s, q)
    elif q.growth == EXPLICIT:
        _leave_explicit(s, r)


def release(s: Any, r: int, kept: int, t: int) -> None:
    """Drop a request's copies but the one at ``kept`` (-1: none), which becomes its old copy.

    The accounting must have followed up to t - 1 at least.
    """
    if s.g[0].slotted != 0:
        drop_slots(s, r, kept, t)
        return
    q = s.requests[r]
    if q.growth != NO_COPY:
        freeze(s, r)
        if q.holder != kept:
            give_back(s, q.holder, q.arrived, t)
        q.growth = NO_COPY
        q.arrived = 0
    q.holder = -1


def release_old(s: Any, r: int, t: int) -> None:
    """Drop the copy a request was to be restored from."""
    q = s.requests[r]
    if q.old_saved >= 0:
        give_back(s, q.old_holder, q.old_arrived, t)
        q.old_saved = -1
        q.old_arrived = 0


def take_old_copy(s: Any, r: int) -> None:
    """An interrupted request that had not restored yet: its old copy is its copy again, the new one held nothing."""
    q = s.requests[r]
    if q.old_saved < 0:
        return
    if s.g[0].slotted != 0:
        take_old_slot(s, r)
    else:
        q.holder = q.old_holder
        q.growth = STATIC
        q.arrived = q.old_arrived
    q.old_saved = -1
    q.old_arrived = 0


def open_copy(s: Any, r: int, which: int, holder: int, t: int) -> None:
    """A request has a holder from now on, and nothing there yet."""
    if s.g[0].slotted != 0:
        open_slot(s, r, which, holder, t)
        return
    q = s.requests[r]
    q.holder = holder
    q.growth = NO_COPY
    q.arrived = 0


def _advance(s: Any, t: int) -> bool:
    """Follow the iterations that end at or before t, one after the other.

    Returns:
        True when done; False where the next instant, ``sync_min``, must be taken transfer by transfer.
    """
    g = s.g[0]
    workers, by_worker, copies, trees = s.workers, s.by_worker, s.copies, s.trees
    count = g.workers
    while True:
        i = trees[SYNCS, 1]
        now = by_worker[SYNC_NEXT, i]
        g.sync_min = now
        if now > t:
            return True
        w = workers[i]
        decodes = w.sync_decodes
        if decodes > 0 and w.explicit > 0:
            if w.by_number > 0:
                return False
            waiting = 0
            if g.hot > 0:
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
                integrate(g, w.regular, now)
                g.arrived_tokens += w.regular
                g.sent_tokens += w.regular
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
def _transfer(s: Any, r: int, t: int) -> None:
    """Grow one copy to what exists, as far as the holder's pages go."""
    g = s.g[0]
    q = s.requests[r]
    holder = q.holder
    if s.by_worker[ALIVE, holder] == 0:
        return
    w = s.workers[q.server]
    waits = True
    if q.growth == REGULAR:  # opens a page; its token is counted already
        waits = s.by_worker[FREE, holder] == 0
        if not waits:
            s.by_worker[FREE, holder] -= 1
            refresh_hot(s, holder)
        elif s.by_worker[PAGES, holder] == 0:
            g.sent_tokens -= 1
        else:
            g.refused_tokens += 1
    else:
        existing = q.offset + w.sync_steps - 1
        pages = (q.arrived + 15) >> 4
        sent = max(0, min(existing, 16 * (pages + s.by_worker[PAGES, holder])) - q.arrived)
        g.sent_tokens += sent
        grown = min(existing, 16 * (pages + s.by_worker[FREE, holder]))
        change = grown - q.arrived
        g.refused_tokens += sent - max(change, 0)
        if change > 0:
            g.arrived_tokens += change
            s.by_worker[HELD, holder] += change
            s.by_worker[FREE, holder] -= ((grown + 15) >> 4) - pages
            integrate(g, change, t)
            if q.growth == EXPLICIT:
                s.by_worker[PARTIAL, holder] -= _is_partial(q)
            q.arrived = grown
            if q.growth == EXPLICIT:
                s.by_worker[PARTIAL, holder] += _is_partial(q)
            refresh_hot(s, holder)
        if q.arrived == existing and w.by_number == 0:
            waits = False
            if q.growth == EXPLICIT:
                _leave_explicit(s, r)
            _register(s, r)
    if waits and q.growth != EXPLICIT:
        refused = q.growth == REGULAR
        make_explicit(s, r)
        if refused:
            s.by_worker[PARTIAL, holder] -= _is_partial(q)
            q.arrived -= 1
            s.by_worker[PARTIAL, holder] += _is_partial(q)
            refresh_hot(s, holder)
            s.by_worker[HELD, holder] -= 1
            integrate(g, -1, t)
            g.arrived_tokens -= 1


def _take_instant(s: Any, now: int, specials: int) -> None:
    """Follow one instant transfer by transfer; ``specials`` first transfers after a prefill belong to it."""
    g = s.g[0]
    g.ordered_syncs += 1
    count = 0
    while True:
        i = s.trees[SYNCS, 1]
        if s.by_worker[SYNC_NEXT, i] != now:
            break
        w = s.workers[i]
        if w.sync_decodes > 0:
            if w.regular > 0:
                integrate(g, w.regular, now)
                g.arrived_tokens += w.regular
                g.sent_tokens += w.regular
                for h in range(g.workers):
                    s.by_worker[HELD, h] += s.copies[i, TOTAL, h]
                r = w.phase_head[w.sync_steps & 15]
                while r >= 0:
                    s.scratch[CANDIDATES, count] = (s.requests[r].holder << 32) | r
                    count += 1
                    r = s.requests[r].phase_next
            for j in range(w.explicit):
                r = s.batches[EXPLICITS, i, j]
                if s.requests[r].rested != 0:
                    s.requests[r].rested = 0
                    continue
                s.scratch[CANDIDATES, count] = (s.requests[r].holder << 32) | r
                count += 1
            w.sync_steps += 1
            s.by_worker[KV_TOKENS, i] += w.sync_decodes
        w.sync_left -= 1
        w.sync_duration += w.sync_growth
        s.by_worker[SYNC_NEXT, i] = now + w.sync_duration if w.sync_left > 0 else FAR
        tree_update(s.trees[SYNCS], s.by_worker[SYNC_NEXT], i)
    g.sync_min = s.by_worker[SYNC_NEXT, s.trees[SYNCS, 1]]
    for j in range(specials):
        r = s.scratch[SPECIALS, j]
        s.scratch[CANDIDATES, count] = (s.requests[r].holder << 32) | r
        count += 1
    sort_keys(s.scratch[CANDIDATES], 0, count)
    for h in range(g.workers):
        s.by_worker[PAGES, h] = s.by_worker[FREE, h]
    for j in range(count):
        _transfer(s, s.scratch[CANDIDATES, j] & 0xFFFFFFFF, now)


def _catch_up(s: Any, t: int) -> None:
    g = s.g[0]
    if g.slotted != 0:
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
    if g.slotted != 0:
        follow_links(s, t)
    else:
        follow(s, t - 1)
        _take_instant(s, t, g.specials)
    g.specials = 0
