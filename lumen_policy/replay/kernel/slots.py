"""A copy's slot: opened, moved, forgotten, and its place on the links while tokens are under way for it.

Each worker has two lists, first in, first out: its egress link's, and as a holder its ingress link's; and a list of the
copies it holds.
"""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.kernel.books import give_back
from lumen_policy.replay.kernel.state import (
    COPIES,
    EGRESS,
    FAR,
    INGRESS,
    LEAVES,
    LINK_FREE,
    LINK_HEAD,
    LINK_NEXT,
    LINK_TAIL,
    NOWHERE,
)
from lumen_policy.replay.kernel.structures import tree_update

__all__ = [
    "append",
    "cut_off",
    "drop_slots",
    "forget_slot",
    "lose_transfers",
    "move_slot",
    "open_slot",
    "retime",
    "take_old_slot",
]


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


@inline
def open_slot(s: Any, r: int, which: int, holder: int, t: int) -> None:
    """A request has a holder from now on, and nothing there yet."""
    c = r * s.g[0].replicas + which
    slot = s.slots[c]
    _join_holder(s, c, holder)
    slot.arrived = 0
    slot.sent = 0
    slot.opened = t
    slot.wrote = -1


@inline
def retime(s: Any, link: int, owner: int) -> None:
    """A link's first transfer changed."""
    head = s.by_worker[LINK_HEAD + link, owner]
    s.by_worker[LINK_NEXT + link, owner] = s.slots[head].at if head >= 0 else FAR
    if link == EGRESS:
        tree_update(s.trees[LEAVES], s.by_worker[LINK_NEXT + EGRESS], owner)


@inline
def append(s: Any, link: int, owner: int, c: int, at: int) -> None:
    """Put a slot at the end of a link's list, to be through at ``at``; the link is retimed by the caller."""
    slot = s.slots[c]
    tail = s.by_worker[LINK_TAIL + link, owner]
    slot.at = at
    slot.place = link
    slot.next = -1
    slot.last = tail
    if tail >= 0:
        s.slots[tail].next = c
    else:
        s.by_worker[LINK_HEAD + link, owner] = c
    s.by_worker[LINK_TAIL + link, owner] = c


@inline
def cut_off(s: Any, link: int, owner: int, c: int) -> None:
    """Slot c (-1: none) is the first of a link's list from now on, and the link is timed by it."""
    s.by_worker[LINK_HEAD + link, owner] = c
    if c >= 0:
        s.slots[c].last = -1
    else:
        s.by_worker[LINK_TAIL + link, owner] = -1
    retime(s, link, owner)


def _mend(s: Any, c: int, before: int, after: int) -> Any:
    """Let the neighbours of slot c see ``before`` behind them and ``after`` ahead; returns the link's owner."""
    slot = s.slots[c]
    link = slot.place
    owner = s.requests[c // s.g[0].replicas].server if link == EGRESS else slot.holder
    if slot.next >= 0:
        s.slots[slot.next].last = before
    else:
        s.by_worker[LINK_TAIL + link, owner] = before
    if slot.last >= 0:
        s.slots[slot.last].next = after
    else:
        s.by_worker[LINK_HEAD + link, owner] = after
    return owner


def _lose(s: Any, c: int) -> None:
    """What is under way for a copy is lost."""
    slot = s.slots[c]
    s.g[0].lost_tokens += slot.sent - slot.arrived
    slot.sent = slot.arrived
    link = slot.place
    if link != NOWHERE:
        owner = _mend(s, c, slot.last, slot.next)
        slot.place = NOWHERE
        retime(s, link, owner)


def forget_slot(s: Any, c: int) -> None:
    """A copy is no more; its holder's books are the caller's."""
    _lose(s, c)
    _leave_holder(s, c)


def drop_slots(s: Any, r: int, kept: int, t: int) -> None:
    """Drop the copies of a request; the one at ``kept`` becomes its old copy."""
    replicas = s.g[0].replicas
    for c in range(r * replicas, (r + 1) * replicas):
        holder = s.slots[c].holder
        if holder >= 0:
            arrived = s.slots[c].arrived
            forget_slot(s, c)
            if holder != kept:
                give_back(s, holder, arrived, t)
            else:
                s.requests[r].old_opened = s.slots[c].opened
                s.requests[r].old_wrote = s.slots[c].wrote


def take_old_slot(s: Any, r: int) -> None:
    """A request's old copy is its first one again, the only one."""
    replicas = s.g[0].replicas
    q = s.requests[r]
    for c in range(r * replicas, (r + 1) * replicas):
        if s.slots[c].holder >= 0:
            forget_slot(s, c)
    slot = s.slots[r * replicas]
    _join_holder(s, r * replicas, q.old_holder)
    slot.arrived = q.old_arrived
    slot.sent = q.old_arrived
    slot.opened = q.old_opened
    slot.wrote = q.old_wrote


def move_slot(s: Any, a: int, b: int) -> None:
    """Copy number a becomes number b, wherever it is under way."""
    old = s.slots[a]
    if old.place != NOWHERE:
        _mend(s, a, b, b)
    s.slots[b] = old
    holder = old.holder
    old.place = NOWHERE
    _leave_holder(s, a)
    _join_holder(s, b, holder)


def lose_transfers(s: Any, i: int) -> None:
    """Worker i failed: everything under way from it or to it is lost, and its links are free."""
    g = s.g[0]
    for r in range(g.oldest, g.next_arrival):
        for c in range(r * g.replicas, (r + 1) * g.replicas):
            slot = s.slots[c]
            if slot.place != NOWHERE and (slot.holder == i or s.requests[r].server == i):
                _lose(s, c)
    s.by_worker[LINK_FREE + EGRESS, i] = 0
    s.by_worker[LINK_FREE + INGRESS, i] = 0
