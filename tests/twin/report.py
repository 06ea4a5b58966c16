"""The replay's output arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lumen_policy.replay.contract import NONE, ReplayOutput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .simulation import Simulation

__all__ = ["COUNTERS", "Snapshot", "report"]

COUNTERS = (
    "iterations",
    "leaps",
    "leap_count",
    "decode_tokens",
    "prefill_tokens",
    "ordered_syncs",
    "assisted_passes",
    "plain_assisted_passes",
    "vetoed_passes",
    "drafted_tokens",
    "accepted_tokens",
    "verified_sequences",
    "verified_tokens",
    "assisted_ps",
    "draft_busy_ps",
    "sent_after_crash",
    "gateway_waited",
    "peak_queue",
    "restores",
    "restored_bytes_tokens",
    "refused_sends",
    "ignored_faults",
    "migrated",
    "remote_restores",
    "failed_restores",
    "retargets",
    "ping_pong_passes",
    "regenerated_tokens",
    "evictions",
    "evicted_tokens",
    "sent_tokens",
    "arrived_tokens",
    "refused_tokens",
    "lost_tokens",
    "released_tokens",
    "egress_wait_ps",
    "ingress_wait_ps",
)


@dataclass
class Snapshot:
    queue: list[int]
    held_tokens: list[int]
    live: list[int]
    existing_tokens: int
    saved_tokens: int


def _ints(values: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.array(list(values), dtype=np.int64)


def _rows(rows: list[list[int]], workers: int) -> npt.NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(len(rows), workers)


def report(run: Simulation) -> ReplayOutput:
    """Put a finished simulation into the contract's arrays."""
    requests, log, outages, snapshots = run.requests, run.interruptions.rows, run.outages.log, run.snapshots
    workers = run.inputs.workers
    return ReplayOutput(
        status=_ints(r.status for r in requests),
        first_ps=_ints(r.seen_ps[0] if r.seen_ps else NONE for r in requests),
        last_ps=_ints(r.seen_ps[-1] if r.seen_ps else NONE for r in requests),
        worker=_ints(r.last_server for r in requests),
        holder=_ints(r.last_holder for r in requests),
        interruptions=_ints(r.interruptions for r in requests),
        preemptions=_ints(r.preemptions for r in requests),
        restored_tokens=_ints(r.restored for r in requests),
        recomputed_tokens=_ints(r.recomputed for r in requests),
        dispatch_ps=_ints(r.dispatch_ps for r in requests),
        interruption_request=_ints(row.request for row in log),
        interruption_class=_ints(row.interruption_class for row in log),
        interruption_crash_ps=_ints(row.crash_ps for row in log),
        interruption_redispatch_ps=_ints(row.redispatch_ps for row in log),
        interruption_delivered=_ints(row.delivered for row in log),
        interruption_restored=_ints(row.restored for row in log),
        interruption_next_ps=_ints(row.next_ps for row in log),
        outage_worker=_ints(o.worker for o in outages),
        outage_kind=_ints(o.kind for o in outages),
        outage_crash_ps=_ints(o.crash_ps for o in outages),
        outage_stop_ps=_ints(o.stop_ps for o in outages),
        outage_detection_ps=_ints(o.detection_ps for o in outages),
        outage_draft_ready_ps=_ints(o.draft_ready_ps for o in outages),
        outage_assist_target=_ints(o.assist_target for o in outages),
        outage_assist_end_ps=_ints(o.assist_end_ps for o in outages),
        outage_rejoin_ps=_ints(o.rejoin_ps for o in outages),
        gap_end_ps=_ints(run.gaps.end_ps),
        gap_ps=_ints(run.gaps.gap_ps),
        gap_growth_ps=_ints(0 for _ in run.gaps.gap_ps),
        gap_steps=_ints(1 for _ in run.gaps.gap_ps),
        gap_sequences=_ints(1 for _ in run.gaps.gap_ps),
        snapshot_queue=_rows([s.queue for s in snapshots], workers),
        snapshot_held_tokens=_rows([s.held_tokens for s in snapshots], workers),
        snapshot_live=_rows([s.live for s in snapshots], workers),
        snapshot_existing_tokens=_ints(s.existing_tokens for s in snapshots),
        snapshot_saved_tokens=_ints(s.saved_tokens for s in snapshots),
        crash_existing_tokens=_ints(existing for existing, _ in run.outages.coverage),
        crash_saved_tokens=_ints(saved for _, saved in run.outages.coverage),
        held_integral=run.held_integral,
        held_end=sum(run.loads.held_tokens()),
        end_ps=run.end_ps,
        counters={name: int(run.counters[name]) for name in COUNTERS},
    )
