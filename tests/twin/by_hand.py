"""What schedules worked out by hand are made of."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cost_models.serving_costs import IterationCosts, ServingCosts, TransferCosts
from lumen_policy.replay.contract import (
    FULL_SPEED_PPM,
    FaultKind,
    FaultTable,
    Placement,
    PolicyCodes,
    ReplayInput,
    ReplayOutput,
    Router,
    Routing,
    Scheduler,
)
from lumen_policy.replay.engine import replay as kernel

from .compare import gap_counts
from .simulation import replay as twin
from .strategies import INFINITE

__all__ = [
    "ALWAYS",
    "BOTH",
    "case",
    "check_tokens",
    "costs",
    "fault",
    "faults",
    "flat",
    "gaps",
    "interruptions",
    "ints",
    "one_crash",
    "outages",
    "policy",
    "rising",
    "transfers",
]

BOTH = pytest.mark.parametrize("replay", [twin, kernel], ids=["twin", "kernel"])
"""The same schedule for the twin and for the kernel."""

ALWAYS = 2**64 - 1


def ints(*values: int) -> npt.NDArray[np.int64]:
    """An int64 array."""
    return np.array(values, dtype=np.int64)


def flat(iteration_ps: int) -> IterationCosts:
    """Every iteration lasts the same."""
    return IterationCosts(
        token_ps=np.full(200, iteration_ps, dtype=np.int64),
        lm_head_ps=np.zeros(200, dtype=np.int64),
        prefill_pair_ps=0,
        decode_context_ps=0,
        decode_sequence_ps=0,
    )


def rising() -> IterationCosts:
    """100 + 10 a token + 5 a row + 1 a pair + 1 a context token + 3 a sequence."""
    return IterationCosts(
        token_ps=100 + 10 * np.arange(200, dtype=np.int64),
        lm_head_ps=5 * np.arange(200, dtype=np.int64),
        prefill_pair_ps=1,
        decode_context_ps=1,
        decode_sequence_ps=3,
    )


def costs(target: IterationCosts, **changes: Any) -> ServingCosts:
    """Restores of 5, 7, 9 and 11 for 1 to 4 pages."""
    return replace(
        ServingCosts(
            target=target,
            draft=None,
            verify_context_ppm=10**6,
            draft_round_trip_ps=1,
            restore_ps=ints(0, 5, 7, 9, 11),
            pool_pages=50,
            draft_pool_pages=50,
            page_bytes=1,
        ),
        **changes,
    )


def policy(**changes: Any) -> PolicyCodes:
    """Stop and restart unless changed."""
    return replace(
        PolicyCodes(
            placement=Placement.OFF,
            routing=Routing.SHORTEST_QUEUE,
            k=0,
            token_weight=1,
            request_weight=16,
            theta=INFINITE,
            tau_tokens=INFINITE,
            guard=False,
            budget_pages=1000,
        ),
        **changes,
    )


def case(requests: list[tuple[int, int, int]], serving: ServingCosts, **changes: Any) -> ReplayInput:
    """Requests as (arrival, prompt, output) on one worker unless changed."""
    arrivals, prompts, outputs = (ints(*column) for column in zip(*requests, strict=True))
    return replace(
        ReplayInput(
            arrival_ps=arrivals,
            prompt_tokens=prompts,
            output_tokens=outputs,
            workers=1,
            costs=serving,
            token_budget=100,
            max_batch=8,
            min_prefill_tokens=0,
            scheduler=Scheduler.MIXED,
            router=Router.JSQ,
            faults=FaultTable.none(),
            policy=policy(),
            acceptance_threshold=np.array([[ALWAYS]], dtype=np.uint64),
            expected_tokens=np.array([[1.0, 2.0, 3.0]]),
            seed=1,
            snapshot_ps=ints(),
        ),
        **changes,
    )


def one_crash(at_ps: int, detected_after_ps: int) -> dict[str, Any]:
    """A crash of worker 0."""
    return {"faults": faults(fault(FaultKind.CRASH, at_ps, delay_ps=detected_after_ps))}


def fault(kind: FaultKind, at_ps: int, worker: int = 0, **changes: int) -> dict[str, int]:
    """A row of the table, with a reload of 5 + 1000 + 50, or 5 + 5 + 1000 + 50 with a draft, unless changed."""
    row = {
        "ps": at_ps,
        "worker": worker,
        "kind": int(kind),
        "delay_ps": 0,
        "length_ps": 0,
        "factor_ppm": FULL_SPEED_PPM,
        "keeps_copies": 0,
        "refusals": 0,
        "restart_ps": 5,
        "draft_ps": 5,
        "load_ps": 1000,
        "init_ps": 50,
    }
    assert changes.keys() <= row.keys()
    return row | changes


def faults(*rows: dict[str, int]) -> FaultTable:
    """The table of these faults, in its order."""
    ordered = sorted(rows, key=lambda row: (row["ps"], row["kind"], row["worker"]))
    return FaultTable(
        **{name.name: ints(*(row[name.name] for row in ordered)) for name in fields(FaultTable)}
    )


def transfers(**changes: Any) -> TransferCosts:
    """Free links; a remote restore of 20, 30, ... and a restore from the store of 25, 35, ... for 1, 2, ... pages."""
    free = TransferCosts(remote_restore_ps=ints(0, 20, 30, 40, 50), store_restore_ps=ints(0, 25, 35, 45, 55))
    return replace(free, **changes)


def gaps(output: ReplayOutput) -> list[tuple[int, int]]:
    """(end, length) of every token gap, in order."""
    return sorted(gap_counts(output).elements())


def interruptions(output: ReplayOutput) -> list[tuple[int, ...]]:
    """(request, class, crash, redispatch, delivered, restored, next token) of each."""
    return _rows(
        output.interruption_request,
        output.interruption_class,
        output.interruption_crash_ps,
        output.interruption_redispatch_ps,
        output.interruption_delivered,
        output.interruption_restored,
        output.interruption_next_ps,
    )


def outages(output: ReplayOutput) -> list[tuple[int, ...]]:
    """(worker, kind, start, stop, detection, rejoin) of each."""
    return _rows(
        output.outage_worker,
        output.outage_kind,
        output.outage_crash_ps,
        output.outage_stop_ps,
        output.outage_detection_ps,
        output.outage_rejoin_ps,
    )


def _rows(*columns: npt.NDArray[np.int64]) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def check_tokens(output: ReplayOutput, **expected: int) -> None:
    """The books of checkpoint tokens balance, and the named counters (without ``_tokens``) have these values."""
    count = output.counters
    assert count["sent_tokens"] == count["arrived_tokens"] + count["refused_tokens"] + count["lost_tokens"]
    assert count["arrived_tokens"] == count["evicted_tokens"] + count["released_tokens"] + output.held_end
    assert {name: count[f"{name}_tokens"] for name in expected} == expected
