"""The gateway: routes arrivals and interrupted requests by what it believes, and places their checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np

from lumen_policy.replay.contract import Interruption, Placement, Router, Routing
from lumen_policy.replay.draws import ROUTER
from lumen_policy.replay.kernel.checkpoints import follow, release
from lumen_policy.replay.kernel.decisions import (
    choose_holder,
    draw,
    kv_load,
    least_kv,
    least_loaded,
    next_on_ring,
    power_of_two,
    prefer_holder,
    round_robin,
    shortest_queue,
)
from lumen_policy.replay.kernel.jit import compile_inline, compile_plain
from lumen_policy.replay.kernel.state import (
    ALIVE,
    DONE,
    FREE,
    GATEWAY,
    HELD,
    IDLE,
    KV_TOKENS,
    LEAP,
    LIVE,
    NO_COPY,
    QUEUE,
    QUEUED,
    STRANDED,
)
from lumen_policy.replay.kernel.stretch import look

__all__ = ["arrive", "flush", "recover"]

_JSQ, _ROBIN, _TWO, _LEAST_KV = (
    int(Router.JSQ),
    int(Router.ROUND_ROBIN),
    int(Router.POWER_OF_TWO),
    int(Router.LEAST_KV),
)
_RING, _LOAD_AWARE = int(Placement.RING), int(Placement.LOAD_AWARE)
_BY_QUEUE, _BY_LOAD = int(Routing.SHORTEST_QUEUE), int(Routing.LOAD_AWARE)
_SENT_AFTER_CRASH = int(Interruption.SENT_AFTER_CRASH)
_HALF = np.uint64(32)


def _dispatch(s: Any, r: int, i: int, t: int) -> None:
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
    if g.placement != 0:
        if g.placement == _RING:
            q.holder = next_on_ring(i, s.by_worker[LIVE])
        else:
            follow(s, t)
            q.holder = choose_holder(
                i,
                (tokens + 15) >> 4,
                s.by_worker[LIVE],
                s.by_worker[FREE],
                s.by_worker[HELD],
                s.by_worker[QUEUE],
                g.token_weight,
                g.request_weight,
            )
        q.growth = NO_COPY
        q.arrived = 0
        if q.holder >= 0:
            q.last_holder = q.holder
    first = w.head < 0
    q.link = -1
    if first:
        w.head = r
    else:
        s.requests[w.tail].link = r
    w.tail = r
    if s.by_worker[ALIVE, i] == 0:
        q.state = STRANDED
        q.origin = _SENT_AFTER_CRASH
        g.sent_after_crash += 1
        return
    q.state = QUEUED
    if w.mode == IDLE or (w.mode == LEAP and first and w.decoding + w.prefilling + w.restoring < g.max_batch):
        look(s, i)


_dispatch_here = compile_inline(_dispatch)  # in the path of every arrival
_dispatch_there = compile_plain(_dispatch)


@compile_inline
def _wait(s: Any, r: int) -> None:
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


@compile_inline
def _route(s: Any, r: int, t: int) -> int:
    """The router's choice for a new request; -1 if no worker is believed live."""
    g = s.g[0]
    if g.router == _JSQ:
        return shortest_queue(s.by_worker[LIVE], s.by_worker[QUEUE])
    if g.router == _ROBIN:
        i = round_robin(s.by_worker[LIVE], g.last_robin)
        if i >= 0:
            g.last_robin = i
        return i
    if g.router == _TWO:
        return power_of_two(
            s.by_worker[LIVE],
            s.by_worker[QUEUE],
            np.int64(draw(g.seed, ROUTER, r, 0) >> _HALF),
            np.int64(draw(g.seed, ROUTER, r, 1) >> _HALF),
        )
    follow(s, t)
    return least_kv(s.by_worker[LIVE], s.by_worker[KV_TOKENS])


@compile_inline
def arrive(s: Any, r: int, t: int) -> None:
    """A request reaches the gateway."""
    q = s.requests[r]
    if (q.prompt + q.output + 15) >> 4 > s.g[0].pool_pages:
        q.state = DONE
        q.delivered = -1
        return
    i = _route(s, r, t)
    if i < 0:
        _wait(s, r)
    else:
        _dispatch_here(s, r, i, t)


@compile_plain
def recover(s: Any, r: int, t: int) -> None:
    """Send an interrupted request on its way again, by the policy."""
    g = s.g[0]
    q = s.requests[r]
    if g.tracking != 0:
        follow(s, t)
    q.old_saved = -1  # an old copy on the worker it comes from is lost with it
    q.old_arrived = 0
    holder = q.holder
    saved = 0
    believed = 0
    if holder >= 0:
        believed = s.by_worker[LIVE, holder]
        saved = q.arrived & ~15
    i = -1
    restore = False
    if g.routing == _BY_LOAD:
        load = 0
        if holder >= 0:
            load = kv_load(
                g.token_weight, s.by_worker[HELD, holder], g.request_weight, s.by_worker[QUEUE, holder]
            )
        restore = prefer_holder(believed, load, saved, g.theta, g.tau)
        if not restore:
            i = least_loaded(
                s.by_worker[LIVE], s.by_worker[HELD], s.by_worker[QUEUE], g.token_weight, g.request_weight
            )
    else:
        restore = g.routing != _BY_QUEUE and believed != 0 and saved > 0
        if not restore:
            i = shortest_queue(s.by_worker[LIVE], s.by_worker[QUEUE])
    if restore:
        i = holder
        q.old_saved = saved
        q.old_arrived = q.arrived
    if i < 0:
        _wait(s, r)
        return
    if not restore:
        release(s, r, t)
    record = s.interruptions[q.log]
    record.redispatch = t
    record.restored = 1 if restore else 0
    _dispatch_there(s, r, i, t)


@compile_plain
def flush(s: Any, t: int) -> None:
    """Workers are back: the gateway's queue leaves in order."""
    g = s.g[0]
    while g.gateway_head >= 0:
        r = g.gateway_head
        q = s.requests[r]
        g.gateway_head = q.link
        if q.log >= 0:
            recover(s, r, t)
        else:
            _dispatch_there(s, r, _route(s, r, t), t)
