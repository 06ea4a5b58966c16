"""A copy's slot: opened, moved, forgotten; each worker has a list of the copies it holds."""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.kernel.books import give_back
from lumen_policy.replay.kernel.rows import arrived_tokens, freeze, leave_own, leave_row, row_item
from lumen_policy.replay.kernel.state import (
    COPIES,
    COUNTED,
    EGRESS,
    INGRESS,
    LINK_FREE,
    NOWHERE,
    OWN,
    STILL,
    TOTAL,
)
from lumen_policy.replay.kernel.transfers import take_off, take_place

__all__ = ["drop_copies", "forget_slot", "lose_transfers", "move_slot", "open_slot", "take_old_slot"]


@inline
def _join_holder(s: Any, c: int, holder: int) -> None:
    """Copy c is one of its holder's."""
    slot = s.slots[c]
    slot.holder = holder
    first = s.by_worker[COPIES, holder]
    slot.peer_next = first
    slot.peer_last = -1
    if first >= 0:
        s.slots[first].peer_last = c
    s.by_worker[COPIES, holder] = c


@inline
def _leave_holder(s: Any, c: int) -> None:
    """Copy c is no more."""
    slot = s.slots[c]
    if slot.peer_next >= 0:
        s.slots[slot.peer_next].peer_last = slot.peer_last
    if slot.peer_last >= 0:
        s.slots[slot.peer_last].peer_next = slot.peer_next
    else:
        s.by_worker[COPIES, slot.holder] = slot.peer_next
    slot.holder = -1
    slot.arrived = 0
    slot.sent = 0


def open_slot(s: Any, r: int, which: int, holder: int, t: int) -> None:
    """A request has a holder from now on, and nothing there yet."""
    c = r * s.g[0].replicas + which
    slot = s.slots[c]
    _join_holder(s, c, holder)
    slot.server = s.requests[r].server
    slot.growth = STILL
    slot.arrived = 0
    slot.sent = 0
    slot.opened = t
    slot.wrote = -1


def _lose(s: Any, c: int) -> None:
    """What is under way for a copy is lost."""
    slot = s.slots[c]
    s.g[0].lost_tokens += slot.sent - slot.arrived
    slot.sent = slot.arrived
    take_off(s, c)


def _lose_row(s: Any, i: int, h: int) -> None:
    """What is under way for a row is lost."""
    g = s.g[0]
    item = row_item(g, i, h)
    row = s.slots[item]
    if row.place != NOWHERE:
        g.lost_tokens += (row.sent - row.arrived) * s.copies[i, TOTAL, h]
        row.sent = row.arrived
        take_off(s, item)


def forget_slot(s: Any, c: int) -> None:
    """A copy is no more; its holder's books are the caller's."""
    g = s.g[0]
    slot = s.slots[c]
    if slot.growth == COUNTED:
        arrived = arrived_tokens(s, c)
        i = slot.server
        h = slot.holder
        leave_row(s, c, arrived, arrived)
        if g.linked != 0:
            item = row_item(g, i, h)
            row = s.slots[item]
            g.lost_tokens += row.sent - row.arrived
            if s.copies[i, TOTAL, h] == 0:
                take_off(s, item)
                row.sent = row.arrived
    else:
        if slot.growth == OWN:
            leave_own(s, c)
        _lose(s, c)
    _leave_holder(s, c)


def drop_copies(s: Any, r: int, kept: int, t: int) -> None:
    """Drop a request's copies; the one at ``kept`` (-1: none) becomes its old copy.

    The accounting must have followed up to t - 1 at least.
    """
    replicas = s.g[0].replicas
    for c in range(r * replicas, (r + 1) * replicas):
        holder = s.slots[c].holder
        if holder >= 0:
            arrived = arrived_tokens(s, c)
            forget_slot(s, c)
            if holder != kept:
                give_back(s, holder, arrived, t)
            else:
                s.recovery[r].old_opened = s.slots[c].opened
                s.recovery[r].old_wrote = s.slots[c].wrote


def take_old_slot(s: Any, r: int) -> None:
    """An interrupted request that had not restored yet: its old copy is its copy again, the new one held nothing."""
    replicas = s.g[0].replicas
    q = s.requests[r]
    if q.old_saved < 0:
        return
    for c in range(r * replicas, (r + 1) * replicas):
        if s.slots[c].holder >= 0:
            forget_slot(s, c)
    past = s.recovery[r]
    slot = s.slots[r * replicas]
    _join_holder(s, r * replicas, past.old_holder)
    slot.server = q.server
    slot.arrived = past.old_arrived
    slot.sent = past.old_arrived
    slot.opened = past.old_opened
    slot.wrote = past.old_wrote
    q.old_saved = -1


def move_slot(s: Any, a: int, b: int) -> None:
    """Copy number a becomes number b, wherever it is under way; it does not grow until it is told to."""
    freeze(s, a)
    take_place(s, a, b)
    old = s.slots[a]
    s.slots[b] = old
    holder = old.holder
    old.place = NOWHERE
    _leave_holder(s, a)
    _join_holder(s, b, holder)


def lose_transfers(s: Any, i: int) -> None:
    """Worker i failed: everything under way from it or to it is lost, and its links are free."""
    g = s.g[0]
    if g.linked == 0:
        return
    for r in range(g.oldest, g.next_arrival):
        for c in range(r * g.replicas, (r + 1) * g.replicas):
            slot = s.slots[c]
            if slot.place != NOWHERE and (slot.holder == i or s.requests[r].server == i):
                _lose(s, c)
    for j in range(g.workers):
        _lose_row(s, i, j)
        _lose_row(s, j, i)
    _lose_row(s, i, g.workers)
    s.by_worker[LINK_FREE + EGRESS, i] = 0
    s.by_worker[LINK_FREE + INGRESS, i] = 0
