"""What is read off the cluster at an instant: snapshots for the measures, load reports for the gateway."""

from __future__ import annotations

from typing import Any

from lumen_policy.replay.kernel.checkpoints import follow
from lumen_policy.replay.kernel.faults import saved_tokens
from lumen_policy.replay.kernel.state import (
    ALIVE,
    COMPLETIONS,
    FREE,
    FREE_SEEN,
    HELD,
    HELD_SEEN,
    KV_SEEN,
    KV_TOKENS,
    PREFILLS,
    QUEUE,
    SHOT_EXISTING,
    SHOT_HELD,
    SHOT_LIVE,
    SHOT_QUEUE,
    SHOT_SAVED,
)
from lumen_policy.replay.kernel.stretch import existing_tokens

__all__ = ["report", "snapshot"]


def report(s: Any, t: int) -> None:
    """Workers that are alive report their loads."""
    g = s.g[0]
    if g.tracking != 0:
        follow(s, t)
    for i in range(g.workers):
        if s.by_worker[ALIVE, i] != 0:
            s.by_worker[HELD_SEEN, i] = s.by_worker[HELD, i]
            s.by_worker[FREE_SEEN, i] = s.by_worker[FREE, i]
            s.by_worker[KV_SEEN, i] = s.by_worker[KV_TOKENS, i]
    g.next_report += g.report_ps


def snapshot(s: Any, t: int) -> None:
    """Record loads and coverage at t."""
    g = s.g[0]
    if g.tracking != 0:
        follow(s, t)
    row = g.next_snapshot
    for i in range(g.workers):
        s.snapshots[row, SHOT_QUEUE, i] = s.by_worker[QUEUE, i]
        s.snapshots[row, SHOT_HELD, i] = s.by_worker[HELD, i]
        s.snapshots[row, SHOT_LIVE, i] = s.by_worker[ALIVE, i]
        if s.by_worker[ALIVE, i] == 0:
            continue
        w = s.workers[i]
        for j in range(w.decoding + w.prefilling):
            if j < w.decoding:
                r = s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF
            else:
                r = s.batches[PREFILLS, i, j - w.decoding]
            existing = existing_tokens(s, r, i, t)
            s.snapshots[row, SHOT_EXISTING, i] += existing
            s.snapshots[row, SHOT_SAVED, i] += saved_tokens(s, r, existing)
    g.next_snapshot += 1
