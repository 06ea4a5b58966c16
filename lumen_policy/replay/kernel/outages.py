"""From the detection of a fault to the worker's return."""

from __future__ import annotations

from typing import Any

from lumen_policy.replay.contract import FaultKind
from lumen_policy.replay.kernel.books import skip_done
from lumen_policy.replay.kernel.checkpoints import follow
from lumen_policy.replay.kernel.faults import (
    empty,
    interrupt,
    resume,
    stop_run,
    strand,
)
from lumen_policy.replay.kernel.gateway import (
    believed_dead,
    lose_nothing,
    replicate_again,
    see_books,
)
from lumen_policy.replay.kernel.holders import grow_on, reopen
from lumen_policy.replay.kernel.reload import draft_ready, end_help, next_life, retarget, start_reload
from lumen_policy.replay.kernel.slots import take_old_slot
from lumen_policy.replay.kernel.state import (
    ALIVE,
    ASSISTING,
    AWAY,
    DONE,
    FAR,
    FAULT_INIT,
    FAULT_KIND,
    FAULT_REFUSALS,
    GATEWAY,
    KV_SEEN,
    KV_TOKENS,
    LIVE,
    LOADING,
    LOADING_DRAFT,
    QUEUE,
    QUEUED,
    SILENT,
    STRANDED,
    TO_SEND,
    UNDETECTED,
    UP,
)

__all__ = ["come_back", "detect", "drafts"]

_CRASH, _UNREACHABLE = int(FaultKind.CRASH), int(FaultKind.UNREACHABLE)
_DETECTED, _REJOINED, _RETURNED = 1, 2, 3
"""Worker.marked at an instant of detections and rejoins."""


def _wait_for_own(s: Any, r: int) -> None:
    """An interrupted request waits for its own worker."""
    q = s.requests[r]
    w = s.workers[q.server]
    q.state = GATEWAY
    q.link = -1
    if w.wait_head < 0:
        w.wait_head = r
    else:
        s.requests[w.wait_tail].link = r
    w.wait_tail = r


def detect(s: Any, t: int) -> None:
    """All detections of instant t: mark and forget; interrupted requests are left to be sent."""
    g = s.g[0]
    due = False
    for i in range(g.workers):
        w = s.workers[i]
        if w.life_at == t and w.detect_at == t and w.life in (UNDETECTED, SILENT):
            due = True
    if not due:
        return
    if g.tracking != 0:
        follow(s, t)
    skip_done(s)
    lose_nothing(s)
    for i in range(g.workers):
        w = s.workers[i]
        if w.life in (UNDETECTED, SILENT) and w.life_at == t and w.detect_at == t:
            w.marked = _DETECTED
            if w.life == SILENT:
                stop_run(s, i, t)
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state >= QUEUED and q.state < DONE and s.workers[q.server].marked != 0:
            if q.state < STRANDED:
                strand(s, r)
            take_old_slot(s, r)
    for i in range(g.workers):
        w = s.workers[i]
        if w.marked == 0:
            continue
        if w.life == SILENT:
            empty(s, i)
        w.head = -1
        w.tail = -1
        w.front_at = -1
        w.draining = 0
        s.by_worker[QUEUE, i] = 0
        s.by_worker[KV_TOKENS, i] = 0
        s.by_worker[KV_SEEN, i] = 0
        s.outages[w.outage].detection = t
        kind = s.faults[FAULT_KIND, w.fault]
        believed = kind == _CRASH and s.by_worker[LIVE, i] != 0
        w.refuse_left = s.faults[FAULT_REFUSALS, w.fault] if believed else 0
        if w.refuse_left == 0:
            believed_dead(s, i, t)
        see_books(s, i)
        w.detect_at = FAR
        if kind == _UNREACHABLE:
            w.life = AWAY
            w.life_at = max(t, w.back_at)
        else:
            start_reload(s, i, t)
    replicate_again(s, t)
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state == STRANDED and s.workers[q.server].marked != 0:
            interrupt(s, r, s.outages[s.workers[q.server].outage].crash)
            if g.wait != 0:
                _wait_for_own(s, r)
            else:
                q.state = TO_SEND
                g.to_send += 1
    for i in range(g.workers):
        s.workers[i].marked = 0


def _rejoin(s: Any, i: int, t: int) -> None:
    """Worker i is believed live again, and empty but for the copies it kept."""
    w = s.workers[i]
    if w.refuse_left > 0:
        believed_dead(s, i, t)
    w.life = UP
    w.life_at = FAR
    w.nic_free = 0
    s.by_worker[LIVE, i] = 1
    s.by_worker[ALIVE, i] = 1
    s.outages[w.outage].rejoin = t
    grow_on(s, i)
    see_books(s, i)


def _return(s: Any, i: int, t: int) -> None:
    """Silent worker i is back before anybody noticed."""
    w = s.workers[i]
    w.life = UP
    w.life_at = FAR
    w.detect_at = FAR
    s.by_worker[ALIVE, i] = 1
    s.outages[w.outage].rejoin = t
    reopen(s, i, True, t)
    grow_on(s, i)
    resume(s, i, t)
    if w.draining != 0:
        w.fault = w.drain_fault
        w.outage = w.drain_outage


def _start_slowly(s: Any, t: int) -> None:
    """Rejoined workers count as if they had a share of the others' load."""
    g = s.g[0]
    for i in range(g.workers):
        w = s.workers[i]
        if w.marked != _REJOINED:
            continue
        total = 0
        others = 0
        for j in range(g.workers):
            if j != i and s.by_worker[LIVE, j] != 0:
                total += s.by_worker[QUEUE, j]
                others += 1
        w.ramp_from = t
        w.ramp_queue = total // others if others > 0 else 0
    g.ramp_until = max(g.ramp_until, t + g.slow_start_ps)


def come_back(s: Any, t: int) -> None:
    """All rejoins and returns of instant t; what waited for them is left to be sent."""
    g = s.g[0]
    back = False
    for i in range(g.workers):
        w = s.workers[i]
        if w.life_at != t:
            continue
        no_init = w.life == ASSISTING and s.faults[FAULT_INIT, w.fault] == 0
        if w.life == LOADING or no_init or w.life == AWAY or (w.life == SILENT and w.back_at == t):
            if not back:
                back = True
                skip_done(s)
                lose_nothing(s)
                if g.tracking != 0:
                    follow(s, t)
            if no_init:
                end_help(s, i, t)
            if w.life == SILENT:
                _return(s, i, t)
                continue
            w.marked = _RETURNED if w.life == AWAY else _REJOINED
            _rejoin(s, i, t)
    if not back:
        return
    if g.slow_start_ps > 0:
        _start_slowly(s, t)
    for i in range(g.workers):
        w = s.workers[i]
        w.due = w.marked
        w.marked = 0
    replicate_again(s, t)
    g.flushing = 1


def drafts(s: Any, t: int) -> None:
    """Drafts ready, retargets and assist ends of instant t."""
    g = s.g[0]
    for i in range(g.workers):
        w = s.workers[i]
        if w.life_at == t and w.life == LOADING_DRAFT:
            draft_ready(s, i, t)
    for i in range(g.workers):
        if s.workers[i].retarget_at == t:
            retarget(s, i, t)
    for i in range(g.workers):
        w = s.workers[i]
        if w.life_at == t and w.life == ASSISTING:
            end_help(s, i, t)
    next_life(s)
