"""Run one replay: check the input, drive the kernel, hand out its facts."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from lumen_policy.errors import InputError, ReplayError
from lumen_policy.replay.contract import ReplayInput, ReplayOutput, Status
from lumen_policy.replay.input_checks import check_input
from lumen_policy.replay.kernel import decisions, loop, program
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
from lumen_policy.replay.own_rules import STANDARD, OwnRules

__all__ = ["prepare", "replay", "replay_timed"]

Run = program.CompiledRun | program.PlainRun


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
    prepare(inputs.own_rules)
    margin = inputs.workers * (2 * inputs.max_batch + 8)
    state = allocate(inputs, margin + 4 * len(inputs.arrival_ps) + 1024)
    started = time.thread_time()
    while True:
        status = _drive(state, inputs.own_rules, margin)
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
            state = state._replace(slots=None)  # as large as the output, which does not need it
            return _output(inputs, state), cpu


def prepare(rules: OwnRules = STANDARD) -> None:
    """Load the kernel, compiling it first where no cached one lies; says so on stderr."""
    if not program.interpreted():
        program.compiled(rules)
    elif rules.path:
        program.check_rules(rules)


def _drive(state: State, rules: OwnRules, margin: int) -> int:
    """Run the kernel until it is done or needs room."""
    run = program.PlainRun(state, rules) if program.interpreted() else program.CompiledRun(state, rules)
    status = _loop(run, margin)
    wrong = run.close()
    choice = int(state.g["wrong_choice"][0])
    if choice and not wrong:
        names, why = decisions.CHOICES[choice]
        wrong = f"{rules.place(names)} {why}"
    if wrong:
        raise InputError(f"own_rules: {wrong}")
    return status


def _loop(run: Run, margin: int) -> int:
    """What is rare is an entry of its own."""
    while True:
        status = run.call("run", margin)
        t = run.look("now")
        if status == loop.RARE:
            run.call("strike", t)
            if run.look("to_send"):
                run.call("send_on", t)
            while run.look("life_next") == t:
                run.call("detect", t)
                if run.look("to_send"):
                    run.call("send_on", t)
                run.call("come_back", t)
                if run.look("flushing"):
                    run.call("send_on", t)
                run.call("drafts", t)
        elif status == loop.REPORT:
            run.call("report", t)
        elif status == loop.SNAPSHOT:
            run.call("snapshot", t)
        elif status == loop.REFUSED:
            run.call("send_on", t)
        else:
            return int(status)


def _enlarged(log: Any, extra: int) -> Any:
    grown = np.zeros(2 * len(log) + extra + 1024, log.dtype)
    grown[: len(log)] = log
    return grown


def _output(inputs: ReplayInput, state: State) -> ReplayOutput:
    g = state.g[0]
    requests, recovery = state.requests, state.recovery
    gaps = state.gaps[: g["gaps"]]
    log = state.interruptions[: g["interruptions"]]
    outages = state.outages[: g["outages"]]

    def column(records: Any, name: str) -> Any:
        return np.ascontiguousarray(records[name], np.int64)

    def count_column(records: Any, name: str) -> Any:
        return np.ascontiguousarray(records[name], np.int32)

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
        worker=count_column(requests, "server"),
        holder=count_column(requests, "last_holder"),
        interruptions=count_column(recovery, "interruptions"),
        preemptions=count_column(recovery, "preemptions"),
        restored_tokens=count_column(recovery, "restored"),
        recomputed_tokens=count_column(recovery, "recomputed"),
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
