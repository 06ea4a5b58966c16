"""What is under way: each worker has a list for its egress link and, as a holder, one for its ingress link.

First in, first out. An item is a copy, by its number, or a row (``rows``), whose slot lies behind those of the copies.
"""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.kernel.state import (
    EGRESS,
    FAR,
    LEAVES,
    LINK_HEAD,
    LINK_NEXT,
    LINK_TAIL,
    NOWHERE,
)
from lumen_policy.replay.kernel.structures import tree_update

__all__ = ["append", "cut_off", "put_behind", "retime", "take_off", "take_place"]


@inline
def _owner(slot: Any, link: int) -> int:
    """Whose link an item is on."""
    return slot.server if link == EGRESS else slot.holder


@inline
def retime(s: Any, link: int, owner: int) -> None:
    """A link's first transfer changed."""
    head = s.by_worker[LINK_HEAD + link, owner]
    s.by_worker[LINK_NEXT + link, owner] = s.slots[head].at if head >= 0 else FAR
    if link == EGRESS:
        tree_update(s.trees[LEAVES], s.by_worker[LINK_NEXT + EGRESS], owner)


@inline
def append(s: Any, link: int, owner: int, item: int, at: int) -> None:
    """Put an item at the end of a link's list, to be through at ``at``; the link is retimed by the caller."""
    slot = s.slots[item]
    tail = s.by_worker[LINK_TAIL + link, owner]
    slot.at = at
    slot.place = link
    slot.next = -1
    slot.last = tail
    if tail >= 0:
        s.slots[tail].next = item
    else:
        s.by_worker[LINK_HEAD + link, owner] = item
    s.by_worker[LINK_TAIL + link, owner] = item


@inline
def cut_off(s: Any, link: int, owner: int, item: int) -> None:
    """The item (-1: none) is the first of a link's list from now on, and the link is timed by it."""
    s.by_worker[LINK_HEAD + link, owner] = item
    if item >= 0:
        s.slots[item].last = -1
    else:
        s.by_worker[LINK_TAIL + link, owner] = -1
    retime(s, link, owner)


def put_behind(s: Any, item: int, new: int) -> None:
    """A new item travels with one that is under way, right behind it."""
    slot = s.slots[item]
    added = s.slots[new]
    added.at = slot.at
    added.place = slot.place
    added.last = item
    added.next = slot.next
    if slot.next >= 0:
        s.slots[slot.next].last = new
    else:
        s.by_worker[LINK_TAIL + slot.place, _owner(slot, slot.place)] = new
    slot.next = new


def _mend(s: Any, item: int, before: int, after: int) -> None:
    """Let the neighbours of an item see ``before`` behind them and ``after`` ahead."""
    slot = s.slots[item]
    link = slot.place
    owner = _owner(slot, link)
    if slot.next >= 0:
        s.slots[slot.next].last = before
    else:
        s.by_worker[LINK_TAIL + link, owner] = before
    if slot.last >= 0:
        s.slots[slot.last].next = after
    else:
        s.by_worker[LINK_HEAD + link, owner] = after


def take_off(s: Any, item: int) -> None:
    """An item is no longer under way, if it was."""
    slot = s.slots[item]
    link = slot.place
    if link != NOWHERE:
        _mend(s, item, slot.last, slot.next)
        slot.place = NOWHERE
        retime(s, link, _owner(slot, link))


def take_place(s: Any, item: int, new: int) -> None:
    """Item ``new`` is about to be a copy of an item: let the neighbours see it."""
    if s.slots[item].place != NOWHERE:
        _mend(s, item, new, new)
