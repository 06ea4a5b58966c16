"""A list of faults over time, on nodes or on workers, before it meets a cluster."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lumen_policy.errors import InputError
from lumen_policy.faults import DEFAULT_SCOPES, Kind, Mode, Scope, check_fields

__all__ = ["DAY_S", "Clock", "FaultSchedule", "ScheduledFault"]

DAY_S = 86_400.0

Clock = Literal["s", "days"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault:
    """One fault.

    Attributes:
        time_s: start, seconds from the schedule's origin, ≥ 0.
        worker: the worker hit, from 0; None where a node is named.
        node: the node hit; None where a worker is.
        kind, scope, mode: as of ``lumen_policy.faults.Fault``; a scope that is not stated is the kind's default.
        duration_s: of a crash the repair, of a drain the work on the stopped worker, of the others how long;
            infinite where a log does not hold the end, None where it is not stated.
        factor: of a ``slow`` fault, how many times longer iterations take; None otherwise.
        place: where it stood, for messages.
    """

    time_s: float
    worker: int | None = None
    node: str | None = None
    kind: Kind = "crash"
    scope: Scope | None = None
    duration_s: float | None = None
    factor: float | None = None
    mode: Mode | None = None
    place: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time_s) and self.time_s >= 0):
            raise InputError(f"{self.place}: time_s {self.time_s!r} is not a finite number ≥ 0")
        if (self.worker is None) == (self.node is None):
            raise InputError(f"{self.place}: a fault hits either a worker or a node, state one of them")
        if self.worker is not None and self.worker < 0:
            raise InputError(f"{self.place}: worker {self.worker} is not a whole number ≥ 0")
        try:
            check_fields(
                self.kind,
                scope=self.scope,
                duration_s=self.duration_s,
                factor=self.factor,
                mode=self.mode,
            )
        except InputError as error:
            raise InputError(f"{self.place}: {error}") from None
        if self.scope is None:
            object.__setattr__(self, "scope", DEFAULT_SCOPES.get(self.kind))

    @property
    def target(self) -> tuple[int, str]:
        """What is hit, comparable: workers by number, nodes by name."""
        return (self.worker, "") if self.worker is not None else (-1, self.node or "")

    @property
    def end_s(self) -> float:
        """When it is mended; its start where that is not stated."""
        return self.time_s + (self.duration_s or 0.0)


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    """Faults in order of start, then target.

    Attributes:
        source: the file's name, or what generated it.
        format: ``schedule``, ``infinitehbd`` or ``synthetic``.
        clock: the unit in which people speak of its times; a log in days is mapped by a window of days.
        faults: as `ScheduledFault`.
    """

    source: str
    format: str
    clock: Clock
    faults: tuple[ScheduledFault, ...]

    @classmethod
    def of(
        cls, faults: Iterable[ScheduledFault], *, source: str, format: str, clock: Clock = "s"
    ) -> FaultSchedule:
        """The faults sorted.

        Raises:
            InputError: none, or some on workers and some on nodes.
        """
        ordered = tuple(sorted(faults, key=lambda fault: (fault.time_s, fault.target)))
        if not ordered:
            raise InputError(f"{source}: holds no fault")
        if len({fault.worker is None for fault in ordered}) > 1:
            raise InputError(f"{source}: some faults name a worker and some a node; use one of them")
        return cls(source, format, clock, ordered)

    @property
    def on_nodes(self) -> bool:
        """Whether the faults name nodes, which have to be mapped to workers."""
        return self.faults[0].worker is None
