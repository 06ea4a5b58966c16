"""How copies grow: most by count, row by row; the others each by its own number.

A *row* is the copies that one server's decoding requests have at one holder and that have caught up: all of them have
what existed at the same decode step of the server, so an iteration adds a token to each and costs two rows of counters.
``State.copies`` counts a row's members by the step at which they open a page, and ``State.heads`` lists them. Without
links a row is always at its server's ``sync_steps``; with links it has a slot of its own that travels for its members,
``arrived`` and ``sent`` being steps.

A copy that is short of pages, that is behind, or whose server is assisted is an OWN one, in its server's list. Every
copy of a decoding request at a holder that is alive is in a row or OWN; the others do not grow.
"""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.kernel.books import refresh_hot
from lumen_policy.replay.kernel.state import (
    ALIVE,
    CANDIDATES,
    COUNTED,
    DECODE,
    EXPLICIT_AT,
    NOWHERE,
    OWN,
    PARTIAL,
    STILL,
    TOTAL,
)
from lumen_policy.replay.kernel.transfers import put_behind, take_off

__all__ = [
    "arrived_tokens",
    "expand",
    "freeze",
    "freeze_copies",
    "grow_copies",
    "has_partial_page",
    "join_row",
    "leave_own",
    "leave_row",
    "make_own",
    "opened_by_row",
    "row_item",
    "row_step",
    "wrote_at",
]


@inline
def row_item(g: Any, i: int, h: int) -> int:
    """The slot of the row of server i at holder h, where links take time."""
    return g.copies + i * (g.workers + 1) + h


@inline
def row_step(s: Any, i: int, h: int) -> int:
    """Up to which decode step of server i its row at holder h has arrived."""
    g = s.g[0]
    if g.linked != 0:
        return s.slots[row_item(g, i, h)].arrived
    return s.workers[i].sync_steps


@inline
def arrived_tokens(s: Any, c: int) -> int:
    """Tokens of a copy, as far as the accounting has come."""
    slot = s.slots[c]
    if slot.growth != COUNTED:
        return slot.arrived
    return s.requests[c >> s.g[0].copy_shift].offset + row_step(s, slot.server, slot.holder) - 1


@inline
def wrote_at(s: Any, c: int) -> int:
    """When a copy last grew."""
    slot = s.slots[c]
    if slot.growth != COUNTED:
        return slot.wrote
    g = s.g[0]
    if g.linked != 0:
        return max(slot.wrote, s.slots[row_item(g, slot.server, slot.holder)].wrote)
    return max(slot.wrote, s.workers[slot.server].sync_wrote)


@inline
def opened_by_row(s: Any, i: int, h: int, begin: int, end: int) -> int:
    """Pages that the row of server i at holder h opens from one decode step to another."""
    steps = end - begin
    pages = (steps >> 4) * s.copies[i, TOTAL, h]
    for step in range(begin, begin + (steps & 15)):
        pages += s.copies[i, step & 15, h]
    return pages


@inline
def has_partial_page(slot: Any) -> int:
    return 1 if slot.arrived & 15 != 0 else 0


def join_row(s: Any, c: int) -> None:
    """An OWN copy, nothing of it under way, grows by count again if it has caught up with its row."""
    g = s.g[0]
    slot = s.slots[c]
    if slot.growth != OWN:
        return
    i = slot.server
    h = slot.holder
    q = s.requests[c >> g.copy_shift]
    w = s.workers[i]
    if w.by_number != 0:
        return
    step = slot.arrived + 1 - q.offset
    if g.linked != 0:
        row = s.slots[row_item(g, i, h)]
        if s.copies[i, TOTAL, h] == 0:
            row.arrived = step
            row.sent = step
        elif row.place != NOWHERE or row.arrived != step:
            return
    elif step != w.sync_steps:
        return
    leave_own(s, c)
    slot.phase = (1 - q.offset) & 15
    s.copies[i, TOTAL, h] += 1
    s.copies[i, slot.phase, h] += 1
    w.regular += 1
    first = s.heads[i, h]
    slot.mate_next = first
    slot.mate_last = -1
    if first >= 0:
        s.slots[first].mate_last = c
    s.heads[i, h] = c
    slot.growth = COUNTED


def leave_row(s: Any, c: int, arrived: int, sent: int) -> None:
    """A copy is counted no more; its numbers are written down, what is under way is the caller's."""
    slot = s.slots[c]
    i = slot.server
    h = slot.holder
    s.copies[i, TOTAL, h] -= 1
    s.copies[i, slot.phase, h] -= 1
    s.workers[i].regular -= 1
    if slot.mate_next >= 0:
        s.slots[slot.mate_next].mate_last = slot.mate_last
    if slot.mate_last >= 0:
        s.slots[slot.mate_last].mate_next = slot.mate_next
    else:
        s.heads[i, h] = slot.mate_next
    slot.wrote = wrote_at(s, c)
    slot.growth = STILL
    slot.arrived = arrived
    slot.sent = sent


def _split_off(s: Any, c: int) -> None:
    """A copy leaves its row and takes its part of what is under way with it."""
    g = s.g[0]
    slot = s.slots[c]
    offset = s.requests[c >> g.copy_shift].offset
    if g.linked == 0:
        arrived = offset + s.workers[slot.server].sync_steps - 1
        leave_row(s, c, arrived, arrived)
        return
    item = row_item(g, slot.server, slot.holder)
    row = s.slots[item]
    leave_row(s, c, offset + row.arrived - 1, offset + row.sent - 1)
    if row.place != NOWHERE:
        put_behind(s, item, c)
        if s.copies[slot.server, TOTAL, slot.holder] == 0:
            take_off(s, item)
            row.sent = row.arrived


def make_own(s: Any, c: int) -> None:
    """Let a copy of a decoding request grow by its own number from now on."""
    slot = s.slots[c]
    h = slot.holder
    if slot.growth == OWN or h < 0 or s.by_worker[ALIVE, h] == 0:
        return
    if slot.growth == COUNTED:
        _split_off(s, c)
    w = s.workers[slot.server]
    s.own[slot.server, w.own] = (h << 32) | c
    slot.mate_next = w.own
    w.own += 1
    slot.growth = OWN
    s.by_worker[EXPLICIT_AT, h] += 1
    s.by_worker[PARTIAL, h] += has_partial_page(slot)
    refresh_hot(s, h)


def leave_own(s: Any, c: int) -> None:
    """A copy does not grow any more by its own number."""
    slot = s.slots[c]
    h = slot.holder
    w = s.workers[slot.server]
    w.own -= 1
    last = s.own[slot.server, w.own]
    s.own[slot.server, slot.mate_next] = last
    s.slots[last & 0xFFFFFFFF].mate_next = slot.mate_next
    slot.growth = STILL
    s.by_worker[EXPLICIT_AT, h] -= 1
    s.by_worker[PARTIAL, h] -= has_partial_page(slot)
    refresh_hot(s, h)


def freeze(s: Any, c: int) -> None:
    """A copy stops growing and keeps what has arrived; what is under way goes on."""
    growth = s.slots[c].growth
    if growth == COUNTED:
        _split_off(s, c)
    elif growth == OWN:
        leave_own(s, c)


def freeze_copies(s: Any, r: int) -> None:
    """The copies of a request stop growing."""
    replicas = s.g[0].replicas
    for c in range(r * replicas, (r + 1) * replicas):
        freeze(s, c)


def grow_copies(s: Any, r: int) -> None:
    """The copies of a decoding request grow."""
    if s.requests[r].state != DECODE:
        return
    replicas = s.g[0].replicas
    for c in range(r * replicas, (r + 1) * replicas):
        make_own(s, c)


def expand(s: Any, i: int, h: int, before: int, count: int, sent: int) -> int:
    """All members of a row become OWN copies and candidates.

    Args:
        s: the state.
        i: the server.
        h: the holder.
        before: the decode step up to which they have arrived.
        count: candidates so far.
        sent: the decode step up to which something is sent.

    Returns:
        The number of candidates with theirs.
    """
    while s.heads[i, h] >= 0:
        c = s.heads[i, h]
        offset = s.requests[c >> s.g[0].copy_shift].offset
        leave_row(s, c, offset + before - 1, offset + sent - 1)
        make_own(s, c)
        s.scratch[CANDIDATES, count] = c
        count += 1
    return count
