"""Requests that have to be sent on: interrupted ones, those that waited, those that were refused."""

from __future__ import annotations

from typing import Any

from lumen_policy.native import leading
from lumen_policy.replay.contract import Routing
from lumen_policy.replay.kernel import decisions
from lumen_policy.replay.kernel.checkpoints import follow, release_old
from lumen_policy.replay.kernel.gateway import (
    believed_dead,
    dispatch,
    held_row,
    lose_nothing,
    queue_row,
    replicate_again,
    route_once,
    wait_at_gateway,
)
from lumen_policy.replay.kernel.slots import drop_copies
from lumen_policy.replay.kernel.state import ALIVE, LIVE, TO_SEND

__all__ = ["send_on"]

_BY_QUEUE, _BY_LOAD, _ANYWHERE = int(Routing.SHORTEST_QUEUE), int(Routing.LOAD_AWARE), int(Routing.ANYWHERE)


def _refused(s: Any, i: int, t: int) -> None:
    """Worker i refuses a connection; until the request is routed it counts as not live."""
    g = s.g[0]
    w = s.workers[i]
    g.refused_sends += 1
    if g.tracking != 0:
        follow(s, t)
    w.refuse_left -= 1
    if w.refuse_left == 0:
        lose_nothing(s)
        believed_dead(s, i, t)
        for j in range(g.workers):  # others that refused this request are believed in by the rest
            if s.workers[j].tried != 0:
                s.by_worker[LIVE, j] = 1
        replicate_again(s, t)
        for j in range(g.workers):
            if s.workers[j].tried != 0:
                s.by_worker[LIVE, j] = 0
    else:
        w.tried = 1
        s.by_worker[LIVE, i] = 0


def _believe_again(s: Any) -> None:
    """Workers that refused this request are believed in for the next one."""
    for i in range(s.g[0].workers):
        if s.workers[i].tried != 0:
            s.workers[i].tried = 0
            s.by_worker[LIVE, i] = 1


def _candidate(s: Any, r: int) -> tuple[int, int, int]:
    """Where an interrupted request would restore from: (holder, saved tokens, arrived tokens); -1, 0, 0 if nowhere."""
    g = s.g[0]
    q = s.requests[r]
    holder = -1
    saved = 0
    arrived = 0
    for c in range(r * g.replicas, (r + 1) * g.replicas):
        slot = s.slots[c]
        if slot.holder == g.workers or (slot.holder >= 0 and s.by_worker[LIVE, slot.holder] != 0):
            tokens = slot.arrived & ~15
            if g.regenerate != 0:
                tokens = min(tokens, (q.prompt - 1) & ~15)
            if holder < 0 or tokens > saved:
                holder = slot.holder
                saved = tokens
                arrived = slot.arrived
    return holder, saved, arrived


def _send(s: Any, r: int, i: int, source: int, saved: int, arrived: int, t: int) -> None:
    """Dispatch an interrupted request to worker i, to restore from ``source`` or, at -1, to recompute."""
    q = s.requests[r]
    record = s.interruptions[q.log]
    record.redispatch = t
    record.restored = 1 if source >= 0 else 0
    drop_copies(s, r, source, t)
    q.old_saved = -1
    if source >= 0:
        q.old_saved = saved
        s.recovery[r].old_arrived = arrived
        s.recovery[r].old_holder = source
        if source != i and s.by_worker[ALIVE, source] == 0:
            release_old(s, r, t)
    dispatch(s, r, i, t)


def _recover(s: Any, r: int, t: int) -> None:
    """Send an interrupted request on its way again, by the policy."""
    g = s.g[0]
    if g.tracking != 0:
        follow(s, t)
    while True:
        holder, saved, arrived = _candidate(s, r)
        queue = queue_row(s, t)
        held = held_row(g)
        i = -1
        source = -1
        if g.routing == _BY_LOAD:
            load = 0
            if holder >= 0:
                load = decisions.kv_load(
                    g.token_weight, s.by_worker[held, holder], g.request_weight, s.by_worker[queue, holder]
                )
            if (
                decisions.prefer_holder(1 if holder >= 0 else 0, load, saved, g.theta, g.tau)
                and holder >= 0
                and saved > 0  # a rule from outside may prefer what is not there
            ):
                i = holder
                source = holder
            else:
                i = decisions.least_loaded(
                    leading(s.by_worker[LIVE], g.workers),
                    leading(s.by_worker[held], g.workers),
                    leading(s.by_worker[queue], g.workers),
                    g.token_weight,
                    g.request_weight,
                )
                if g.remote_restore != 0 and saved > 0:
                    source = holder
        elif g.routing != _BY_QUEUE and g.routing != _ANYWHERE and saved > 0:
            i = holder
            source = holder
        else:
            i = decisions.shortest_queue(
                leading(s.by_worker[LIVE], g.workers), leading(s.by_worker[queue], g.workers)
            )
            if g.routing == _ANYWHERE and saved > 0:
                source = holder
        i = decisions.taken(g, s.by_worker[LIVE], i, decisions.ROUTE)
        if i < 0 or s.workers[i].refuse_left == 0:
            break
        _refused(s, i, t)
    _believe_again(s)
    if i < 0:
        wait_at_gateway(s, r)
    else:
        _send(s, r, i, source, saved, arrived, t)


def _return_to(s: Any, i: int, t: int) -> None:
    """Worker i is back: the requests that waited for it are sent to it, in order."""
    g = s.g[0]
    w = s.workers[i]
    if g.tracking != 0:
        follow(s, t)
    while w.wait_head >= 0:
        r = w.wait_head
        w.wait_head = s.requests[r].link
        holder, saved, arrived = _candidate(s, r)
        source = -1
        if saved > 0 and (holder == i or g.routing == _ANYWHERE or g.remote_restore != 0):
            source = holder
        _send(s, r, i, source, saved, arrived, t)
    w.wait_tail = -1


def send_on(s: Any, t: int) -> None:
    """Send what waits for this instant: interrupted requests, a refused arrival, those that waited for workers.

    One entry for all, since each entry compiles everything below it. Interrupted requests go in order of arrival;
    where workers are back (``flushing``), those that wait for them are sent to them, then the gateway's queue leaves.
    """
    g = s.g[0]
    again = g.refused > 0
    waiting = g.refused - 1
    i = g.refused_by
    g.refused = 0
    for r in range(g.oldest, g.next_arrival):
        if g.to_send == 0:
            break
        if s.requests[r].state == TO_SEND:
            g.to_send -= 1
            _recover(s, r, t)
    if g.flushing != 0:
        g.flushing = 0
        for home in range(g.workers):
            if s.workers[home].due != 0:
                s.workers[home].due = 0
                _return_to(s, home, t)
        waiting = g.gateway_head
        g.gateway_head = -1
        g.gateway_tail = -1
    while waiting >= 0:
        r = waiting
        q = s.requests[r]
        waiting = -1 if again else q.link
        if q.log >= 0:
            _recover(s, r, t)
            continue
        if not again:
            i = route_once(s, r, t)
        while i >= 0 and s.workers[i].refuse_left > 0:
            _refused(s, i, t)
            i = route_once(s, r, t)
        _believe_again(s)
        if i < 0:
            wait_at_gateway(s, r)
        else:
            dispatch(s, r, i, t)
