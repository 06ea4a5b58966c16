"""Run one replay: check the input, drive the kernel, hand out its facts."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from numba import int64

from cost_models.serving_costs import IterationCosts, ServingCosts
from lumen_policy.errors import ReplayError
from lumen_policy.replay.contract import (
    FaultTable,
    PolicyCodes,
    ReplayInput,
    ReplayOutput,
    Status,
)
from lumen_policy.replay.input_checks import check_input
from lumen_policy.replay.kernel import faults, jit, loop, memory, outages, sending, snapshots
from lumen_policy.replay.kernel.state import (
    COUNTERS,
    DONE,
    HELD,
    SHOT_EXISTING,
    SHOT_HELD,
    SHOT_LIVE,
    SHOT_QUEUE,
    SHOT_SAVED,
    State,
    allocate,
)

__all__ = ["prepare", "replay", "replay_timed"]


def replay(inputs: ReplayInput) -> ReplayOutput:
    """Replay a trace through a cluster: discrete-event, deterministic, exact (docs/semantics.md).

    Args:
        inputs: the resolved replay.

    Returns:
        The raw facts.

    Raises:
        InputError: the input cannot be replayed (spans beyond 90 days, weights beyond 64 bits, …).
        ReplayError: the clock ran past 100 days: the cluster never catches up.
    """
    return replay_timed(inputs)[0]


def replay_timed(inputs: ReplayInput) -> tuple[ReplayOutput, float]:
    """``replay`` and the CPU seconds of the kernel alone."""
    check_input(inputs)
    prepare()
    margin = inputs.workers * (2 * inputs.max_batch + 8)
    state = allocate(inputs, margin + 4 * len(inputs.arrival_ps) + 1024)
    started = time.thread_time()
    while True:
        status = _drive(state, margin)
        if status == loop.MORE_GAPS:
            state = state._replace(gaps=_enlarged(state.gaps, margin))
        elif status == loop.MORE_INTERRUPTIONS:
            state = state._replace(interruptions=_enlarged(state.interruptions, len(inputs.arrival_ps)))
        elif status == loop.TOO_LONG:
            raise ReplayError(
                "the replay ran past 100 days of simulated time, or a worker never paused: the load never drains"
            )
        else:
            cpu = time.thread_time() - started
            return _output(inputs, state), cpu


def _drive(state: State, margin: int) -> int:
    """Run the kernel until it is done or needs room; what is rare is an entry of its own, cheaper to compile."""
    table = memory.words(state)
    address = memory.handle(state, table)
    g = state.g[0]
    while True:
        status = loop.run(address, margin)
        t = g["now"]
        if status == loop.RARE:
            faults.strike(address, t)
            if g["to_send"]:
                sending.send_on(address, t)
            while g["life_next"] == t:
                outages.detect(address, t)
                if g["to_send"]:
                    sending.send_on(address, t)
                outages.come_back(address, t)
                if g["flushing"]:
                    sending.send_on(address, t)
                outages.drafts(address, t)
        elif status == loop.REPORT:
            snapshots.report(address, t)
        elif status == loop.SNAPSHOT:
            snapshots.snapshot(address, t)
        elif status == loop.REFUSED:
            sending.send_on(address, t)
        else:
            return int(status)


def prepare() -> None:
    """Load the kernel, compiling it first where no cached one of this version lies; says so on stderr."""
    global _prepared  # noqa: PLW0603
    if _prepared:
        return
    compiled = jit.is_compiled()
    if not compiled:
        print("lumen-tune: compiling the replay kernel (once, a minute or two) …", file=sys.stderr)
    try:
        _load_all()
    except Exception:
        if not compiled:
            raise
        print(f"lumen-tune: {jit.cache_directory()} is damaged: compiling again …", file=sys.stderr)
        jit.forget()
        _load_all()
    _prepared = True


def _load_all() -> None:
    """Compile every entry, or load it."""
    state = allocate(_SMALLEST, 16)
    table = memory.words(state)
    address = memory.handle(state, table)
    loop.run(address, 8)
    for entry in _RARE_ENTRIES:
        if hasattr(entry, "compile"):
            entry.compile((int64, int64))


_RARE_ENTRIES: tuple[Any, ...] = (
    faults.strike,
    sending.send_on,
    outages.detect,
    outages.come_back,
    outages.drafts,
    snapshots.report,
    snapshots.snapshot,
)
_prepared = False
_NOTHING = np.zeros(0, np.int64)
_SMALLEST = ReplayInput(
    arrival_ps=np.zeros(1, np.int64),
    prompt_tokens=np.ones(1, np.int64),
    output_tokens=np.ones(1, np.int64),
    workers=1,
    costs=ServingCosts(
        target=IterationCosts(
            token_ps=np.ones(2, np.int64),
            lm_head_ps=np.zeros(2, np.int64),
            prefill_pair_ps=0,
            decode_context_ps=0,
            decode_sequence_ps=0,
        ),
        draft=None,
        verify_context_ppm=0,
        draft_round_trip_ps=0,
        restore_ps=np.zeros(2, np.int64),
        pool_pages=1,
        draft_pool_pages=0,
        page_bytes=1,
    ),
    token_budget=1,
    max_batch=1,
    min_prefill_tokens=0,
    scheduler=0,
    router=0,
    faults=FaultTable.none(),
    policy=PolicyCodes(
        placement=0,
        routing=0,
        k=0,
        token_weight=0,
        request_weight=1,
        theta=-1,
        tau_tokens=0,
        guard=False,
        budget_pages=0,
    ),
    acceptance_threshold=np.zeros((1, 1), np.uint64),
    expected_tokens=np.ones((1, 1)),
    seed=0,
    snapshot_ps=_NOTHING,
)
"""One token on one worker: enough to load the kernel."""


def _enlarged(log: Any, extra: int) -> Any:
    grown = np.zeros(2 * len(log) + extra + 1024, log.dtype)
    grown[: len(log)] = log
    return grown


def _output(inputs: ReplayInput, state: State) -> ReplayOutput:
    g = state.g[0]
    requests = state.requests
    gaps = state.gaps[: g["gaps"]]
    log = state.interruptions[: g["interruptions"]]
    outages = state.outages[: g["outages"]]

    def column(records: Any, name: str) -> Any:
        return np.ascontiguousarray(records[name], np.int64)

    def count_column(name: str) -> Any:
        return np.ascontiguousarray(requests[name], np.int32)

    finished = requests["state"] == DONE
    refused = finished & (requests["delivered"] < 0)
    status: Any = np.full(len(requests), int(Status.PENDING), np.int32)
    status[finished] = int(Status.FINISHED)
    status[refused] = int(Status.REFUSED_TOO_LONG)
    last = column(requests, "last")
    last[status != int(Status.FINISHED)] = -1
    counters = {name: int(g[name]) for name in COUNTERS}
    return ReplayOutput(
        status=status,
        first_ps=column(requests, "first"),
        last_ps=last,
        worker=count_column("server"),
        holder=count_column("last_holder"),
        interruptions=count_column("interruptions"),
        preemptions=count_column("preemptions"),
        restored_tokens=count_column("restored"),
        recomputed_tokens=count_column("recomputed"),
        dispatch_ps=column(requests, "dispatch"),
        interruption_request=column(log, "request"),
        interruption_class=column(log, "origin"),
        interruption_crash_ps=column(log, "crash"),
        interruption_redispatch_ps=column(log, "redispatch"),
        interruption_delivered=column(log, "delivered"),
        interruption_restored=column(log, "restored"),
        interruption_next_ps=column(log, "next"),
        outage_worker=column(outages, "worker"),
        outage_kind=column(outages, "kind"),
        outage_crash_ps=column(outages, "crash"),
        outage_stop_ps=column(outages, "stop"),
        outage_detection_ps=column(outages, "detection"),
        outage_draft_ready_ps=column(outages, "ready"),
        outage_assist_target=column(outages, "target"),
        outage_assist_end_ps=column(outages, "assist_end"),
        outage_rejoin_ps=column(outages, "rejoin"),
        gap_end_ps=gaps["end"],
        gap_ps=gaps["gap"],
        gap_growth_ps=gaps["growth"],
        gap_steps=gaps["steps"],
        gap_sequences=gaps["sequences"],
        snapshot_queue=state.snapshots[:, SHOT_QUEUE],
        snapshot_held_tokens=state.snapshots[:, SHOT_HELD],
        snapshot_live=state.snapshots[:, SHOT_LIVE],
        snapshot_existing_tokens=state.snapshots[:, SHOT_EXISTING].sum(axis=1),
        snapshot_saved_tokens=state.snapshots[:, SHOT_SAVED].sum(axis=1),
        crash_existing_tokens=state.coverage[: g["coverages"], 0].copy(),
        crash_saved_tokens=state.coverage[: g["coverages"], 1].copy(),
        held_integral=(int(g["integral_high"]) << 31) + int(g["integral_low"]),
        held_end=int(state.by_worker[HELD, : inputs.workers].sum()),
        end_ps=int(g["end"]),
        counters=counters,
    )
