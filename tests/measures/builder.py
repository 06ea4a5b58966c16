"""Small hand-made replays: only the facts a measure reads need to be given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from crash_table import Reload, crash_table
from hypothesis import strategies as st

from cost_models.serving_costs import IterationCosts, ServingCosts
from lumen_policy.replay.contract import (
    NONE,
    PS_PER_S,
    PolicyCodes,
    ReplayInput,
    ReplayOutput,
    Status,
)

__all__ = ["COUNTERS", "GapRecord", "brute_gaps", "gap_records", "ints", "replay_input", "replay_output"]

GapRecord = tuple[int, int, int, int, int]
"""gap_end_ps, gap_ps, gap_growth_ps, gap_steps, gap_sequences."""

COUNTERS = {
    "assisted_passes": 0,
    "vetoed_passes": 0,
    "drafted_tokens": 0,
    "accepted_tokens": 0,
    "verified_sequences": 0,
    "verified_tokens": 0,
    "assisted_ps": 0,
    "draft_busy_ps": 0,
    "retargets": 0,
    "ping_pong_passes": 0,
    "sent_after_crash": 0,
    "gateway_waited": 0,
    "peak_queue": 0,
    "restores": 0,
    "refused_sends": 0,
    "ignored_faults": 0,
    "migrated": 0,
    "remote_restores": 0,
    "failed_restores": 0,
    "regenerated_tokens": 0,
    "evictions": 0,
    "evicted_tokens": 0,
    "sent_tokens": 0,
    "arrived_tokens": 0,
    "refused_tokens": 0,
    "lost_tokens": 0,
    "released_tokens": 0,
    "egress_wait_ps": 0,
    "ingress_wait_ps": 0,
}


def ints(values: Sequence[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def _costs(draft: bool) -> ServingCosts:
    iteration = IterationCosts(
        token_ps=ints([0, 1]),
        lm_head_ps=ints([0, 0]),
        prefill_pair_ps=0,
        decode_context_ps=0,
        decode_sequence_ps=0,
    )
    return ServingCosts(
        target=iteration,
        draft=iteration if draft else None,
        verify_context_ppm=10**6,
        draft_round_trip_ps=0,
        restore_ps=ints([0]),
        pool_pages=100,
        draft_pool_pages=0,
        page_bytes=1600,
    )


def replay_input(
    arrival_ps: Sequence[int],
    output_tokens: Sequence[int] | None = None,
    crashes: Sequence[tuple[int, int]] = (),
    *,
    workers: int = 2,
    reload_s: int = 20,
    draft: bool = False,
    detection_s: int = 3,
    token_weight: int = 1,
    request_weight: int = 1,
) -> ReplayInput:
    """An input; ``crashes`` are (time in ps, worker)."""
    count = len(arrival_ps)
    policy = PolicyCodes(
        placement=2,
        routing=2,
        k=0,
        token_weight=token_weight,
        request_weight=request_weight,
        theta=-1,
        tau_tokens=512,
        guard=True,
        budget_pages=100,
    )
    reload = Reload(0, 10 * PS_PER_S if draft else 0, reload_s * PS_PER_S, 0)
    return ReplayInput(
        arrival_ps=ints(arrival_ps),
        prompt_tokens=ints([10] * count),
        output_tokens=ints(output_tokens if output_tokens is not None else [5] * count),
        workers=workers,
        costs=_costs(draft),
        token_budget=512,
        max_batch=8,
        min_prefill_tokens=0,
        scheduler=0,
        router=0,
        faults=crash_table(
            [time for time, _ in crashes],
            [worker for _, worker in crashes],
            [detection_s * PS_PER_S] * len(crashes),
            reload,
        ),
        policy=policy,
        acceptance_threshold=np.zeros((1, 1), dtype=np.uint64),
        expected_tokens=np.ones((1, 1)),
        seed=0,
        snapshot_ps=ints([]),
    )


def replay_output(
    inp: ReplayInput,
    first_ps: Sequence[int],
    last_ps: Sequence[int],
    gaps: Sequence[GapRecord] = (),
    **facts: Any,
) -> ReplayOutput:
    """An output of finished requests; any field can be given by its name."""
    count = inp.arrival_ps.size
    workers = inp.workers
    columns = list(zip(*gaps, strict=True)) if gaps else [()] * 5
    values: dict[str, Any] = {
        name: ints([])
        for name in ReplayOutput.__dataclass_fields__
        if name.startswith(("interruption_", "outage_", "crash_"))
    }
    values |= {
        "status": np.full(count, Status.FINISHED, dtype=np.int64),
        "first_ps": ints(first_ps),
        "last_ps": ints(last_ps),
        "worker": ints([0] * count),
        "holder": ints([NONE] * count),
        "interruptions": ints([0] * count),
        "preemptions": ints([0] * count),
        "restored_tokens": ints([0] * count),
        "recomputed_tokens": ints([0] * count),
        "dispatch_ps": inp.arrival_ps,
        "gap_end_ps": ints(columns[0]),
        "gap_ps": ints(columns[1]),
        "gap_growth_ps": ints(columns[2]),
        "gap_steps": ints(columns[3]),
        "gap_sequences": ints(columns[4]),
        "snapshot_queue": np.zeros((0, workers), dtype=np.int64),
        "snapshot_held_tokens": np.zeros((0, workers), dtype=np.int64),
        "snapshot_live": np.zeros((0, workers), dtype=np.int64),
        "snapshot_existing_tokens": ints([]),
        "snapshot_saved_tokens": ints([]),
        "held_integral": 0,
        "held_end": 0,
        "end_ps": max([0, *last_ps]),
        "counters": dict(COUNTERS),
    }
    return ReplayOutput(**(values | facts))


def brute_gaps(records: Sequence[GapRecord]) -> list[tuple[int, int]]:
    """Every single gap as (instant at which it ends, its length), by the definition of a record."""
    single = []
    for end, gap, growth, steps, sequences in records:
        at, length = end, gap
        for _ in range(steps):
            single += [(at, length)] * sequences
            length += growth
            at += length
    return single


def gap_records(largest_ps: int, *, max_records: int = 12) -> st.SearchStrategy[list[GapRecord]]:
    """Random records whose gaps start at up to ``largest_ps`` and end within a few dozen of that."""
    record = st.tuples(
        st.integers(0, 20 * largest_ps),
        st.integers(0, largest_ps),
        st.one_of(st.just(0), st.integers(0, max(1, largest_ps // 10))),
        st.one_of(st.just(1), st.integers(1, 40)),
        st.integers(1, 4),
    )
    return st.lists(record, max_size=max_records)
