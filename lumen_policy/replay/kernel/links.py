"""Checkpoint traffic where links take time: what servers send, when it leaves and arrives.

The accounting is lazy, as in ``checkpoints``: ``follow_links`` takes the ends of iterations and what leaves the servers
in their true order up to an instant, and before each of them what has arrived at the holders. What is under way is a
list of items, rows and OWN copies (``transfers``); a row sends and arrives as one.
"""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.kernel.arrivals import arrive, send_up_to
from lumen_policy.replay.kernel.books import integrate, refresh_hot
from lumen_policy.replay.kernel.rows import (
    expand,
    has_partial_page,
    join_row,
    leave_row,
    make_own,
    opened_by_row,
    row_item,
)
from lumen_policy.replay.kernel.state import (
    ALIVE,
    CANDIDATES,
    COMPLETIONS,
    DECODE,
    EGRESS,
    FAR,
    FREE,
    HELD,
    HOT_HOLDER,
    INGRESS,
    KV_TOKENS,
    LEAVES,
    LINK_FREE,
    LINK_HEAD,
    LINK_NEXT,
    NOWHERE,
    OWN,
    PAGES,
    PARTIAL,
    PORTION,
    SENDERS,
    SPECIALS,
    SYNC_NEXT,
    SYNCS,
    TOTAL,
)
from lumen_policy.replay.kernel.structures import sort_keys, tree_update
from lumen_policy.replay.kernel.transfers import append, cut_off, retime

__all__ = ["follow_links"]


@inline
def _send(s: Any, c: int, existing: int, count: int) -> int:
    """Let a copy send what it lacks; returns the number of items with it."""
    slot = s.slots[c]
    if slot.holder < 0 or slot.place != NOWHERE or s.by_worker[ALIVE, slot.holder] == 0:
        return count
    upto = send_up_to(s, slot, existing)
    if upto <= slot.arrived:
        return count
    s.g[0].sent_tokens += upto - slot.arrived
    slot.sent = upto
    s.scratch[CANDIDATES, count] = c
    return count + 1


def _leave_out(s: Any, i: int, h: int, arrived: int, steps: int) -> None:
    """Holder h has no room for some member of a row to send so many steps: those become OWN copies, or all."""
    g = s.g[0]
    c = s.heads[i, h]
    while c >= 0:
        following = s.slots[c].mate_next
        if steps > 1 or s.slots[c].phase == arrived & 15:
            before = s.requests[c >> g.copy_shift].offset + arrived - 1
            leave_row(s, c, before, before)
            make_own(s, c)
        c = following


@inline
def _send_rows(s: Any, i: int) -> tuple[int, int]:
    """The rows of server i send what they lack; returns the number of items, and their tokens."""
    g = s.g[0]
    w = s.workers[i]
    count = 0
    tokens = 0
    for h in range(g.holders):
        if s.copies[i, TOTAL, h] > 0:
            item = row_item(g, i, h)
            row = s.slots[item]
            if row.place == NOWHERE:
                steps = w.sync_steps - row.arrived
                if g.eviction == 0 and h < g.workers and s.by_worker[FREE, h] < (steps + 15) >> 4:
                    _leave_out(s, i, h, row.arrived, steps)
                members = s.copies[i, TOTAL, h]
                if members > 0:
                    tokens += members * steps
                    row.sent = w.sync_steps
                    s.scratch[CANDIDATES, count] = item
                    count += 1
    g.sent_tokens += tokens
    return count, tokens


def _send_own(s: Any, i: int, count: int) -> int:
    """The OWN copies of server i send what they lack; returns the number of items with them."""
    g = s.g[0]
    w = s.workers[i]
    for j in range(w.own):
        h = s.own[i, j] >> 32
        if s.by_worker[HOT_HOLDER, h] != 0:
            c = s.own[i, j] & 0xFFFFFFFF
            q = s.requests[c >> g.copy_shift]
            if q.rested == 0:
                count = _send(s, c, q.offset + w.sync_steps - 1, count)
            refresh_hot(s, h)  # its pages may have gone since
    return count


def _send_all(s: Any, i: int, now: int) -> None:
    """The iteration of worker i that ends now: its rows and OWN copies send, and queue on its egress link."""
    g = s.g[0]
    w = s.workers[i]
    decodes = w.sync_decodes
    if decodes > 0:
        w.sync_steps += 1
        s.by_worker[KV_TOKENS, i] += decodes
    w.sync_left -= 1
    w.sync_duration += w.sync_growth
    s.by_worker[SYNC_NEXT, i] = now + w.sync_duration if w.sync_left > 0 else FAR
    tree_update(s.trees[SYNCS], s.by_worker[SYNC_NEXT], i)
    count = 0
    tokens = 0
    if decodes > 0 and w.regular > 0:
        count, tokens = _send_rows(s, i)
    rows = count
    if decodes > 0:
        if g.hot > 0:
            count = _send_own(s, i, count)
        if w.by_number != 0:
            for j in range(w.decoding):
                s.requests[s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF].rested = 0
    for j in range(g.specials):
        r = s.scratch[SPECIALS, j]
        q = s.requests[r]
        if q.server == i and (q.state != DECODE or decodes == 0):
            for c in range(r * g.replicas, (r + 1) * g.replicas):
                count = _send(s, c, q.kv, count)
    if count > 0:
        for j in range(rows, count):
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
def _under_way(s: Any, item: int) -> int:
    """Tokens of an item that are under way."""
    slot = s.slots[item]
    tokens = slot.sent - slot.arrived
    if item >= s.g[0].copies:
        tokens *= s.copies[slot.server, TOTAL, slot.holder]
    return tokens


@inline
def _ingress_ps(g: Any, holder: int, tokens: int) -> int:
    """How long tokens take through the ingress link of a holder."""
    if holder == g.workers:
        return g.store_latency_ps + tokens * g.store_token_ps
    return tokens * g.ingress_token_ps


@inline
def _queue_at_holder(s: Any, h: int, tokens: int, now: int) -> int:
    """A transfer of so many tokens queues at holder h now; returns when it arrives."""
    g = s.g[0]
    begin = max(now, s.by_worker[LINK_FREE + INGRESS, h])
    arrives = begin + _ingress_ps(g, h, tokens)
    g.ingress_wait_ps = max(g.ingress_wait_ps, begin - now)
    s.by_worker[LINK_FREE + INGRESS, h] = arrives
    s.by_worker[LINK_NEXT + INGRESS, h] = min(s.by_worker[LINK_NEXT + INGRESS, h], arrives)
    return arrives


def _pass_on(s: Any, i: int, now: int) -> None:
    """Transfers of worker i that leave now queue at their holders."""
    g = s.g[0]
    first = s.by_worker[LINK_HEAD + EGRESS, i]
    own = 0
    c = first
    while c >= 0 and s.slots[c].at == now:
        own += 1 if c < g.copies else 0
        c = s.slots[c].next
    if own > 0:  # several items may be for one holder
        c = first
        while c >= 0 and s.slots[c].at == now:
            s.by_worker[PORTION, s.slots[c].holder] += _under_way(s, c)
            c = s.slots[c].next
        for h in range(g.holders):
            tokens = s.by_worker[PORTION, h]
            if tokens > 0:
                s.by_worker[PORTION, h] = 0
                s.by_worker[PAGES, h] = _queue_at_holder(s, h, tokens, now)
    c = first
    while c >= 0 and s.slots[c].at == now:
        following = s.slots[c].next
        holder = s.slots[c].holder
        if own == 0:
            append(s, INGRESS, holder, c, _queue_at_holder(s, holder, _under_way(s, c), now))
        else:
            append(s, INGRESS, holder, c, s.by_worker[PAGES, holder])
        c = following
    cut_off(s, EGRESS, i, c)


def _arrive_in_order(s: Any, h: int, count: int, now: int) -> None:
    """What arrives at holder h now and has no room for all, copy by copy."""
    g = s.g[0]
    g.ordered_syncs += 1
    copies = 0
    for j in range(count):  # OWN copies first, so that the members of rows can follow behind them
        c = s.scratch[CANDIDATES, j]
        if c < g.copies:
            s.scratch[CANDIDATES, j] = s.scratch[CANDIDATES, copies]
            s.scratch[CANDIDATES, copies] = c
            copies += 1
    rows = count - copies
    for j in range(rows):
        s.scratch[SENDERS, j] = s.slots[s.scratch[CANDIDATES, copies + j]].server
    for j in range(rows):
        i = s.scratch[SENDERS, j]
        row = s.slots[row_item(g, i, h)]
        arrived = row.arrived
        row.arrived = row.sent
        copies = expand(s, i, h, arrived, copies, row.sent)
    sort_keys(s.scratch[CANDIDATES], 0, copies)
    for j in range(copies):
        c = s.scratch[CANDIDATES, j]
        if s.slots[c].holder >= 0:
            arrive(s, c, now)
    for j in range(copies):
        join_row(s, s.scratch[CANDIDATES, j])


def _arrive_together(s: Any, h: int, count: int, now: int) -> None:
    """What arrives at holder h now: all at once where there is room for all."""
    g = s.g[0]
    pages = 0
    tokens = 0
    for j in range(count):
        item = s.scratch[CANDIDATES, j]
        slot = s.slots[item]
        if item >= g.copies:
            pages += opened_by_row(s, slot.server, h, slot.arrived, slot.sent)
        else:
            pages += ((slot.sent + 15) >> 4) - ((slot.arrived + 15) >> 4)
        tokens += _under_way(s, item)
    if pages > s.by_worker[FREE, h]:
        _arrive_in_order(s, h, count, now)
        return
    s.by_worker[HELD, h] += tokens
    s.by_worker[FREE, h] -= pages
    g.arrived_tokens += tokens
    if h < g.workers:
        integrate(g, tokens, now)
    own = 0
    for j in range(count):
        item = s.scratch[CANDIDATES, j]
        slot = s.slots[item]
        if item < g.copies:
            if slot.growth == OWN:
                s.by_worker[PARTIAL, h] -= has_partial_page(slot)
                s.by_worker[PARTIAL, h] += 1 if slot.sent & 15 != 0 else 0
            s.scratch[CANDIDATES, own] = item
            own += 1
        slot.arrived = slot.sent
        slot.wrote = now
    if own > 0:
        refresh_hot(s, h)
    for j in range(own):
        join_row(s, s.scratch[CANDIDATES, j])


@inline
def _row_arrives(s: Any, h: int, item: int, now: int) -> bool:
    """The first item at holder h arrives now; False unless it is a row, alone, and there is room for it."""
    g = s.g[0]
    row = s.slots[item]
    following = row.next
    if item < g.copies or (following >= 0 and s.slots[following].at == now):
        return False
    pages = opened_by_row(s, row.server, h, row.arrived, row.sent)
    if pages > s.by_worker[FREE, h]:
        return False
    tokens = _under_way(s, item)
    row.place = NOWHERE
    row.arrived = row.sent
    row.wrote = now
    cut_off(s, INGRESS, h, following)
    s.by_worker[HELD, h] += tokens
    s.by_worker[FREE, h] -= pages
    g.arrived_tokens += tokens
    if h < g.workers:
        integrate(g, tokens, now)
    return True


def _take_arrivals(s: Any, upto: int) -> None:
    """Holder by holder, since what happens at one does not matter to another: what arrives up to an instant."""
    for h in range(s.g[0].holders):
        while s.by_worker[LINK_NEXT + INGRESS, h] <= upto:
            now = s.by_worker[LINK_NEXT + INGRESS, h]
            c = s.by_worker[LINK_HEAD + INGRESS, h]
            if _row_arrives(s, h, c, now):
                continue
            count = 0
            while c >= 0 and s.slots[c].at == now:
                s.scratch[CANDIDATES, count] = c
                count += 1
                s.slots[c].place = NOWHERE
                c = s.slots[c].next
            cut_off(s, INGRESS, h, c)
            _arrive_together(s, h, count, now)


def follow_links(s: Any, t: int) -> None:
    """Bring the traffic up to and including instant t."""
    g = s.g[0]
    while True:
        i = s.trees[SYNCS, 1]
        g.sync_min = s.by_worker[SYNC_NEXT, i]
        now = min(g.sync_min, s.by_worker[LINK_NEXT + EGRESS, s.trees[LEAVES, 1]])
        if now > t:
            break
        if g.sync_min == now or g.eviction != 0:  # else nothing of what leaves now depends on arrivals
            _take_arrivals(s, now - 1)
        while s.by_worker[SYNC_NEXT, i] == now:
            _send_all(s, i, now)
            i = s.trees[SYNCS, 1]
        i = s.trees[LEAVES, 1]
        while s.by_worker[LINK_NEXT + EGRESS, i] == now:
            _pass_on(s, i, now)
            i = s.trees[LEAVES, 1]
    _take_arrivals(s, t)
    g.link_next = s.by_worker[LINK_NEXT + EGRESS, s.trees[LEAVES, 1]]
    for h in range(g.holders):
        g.link_next = min(g.link_next, s.by_worker[LINK_NEXT + INGRESS, h])
