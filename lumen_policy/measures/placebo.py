"""What the measures say where nothing happened: the noise floor of recovery time and excess E2E."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lumen_policy.measures.impact import excess_e2e
from lumen_policy.measures.options import RecoveryOptions
from lumen_policy.measures.recovery import recovery
from lumen_policy.replay.contract import NONE, IntArray, ReplayInput, ReplayOutput

__all__ = ["JITTER_PS", "Placebo", "placebo", "rebased"]

JITTER_PS = 20 * 10**9
"""How far the arrivals of a placebo run move at most: 20 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placebo:
    """A run without a crash and with jittered arrivals, measured as if it had the crashes.

    Attributes:
        excess_ps: Σ (E2E - E2E₀) over its affected requests, each from its own arrival.
        affected: how many these are.
        recovery_time_s, in_system_recovery_s, no_impact, censored: as of ``Recovery``.
    """

    excess_ps: int
    affected: int
    recovery_time_s: float | None
    in_system_recovery_s: float | None
    no_impact: bool
    censored: bool


def rebased(output: ReplayOutput, shift_ps: IntArray) -> ReplayOutput:
    """A run whose requests arrived later by ``shift_ps``, told from the arrivals before the shift.

    First and last tokens move back with their request, so that TTFT and E2E stay what they were; token gaps
    and everything else are left alone.

    Args:
        output: of the shifted trace.
        shift_ps: shape (n,), later arrival - earlier arrival.
    """
    first, last = output.first_ps, output.last_ps
    return replace(
        output,
        first_ps=np.where(first == NONE, first, first - shift_ps),
        last_ps=np.where(last == NONE, last, last - shift_ps),
    )


def placebo(
    inp: ReplayInput,
    jittered: ReplayOutput,
    fault_free: ReplayOutput,
    horizon_ps: int,
    options: RecoveryOptions,
) -> Placebo:
    """The measures of a placebo run.

    Args:
        inp: of the faulty run: its crashes say where the windows lie.
        jittered: the ``rebased`` run without crashes on jittered arrivals.
        fault_free: the run without crashes on the arrivals of ``inp``.
        horizon_ps: H.
        options: of the recovery measure.
    """
    excess = excess_e2e(inp, jittered, fault_free, horizon_ps)
    back = recovery(inp, jittered, fault_free, options, horizon_ps)
    return Placebo(
        excess_ps=excess.e2e_ps,
        affected=excess.affected,
        recovery_time_s=back.recovery_time_s,
        in_system_recovery_s=back.in_system_recovery_s,
        no_impact=back.no_impact,
        censored=back.censored,
    )
