"""Checkpoint traffic, copy by copy: what servers send, when it leaves and arrives, and what has to go for it.

The accounting is lazy, as in ``checkpoints``: ``follow_links`` takes the ends of iterations and the events of the
links in their true order up to an instant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lumen_policy.replay.contract import EvictionOrder
from lumen_policy.replay.kernel.books import give_back, integrate, skip_done
from lumen_policy.replay.kernel.jit import compile_inline, compile_plain
from lumen_policy.replay.kernel.state import (
    ALIVE,
    CANDIDATES,
    COMPLETIONS,
    EGRESS,
    EGRESS_NEXT,
    FAR,
    FREE,
    HELD,
    INGRESS,
    INGRESS_NEXT,
    KV_TOKENS,
    NOWHERE,
    ON_EGRESS,
    ON_INGRESS,
    PAGES,
    PORTION,
    PREFILL,
    SPECIALS,
    SYNC_NEXT,
    SYNCS,
)
from lumen_policy.replay.kernel.structures import sort_keys, tree_update

__all__ = [
    "drop_slots",
    "follow_links",
    "forget_slot",
    "lose_transfers",
    "move_slot",
    "open_slot",
    "take_old_slot",
]

_LEAST_RECENT, _SHORTEST = int(EvictionOrder.LEAST_RECENT), int(EvictionOrder.SHORTEST)
_LOW = 0xFFFFFFFF


@compile_inline
def open_slot(s: Any, r: int, which: int, holder: int, t: int) -> None:
    slot = s.slots[r * s.g[0].replicas + which]
    slot.holder = holder
    slot.arrived = 0
    slot.sent = 0
    slot.opened = t
    slot.wrote = -1


@compile_plain
def _retime(s: Any, owner: int, row: int) -> None:
    """A link's first transfer changed."""
    w = s.workers[owner]
    if row == EGRESS:
        head = w.egress_head
        s.by_worker[EGRESS_NEXT, owner] = s.slots[head].at if head >= 0 else FAR
        tree_update(s.link_trees[EGRESS], s.by_worker[EGRESS_NEXT], owner)
    else:
        head = w.ingress_head
        s.by_worker[INGRESS_NEXT, owner] = s.slots[head].at if head >= 0 else FAR
        tree_update(s.link_trees[INGRESS], s.by_worker[INGRESS_NEXT], owner)
    s.g[0].link_next = min(
        s.by_worker[EGRESS_NEXT, s.link_trees[EGRESS, 1]], s.by_worker[INGRESS_NEXT, s.link_trees[INGRESS, 1]]
    )


@compile_inline
def _append(s: Any, owner: int, row: int, c: int) -> None:
    """Put a slot at the end of a link's list."""
    w = s.workers[owner]
    slot = s.slots[c]
    slot.next = -1
    if row == EGRESS:
        slot.place = ON_EGRESS
        slot.last = w.egress_tail
        if w.egress_tail >= 0:
            s.slots[w.egress_tail].next = c
        else:
            w.egress_head = c
        w.egress_tail = c
    else:
        slot.place = ON_INGRESS
        slot.last = w.ingress_tail
        if w.ingress_tail >= 0:
            s.slots[w.ingress_tail].next = c
        else:
            w.ingress_head = c
        w.ingress_tail = c


@compile_plain
def _unlink(s: Any, c: int) -> None:
    """Take a slot off the link it is on."""
    slot = s.slots[c]
    owner = np.int64(slot.holder)
    if slot.place == ON_EGRESS:
        owner = np.int64(s.requests[c // s.g[0].replicas].server)
    w = s.workers[owner]
    if slot.next >= 0:
        s.slots[slot.next].last = slot.last
    elif slot.place == ON_EGRESS:
        w.egress_tail = slot.last
    else:
        w.ingress_tail = slot.last
    if slot.last >= 0:
        s.slots[slot.last].next = slot.next
    elif slot.place == ON_EGRESS:
        w.egress_head = slot.next
    else:
        w.ingress_head = slot.next
    row = EGRESS if slot.place == ON_EGRESS else INGRESS
    slot.place = NOWHERE
    slot.next = -1
    slot.last = -1
    _retime(s, owner, row)


@compile_plain
def _lose(s: Any, c: int) -> None:
    """What is under way for a copy is lost."""
    slot = s.slots[c]
    s.g[0].lost_tokens += slot.sent - slot.arrived
    slot.sent = slot.arrived
    if slot.place != NOWHERE:
        _unlink(s, c)


@compile_plain
def forget_slot(s: Any, c: int) -> None:
    """A copy is no more; its holder's books are the caller's."""
    slot = s.slots[c]
    _lose(s, c)
    slot.holder = -1
    slot.arrived = 0
    slot.sent = 0


@compile_plain
def drop_slots(s: Any, r: int, kept: int, t: int) -> None:
    """Drop the copies of a request; the one at ``kept`` becomes its old copy."""
    replicas = s.g[0].replicas
    for c in range(r * replicas, (r + 1) * replicas):
        holder = np.int64(s.slots[c].holder)
        if holder >= 0:
            arrived = np.int64(s.slots[c].arrived)
            forget_slot(s, c)
            if holder != kept:
                give_back(s, holder, arrived, t)
            else:
                s.requests[r].old_opened = s.slots[c].opened
                s.requests[r].old_wrote = s.slots[c].wrote


@compile_plain
def take_old_slot(s: Any, r: int) -> None:
    """A request's old copy is its first one again, the only one."""
    replicas = s.g[0].replicas
    q = s.requests[r]
    for c in range(r * replicas, (r + 1) * replicas):
        if s.slots[c].holder >= 0:
            forget_slot(s, c)
    slot = s.slots[r * replicas]
    slot.holder = q.old_holder
    slot.arrived = q.old_arrived
    slot.sent = q.old_arrived
    slot.opened = q.old_opened
    slot.wrote = q.old_wrote


@compile_plain
def move_slot(s: Any, a: int, b: int) -> None:
    """Copy number a becomes number b, wherever it is under way."""
    g = s.g[0]
    old = s.slots[a]
    new = s.slots[b]
    new.holder = old.holder
    new.arrived = old.arrived
    new.sent = old.sent
    new.opened = old.opened
    new.wrote = old.wrote
    new.at = old.at
    new.place = old.place
    new.next = old.next
    new.last = old.last
    if old.place != NOWHERE:
        on_egress = old.place == ON_EGRESS
        owner = np.int64(s.requests[a // g.replicas].server) if on_egress else np.int64(old.holder)
        w = s.workers[owner]
        if old.next >= 0:
            s.slots[old.next].last = b
        elif on_egress:
            w.egress_tail = b
        else:
            w.ingress_tail = b
        if old.last >= 0:
            s.slots[old.last].next = b
        elif on_egress:
            w.egress_head = b
        else:
            w.ingress_head = b
    old.place = NOWHERE
    old.next = -1
    old.last = -1
    old.holder = -1
    old.arrived = 0
    old.sent = 0


@compile_plain
def lose_transfers(s: Any, i: int) -> None:
    """Worker i failed: everything under way from it or to it is lost, and its links are free."""
    g = s.g[0]
    w = s.workers[i]
    for r in range(g.oldest, g.next_arrival):
        for c in range(r * g.replicas, (r + 1) * g.replicas):
            slot = s.slots[c]
            if slot.place != NOWHERE and (slot.holder == i or s.requests[r].server == i):
                _lose(s, c)
    w.egress_free = 0
    w.ingress_free = 0


@compile_plain
def _send(s: Any, c: int, existing: int, count: int) -> int:
    """Let a copy send what it lacks; returns the number of candidates with it."""
    g = s.g[0]
    slot = s.slots[c]
    holder = np.int64(slot.holder)
    if holder < 0 or slot.place != NOWHERE or s.by_worker[ALIVE, holder] == 0:
        return count
    upto = existing
    if g.eviction == 0 and holder < g.workers:
        upto = min(upto, 16 * (((slot.arrived + 15) >> 4) + s.by_worker[FREE, holder]))
    if upto <= slot.arrived:
        return count
    g.sent_tokens += upto - slot.arrived
    slot.sent = upto
    s.scratch[CANDIDATES, count] = (holder << 32) | c
    return count + 1


@compile_plain
def _send_all(s: Any, i: int, now: int, count: int) -> int:
    """The iteration of worker i that ends now: its requests send; returns the number of candidates with theirs."""
    g = s.g[0]
    w = s.workers[i]
    replicas = g.replicas
    decodes = w.sync_decodes
    if decodes > 0:
        w.sync_steps += 1
        s.by_worker[KV_TOKENS, i] += decodes
    w.sync_left -= 1
    w.sync_duration += w.sync_growth
    s.by_worker[SYNC_NEXT, i] = now + w.sync_duration if w.sync_left > 0 else FAR
    tree_update(s.trees[SYNCS], s.by_worker[SYNC_NEXT], i)
    if decodes > 0:
        for j in range(w.decoding):
            r = s.batches[COMPLETIONS, i, j] & _LOW
            q = s.requests[r]
            if q.rested != 0:
                q.rested = 0
                continue
            for c in range(r * replicas, (r + 1) * replicas):
                count = _send(s, c, q.offset + w.sync_steps - 1, count)
    for j in range(g.specials):
        r = s.scratch[SPECIALS, j]
        q = s.requests[r]
        if q.server == i and (q.state == PREFILL or decodes == 0):
            for c in range(r * replicas, (r + 1) * replicas):
                count = _send(s, c, q.kv, count)
    return count


@compile_plain
def _leave(s: Any, i: int, count: int, now: int) -> None:
    """What worker i sends now queues on its egress link."""
    g = s.g[0]
    w = s.workers[i]
    sort_keys(s.scratch[CANDIDATES], count)
    tokens = 0
    for j in range(count):
        slot = s.slots[s.scratch[CANDIDATES, j] & _LOW]
        tokens += slot.sent - slot.arrived
    begin = max(now, w.egress_free)
    g.egress_wait_ps = max(g.egress_wait_ps, begin - now)
    w.egress_free = begin + g.egress_latency_ps + tokens * g.egress_token_ps
    for j in range(count):
        c = s.scratch[CANDIDATES, j] & _LOW
        s.slots[c].at = w.egress_free
        _append(s, i, EGRESS, c)
    _retime(s, i, EGRESS)


@compile_inline
def _pop(s: Any, w: Any, row: int) -> int:
    """Take the first slot off a link's list; the link is retimed by the caller."""
    if row == EGRESS:
        c = w.egress_head
        w.egress_head = s.slots[c].next
        if w.egress_head >= 0:
            s.slots[w.egress_head].last = -1
        else:
            w.egress_tail = -1
    else:
        c = w.ingress_head
        w.ingress_head = s.slots[c].next
        if w.ingress_head >= 0:
            s.slots[w.ingress_head].last = -1
        else:
            w.ingress_tail = -1
    s.slots[c].place = NOWHERE
    return c


@compile_inline
def _ingress_ps(g: Any, holder: int, tokens: int) -> int:
    """How long tokens take through the ingress link of a holder."""
    if holder == g.workers:
        return g.store_latency_ps + tokens * g.store_token_ps
    return tokens * g.ingress_token_ps


@compile_plain
def _pass_on(s: Any, i: int, now: int) -> None:
    """Transfers of worker i that leave now queue at their holders."""
    g = s.g[0]
    w = s.workers[i]
    while w.egress_head >= 0 and s.slots[w.egress_head].at == now:
        holder = np.int64(s.slots[w.egress_head].holder)
        tokens = 0
        c = w.egress_head
        while c >= 0 and s.slots[c].at == now and s.slots[c].holder == holder:
            tokens += s.slots[c].sent - s.slots[c].arrived
            c = np.int64(s.slots[c].next)
        h = s.workers[holder]
        begin = max(now, h.ingress_free)
        g.ingress_wait_ps = max(g.ingress_wait_ps, begin - now)
        h.ingress_free = begin + _ingress_ps(g, holder, tokens)
        while w.egress_head >= 0 and s.slots[w.egress_head].at == now:
            if s.slots[w.egress_head].holder != holder:
                break
            c = _pop(s, w, EGRESS)
            s.slots[c].at = h.ingress_free
            _append(s, holder, INGRESS, c)
        _retime(s, holder, INGRESS)
    _retime(s, i, EGRESS)


@compile_plain
def _straight(s: Any, i: int, now: int, count: int, limit: int) -> bool:
    """What worker i sends now arrives by ``limit``, before anything else happens: take it at once.

    False, and nothing done, where it does not, or where a holder is short of pages.
    """
    g = s.g[0]
    w = s.workers[i]
    tokens = 0
    for j in range(count):
        key = s.scratch[CANDIDATES, j]
        holder = key >> 32
        slot = s.slots[key & _LOW]
        portion = slot.sent - slot.arrived
        tokens += portion
        s.by_worker[PORTION, holder] += portion
        s.by_worker[PAGES, holder] += ((slot.sent + 15) >> 4) - ((slot.arrived + 15) >> 4)
    begin = max(now, w.egress_free)
    leaves = begin + g.egress_latency_ps + tokens * g.egress_token_ps
    latest = leaves
    fits = True
    for h in range(g.workers + 1):
        portion = s.by_worker[PORTION, h]
        if portion > 0:
            fits = fits and s.by_worker[PAGES, h] <= s.by_worker[FREE, h]
            latest = max(latest, max(leaves, s.workers[h].ingress_free) + _ingress_ps(g, h, portion))
    if not fits or latest > limit:
        for j in range(count):
            holder = s.scratch[CANDIDATES, j] >> 32
            s.by_worker[PORTION, holder] = 0
            s.by_worker[PAGES, holder] = 0
        return False
    if g.linked != 0:
        g.egress_wait_ps = max(g.egress_wait_ps, begin - now)
        w.egress_free = leaves
    for h in range(g.workers + 1):
        portion = s.by_worker[PORTION, h]
        if portion > 0:
            into = s.workers[h]
            arrives = max(leaves, into.ingress_free) + _ingress_ps(g, h, portion)
            if g.linked != 0:
                g.ingress_wait_ps = max(g.ingress_wait_ps, into.ingress_free - leaves)
                into.ingress_free = arrives
            s.by_worker[HELD, h] += portion
            s.by_worker[FREE, h] -= s.by_worker[PAGES, h]
            s.by_worker[PORTION, h] = 0
            s.by_worker[PAGES, h] = arrives
            if h < g.workers:
                integrate(g, portion, arrives)
    for j in range(count):
        key = s.scratch[CANDIDATES, j]
        slot = s.slots[key & _LOW]
        slot.arrived = slot.sent
        slot.wrote = s.by_worker[PAGES, key >> 32]
    for j in range(count):
        s.by_worker[PAGES, s.scratch[CANDIDATES, j] >> 32] = 0
    g.arrived_tokens += tokens
    return True


@compile_inline
def _is_less(g: Any, a: Any, b_arrived: int, b_opened: int, b_wrote: int, now: int) -> bool:
    """Whether copy a goes before one with these figures."""
    if g.eviction == _LEAST_RECENT:
        return a.wrote < b_wrote
    if g.eviction == _SHORTEST:
        return a.arrived < b_arrived
    age = np.int64(1) + ((now - a.opened) >> 30)
    other = np.int64(1) + ((now - b_opened) >> 30)
    return np.int64(a.arrived) * other < b_arrived * age


@compile_plain
def _evict_one(s: Any, c: int, now: int) -> bool:
    """Evict the least copy at the holder of copy c; False if there is none to evict."""
    g = s.g[0]
    slot = s.slots[c]
    holder = slot.holder
    best = -1
    skip_done(s)
    for v in range(g.oldest * g.replicas, g.next_arrival * g.replicas):
        other = s.slots[v]
        if v == c or other.holder != holder or other.arrived == 0:
            continue
        if g.eviction != _LEAST_RECENT and not _is_less(g, other, np.int64(slot.sent), slot.opened, 0, now):
            continue
        if best >= 0:
            b = s.slots[best]
            if not _is_less(g, other, np.int64(b.arrived), b.opened, b.wrote, now):
                continue
        best = v
    if best < 0:
        return False
    victim = s.slots[best]
    arrived = np.int64(victim.arrived)
    s.by_worker[HELD, holder] -= arrived
    s.by_worker[FREE, holder] += (arrived + 15) >> 4
    integrate(g, -arrived, now)
    g.evictions += 1
    g.evicted_tokens += arrived
    forget_slot(s, best)
    return True


@compile_plain
def _arrive(s: Any, c: int, now: int) -> None:
    """Grow a copy by what arrives, as far as the holder's pages go."""
    g = s.g[0]
    slot = s.slots[c]
    holder = np.int64(slot.holder)
    pages = (slot.arrived + 15) >> 4
    upto = np.int64(slot.sent)
    if g.eviction != 0:
        while 16 * (pages + s.by_worker[FREE, holder]) < upto and _evict_one(s, c, now):
            pass
    grown = min(upto, 16 * (pages + s.by_worker[FREE, holder]))
    change = grown - slot.arrived
    s.by_worker[HELD, holder] += change
    s.by_worker[FREE, holder] -= ((grown + 15) >> 4) - pages
    if holder < g.workers:
        integrate(g, change, now)
    g.arrived_tokens += change
    g.refused_tokens += upto - grown
    slot.arrived = grown
    slot.sent = grown
    slot.wrote = now


@compile_plain
def follow_links(s: Any, t: int) -> None:
    """Bring the traffic up to and including instant t."""
    g = s.g[0]
    while True:
        i = s.trees[SYNCS, 1]
        g.sync_min = s.by_worker[SYNC_NEXT, i]
        now = min(g.sync_min, g.link_next)
        if now > t:
            return
        count = 0
        if g.sync_min == now:
            count = _send_all(s, i, now, 0)
            following = s.by_worker[SYNC_NEXT, s.trees[SYNCS, 1]]
            ahead = min(following, g.link_next)
            if ahead > now and (count == 0 or _straight(s, i, now, count, min(t, ahead - 1))):
                continue
            if g.linked != 0 and count > 0:
                _leave(s, i, count, now)
        g.ordered_syncs += 1
        i = s.trees[SYNCS, 1]
        while s.by_worker[SYNC_NEXT, i] == now:
            if g.linked != 0:
                count = _send_all(s, i, now, 0)
                if count > 0:
                    _leave(s, i, count, now)
            else:
                count = _send_all(s, i, now, count)
            i = s.trees[SYNCS, 1]
        if g.linked != 0:
            count = 0
            i = s.link_trees[EGRESS, 1]
            while s.by_worker[EGRESS_NEXT, i] == now:
                _pass_on(s, i, now)
                i = s.link_trees[EGRESS, 1]
            i = s.link_trees[INGRESS, 1]
            while s.by_worker[INGRESS_NEXT, i] == now:
                h = s.workers[i]
                while h.ingress_head >= 0 and s.slots[h.ingress_head].at == now:
                    c = _pop(s, h, INGRESS)
                    s.scratch[CANDIDATES, count] = (np.int64(i) << 32) | c
                    count += 1
                _retime(s, i, INGRESS)
                i = s.link_trees[INGRESS, 1]
        sort_keys(s.scratch[CANDIDATES], count)
        for j in range(count):
            c = s.scratch[CANDIDATES, j] & _LOW
            if s.slots[c].holder >= 0:
                _arrive(s, c, now)
