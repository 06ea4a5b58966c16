"""A holder that fails: what it held, what was on its way, and the restores that read from it."""

from __future__ import annotations

from typing import Any

from lumen_policy.replay.kernel.books import integrate, refresh_hot
from lumen_policy.replay.kernel.checkpoints import freeze, make_explicit, release_old
from lumen_policy.replay.kernel.slots import forget_slot, lose_transfers
from lumen_policy.replay.kernel.state import (
    ALIVE,
    DECODE,
    DONE,
    FAR,
    FREE,
    HELD,
    NEXT_RESTORE,
    NO_COPY,
    OPEN,
    PREFILLS,
    RESTORED,
    RESTORES,
    RESTORING,
    RESTORINGS,
    STATIC,
)
from lumen_policy.replay.kernel.stretch import look
from lumen_policy.replay.kernel.structures import tree_update

__all__ = ["close_books", "forget_holder", "grow_on", "reopen"]


def forget_holder(s: Any, i: int) -> None:
    """No request has a copy at worker i any more (its books are the caller's)."""
    g = s.g[0]
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state == DONE:
            continue
        if g.slotted != 0:
            for c in range(r * g.replicas, (r + 1) * g.replicas):
                if s.slots[c].holder == i:
                    forget_slot(s, c)
                    q.lost = 1
        elif q.holder == i:
            freeze(s, r)
            q.holder = -1
            q.growth = NO_COPY
            q.arrived = 0
            q.lost = 1
        if q.old_saved >= 0 and q.old_holder == i:
            q.old_saved = -1
            q.old_arrived = 0


def reopen(s: Any, i: int, kept: bool, t: int) -> None:
    """Open the books of worker i: it holds what its requests still have there, nothing unless it ``kept`` them."""
    g = s.g[0]
    held = 0
    pages = 0
    for r in range(g.oldest if kept else g.next_arrival, g.next_arrival):
        q = s.requests[r]
        if q.state == DONE:
            continue
        if g.slotted != 0:
            for c in range(r * g.replicas, (r + 1) * g.replicas):
                if s.slots[c].holder == i:
                    held += s.slots[c].arrived
                    pages += (s.slots[c].arrived + 15) >> 4
        elif q.holder == i:
            held += q.arrived
            pages += (q.arrived + 15) >> 4
        if q.old_saved >= 0 and q.old_holder == i:
            held += q.old_arrived
            pages += (q.old_arrived + 15) >> 4
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
        s.by_worker[NEXT_RESTORE, i] = s.requests[s.batches[RESTORINGS, i, 0]].until if kept > 0 else FAR
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
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state == DONE:
            continue
        if g.slotted == 0 and q.holder == i:
            freeze(s, r)
        if q.old_saved >= 0 and q.old_holder == i and q.server != i:
            if q.state == RESTORING:
                _stop_restore(s, r, t)
            else:
                release_old(s, r, t)
    if g.slotted != 0:
        lose_transfers(s, i)
    s.workers[i].nic_free = 0


def grow_on(s: Any, i: int, kept: bool) -> None:
    """Worker i is back; the copies it ``kept`` grow again."""
    g = s.g[0]
    refresh_hot(s, i)
    if g.slotted != 0 or not kept:
        return
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state == DECODE and q.holder == i and q.growth == STATIC:
            make_explicit(s, r)
