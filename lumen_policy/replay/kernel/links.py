"""Checkpoint traffic, copy by copy: what servers send, when it leaves and arrives, and what has to go for it.

The accounting is lazy, as in ``checkpoints``: ``follow_links`` takes the ends of iterations and what leaves the servers
in their true order up to an instant, and before each of them what has arrived at the holders.
"""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.contract import EvictionOrder
from lumen_policy.replay.kernel.books import integrate
from lumen_policy.replay.kernel.slots import append, cut_off, forget_slot, retime
from lumen_policy.replay.kernel.state import (
    ALIVE,
    CANDIDATES,
    COMPLETIONS,
    COPIES,
    EGRESS,
    FAR,
    FREE,
    HELD,
    INGRESS,
    KV_TOKENS,
    LEAVES,
    LINK_FREE,
    LINK_HEAD,
    LINK_NEXT,
    NOWHERE,
    PAGES,
    PORTION,
    PREFILL,
    SPECIALS,
    SYNC_NEXT,
    SYNCS,
)
from lumen_policy.replay.kernel.structures import sort_keys, tree_update

__all__ = ["follow_links"]

_LEAST_RECENT, _SHORTEST = int(EvictionOrder.LEAST_RECENT), int(EvictionOrder.SHORTEST)
_LOW = 0xFFFFFFFF


def _send(s: Any, c: int, existing: int, count: int) -> int:
    """Let a copy send what it lacks; returns the number of candidates with it."""
    g = s.g[0]
    slot = s.slots[c]
    holder = slot.holder
    if holder < 0 or slot.place != NOWHERE or s.by_worker[ALIVE, holder] == 0:
        return count
    upto = existing
    if g.eviction == 0 and holder < g.workers:
        upto = min(upto, 16 * (((slot.arrived + 15) >> 4) + s.by_worker[FREE, holder]))
    if upto <= slot.arrived:
        return count
    g.sent_tokens += upto - slot.arrived
    slot.sent = upto
    s.scratch[CANDIDATES, count] = c
    return count + 1


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


def _leave(s: Any, i: int, count: int, now: int) -> None:
    """What worker i sends now queues on its egress link."""
    g = s.g[0]
    tokens = 0
    for j in range(count):
        slot = s.slots[s.scratch[CANDIDATES, j]]
        tokens += slot.sent - slot.arrived
    begin = max(now, s.by_worker[LINK_FREE + EGRESS, i])
    leaves = begin + g.egress_latency_ps + tokens * g.egress_token_ps
    g.egress_wait_ps = max(g.egress_wait_ps, begin - now)
    s.by_worker[LINK_FREE + EGRESS, i] = leaves
    for j in range(count):
        append(s, EGRESS, i, s.scratch[CANDIDATES, j], leaves)
    retime(s, EGRESS, i)


@inline
def _ingress_ps(g: Any, holder: int, tokens: int) -> int:
    """How long tokens take through the ingress link of a holder."""
    if holder == g.workers:
        return g.store_latency_ps + tokens * g.store_token_ps
    return tokens * g.ingress_token_ps


def _pass_on(s: Any, i: int, now: int) -> None:
    """Transfers of worker i that leave now queue at their holders."""
    g = s.g[0]
    first = s.by_worker[LINK_HEAD + EGRESS, i]
    c = first
    while c >= 0 and s.slots[c].at == now:
        slot = s.slots[c]
        s.by_worker[PORTION, slot.holder] += slot.sent - slot.arrived
        c = slot.next
    for h in range(g.workers + 1):
        tokens = s.by_worker[PORTION, h]
        if tokens > 0:
            begin = max(now, s.by_worker[LINK_FREE + INGRESS, h])
            arrives = begin + _ingress_ps(g, h, tokens)
            g.ingress_wait_ps = max(g.ingress_wait_ps, begin - now)
            s.by_worker[LINK_FREE + INGRESS, h] = arrives
            s.by_worker[PORTION, h] = 0
            s.by_worker[PAGES, h] = arrives
            s.by_worker[LINK_NEXT + INGRESS, h] = min(s.by_worker[LINK_NEXT + INGRESS, h], arrives)
    c = first
    while c >= 0 and s.slots[c].at == now:
        following = s.slots[c].next
        holder = s.slots[c].holder
        append(s, INGRESS, holder, c, s.by_worker[PAGES, holder])
        c = following
    cut_off(s, EGRESS, i, c)


@inline
def _is_less(g: Any, a: Any, b_arrived: int, b_opened: int, b_wrote: int, now: int) -> bool:
    """Whether copy a goes before one with these figures."""
    if g.eviction == _LEAST_RECENT:
        return a.wrote < b_wrote
    if g.eviction == _SHORTEST:
        return a.arrived < b_arrived
    age = 1 + ((now - a.opened) >> 30)
    other = 1 + ((now - b_opened) >> 30)
    return a.arrived * other < b_arrived * age


def _evict_one(s: Any, c: int, now: int) -> bool:
    """Evict the least copy at the holder of copy c; False if there is none to evict."""
    g = s.g[0]
    slot = s.slots[c]
    holder = slot.holder
    best = -1
    v = s.by_worker[COPIES, holder]
    while v >= 0:
        other = s.slots[v]
        if (
            v != c
            and other.arrived > 0
            and (
                g.eviction == _LEAST_RECENT
                or _is_less(g, other, slot.sent, slot.opened, 0, now)
            )
        ):
            if best < 0:
                best = v
            else:
                b = s.slots[best]
                if _is_less(g, other, b.arrived, b.opened, b.wrote, now) or (
                    v < best and not _is_less(g, b, other.arrived, other.opened, other.wrote, now)
                ):
                    best = v
        v = other.peer_next
    if best < 0:
        return False
    arrived = s.slots[best].arrived
    s.by_worker[HELD, holder] -= arrived
    s.by_worker[FREE, holder] += (arrived + 15) >> 4
    integrate(g, -arrived, now)
    g.evictions += 1
    g.evicted_tokens += arrived
    forget_slot(s, best)
    return True


def _arrive(s: Any, c: int, now: int) -> None:
    """Grow a copy by what arrives, as far as the holder's pages go."""
    g = s.g[0]
    slot = s.slots[c]
    holder = slot.holder
    pages = (slot.arrived + 15) >> 4
    upto = slot.sent
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


def _arrive_together(s: Any, h: int, start: int, count: int, now: int) -> None:
    """What arrives at holder h now, candidates ``start`` and so on: all at once where there is room for all."""
    g = s.g[0]
    pages = 0
    tokens = 0
    for j in range(start, start + count):
        slot = s.slots[s.scratch[CANDIDATES, j]]
        pages += ((slot.sent + 15) >> 4) - ((slot.arrived + 15) >> 4)
        tokens += slot.sent - slot.arrived
    if pages > s.by_worker[FREE, h]:
        g.ordered_syncs += 1
        sort_keys(s.scratch[CANDIDATES], start, count)
        for j in range(start, start + count):
            c = s.scratch[CANDIDATES, j]
            if s.slots[c].holder >= 0:
                _arrive(s, c, now)
        return
    s.by_worker[HELD, h] += tokens
    s.by_worker[FREE, h] -= pages
    g.arrived_tokens += tokens
    if h < g.workers:
        integrate(g, tokens, now)
    for j in range(start, start + count):
        slot = s.slots[s.scratch[CANDIDATES, j]]
        slot.arrived = slot.sent
        slot.wrote = now


def _take_arrivals(s: Any, upto: int) -> None:
    """Holder by holder, since what happens at one does not matter to another: what arrives up to an instant."""
    for h in range(s.g[0].workers + 1):
        while s.by_worker[LINK_NEXT + INGRESS, h] <= upto:
            now = s.by_worker[LINK_NEXT + INGRESS, h]
            count = 0
            c = s.by_worker[LINK_HEAD + INGRESS, h]
            while c >= 0 and s.slots[c].at == now:
                s.scratch[CANDIDATES, count] = c
                count += 1
                s.slots[c].place = NOWHERE
                c = s.slots[c].next
            cut_off(s, INGRESS, h, c)
            _arrive_together(s, h, 0, count, now)


def _arrive_at_once(s: Any, count: int, now: int) -> None:
    """Links take no time: what is sent now is there, holder by holder."""
    for j in range(count):
        c = s.scratch[CANDIDATES, j]
        s.scratch[CANDIDATES, j] = (s.slots[c].holder << 32) | c
    sort_keys(s.scratch[CANDIDATES], 0, count)
    start = 0
    while start < count:
        h = s.scratch[CANDIDATES, start] >> 32
        end = start
        while end < count and s.scratch[CANDIDATES, end] >> 32 == h:
            s.scratch[CANDIDATES, end] &= _LOW
            end += 1
        _arrive_together(s, h, start, end - start, now)
        start = end


def follow_links(s: Any, t: int) -> None:
    """Bring the traffic up to and including instant t."""
    g = s.g[0]
    while True:
        i = s.trees[SYNCS, 1]
        g.sync_min = s.by_worker[SYNC_NEXT, i]
        now = min(g.sync_min, s.by_worker[LINK_NEXT + EGRESS, s.trees[LEAVES, 1]])
        if now > t:
            break
        if g.linked != 0:
            _take_arrivals(s, now - 1)
        count = 0
        while s.by_worker[SYNC_NEXT, i] == now:
            count = _send_all(s, i, now, count)
            if g.linked != 0 and count > 0:
                _leave(s, i, count, now)
                count = 0
            i = s.trees[SYNCS, 1]
        if count > 0:
            _arrive_at_once(s, count, now)
        i = s.trees[LEAVES, 1]
        while s.by_worker[LINK_NEXT + EGRESS, i] == now:
            _pass_on(s, i, now)
            i = s.trees[LEAVES, 1]
    if g.linked != 0:
        _take_arrivals(s, t)
        g.link_next = s.by_worker[LINK_NEXT + EGRESS, s.trees[LEAVES, 1]]
        for h in range(g.workers + 1):
            g.link_next = min(g.link_next, s.by_worker[LINK_NEXT + INGRESS, h])
