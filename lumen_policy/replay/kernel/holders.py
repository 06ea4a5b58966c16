"""A holder that fails: what it held, what was on its way, and the restores that read from it."""

from __future__ import annotations

from typing import Any

from lumen_policy.replay.kernel.books import integrate, refresh_hot
from lumen_policy.replay.kernel.checkpoints import release_old
from lumen_policy.replay.kernel.rows import freeze, make_own
from lumen_policy.replay.kernel.slots import forget_slot, lose_transfers
from lumen_policy.replay.kernel.state import (
    ALIVE,
    COPIES,
    DECODE,
    DONE,
    FAR,
    FREE,
    HELD,
    NEXT_RESTORE,
    OPEN,
    PREFILLS,
    RESTORED,
    RESTORES,
    RESTORING,
    RESTORINGS,
)
from lumen_policy.replay.kernel.stretch import look
from lumen_policy.replay.kernel.structures import tree_update

__all__ = ["close_books", "forget_holder", "grow_on", "reopen"]


def forget_holder(s: Any, i: int) -> None:
    """No request has a copy at worker i any more (its books are the caller's)."""
    g = s.g[0]
    while s.by_worker[COPIES, i] >= 0:
        c = s.by_worker[COPIES, i]
        forget_slot(s, c)
        s.requests[c >> g.copy_shift].lost = 1
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.old_saved >= 0 and s.recovery[r].old_holder == i:
            q.old_saved = -1


def reopen(s: Any, i: int, kept: bool, t: int) -> None:
    """Open the books of worker i: it holds what its requests still have there, nothing unless it ``kept`` them."""
    g = s.g[0]
    held = 0
    pages = 0
    if kept:
        c = s.by_worker[COPIES, i]
        while c >= 0:
            held += s.slots[c].arrived
            pages += (s.slots[c].arrived + 15) >> 4
            c = s.slots[c].peer_next
        for r in range(g.oldest, g.next_arrival):
            past = s.recovery[r]
            if s.requests[r].old_saved >= 0 and past.old_holder == i:
                held += past.old_arrived
                pages += (past.old_arrived + 15) >> 4
    change = held - s.by_worker[HELD, i]
    integrate(g, change, t)
    g.released_tokens -= change
    s.by_worker[HELD, i] = held
    s.by_worker[FREE, i] = g.budget_pages - pages
    s.by_worker[OPEN, i] = 1
    refresh_hot(s, i)


def _stop_restore(s: Any, r: int, t: int) -> None:
    """A restore under way does not come to its end: the request recomputes, from the next boundary on."""
    q = s.requests[r]
    i = q.server
    w = s.workers[i]
    kept = 0
    for j in range(w.restoring):
        if s.batches[RESTORINGS, i, j] != r:
            s.batches[RESTORINGS, i, kept] = s.batches[RESTORINGS, i, j]
            kept += 1
    w.restoring = kept
    if s.by_worker[ALIVE, i] != 0:
        s.by_worker[NEXT_RESTORE, i] = s.recovery[s.batches[RESTORINGS, i, 0]].until if kept > 0 else FAR
        tree_update(s.trees[RESTORES], s.by_worker[NEXT_RESTORE], i)
        look(s, i)
    release_old(s, r, t)
    q.kv = 0
    q.state = RESTORED
    s.batches[PREFILLS, i, w.prefilling] = r
    w.prefilling += 1
    w.restored += 1


def close_books(s: Any, i: int, t: int) -> None:
    """Worker i crashed, fell silent or stopped: nothing arrives there, and restores from it elsewhere fail."""
    g = s.g[0]
    s.by_worker[OPEN, i] = 0
    refresh_hot(s, i)
    lose_transfers(s, i)
    c = s.by_worker[COPIES, i]
    while c >= 0:
        freeze(s, c)
        c = s.slots[c].peer_next
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state != DONE and q.old_saved >= 0 and s.recovery[r].old_holder == i and q.server != i:
            if q.state == RESTORING:
                _stop_restore(s, r, t)
            else:
                release_old(s, r, t)
    s.workers[i].nic_free = 0


def grow_on(s: Any, i: int) -> None:
    """Worker i is back; the copies it kept grow again."""
    g = s.g[0]
    refresh_hot(s, i)
    c = s.by_worker[COPIES, i]
    while c >= 0:
        if s.requests[c >> g.copy_shift].state == DECODE:
            make_own(s, c)
        c = s.slots[c].peer_next
