"""Checkpoint accounting, exact and lazy.

Where copies go never changes when an iteration ends, so the accounting may lag behind the workers: ``follow`` brings it
up to an instant whenever somebody is about to look or something is about to leave. Between two such instants copies only
grow, so if everything fits at the end everything fitted all along and the order did not matter: that is the quick way,
one row of counters per iteration. If a page was short, the quick way is undone and the iterations are taken one by one in
their true order, transfers sorted by (holder, request).
"""

from __future__ import annotations

from typing import Any

from lumen_policy.replay.kernel.jit import compile_inline, compile_plain
from lumen_policy.replay.kernel.state import (
    ALIVE,
    CANDIDATES,
    COMPLETIONS,
    EXPLICIT,
    EXPLICITS,
    EXPLICIT_AT,
    FAR,
    FREE,
    HELD,
    HOT_HOLDER,
    KV_TOKENS,
    NO_COPY,
    REGULAR,
    SPECIALS,
    STATIC,
    SYNC_NEXT,
    TOTAL,
    TOUCHED,
    UNDO_FREE,
    UNDO_HELD,
    UNDO_KV,
)
from lumen_policy.replay.kernel.structures import sort_keys

__all__ = [
    "arrived_tokens",
    "follow",
    "freeze",
    "make_explicit",
    "refresh_hot",
    "rejoin_regular",
    "release",
    "release_old",
    "settle",
]


@compile_inline
def _integrate(g: Any, change: int, t: int) -> None:
    """Add change·(-t) to the integral, split so that nothing overflows."""
    g.integral_high -= change * (t >> 31)
    g.integral_low -= change * (t & 0x7FFFFFFF)


@compile_inline
def refresh_hot(s: Any, holder: int) -> None:
    """Recompute whether an EXPLICIT copy at the holder could grow."""
    g = s.g[0]
    hot = (
        1
        if s.by_worker[EXPLICIT_AT, holder] > 0
        and s.by_worker[FREE, holder] > 0
        and s.by_worker[ALIVE, holder] != 0
        else 0
    )
    g.hot += hot - s.by_worker[HOT_HOLDER, holder]
    s.by_worker[HOT_HOLDER, holder] = hot


@compile_inline
def arrived_tokens(s: Any, q: Any) -> int:
    """Tokens of a request's copy, as far as the accounting has come."""
    if q.growth == REGULAR:
        return q.offset + s.workers[q.server].sync_steps - 1
    return q.arrived


@compile_inline
def _register(s: Any, q: Any) -> None:
    """A caught-up copy starts to grow with every decode iteration of its server."""
    s.copies[q.server, TOTAL, q.holder] += 1
    s.copies[q.server, (1 - q.offset) & 15, q.holder] += 1
    s.workers[q.server].regular += 1
    q.growth = REGULAR


@compile_inline
def _unregister(s: Any, q: Any) -> None:
    """Stop counting a REGULAR copy; its number is written down."""
    w = s.workers[q.server]
    q.arrived = q.offset + w.sync_steps - 1
    s.copies[q.server, TOTAL, q.holder] -= 1
    s.copies[q.server, (1 - q.offset) & 15, q.holder] -= 1
    w.regular -= 1
    q.growth = STATIC


@compile_plain
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
    q.growth = EXPLICIT
    refresh_hot(s, q.holder)


@compile_plain
def _leave_explicit(s: Any, r: int) -> None:
    q = s.requests[r]
    w = s.workers[q.server]
    for i in range(w.explicit):
        if s.batches[EXPLICITS, q.server, i] == r:
            s.batches[EXPLICITS, q.server, i] = s.batches[EXPLICITS, q.server, w.explicit - 1]
            break
    w.explicit -= 1
    s.by_worker[EXPLICIT_AT, q.holder] -= 1
    q.growth = STATIC
    refresh_hot(s, q.holder)


@compile_plain
def rejoin_regular(s: Any, r: int) -> bool:
    """Let an EXPLICIT copy that has caught up grow by count again; False if it has not."""
    q = s.requests[r]
    if q.arrived != q.offset + s.workers[q.server].sync_steps - 1:
        return False
    _leave_explicit(s, r)
    _register(s, q)
    return True


@compile_inline
def freeze(s: Any, r: int) -> None:
    """The copy stops growing and keeps what has arrived."""
    q = s.requests[r]
    if q.growth == REGULAR:
        _unregister(s, q)
    elif q.growth == EXPLICIT:
        _leave_explicit(s, r)


@compile_inline
def _give_back(s: Any, holder: int, tokens: int, t: int) -> None:
    """Free a copy's pages; a dead holder's books stay closed until its detection."""
    if tokens > 0 and s.by_worker[ALIVE, holder] != 0:
        s.by_worker[HELD, holder] -= tokens
        s.by_worker[FREE, holder] += (tokens + 15) >> 4
        _integrate(s.g[0], -tokens, t)
        refresh_hot(s, holder)


@compile_inline
def release(s: Any, r: int, t: int) -> None:
    """Drop a request's copy; the accounting must have followed up to t - 1 at least."""
    q = s.requests[r]
    if q.growth != NO_COPY:
        freeze(s, r)
        _give_back(s, q.holder, q.arrived, t)
        q.growth = NO_COPY
        q.arrived = 0


@compile_plain
def release_old(s: Any, r: int, t: int) -> None:
    """Drop the copy a request was restored from (it lies at its server)."""
    q = s.requests[r]
    if q.old_saved >= 0:
        _give_back(s, q.server, q.old_arrived, t)
        q.old_saved = -1
        q.old_arrived = 0


@compile_plain
def _follow_quickly(globals_: Any, workers: Any, by_worker: Any, copies: Any, t: int) -> bool:
    """Account for all iterations that end at or before t, in any order; False if a page was short.

    Called often, so it takes only the arrays it needs.
    """
    g = globals_[0]
    count = g.workers
    for w in range(count):
        by_worker[UNDO_HELD, w] = by_worker[HELD, w]
        by_worker[UNDO_FREE, w] = by_worker[FREE, w]
        by_worker[UNDO_KV, w] = by_worker[KV_TOKENS, w]
    g.saved_high = g.integral_high
    g.saved_low = g.integral_low
    touched = 0
    earliest = FAR
    for i in range(count):
        end = by_worker[SYNC_NEXT, i]
        if end <= t:
            w = workers[i]
            duration = w.sync_duration
            left = w.sync_left
            steps = w.sync_steps
            by_worker[TOUCHED, touched] = i
            w.undo_next = end
            w.undo_duration = duration
            w.undo_left = left
            w.undo_steps = steps
            touched += 1
            growth = w.sync_growth
            regular = w.regular
            first = steps
            decodes = w.sync_decodes
            while end <= t:
                if decodes > 0:
                    if regular > 0:
                        phase = steps & 15
                        for h in range(count):
                            by_worker[FREE, h] -= copies[i, phase, h]
                        _integrate(g, regular, end)
                    steps += 1
                left -= 1
                if left == 0:
                    end = FAR
                else:
                    duration += growth
                    end += duration
            if regular > 0:
                passed = steps - first
                for h in range(count):
                    by_worker[HELD, h] += passed * copies[i, TOTAL, h]
            by_worker[KV_TOKENS, i] += (steps - first) * decodes
            w.sync_duration = duration
            w.sync_left = left
            w.sync_steps = steps
            by_worker[SYNC_NEXT, i] = end
        if end < earliest:
            earliest = end
    g.touched = touched
    g.sync_min = earliest
    for h in range(count):
        if by_worker[FREE, h] < 0:
            return False
    return True


@compile_plain
def _undo(s: Any) -> None:
    """Take back the last ``_follow_quickly``."""
    g = s.g[0]
    for w in range(g.workers):
        s.by_worker[HELD, w] = s.by_worker[UNDO_HELD, w]
        s.by_worker[FREE, w] = s.by_worker[UNDO_FREE, w]
        s.by_worker[KV_TOKENS, w] = s.by_worker[UNDO_KV, w]
    g.integral_high = g.saved_high
    g.integral_low = g.saved_low
    for j in range(g.touched):
        i = s.by_worker[TOUCHED, j]
        w = s.workers[i]
        s.by_worker[SYNC_NEXT, i] = w.undo_next
        w.sync_duration = w.undo_duration
        w.sync_left = w.undo_left
        w.sync_steps = w.undo_steps


@compile_inline
def _transfer(s: Any, r: int, t: int) -> None:
    """Grow one copy to what exists, as far as the holder's pages go."""
    q = s.requests[r]
    holder = q.holder
    w = s.workers[q.server]
    existing = q.offset + w.sync_steps - 1
    if s.by_worker[ALIVE, holder] == 0:
        return
    if q.growth == REGULAR:  # opens a page; its token is counted already
        if s.by_worker[FREE, holder] > 0:
            s.by_worker[FREE, holder] -= 1
            refresh_hot(s, holder)
            return
        make_explicit(s, r)
        q.arrived -= 1
        s.by_worker[HELD, holder] -= 1
        _integrate(s.g[0], -1, t)
        return
    arrived = q.arrived
    pages = (arrived + 15) >> 4
    grown = min(existing, 16 * (pages + s.by_worker[FREE, holder]))
    if grown > arrived:
        s.by_worker[HELD, holder] += grown - arrived
        s.by_worker[FREE, holder] -= ((grown + 15) >> 4) - pages
        _integrate(s.g[0], grown - arrived, t)
        q.arrived = grown
        refresh_hot(s, holder)
    if q.arrived == existing and w.by_number == 0:
        if q.growth == EXPLICIT:
            _leave_explicit(s, r)
        _register(s, q)
    elif q.growth != EXPLICIT:
        make_explicit(s, r)


@compile_plain
def _follow_in_order(s: Any, t: int, specials: int) -> None:
    """Account for the iterations up to t one instant after the other; ``specials`` transfers belong to t itself."""
    g = s.g[0]
    workers = g.workers
    g.ordered_syncs += 1
    while True:
        now = FAR
        for i in range(workers):
            if s.by_worker[SYNC_NEXT, i] < now:
                now = s.by_worker[SYNC_NEXT, i]
        g.sync_min = now
        if now > t:
            if specials == 0:
                return
            now = t
        count = 0
        for i in range(workers):
            if s.by_worker[SYNC_NEXT, i] != now:
                continue
            w = s.workers[i]
            if w.sync_decodes > 0:
                if w.regular > 0:
                    _integrate(g, w.regular, now)
                    for h in range(workers):
                        s.by_worker[HELD, h] += s.copies[i, TOTAL, h]
                    for j in range(w.decoding):
                        r = s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF
                        q = s.requests[r]
                        if q.growth == REGULAR and (q.offset + w.sync_steps - 1) & 15 == 0:
                            s.scratch[CANDIDATES, count] = (q.holder << 32) | r
                            count += 1
                for j in range(w.explicit):
                    r = s.batches[EXPLICITS, i, j]
                    s.scratch[CANDIDATES, count] = (s.requests[r].holder << 32) | r
                    count += 1
                w.sync_steps += 1
                s.by_worker[KV_TOKENS, i] += w.sync_decodes
            w.sync_left -= 1
            if w.sync_left == 0:
                s.by_worker[SYNC_NEXT, i] = FAR
            else:
                w.sync_duration += w.sync_growth
                s.by_worker[SYNC_NEXT, i] += w.sync_duration
        if now == t:
            for j in range(specials):
                r = s.scratch[SPECIALS, j]
                s.scratch[CANDIDATES, count] = (s.requests[r].holder << 32) | r
                count += 1
            specials = 0
        sort_keys(s.scratch[CANDIDATES], count)
        for j in range(count):
            _transfer(s, s.scratch[CANDIDATES, j] & 0xFFFFFFFF, now)


@compile_inline
def follow(s: Any, t: int) -> None:
    """Bring the accounting up to and including instant t."""
    g = s.g[0]
    if g.sync_min <= t and (
        g.hot > 0 or g.by_number > 0 or not _follow_quickly(s.g, s.workers, s.by_worker, s.copies, t)
    ):
        _follow_slowly(s, t)


@compile_plain
def _follow_slowly(s: Any, t: int) -> None:
    g = s.g[0]
    if g.hot == 0 and g.by_number == 0:
        _undo(s)
    _follow_in_order(s, t, 0)


@compile_inline
def settle(s: Any, t: int) -> None:
    """The transfers of instant t, first transfers after a prefill among them; the rest has followed to t - 1."""
    g = s.g[0]
    count = g.specials
    g.specials = 0
    if g.hot > 0 or g.by_number > 0:
        _follow_in_order(s, t, count)
        return
    fits = _follow_quickly(s.g, s.workers, s.by_worker, s.copies, t)
    if fits:
        for j in range(count):
            q = s.requests[s.scratch[SPECIALS, j]]
            if s.by_worker[ALIVE, q.holder] != 0:
                existing = q.offset + s.workers[q.server].sync_steps - 1
                pages = ((existing + 15) >> 4) - ((q.arrived + 15) >> 4)
                s.by_worker[FREE, q.holder] -= pages
                if s.by_worker[FREE, q.holder] < 0:
                    fits = False
    if not fits:
        _undo(s)
        _follow_in_order(s, t, count)
        return
    for j in range(count):
        q = s.requests[s.scratch[SPECIALS, j]]
        if s.by_worker[ALIVE, q.holder] != 0:
            existing = q.offset + s.workers[q.server].sync_steps - 1
            s.by_worker[HELD, q.holder] += existing - q.arrived
            _integrate(g, existing - q.arrived, t)
            _register(s, q)
