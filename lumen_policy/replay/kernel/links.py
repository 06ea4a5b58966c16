"""Checkpoint traffic, copy by copy: what servers send, when it leaves and arrives, and what has to go for it.

The accounting is lazy, as in ``checkpoints``: ``follow_links`` takes the ends of iterations and the events of the
links in their true order up to an instant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lumen_policy.replay.contract import EvictionOrder
from lumen_policy.replay.kernel.books import integrate, skip_done
from lumen_policy.replay.kernel.jit import compile_inline, compile_plain
from lumen_policy.replay.kernel.slots import append, forget_slot, pop, retime
from lumen_policy.replay.kernel.state import (
    ALIVE,
    CANDIDATES,
    COMPLETIONS,
    EGRESS,
    FAR,
    FREE,
    HELD,
    INGRESS,
    KV_TOKENS,
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
    sort_keys(s.scratch[CANDIDATES], count)
    tokens = 0
    for j in range(count):
        slot = s.slots[s.scratch[CANDIDATES, j] & _LOW]
        tokens += slot.sent - slot.arrived
    begin = max(now, s.by_worker[LINK_FREE + EGRESS, i])
    leaves = begin + _egress_ps(g, tokens)
    g.egress_wait_ps = max(g.egress_wait_ps, begin - now)
    s.by_worker[LINK_FREE + EGRESS, i] = leaves
    for j in range(count):
        c = s.scratch[CANDIDATES, j] & _LOW
        s.slots[c].at = leaves
        append(s, EGRESS, i, c)
    retime(s, EGRESS, i)


@compile_inline
def _egress_ps(g: Any, tokens: int) -> int:
    """How long tokens take through the egress link of a server."""
    return g.egress_latency_ps + tokens * g.egress_token_ps


@compile_inline
def _ingress_ps(g: Any, holder: int, tokens: int) -> int:
    """How long tokens take through the ingress link of a holder."""
    if holder == g.workers:
        return g.store_latency_ps + tokens * g.store_token_ps
    return tokens * g.ingress_token_ps


@compile_inline
def _is_due(s: Any, link: int, owner: int, now: int) -> bool:
    """Whether the first transfer of a link leaves or arrives now."""
    head = s.by_worker[LINK_HEAD + link, owner]
    return head >= 0 and s.slots[head].at == now


@compile_plain
def _pass_on(s: Any, i: int, now: int) -> None:
    """Transfers of worker i that leave now queue at their holders."""
    g = s.g[0]
    while _is_due(s, EGRESS, i, now):
        c = s.by_worker[LINK_HEAD + EGRESS, i]
        holder = np.int64(s.slots[c].holder)
        tokens = 0
        while c >= 0 and s.slots[c].at == now and s.slots[c].holder == holder:
            tokens += s.slots[c].sent - s.slots[c].arrived
            c = np.int64(s.slots[c].next)
        begin = max(now, s.by_worker[LINK_FREE + INGRESS, holder])
        arrives = begin + _ingress_ps(g, holder, tokens)
        g.ingress_wait_ps = max(g.ingress_wait_ps, begin - now)
        s.by_worker[LINK_FREE + INGRESS, holder] = arrives
        while _is_due(s, EGRESS, i, now):
            if s.slots[s.by_worker[LINK_HEAD + EGRESS, i]].holder != holder:
                break
            c = pop(s, EGRESS, i)
            s.slots[c].at = arrives
            append(s, INGRESS, holder, c)
        retime(s, INGRESS, holder)
    retime(s, EGRESS, i)


@compile_plain
def _straight(s: Any, i: int, now: int, count: int, limit: int) -> bool:
    """What worker i sends now arrives by ``limit``, before anything else happens: take it at once.

    False, and nothing done, where it does not, or where a holder is short of pages.
    """
    g = s.g[0]
    tokens = 0
    for j in range(count):
        key = s.scratch[CANDIDATES, j]
        holder = key >> 32
        slot = s.slots[key & _LOW]
        portion = slot.sent - slot.arrived
        tokens += portion
        s.by_worker[PORTION, holder] += portion
        s.by_worker[PAGES, holder] += ((slot.sent + 15) >> 4) - ((slot.arrived + 15) >> 4)
    begin = max(now, s.by_worker[LINK_FREE + EGRESS, i])
    leaves = begin + _egress_ps(g, tokens)
    latest = leaves
    fits = True
    for h in range(g.workers + 1):
        portion = s.by_worker[PORTION, h]
        if portion > 0:
            fits = fits and s.by_worker[PAGES, h] <= s.by_worker[FREE, h]
            arrives = max(leaves, s.by_worker[LINK_FREE + INGRESS, h]) + _ingress_ps(g, h, portion)
            latest = max(latest, arrives)
    if not fits or latest > limit:
        for j in range(count):
            holder = s.scratch[CANDIDATES, j] >> 32
            s.by_worker[PORTION, holder] = 0
            s.by_worker[PAGES, holder] = 0
        return False
    if g.linked != 0:
        g.egress_wait_ps = max(g.egress_wait_ps, begin - now)
        s.by_worker[LINK_FREE + EGRESS, i] = leaves
    for h in range(g.workers + 1):
        portion = s.by_worker[PORTION, h]
        if portion > 0:
            free = s.by_worker[LINK_FREE + INGRESS, h]
            arrives = max(leaves, free) + _ingress_ps(g, h, portion)
            if g.linked != 0:
                g.ingress_wait_ps = max(g.ingress_wait_ps, free - leaves)
                s.by_worker[LINK_FREE + INGRESS, h] = arrives
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
            while s.by_worker[LINK_NEXT + EGRESS, i] == now:
                _pass_on(s, i, now)
                i = s.link_trees[EGRESS, 1]
            i = s.link_trees[INGRESS, 1]
            while s.by_worker[LINK_NEXT + INGRESS, i] == now:
                while _is_due(s, INGRESS, i, now):
                    s.scratch[CANDIDATES, count] = (np.int64(i) << 32) | pop(s, INGRESS, i)
                    count += 1
                retime(s, INGRESS, i)
                i = s.link_trees[INGRESS, 1]
        sort_keys(s.scratch[CANDIDATES], count)
        for j in range(count):
            c = s.scratch[CANDIDATES, j] & _LOW
            if s.slots[c].holder >= 0:
                _arrive(s, c, now)
