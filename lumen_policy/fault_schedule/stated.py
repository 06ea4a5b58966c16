"""The faults that a set-up states: on the command line, or in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from lumen_policy.errors import InputError
from lumen_policy.fault_schedule.read import read_schedule
from lumen_policy.fault_schedule.timeline import NodeChoice, parse_days, timeline
from lumen_policy.faults import Fault, parse_crashes, parse_faults, timeline_of
from lumen_policy.settings import Settings

__all__ = ["StatedFaults", "stated_faults"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFaults:
    """The timeline of a replay.

    Attributes:
        faults: in order.
        mapping: how a file became them, for results; None without one.
    """

    faults: tuple[Fault, ...]
    mapping: dict[str, Any] | None = None


def stated_faults(settings: Settings, *, span_ps: int, notices: list[str]) -> StatedFaults:
    """The faults of ``crash`` and ``fault``, or of ``faults``.

    Args:
        settings: checked keys.
        span_ps: last arrival of the trace that is replayed.
        notices: gets what was dropped and how nodes and time were mapped.

    Raises:
        InputError: both ways are used, a text or file that is not readable, a fault that cannot be replayed.
    """
    if settings.faults is None:
        return StatedFaults(
            faults=timeline_of([*parse_crashes(settings.crash), *parse_faults(settings.fault)])
        )
    if settings.crash or settings.fault:
        name = "crash" if settings.crash else "fault"
        raise InputError(f"faults and {name} exclude each other: write all faults into the file")
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
    if schedule.clock == "days":
        notices.append(
            f"{schedule.source}: the log's durations only tell overlapping faults; repair_s and the reload say "
            "when a worker is back"
        )
    return StatedFaults(faults=found.faults, mapping=found.describe(schedule))
