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
from lumen_policy.replay.kernel.books import give_back, integrate, refresh_hot
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
    SHORT,
    SPECIALS,
    SYNC_NEXT,
    SYNCS,
    TOTAL,
)
from lumen_policy.replay.kernel.structures import sort_keys, tree_update

__all__ = ["follow", "release_old", "settle"]


def release_old(s: Any, r: int, t: int) -> None:
    """Drop the copy a request was to be restored from."""
    q = s.requests[r]
    if q.old_saved >= 0:
        give_back(s, s.recovery[r].old_holder, s.recovery[r].old_arrived, t)
        q.old_saved = -1


def _follow_iterations(s: Any, t: int) -> None:
    """Follow the iterations that end at or before t, one after the other."""
    g = s.g[0]
    workers, by_worker, trees = s.workers, s.by_worker, s.trees
    while True:
        i = trees[SYNCS, 1]
        now = by_worker[SYNC_NEXT, i]
        g.sync_min = now
        if now > t:
            return
        w = workers[i]
        _next_iteration(s, i, now)
        if by_worker[SYNC_NEXT, trees[SYNCS, 1]] == now:
            _take_together(s, i, now, 0)
        elif w.sync_decodes > 0:
            wanting = 0
            if w.by_number > 0 or (w.own > 0 and g.hot > 0):
                wanting = _own_wants(s, i, 0)
            if wanting > 0:
                _take_alone(s, i, wanting, now)
            elif w.regular > 0:
                short = _grow_with_room(s, i, now)
                if short > 0:
                    _grow_own(s, _grow_short(s, i, short, 0, now), now)
                w.sync_wrote = now


@inline
def _grow_with_room(s: Any, i: int, now: int) -> int:
    """The rows of server i grow, each where its holder has room for it; the number of the others, in ``SHORT``."""
    g = s.g[0]
    by_worker, copies = s.by_worker, s.copies
    phase = (s.workers[i].sync_steps - 1) & 15
    grown = 0
    short = 0
    for h in range(g.holders):
        opened = copies[i, phase, h]
        roomy = 1 if opened <= by_worker[FREE, h] else 0
        members = copies[i, TOTAL, h] * roomy
        by_worker[FREE, h] -= opened * roomy
        by_worker[HELD, h] += members
        grown += members
        if roomy == 0:
            by_worker[SHORT, short] = h
            short += 1
    g.sent_tokens += grown
    _count_arrived(g, grown, now)
    return short


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
    if g.hot > 0:
        for j in range(w.own):
            c = s.own[i, j] & 0xFFFFFFFF
            h = s.own[i, j] >> 32
            if s.by_worker[HOT_HOLDER, h] != 0:
                q = s.requests[c >> g.copy_shift]
                if q.rested == 0:
                    before = count
                    count = _want(s, c, q.offset + w.sync_steps - 1, count)
                    if count == before:
                        refresh_hot(s, h)  # its pages may have gone since
    if w.by_number != 0:
        for j in range(w.decoding):
            s.requests[s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF].rested = 0
    return count


def _specials_want(s: Any, specials: int, count: int) -> int:
    """Transfers of prefill chunks that end now and of which no OWN copy has told."""
    g = s.g[0]
    for j in range(specials):
        r = s.scratch[SPECIALS, j]
        q = s.requests[r]
        if q.state != DECODE or s.workers[q.server].sync_decodes == 0:
            for c in range(r * g.replicas, (r + 1) * g.replicas):
                if s.slots[c].holder >= 0 and s.by_worker[ALIVE, s.slots[c].holder] != 0:
                    count = _want(s, c, q.kv, count)
    return count


@inline
def _pages_wanted(slot: Any) -> int:
    return ((slot.sent + 15) >> 4) - ((slot.arrived + 15) >> 4)


def _take_alone(s: Any, i: int, count: int, now: int) -> None:
    """The iteration of worker i, the only one that ends now: in order of copies at holders without room for all.

    ``count`` candidates have told what they want in ``PORTION``, which is zero afterwards.
    """
    g = s.g[0]
    w = s.workers[i]
    phase = (w.sync_steps - 1) & 15
    rows = w.sync_decodes > 0 and w.regular > 0
    fits = True
    for j in range(count):
        h = s.slots[s.scratch[CANDIDATES, j]].holder
        wanted = s.by_worker[PORTION, h]
        if rows:
            wanted += s.copies[i, phase, h]
        if wanted > s.by_worker[FREE, h]:
            fits = False
    if fits:
        for j in range(count):
            slot = s.slots[s.scratch[CANDIDATES, j]]
            s.by_worker[PORTION, slot.holder] = 0
            s.by_worker[PAGES, slot.holder] = 0
            s.by_worker[FREE, slot.holder] -= _pages_wanted(slot)
        short = _grow_with_room(s, i, now) if rows else 0
        for j in range(count):
            slot = s.slots[s.scratch[CANDIDATES, j]]
            s.by_worker[FREE, slot.holder] += _pages_wanted(slot)
        if short > 0:
            count = _grow_short(s, i, short, count, now)
        if rows:
            w.sync_wrote = now
    else:
        for h in range(g.holders):
            wanted = s.by_worker[PORTION, h]
            if rows:
                wanted += s.copies[i, phase, h]
            s.by_worker[PAGES, h] = 1 if wanted > s.by_worker[FREE, h] else 0
            s.by_worker[PORTION, h] = 0
        if rows:
            count = _grow_rows(s, i, count, now)
    _grow_own(s, count, now)


def _take_together(s: Any, first: int, now: int, specials: int) -> None:
    """The iterations of several workers that end now; that of the first is followed already."""
    g = s.g[0]
    count = 0
    ending = 0
    i = first
    while True:
        w = s.workers[i]
        if w.sync_decodes > 0:
            phase = (w.sync_steps - 1) & 15
            for h in range(g.holders):
                s.by_worker[PORTION, h] += s.copies[i, phase, h]
            s.by_worker[ENDING, ending] = i
            ending += 1
            count = _own_wants(s, i, count)
        i = s.trees[SYNCS, 1]
        if s.by_worker[SYNC_NEXT, i] != now:
            break
        _next_iteration(s, i, now)
    count = _specials_want(s, specials, count)
    for h in range(g.holders):
        s.by_worker[PAGES, h] = 1 if s.by_worker[PORTION, h] > s.by_worker[FREE, h] else 0
        s.by_worker[PORTION, h] = 0
    for j in range(ending):
        i = s.by_worker[ENDING, j]
        if s.workers[i].regular > 0:
            count = _grow_rows(s, i, count, now)
    _grow_own(s, count, now)


def _grow_rows(s: Any, i: int, count: int, now: int) -> int:
    """The rows of server i, where ``PAGES`` says which holders are short.

    Returns:
        The number of candidates with those that have left their rows.
    """
    g = s.g[0]
    w = s.workers[i]
    phase = (w.sync_steps - 1) & 15
    grown = 0
    short = 0
    for h in range(g.holders):
        roomy = 1 - s.by_worker[PAGES, h]
        members = s.copies[i, TOTAL, h] * roomy
        s.by_worker[FREE, h] -= s.copies[i, phase, h] * roomy
        s.by_worker[HELD, h] += members
        grown += members
        if roomy == 0:
            s.by_worker[SHORT, short] = h
            short += 1
    g.sent_tokens += grown
    _count_arrived(g, grown, now)
    if short > 0:
        count = _grow_short(s, i, short, count, now)
    w.sync_wrote = now  # not before: members that left their rows have not grown yet
    return count


def _grow_short(s: Any, i: int, short: int, count: int, now: int) -> int:
    """The rows of server i at holders that are short: only members that need no page grow by count.

    Returns:
        The number of candidates with those that have left their rows.
    """
    g = s.g[0]
    step = s.workers[i].sync_steps - 1
    grown = 0
    for j in range(short):
        h = s.by_worker[SHORT, j]
        if s.copies[i, TOTAL, h] > 0:
            s.by_worker[PAGES, h] = 1
            if g.eviction != 0:
                g.sent_tokens += s.copies[i, TOTAL, h]
                count = expand(s, i, h, step, count, step + 1)
            else:
                count = _stop_short(s, i, h, step, count)
                s.by_worker[HELD, h] += s.copies[i, TOTAL, h]
                grown += s.copies[i, TOTAL, h]
    g.sent_tokens += grown
    _count_arrived(g, grown, now)
    return count


def _stop_short(s: Any, i: int, h: int, step: int, count: int) -> int:
    """Members of a row that open a page at a holder that is short become OWN copies.

    They send only where there is a page at all; returns the number of candidates with these.
    """
    g = s.g[0]
    c = s.heads[i, h]
    while c >= 0:
        following = s.slots[c].mate_next
        if s.slots[c].phase == step & 15:
            before = s.requests[c >> g.copy_shift].offset + step - 1
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
    if s.g[0].linked != 0:
        follow_links(s, t)
    else:
        _follow_iterations(s, t)


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
        i = s.trees[SYNCS, 1]
        _next_iteration(s, i, t)
        if s.by_worker[SYNC_NEXT, s.trees[SYNCS, 1]] == t:
            _take_together(s, i, t, g.specials)
        else:
            count = _own_wants(s, i, 0) if s.workers[i].sync_decodes > 0 else 0
            _take_alone(s, i, _specials_want(s, g.specials, count), t)
        g.sync_min = s.by_worker[SYNC_NEXT, s.trees[SYNCS, 1]]
    g.specials = 0
