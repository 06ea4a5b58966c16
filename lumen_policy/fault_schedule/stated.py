"""The crashes that a set-up states: on the command line, or in a file of faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from lumen_policy.errors import InputError
from lumen_policy.fault_schedule.read import read_schedule
from lumen_policy.fault_schedule.timeline import NodeChoice, parse_days, timeline
from lumen_policy.faults import Crash, parse_crashes
from lumen_policy.settings import Settings

__all__ = ["StatedCrashes", "stated_crashes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedCrashes:
    """The timeline of a replay.

    Attributes:
        crashes: in order.
        faults: how a file of faults became them, for results; None without one.
    """

    crashes: tuple[Crash, ...]
    faults: dict[str, Any] | None = None


def stated_crashes(settings: Settings, *, span_ps: int, notices: list[str]) -> StatedCrashes:
    """The crashes of ``crash`` or of ``faults``.

    Args:
        settings: checked keys.
        span_ps: last arrival of the trace that is replayed.
        notices: gets what was dropped and how nodes and time were mapped.

    Raises:
        InputError: both are stated, a text or file that is not readable, a fault that cannot be replayed.
    """
    if settings.faults is None:
        return StatedCrashes(crashes=parse_crashes(settings.crash))
    if settings.crash:
        raise InputError("faults and crash exclude each other: write the crashes into the file")
    schedule = read_schedule(settings.faults)
    found = timeline(
        schedule,
        workers=settings.workers,
        span_ps=span_ps,
        days=None if settings.fault_days is None else parse_days(settings.fault_days),
        choice=cast("NodeChoice", settings.fault_nodes),
        watched=settings.fault_nodes_watched,
        seed=settings.seed,
    )
    notices += [f"{schedule.source}: {line}" for line in found.words]
    notices += [
        f"{schedule.source}: {count:,} of {found.read:,} faults not replayed: {reason}"
        for reason, count in found.dropped.items()
    ]
    if any(fault.duration_s for fault in schedule.faults):
        notices.append(
            f"{schedule.source}: durations only tell overlapping faults; a worker is back after the reload of "
            "the cost model"
        )
    return StatedCrashes(crashes=found.crashes, faults=found.describe(schedule))
