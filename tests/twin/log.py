"""Rows of the replay's logs: interruptions, outages and token gaps."""

from __future__ import annotations

from dataclasses import dataclass, field

from lumen_policy.replay.contract import NONE, FaultKind

from .request import Request

__all__ = ["GapLog", "InterruptionLog", "Outage"]


@dataclass
class InterruptionRow:
    request: int
    interruption_class: int
    crash_ps: int
    delivered: int
    redispatch_ps: int = NONE
    restored: int = 0
    next_ps: int = NONE


class InterruptionLog:
    """One row per interruption, in the order of handling."""

    def __init__(self) -> None:
        self.rows: list[InterruptionRow] = []

    def interrupt(self, request: Request, crash_ps: int) -> None:
        request.interruptions += 1
        request.open_interruption = len(self.rows)
        self.rows.append(
            InterruptionRow(request.index, int(request.place_at_crash), crash_ps, len(request.seen_ps))
        )

    def redispatch(self, request: Request, now: int, restores: bool) -> None:
        row = self.rows[request.open_interruption]
        row.redispatch_ps = now
        row.restored = int(restores)

    def token(self, request: Request, now: int) -> None:
        """A token was seen: the first after the interruption closes it."""
        if request.open_interruption != NONE:
            self.rows[request.open_interruption].next_ps = now
            request.open_interruption = NONE


@dataclass
class Outage:
    """A worker's way from a fault to its return; of a restarted reload, the last."""

    worker: int
    kind: FaultKind
    crash_ps: int
    stop_ps: int = NONE
    detection_ps: int = NONE
    draft_ready_ps: int = NONE
    assist_target: int = NONE
    assist_end_ps: int = NONE
    rejoin_ps: int = NONE


@dataclass
class GapLog:
    """One row per sequence and step."""

    end_ps: list[int] = field(default_factory=list)
    gap_ps: list[int] = field(default_factory=list)

    def step(self, end_ps: int, gap_ps: int) -> None:
        assert gap_ps >= 0
        self.end_ps.append(end_ps)
        self.gap_ps.append(gap_ps)
