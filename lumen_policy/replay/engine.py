"""Run one replay: check the input, drive the kernel, hand out its facts."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from cost_models.serving_costs import IterationCosts, ServingCosts
from lumen_policy.errors import InputError, ReplayError
from lumen_policy.replay.contract import PolicyCodes, ReplayInput, ReplayOutput, Status
from lumen_policy.replay.kernel import jit, loop
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

_SPAN_LIMIT_PS = 90 * 86_400 * 10**12
_INT64_SAFE = 2**62
_MOST_WORKERS = 4096
_MOST_BATCH = 32_767
_MOST_TOKENS = 2**30


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
    _check(inputs)
    prepare()
    margin = inputs.workers * (2 * inputs.max_batch + 8)
    state = allocate(inputs, margin + 4 * len(inputs.arrival_ps) + 1024)
    cpu = 0.0
    while True:
        started = time.thread_time()
        status = loop.run(state, margin)
        cpu += time.thread_time() - started
        if status == loop.MORE_GAPS:
            state = state._replace(gaps=_enlarged(state.gaps, margin))
        elif status == loop.MORE_INTERRUPTIONS:
            state = state._replace(interruptions=_enlarged(state.interruptions, len(inputs.arrival_ps)))
        elif status == loop.TOO_LONG:
            raise ReplayError("the replay ran past 100 days of simulated time: the load never drains")
        else:
            return _output(inputs, state), cpu


def prepare() -> None:
    """Load the kernel, compiling it first where no cached one of this version lies; says so on stderr."""
    global _prepared  # noqa: PLW0603
    if _prepared:
        return
    if not jit.is_compiled():
        print("lumen-tune: compiling the replay kernel (once, about a minute) …", file=sys.stderr)
    loop.run(allocate(_SMALLEST, 16), 8)
    _prepared = True


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
        restart_ps=0,
        full_load_ps=0,
        engine_init_ps=0,
        draft_load_ps=0,
        draft_init_ps=0,
        pool_pages=1,
        draft_pool_pages=0,
        page_bytes=1,
    ),
    token_budget=1,
    max_batch=1,
    min_prefill_tokens=0,
    scheduler=0,
    router=0,
    crash_ps=_NOTHING,
    crash_worker=_NOTHING,
    detection_ps=_NOTHING,
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
    acceptance_threshold=np.zeros(1, np.uint64),
    expected_tokens=np.ones((1, 1)),
    seed=0,
    snapshot_ps=_NOTHING,
)
"""One token on one worker: enough to load the kernel."""


def _enlarged(log: Any, extra: int) -> Any:
    grown = np.zeros(len(log) + len(log) // 2 + extra + 1024, log.dtype)
    grown[: len(log)] = log
    return grown


def _check(inputs: ReplayInput) -> None:
    """What would break the kernel's integers is refused here, in words."""
    costs, policy = inputs.costs, inputs.policy
    n = len(inputs.arrival_ps)
    if n == 0:
        raise InputError("trace: no requests")
    if not len(inputs.prompt_tokens) == len(inputs.output_tokens) == n:
        raise InputError("trace: arrivals, prompts and outputs differ in number")
    if inputs.arrival_ps[0] < 0 or np.any(np.diff(inputs.arrival_ps) < 0):
        raise InputError("trace: arrivals must be non-negative and in order")
    if inputs.arrival_ps[-1] > _SPAN_LIMIT_PS:
        raise InputError("trace: spans more than 90 days, the longest a replay can hold")
    if inputs.prompt_tokens.max() >= _MOST_TOKENS or inputs.output_tokens.max() >= _MOST_TOKENS:
        raise InputError(f"trace: a prompt or output of {_MOST_TOKENS} tokens or more")
    if inputs.prompt_tokens.min() < 1 or inputs.output_tokens.min() < 1:
        raise InputError("trace: prompt_tokens and output_tokens must be at least 1")
    if inputs.workers > _MOST_WORKERS:
        raise InputError(f"workers: {inputs.workers} is more than {_MOST_WORKERS}")
    if inputs.max_batch > _MOST_BATCH:
        raise InputError(f"max_batch: {inputs.max_batch} is more than {_MOST_BATCH}")
    for name, value in (
        ("workers", inputs.workers),
        ("max_batch", inputs.max_batch),
        ("token_budget", inputs.token_budget),
    ):
        if value < 1:
            raise InputError(f"{name}: {value} is not at least 1")
    widest = max(inputs.token_budget, inputs.max_batch)
    for table, length in ((costs.target.token_ps, widest), (costs.target.lm_head_ps, widest)):
        if len(table) <= length:
            raise InputError(f"costs: an iteration table ends at {len(table) - 1}, below {length} tokens")
    if np.any(costs.target.token_ps[1:] < 1):
        raise InputError("costs: an iteration must last at least 1 ps")
    longest = int((inputs.prompt_tokens.astype(np.int64) + inputs.output_tokens).max())
    longest = min(longest, costs.pool_pages * 16)
    if policy.placement and len(costs.restore_ps) <= longest // 16:
        raise InputError(f"costs: the restore table ends below {longest} tokens")
    if policy.k > 0:
        if costs.draft is None:
            raise InputError(f"k: {policy.k} drafted tokens need a draft model")
        if len(costs.draft.token_ps) <= max(longest, inputs.max_batch):
            raise InputError(f"costs: the draft's iteration table ends below {longest} tokens")
        if len(costs.draft.lm_head_ps) <= inputs.max_batch:
            raise InputError("costs: the draft's LM head table ends below the batch size")
        if inputs.expected_tokens.shape[1] <= policy.k or len(inputs.acceptance_threshold) < 1:
            raise InputError(f"acceptance: no expected tokens for k = {policy.k}")
    if len(inputs.crash_worker) and not (
        inputs.crash_worker.min() >= 0 and inputs.crash_worker.max() < inputs.workers
    ):
        raise InputError(f"crash: worker {int(inputs.crash_worker.max())} is not below {inputs.workers}")
    most_held = min(
        policy.budget_pages * 16, int((inputs.prompt_tokens + inputs.output_tokens).sum(dtype=np.int64))
    )
    if policy.token_weight * most_held + policy.request_weight * n > _INT64_SAFE:
        raise InputError("alpha/beta: so extreme that L does not fit 64 bits on this trace")


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
        outage_crash_ps=column(outages, "crash"),
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
