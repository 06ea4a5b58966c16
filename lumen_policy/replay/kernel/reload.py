"""A worker on its way back: its reload with or without a draft, and whom it helps meanwhile."""

from __future__ import annotations

from typing import Any

from lumen_policy.native import leading
from lumen_policy.replay.kernel import decisions
from lumen_policy.replay.kernel.checkpoints import follow
from lumen_policy.replay.kernel.state import (
    ALIVE,
    ASSISTING,
    FAR,
    FAULT_DRAFT,
    FAULT_INIT,
    FAULT_LOAD,
    FAULT_RESTART,
    HAS_DRAFTER,
    HELD,
    LEAP,
    LIVE,
    LOADING,
    LOADING_DRAFT,
    QUEUE,
)
from lumen_policy.replay.kernel.stretch import look

__all__ = ["draft_ready", "end_assist", "end_help", "next_life", "retarget", "start_reload"]


def next_life(s: Any) -> None:
    """When the next worker comes to another stage."""
    g = s.g[0]
    g.life_next = FAR
    for i in range(g.workers):
        w = s.workers[i]
        g.life_next = min(g.life_next, w.life_at, w.retarget_at)


def end_assist(s: Any, target: int) -> None:
    """Nobody helps this worker any more."""
    w = s.workers[target]
    if w.drafter >= 0:
        s.workers[w.drafter].target = -1
        w.drafter = -1
        s.by_worker[HAS_DRAFTER, target] = 0


def end_help(s: Any, i: int, t: int) -> None:
    """Worker i has its full weights: it helps nobody any more and starts its engine."""
    w = s.workers[i]
    s.outages[w.outage].assist_end = t
    if w.target >= 0:
        end_assist(s, w.target)
    w.retarget_at = FAR
    w.life = LOADING
    w.life_at = t + s.faults[FAULT_INIT, w.fault]


def start_reload(s: Any, i: int, since: int) -> None:
    """The reload of worker i, counted from its detection, its stop, or a crash in mid-reload."""
    g = s.g[0]
    w = s.workers[i]
    if w.target >= 0:
        end_assist(s, w.target)
    record = s.outages[w.outage]
    record.ready = -1
    record.target = -1
    record.assist_end = -1
    w.retarget_at = FAR
    f = w.fault
    if g.has_draft != 0:
        w.life = LOADING_DRAFT
        w.life_at = since + s.faults[FAULT_RESTART, f] + s.faults[FAULT_DRAFT, f]
    else:
        w.life = LOADING
        w.life_at = since + s.faults[FAULT_RESTART, f] + s.faults[FAULT_LOAD, f] + s.faults[FAULT_INIT, f]


def _choose(s: Any, t: int) -> int:
    g = s.g[0]
    if g.tracking != 0:
        follow(s, t)
    choice = decisions.choose_target(
        leading(s.by_worker[LIVE], g.workers),
        leading(s.by_worker[HAS_DRAFTER], g.workers),
        leading(s.by_worker[HELD], g.workers),
        leading(s.by_worker[QUEUE], g.workers),
        g.token_weight,
        g.request_weight,
    )
    choice = decisions.taken(g, s.by_worker[LIVE], choice, decisions.TARGET)
    if choice >= 0 and s.by_worker[HAS_DRAFTER, choice] != 0:
        g.wrong_choice = decisions.TARGET
        return -1
    return choice


def _attach(s: Any, i: int, target: int) -> None:
    """Worker i helps the target from now on, if that is alive in truth."""
    g = s.g[0]
    w = s.workers[i]
    s.outages[w.outage].target = target
    w.draft_until = 0
    if target < 0 or s.by_worker[ALIVE, target] == 0:
        return
    w.target = target
    s.by_worker[HAS_DRAFTER, target] = 1
    helped = s.workers[target]
    helped.drafter = i
    helped.turn = 0
    helped.primed = 0
    g.episode += 1
    helped.episode = g.episode
    if helped.mode == LEAP:
        look(s, target)


def draft_ready(s: Any, i: int, t: int) -> None:
    """Worker i can draft: it chooses whom to help."""
    g = s.g[0]
    w = s.workers[i]
    w.life = ASSISTING
    w.life_at = t + s.faults[FAULT_LOAD, w.fault]
    s.outages[w.outage].ready = t
    if g.retarget_ps > 0 and t + g.retarget_ps < w.life_at:
        w.retarget_at = t + g.retarget_ps
    _attach(s, i, _choose(s, t))


def retarget(s: Any, i: int, t: int) -> None:
    """Worker i chooses again whom to help."""
    g = s.g[0]
    w = s.workers[i]
    w.retarget_at = t + g.retarget_ps if t + g.retarget_ps < w.life_at else FAR
    own = w.target
    if own >= 0:
        s.by_worker[HAS_DRAFTER, own] = 0
    target = _choose(s, t)
    if own >= 0:
        s.by_worker[HAS_DRAFTER, own] = 1
    if target < 0 or target == own:
        return
    if own >= 0:
        g.retargets += 1
        end_assist(s, own)
    _attach(s, i, target)
