"""The gateway: routes arrivals and interrupted requests by what it believes, and places their checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np

from lumen_policy.native import inline, leading
from lumen_policy.replay.contract import Interruption, Placement, Router
from lumen_policy.replay.draws import ROUTER
from lumen_policy.replay.kernel import decisions
from lumen_policy.replay.kernel.checkpoints import follow
from lumen_policy.replay.kernel.holders import forget_holder, reopen
from lumen_policy.replay.kernel.rows import grow_copies
from lumen_policy.replay.kernel.slots import move_slot, open_slot
from lumen_policy.replay.kernel.state import (
    ALIVE,
    DECODE,
    DOMAIN,
    DONE,
    FREE,
    FREE_SEEN,
    GATEWAY,
    HELD,
    HELD_SEEN,
    IDLE,
    KV_SEEN,
    KV_TOKENS,
    LEAP,
    LIVE,
    MASK,
    QUEUE,
    QUEUE_SEEN,
    QUEUED,
    SILENT,
    STRANDED,
    TO_SEND,
)
from lumen_policy.replay.kernel.stretch import existing_tokens, look

__all__ = [
    "arrive",
    "believed_dead",
    "dispatch",
    "held_row",
    "lose_nothing",
    "queue_row",
    "replicate_again",
    "route_once",
    "see_books",
    "wait_at_gateway",
]

_JSQ, _ROBIN, _TWO, _LEAST_KV = (
    int(Router.JSQ),
    int(Router.ROUND_ROBIN),
    int(Router.POWER_OF_TWO),
    int(Router.LEAST_KV),
)
_OFF, _RING, _STORE = int(Placement.OFF), int(Placement.RING), int(Placement.STORE)
_SENT_AFTER_CRASH = int(Interruption.SENT_AFTER_CRASH)
_HALF = np.uint64(32)


def _with_slow_starts(s: Any, t: int) -> int:
    """The row of Q with what slow starts add."""
    g = s.g[0]
    whole = g.slow_start_ps >> 20
    for i in range(g.workers):
        w = s.workers[i]
        s.by_worker[QUEUE_SEEN, i] = s.by_worker[QUEUE, i]
        left = w.ramp_from + g.slow_start_ps - t
        if w.ramp_queue > 0 and left > 0 and whole > 0:
            s.by_worker[QUEUE_SEEN, i] += w.ramp_queue * (left >> 20) // whole
    return QUEUE_SEEN


@inline
def queue_row(s: Any, t: int) -> int:
    """The row of by_worker that decisions take as Q."""
    return QUEUE if t >= s.g[0].ramp_until else _with_slow_starts(s, t)


@inline
def held_row(g: Any) -> int:
    return HELD_SEEN if g.report_ps > 0 else HELD


def _mask(s: Any, i: int, first: int) -> int:
    """The row of LIVE less what the rules exclude for a request at worker i with its first holder, or -1."""
    g = s.g[0]
    for h in range(g.workers):
        domain = s.by_worker[DOMAIN, h]
        apart = s.by_worker[LIVE, h]
        if g.anti_affinity != 0 and domain == s.by_worker[DOMAIN, i]:
            apart = 0
        if first >= 0 and (h == first or domain == s.by_worker[DOMAIN, first]):
            apart = 0
        s.by_worker[MASK, h] = apart
    return MASK


def _choose(s: Any, i: int, first: int, tokens: int, t: int) -> int:
    """A holder for a request of so many tokens at worker i; ``first`` is its first holder, or -1."""
    g = s.g[0]
    live = LIVE
    if first >= 0 or g.anti_affinity != 0:
        live = _mask(s, i, first)
    if g.placement == _RING:
        choice = decisions.next_on_ring(i, leading(s.by_worker[live], g.workers))
    else:
        follow(s, t)
        choice = decisions.choose_holder(
            i,
            0 if g.eviction != 0 else (tokens + 15) >> 4,
            leading(s.by_worker[live], g.workers),
            leading(s.by_worker[FREE_SEEN if g.report_ps > 0 else FREE], g.workers),
            leading(s.by_worker[held_row(g)], g.workers),
            leading(s.by_worker[queue_row(s, t)], g.workers),
            g.token_weight,
            g.request_weight,
        )
    if choice == i:
        g.wrong_choice = decisions.HOLDER
        return -1
    return decisions.taken(g, s.by_worker[live], choice, decisions.HOLDER)


def choose_copies(s: Any, r: int, i: int, tokens: int, t: int) -> None:
    """Choose the holders that a request at worker i lacks."""
    g = s.g[0]
    q = s.requests[r]
    if g.placement == _OFF:
        return
    first = s.slots[r * g.replicas].holder
    if first < 0:
        first = g.workers if g.placement == _STORE else _choose(s, i, -1, tokens, t)
        if first >= 0:
            open_slot(s, r, 0, first, t)
            q.last_holder = first
    if g.replicas > 1 and first >= 0 and s.slots[r * 2 + 1].holder < 0:
        second = _choose(s, i, first, tokens, t)
        if second >= 0:
            open_slot(s, r, 1, second, t)


def _put_in_front(s: Any, r: int, i: int, t: int) -> None:
    """To the front of the queue, behind those put there at this instant."""
    w = s.workers[i]
    q = s.requests[r]
    if w.front_at == t and w.front_last >= 0 and w.head >= 0:
        q.link = s.requests[w.front_last].link
        s.requests[w.front_last].link = r
    else:
        q.link = w.head
        w.head = r
    if q.link < 0:
        w.tail = r
    w.front_at = t
    w.front_last = r


def dispatch(s: Any, r: int, i: int, t: int) -> None:
    """Hand a request to worker i: raise Q, choose its holder, append it to the worker's queue."""
    g = s.g[0]
    w = s.workers[i]
    q = s.requests[r]
    tokens = q.prompt + q.delivered
    q.server = i
    if q.dispatch < 0:
        q.dispatch = t
    s.by_worker[QUEUE, i] += 1
    if s.by_worker[QUEUE, i] > g.peak_queue:
        g.peak_queue = s.by_worker[QUEUE, i]
    s.by_worker[KV_TOKENS, i] += tokens
    s.by_worker[KV_SEEN, i] += tokens
    choose_copies(s, r, i, tokens, t)
    first = w.head < 0
    if g.front != 0 and q.log >= 0:
        _put_in_front(s, r, i, t)
        first = True
    else:
        q.link = -1
        if first:
            w.head = r
        else:
            s.requests[w.tail].link = r
        w.tail = r
    q.state = QUEUED
    if s.by_worker[ALIVE, i] == 0:
        q.origin = _SENT_AFTER_CRASH
        g.sent_after_crash += 1
        if w.life == SILENT:
            q.late = 1
        else:
            q.state = STRANDED
        return
    if w.mode == IDLE or (w.mode == LEAP and first and w.decoding + w.prefilling + w.restoring < g.max_batch):
        look(s, i)


@inline
def wait_at_gateway(s: Any, r: int) -> None:
    """No worker is believed live: the request waits at the gateway."""
    g = s.g[0]
    q = s.requests[r]
    g.gateway_waited += 1
    q.state = GATEWAY
    q.link = -1
    if g.gateway_head < 0:
        g.gateway_head = r
    else:
        s.requests[g.gateway_tail].link = r
    g.gateway_tail = r


def route_once(s: Any, r: int, t: int) -> int:
    """The router's choice for a new request; -1 if no worker is believed live."""
    g = s.g[0]
    live = leading(s.by_worker[LIVE], g.workers)
    if g.router == _JSQ:
        choice = decisions.shortest_queue(live, leading(s.by_worker[queue_row(s, t)], g.workers))
    elif g.router == _ROBIN:
        choice = decisions.round_robin(live, g.last_robin)
        if choice >= 0:
            g.last_robin = choice
    elif g.router == _TWO:
        choice = decisions.power_of_two(
            live,
            leading(s.by_worker[queue_row(s, t)], g.workers),
            int(decisions.draw(g.seed, ROUTER, r, 0) >> _HALF),
            int(decisions.draw(g.seed, ROUTER, r, 1) >> _HALF),
        )
    else:
        follow(s, t)
        tokens = s.by_worker[KV_SEEN if g.report_ps > 0 else KV_TOKENS]
        choice = decisions.least_kv(live, leading(tokens, g.workers))
    return decisions.taken(g, live, choice, decisions.ROUTE)


def believed_dead(s: Any, i: int, t: int) -> None:
    """The gateway no longer believes in worker i: its books open, what it held is forgotten unless it was kept."""
    w = s.workers[i]
    s.by_worker[LIVE, i] = 0
    w.refuse_left = 0
    w.tried = 0
    if w.keeps == 0:
        forget_holder(s, i)
    reopen(s, i, w.keeps != 0, t)
    see_books(s, i)


def see_books(s: Any, i: int) -> None:
    """Worker i has nobody's requests, and the gateway knows what it holds."""
    s.by_worker[HELD_SEEN, i] = s.by_worker[HELD, i]
    s.by_worker[FREE_SEEN, i] = s.by_worker[FREE, i]
    s.by_worker[KV_SEEN, i] = 0


def lose_nothing(s: Any) -> None:
    """No request has lost a copy yet."""
    g = s.g[0]
    if g.re_replicate == 0:
        return
    for r in range(g.oldest, g.next_arrival):
        s.requests[r].lost = 0


def replicate_again(s: Any, t: int) -> None:
    """Requests that have lost a copy and have a server that is not marked get another."""
    g = s.g[0]
    if g.re_replicate == 0 or g.placement == 0:
        return
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.lost == 0 or q.state < QUEUED or q.state >= TO_SEND or s.workers[q.server].marked != 0:
            continue
        if g.replicas > 1 and s.slots[r * 2].holder < 0 and s.slots[r * 2 + 1].holder >= 0:
            move_slot(s, r * 2 + 1, r * 2)
        tokens = q.prompt + q.delivered
        if q.state == DECODE:
            tokens = existing_tokens(s, r, q.server, t) + 1
        choose_copies(s, r, q.server, tokens, t)
        grow_copies(s, r)


def arrive(s: Any, r: int, t: int) -> None:
    """A request reaches the gateway; one whose worker refuses it is left to ``sending.send_on``."""
    q = s.requests[r]
    if (q.prompt + q.output + 15) >> 4 > s.g[0].pool_pages:
        q.state = DONE
        q.delivered = -1
        return
    i = route_once(s, r, t)
    if i < 0:
        wait_at_gateway(s, r)
    elif s.workers[i].refuse_left > 0:
        s.g[0].refused = r + 1
        s.g[0].refused_by = i
    else:
        dispatch(s, r, i, t)
