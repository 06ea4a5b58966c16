"""From faults to the columns that a replay reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lumen_policy.detection import Detection, RefusedDetection
from lumen_policy.faults import Fault, timeline_of
from lumen_policy.reload_times import ReloadTimes
from lumen_policy.replay.contract import FULL_SPEED_PPM, NONE, FaultTable

__all__ = ["FaultColumns"]

_NOTICED = ("crash", "hang", "unreachable")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultColumns:
    """What turns the faults of a cluster into a table.

    Attributes:
        detection: of crashes, hangs and workers that cannot be reached.
        reload: the ways back.
    """

    detection: Detection
    reload: ReloadTimes

    def table(self, faults: Sequence[Fault], seed: int) -> FaultTable:
        """The faults in order, with detection, repair and reload of each.

        Delays are drawn for (seed, rank among the faults that have to be noticed), so that a slow worker, a
        drain or a false alarm moves none of them.

        Raises:
            InputError: two faults of one kind hit one worker at one instant.
        """
        ordered = timeline_of(faults)
        noticed = [fault for fault in ordered if fault.kind in _NOTICED]
        delays = dict(
            zip(
                (fault.order for fault in noticed),
                self.detection.delays_ps(len(noticed), seed).tolist(),
                strict=True,
            )
        )
        rows = [self._row(fault, delays.get(fault.order, 0)) for fault in ordered]
        if not rows:
            return FaultTable.none()
        columns = np.array(rows, dtype=np.int64).T
        return FaultTable(
            **dict(zip(FaultTable.__dataclass_fields__, np.ascontiguousarray(columns), strict=True))
        )

    @property
    def longest_ps(self) -> int:
        """The longest way from a fault to the rejoin, of faults that state no repair."""
        return self.detection.longest_ps + self.reload.longest_ps

    def _row(self, fault: Fault, delay_ps: int) -> tuple[int, ...]:
        """In the order of the table's columns."""
        refusals = 0
        if isinstance(self.detection, RefusedDetection) and fault.kind == "crash" and fault.scope != "node":
            delay_ps, refusals = 0, self.detection.breaker_threshold
        length_ps = 0 if fault.kind == "crash" else fault.duration_ps
        if length_ps is None:
            length_ps = NONE if fault.kind == "hang" else 0
        parts = self.reload.parts(fault)
        return (
            fault.time_ps,
            fault.worker,
            int(fault.code),
            delay_ps,
            length_ps,
            FULL_SPEED_PPM if fault.factor_ppm is None else fault.factor_ppm,
            int(fault.scope == "process" and fault.kind in ("crash", "hang")),
            refusals,
            self.reload.before_ps(fault) + parts.restart_ps,
            parts.draft_ps,
            parts.load_ps,
            parts.init_ps,
        )
