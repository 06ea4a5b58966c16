"""The parts of a recovery: detection, the first new token, the queue left behind, the reload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lumen_policy.measures.exact import seconds
from lumen_policy.replay.contract import NONE, IntArray, ReplayInput, ReplayOutput

__all__ = ["RecoveryParts", "recovery_parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryParts:
    """Parts of the recovery from the first fault instant x; None for what did not happen.

    The first three follow one another; the reload runs beside the second and third.

    Attributes:
        detect_s: from x to the detection of the last worker that failed then.
        restore_recompute_s: from there to the last interrupted request's next token; 0 if it came earlier.
        queue_drain_s: from there until the number in the system is back (``in_system_recovery_s``); 0 if it
            was back before.
        reload_s: from the detection to the rejoin of the last worker that failed at x.
    """

    detect_s: float | None
    restore_recompute_s: float | None
    queue_drain_s: float | None
    reload_s: float | None


def recovery_parts(inp: ReplayInput, out: ReplayOutput, in_system_recovery_s: float | None) -> RecoveryParts:
    """The parts, from outages and the interruption log.

    Args:
        inp: with at least one fault.
        out: its run.
        in_system_recovery_s: of the same run.
    """
    fault_ps = int(inp.faults.ps[0])
    first = out.outage_crash_ps == fault_ps
    detected_ps = _latest(out.outage_detection_ps[first])
    if detected_ps is None:
        return RecoveryParts(detect_s=None, restore_recompute_s=None, queue_drain_s=None, reload_s=None)
    answered = (out.interruption_crash_ps == fault_ps) & (out.interruption_next_ps != NONE)
    token_ps = _latest(out.interruption_next_ps[answered])
    restored_ps = None if token_ps is None else max(0, token_ps - detected_ps)
    drained = None
    if in_system_recovery_s is not None:
        earlier_s = seconds(detected_ps - fault_ps + (restored_ps or 0))
        drained = max(0.0, in_system_recovery_s - earlier_s)
    back_ps = _latest(out.outage_rejoin_ps[first])
    return RecoveryParts(
        detect_s=seconds(detected_ps - fault_ps),
        restore_recompute_s=None if restored_ps is None else seconds(restored_ps),
        queue_drain_s=drained,
        reload_s=None if back_ps is None else seconds(back_ps - detected_ps),
    )


def _latest(at_ps: IntArray) -> int | None:
    """The latest instant; None where there is none or one of them never came."""
    if at_ps.size == 0 or np.any(at_ps == NONE):
        return None
    return int(at_ps.max())
