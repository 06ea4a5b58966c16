"""From a schedule to the faults of a replay: which nodes become workers, which time becomes the trace's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from lumen_policy.clock import seconds_to_ps
from lumen_policy.errors import InputError
from lumen_policy.fault_schedule.schedule import DAY_S, FaultSchedule, ScheduledFault
from lumen_policy.faults import Fault, fault_of
from lumen_policy.replay.contract import PS_PER_S
from lumen_policy.replay.draws import draw

__all__ = ["NODE_CHOICES", "NodeChoice", "Timeline", "parse_days", "timeline"]

NODE = 76
"""Purpose of the draws that choose nodes: (node's rank by name, 0)."""

NodeChoice = Literal["sample", "worst", "fold"]
NODE_CHOICES: tuple[NodeChoice, ...] = get_args(NodeChoice)

_OUTSIDE = "outside the window of days"
_UNMAPPED = "on nodes that are no worker"
_OVERLAPPING = "while the worker was already faulty"
_TWICE = "of a kind that hits the worker at the same instant already"
_LATE = "after the last arrival"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What of a schedule a replay sees: read = len(faults) + Σ dropped.

    Attributes:
        faults: in order.
        read: faults of the schedule.
        dropped: faults that are not replayed, by reason.
        zero_length: replayed crashes whose repair takes no time; they are crashes like others.
        nodes: node → worker, of the nodes that became workers; empty where the schedule names workers.
        words: one line each on how nodes and time were mapped.
    """

    faults: tuple[Fault, ...]
    read: int
    dropped: dict[str, int]
    zero_length: int
    nodes: dict[str, int]
    words: tuple[str, ...] = field(default=())

    def describe(self, schedule: FaultSchedule) -> dict[str, Any]:
        """For results."""
        return {
            "source": schedule.source,
            "format": schedule.format,
            "read": self.read,
            "replayed": len(self.faults),
            "dropped": self.dropped,
            "zero_length": self.zero_length,
            "nodes": self.nodes,
            "mapping": list(self.words),
        }


def parse_days(text: str) -> tuple[float, float]:
    """``START:END`` in days."""
    try:
        start, end = (float(part) for part in text.split(":"))
    except ValueError:
        start = end = math.nan
    if not (0 <= start < end < math.inf):
        raise InputError(f"fault_days: {text!r} is not START:END in days, 0 ≤ START < END, e.g. 100:107")
    return start, end


def timeline(
    schedule: FaultSchedule,
    *,
    workers: int,
    span_ps: int,
    days: tuple[float, float] | None = None,
    choice: NodeChoice = "sample",
    watched: int | None = None,
    seed: int = 0,
) -> Timeline:
    """The faults of a replay.

    Time: a schedule in seconds starts with the trace. A log in days is cut to a window, by default all of
    it, and the window is stretched or compressed onto the trace, first to last arrival. A fault of a log that
    starts while its worker is still faulty, in the log's time, is no new crash, and the log's durations are
    left out: they are not the trace's.

    Nodes: ``sample`` draws as many nodes as there are workers out of all that were watched; ``worst`` takes
    those with the most faults in the window (ties by name); ``fold`` puts every node of the window onto
    worker (its rank by first fault) mod workers.

    Args:
        schedule: the faults.
        workers: of the cluster.
        span_ps: last arrival of the trace.
        days: window [start, end) of a log in days; None for all of it.
        choice: of nodes.
        watched: nodes that the log watched, failed or not; None: those it names.
        seed: of the draws.

    Raises:
        InputError: a worker that does not exist, options without meaning.
    """
    dropped: dict[str, int] = {}
    faults: Sequence[ScheduledFault] = schedule.faults
    words: list[str] = []
    if schedule.clock == "days":
        days = days or (0.0, math.nextafter(faults[-1].time_s / DAY_S, math.inf))
        start_s, end_s = (edge * DAY_S for edge in days)
        kept = [fault for fault in faults if start_s <= fault.time_s < end_s]
        dropped[_OUTSIDE], faults = len(faults) - len(kept), kept
        words.append(_time_words(days, span_ps))
    elif days is not None:
        raise InputError(f"fault_days: {schedule.source} is in seconds from the trace's start, not in days")
    nodes: dict[str, int] = {}
    if schedule.on_nodes:
        nodes = _choose_nodes(schedule, faults, workers, choice, watched, seed)
        kept = [fault for fault in faults if fault.node in nodes]
        dropped[_UNMAPPED], faults = len(faults) - len(kept), kept
        faults = [replace(fault, worker=nodes[fault.node or ""], node=None) for fault in faults]
        words.append(_node_words(choice, len(nodes), workers, schedule, watched))
    elif choice != "sample" or watched is not None:
        raise InputError(
            f"fault_nodes: {schedule.source} names workers, so there are no nodes to choose from"
        )
    for fault in faults:
        if fault.worker is not None and fault.worker >= workers:
            raise InputError(
                f"{fault.place}: worker {fault.worker} does not exist, the {workers} workers are 0 to {workers - 1}"
            )
    if schedule.clock == "days":
        alone = _first_of_overlapping(faults)
        dropped[_OVERLAPPING], faults = len(faults) - len(alone), alone
    placed: dict[tuple[int, int, int], tuple[Fault, ScheduledFault]] = {}
    for fault in faults:
        place_ps = _place_ps(fault, schedule, days, span_ps)
        if place_ps > span_ps:
            dropped[_LATE] = dropped.get(_LATE, 0) + 1
            continue
        found = _fault(fault, place_ps, keep_duration=schedule.clock == "s")
        if found.order in placed:
            reason = _OVERLAPPING if schedule.clock == "days" else _TWICE
            dropped[reason] = dropped.get(reason, 0) + 1
        placed.setdefault(found.order, (found, fault))
    return Timeline(
        faults=tuple(placed[order][0] for order in sorted(placed)),
        read=len(schedule.faults),
        dropped={reason: count for reason, count in dropped.items() if count},
        zero_length=sum(fault.kind == "crash" and fault.duration_s == 0 for _, fault in placed.values()),
        nodes=nodes,
        words=tuple(words),
    )


def _place_ps(
    fault: ScheduledFault, schedule: FaultSchedule, days: tuple[float, float] | None, span_ps: int
) -> int:
    """When it starts on the trace's clock."""
    if schedule.clock == "s":
        return seconds_to_ps(fault.place, fault.time_s)
    assert days is not None
    share = (fault.time_s / DAY_S - days[0]) / (days[1] - days[0])
    return min(span_ps, round(share * span_ps))


def _fault(fault: ScheduledFault, time_ps: int, *, keep_duration: bool) -> Fault:
    return fault_of(
        fault.place,
        time_ps,
        fault.worker or 0,
        fault.kind,
        scope=fault.scope,
        duration_s=fault.duration_s if keep_duration else None,
        factor=fault.factor,
        mode=fault.mode,
    )


def _first_of_overlapping(faults: Sequence[ScheduledFault]) -> list[ScheduledFault]:
    """Per worker, the faults that start when all earlier ones have ended; of equal starts the first."""
    until: dict[int, tuple[float, float]] = {}
    alone = []
    for fault in faults:
        worker = fault.worker or 0
        begun_s, mended_s = until.get(worker, (-1.0, -1.0))
        if fault.time_s >= mended_s and fault.time_s != begun_s:
            alone.append(fault)
            until[worker] = (fault.time_s, fault.end_s)
        else:
            until[worker] = (begun_s, max(mended_s, fault.end_s))
    return alone


def _choose_nodes(
    schedule: FaultSchedule,
    faults: Sequence[ScheduledFault],
    workers: int,
    choice: NodeChoice,
    watched: int | None,
    seed: int,
) -> dict[str, int]:
    named = sorted({fault.node or "" for fault in schedule.faults})
    if watched is not None and watched < len(named):
        raise InputError(f"fault_nodes_watched: {watched} is below the {len(named)} nodes that the log names")
    if choice == "fold":
        order = dict.fromkeys(fault.node or "" for fault in faults)
        return {node: rank % workers for rank, node in enumerate(order)}
    if choice == "worst":
        count = dict.fromkeys(named, 0)
        for fault in faults:
            count[fault.node or ""] += 1
        ranked = sorted(named, key=lambda node: (-count[node], node))
        return {node: rank for rank, node in enumerate(ranked[:workers])}
    pool = watched or len(named)
    if pool < workers:
        raise InputError(
            f"fault_nodes: {pool} nodes are fewer than {workers} workers; choose fold, or state all nodes that "
            "were watched (fault_nodes_watched)"
        )
    drawn = sorted(range(pool), key=lambda rank: (draw(seed, NODE, rank, 0), rank))[:workers]
    return {named[rank]: worker for worker, rank in enumerate(drawn) if rank < len(named)}


def _time_words(days: tuple[float, float], span_ps: int) -> str:
    span_s = span_ps / PS_PER_S
    length_s = (days[1] - days[0]) * DAY_S
    words = f"days {days[0]:g} to {days[1]:g} of the log became the {span_s:,.1f} s of the trace"
    if span_s > 0 and not math.isclose(length_s, span_s, rel_tol=1e-6):
        words += f": faults come {length_s / span_s:,.4g} times as often as in the log"
    return words


def _node_words(
    choice: NodeChoice, faulty: int, workers: int, schedule: FaultSchedule, watched: int | None
) -> str:
    named = len({fault.node for fault in schedule.faults})
    if choice == "fold":
        return (
            f"all {faulty} faulty nodes of the window were folded onto {workers} workers, rank mod {workers}"
        )
    if choice == "worst":
        return f"the {faulty} nodes with the most faults in the window became workers 0 to {faulty - 1}"
    if watched is None:
        return (
            f"{workers} of the {named} nodes that ever failed were drawn as workers: nodes without a fault are "
            "not counted (fault_nodes_watched states them)"
        )
    return f"{workers} of {watched} watched nodes were drawn as workers, {faulty} of them ever failed"
