"""The event loop: one instant after the other, every kind in its order."""

from __future__ import annotations

from typing import Any

from lumen_policy.replay.kernel.admission import admit, end_restore, plan_decodes
from lumen_policy.replay.kernel.assisted import begin_assisted, end_by_number, finish_pass
from lumen_policy.replay.kernel.books import skip_done
from lumen_policy.replay.kernel.checkpoints import follow, settle
from lumen_policy.replay.kernel.gateway import arrive
from lumen_policy.replay.kernel.state import (
    ALIVE,
    ENDS,
    FAR,
    FAULT_AT,
    IDLE,
    LEAP,
    LIMIT_PS,
    NEXT_END,
    NEXT_RESTORE,
    RESTORES,
    STARTS,
)
from lumen_policy.replay.kernel.stretch import chunk_and_run, cut, end_run, look
from lumen_policy.replay.kernel.structures import sort_keys

__all__ = [
    "ENOUGH",
    "MORE_GAPS",
    "MORE_INTERRUPTIONS",
    "RARE",
    "REFUSED",
    "REPORT",
    "SNAPSHOT",
    "TOO_LONG",
    "run",
]

ENOUGH, MORE_GAPS, MORE_INTERRUPTIONS, TOO_LONG, RARE, REPORT, SNAPSHOT, REFUSED = range(8)
_NEW, _AFTER_RARE, _AFTER_REPORT, _AFTER_SNAPSHOT = range(4)
"""Where in an instant to go on."""


def _begin(s: Any, i: int, t: int) -> None:
    """Worker i is at a boundary: admission, then its next iteration or leap."""
    g = s.g[0]
    w = s.workers[i]
    admit(s, i, t)
    alone = g.prefill_first != 0 and w.prefilling > 0
    if w.drafter >= 0:
        if w.decoding > 0 and not alone:
            begin_assisted(s, i, t)
            return
    elif w.by_number != 0:
        end_by_number(s, i)
    decodes = 0
    context = 0
    if not alone:
        plan_decodes(s, i, t)
        decodes = w.decoding
        context = w.context
    chunk_and_run(s, i, t, decodes, decodes, context, 0, 0)
    if w.drafter >= 0 and w.mode != IDLE:
        w.primed = 0


def run(s: Any, gap_margin: int) -> int:
    """Replay until nothing is left, or until the caller has to do something and call again.

    Args:
        s: the state; it says where to go on.
        gap_margin: gap records that one instant may need.

    Returns:
        ENOUGH when done; MORE_GAPS or MORE_INTERRUPTIONS when the caller must enlarge that log; RARE when workers fail
        or come to another stage now, REPORT, SNAPSHOT and REFUSED when it must take those; TOO_LONG when the clock
        ran past 100 days, or a worker decoded 2**30 steps without a pause.
    """
    g = s.g[0]
    requests = g.requests
    while True:
        t = g.now
        if g.stage == _NEW:
            t = s.by_worker[NEXT_END, s.trees[ENDS, 1]]
            restore = s.by_worker[NEXT_RESTORE, s.trees[RESTORES, 1]]
            rare = g.life_next
            if g.next_fault < s.faults.shape[1]:
                rare = min(rare, s.faults[FAULT_AT, g.next_fault])
            t = min(t, restore, rare, s.arrival[g.next_arrival] if g.next_arrival < requests else FAR)
            shot = s.snapshot_ps[g.next_snapshot] if g.next_snapshot < len(s.snapshot_ps) else FAR
            if t == FAR and shot == FAR:
                return ENOUGH
            if t <= min(shot, g.next_report):
                g.end = t
            t = min(t, shot, g.next_report)
            if t > LIMIT_PS or g.too_long != 0:
                return TOO_LONG
            if g.gaps + gap_margin > len(s.gaps):
                return MORE_GAPS
            if rare == t:
                skip_done(s)
                # a request is interrupted twice at most: sent on by a drain, to a worker whose failure is noticed now
                if g.interruptions + 2 * (g.next_arrival - g.oldest) > len(s.interruptions):
                    return MORE_INTERRUPTIONS
            g.now = t

            # 0: iteration ends
            while True:
                i = s.trees[ENDS, 1]
                if s.by_worker[NEXT_END, i] != t:
                    break
                if s.workers[i].pass_k > 0:
                    finish_pass(s, i, t)
                end_run(s, i, t)
                look(s, i)
            # 1: transfers, then restore ends
            if g.specials > 0:
                settle(s, t)
            while restore == t:
                end_restore(s, s.trees[RESTORES, 1], t)
                restore = s.by_worker[NEXT_RESTORE, s.trees[RESTORES, 1]]
            # 2 to 6: faults, detections, rejoins, helps
            if rare == t or g.drained != 0:
                g.stage = _AFTER_RARE
                return RARE
        # 7: load reports and snapshots
        if g.stage <= _AFTER_RARE and g.next_report == t:
            g.stage = _AFTER_REPORT
            return REPORT
        if (
            g.stage <= _AFTER_REPORT
            and g.next_snapshot < len(s.snapshot_ps)
            and s.snapshot_ps[g.next_snapshot] == t
        ):
            g.stage = _AFTER_SNAPSHOT
            return SNAPSHOT
        # 8: arrivals
        while g.next_arrival < requests and s.arrival[g.next_arrival] == t:
            g.next_arrival += 1
            arrive(s, g.next_arrival - 1, t)
            if g.refused != 0:
                g.stage = _AFTER_SNAPSHOT
                return REFUSED
        # 9: admission and start
        if g.starts > 0:
            if g.tracking != 0:
                follow(s, t)
            if g.shared != 0:
                sort_keys(s.by_worker[STARTS], 0, g.starts)
            for j in range(g.starts):
                i = s.by_worker[STARTS, j]
                w = s.workers[i]
                w.pending = 0
                if s.by_worker[ALIVE, i] != 0:
                    if w.mode == LEAP:
                        cut(s, i, t)
                    if w.mode == IDLE:
                        _begin(s, i, t)
            g.starts = 0
        g.stage = _NEW
