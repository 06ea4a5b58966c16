"""All measures of one replay in one frozen result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lumen_policy.errors import ReplayError
from lumen_policy.measures.assist import Assist, assist
from lumen_policy.measures.binding import Binding, binding
from lumen_policy.measures.checkpoint import Checkpoint, checkpoint
from lumen_policy.measures.distributions import (
    Distribution,
    distribution_of_ps,
    distribution_of_s,
    e2e_per_output,
    tpot,
    ttft_ps,
)
from lumen_policy.measures.exact import picoseconds, seconds
from lumen_policy.measures.gaps import gap_distribution
from lumen_policy.measures.handling import Handling, handling
from lumen_policy.measures.impact import excess_e2e, extra_slo_misses, window_measures
from lumen_policy.measures.interruptions import Interrupted, interrupted
from lumen_policy.measures.options import MeasureOptions, default_horizon_ps, longest_reload_ps
from lumen_policy.measures.parts import RecoveryParts, recovery_parts
from lumen_policy.measures.recovery import recovery
from lumen_policy.measures.saturation import Saturation, saturation
from lumen_policy.measures.times import request_times
from lumen_policy.measures.traffic import Traffic, traffic
from lumen_policy.replay.contract import ReplayInput, ReplayOutput, Status

__all__ = ["Impact", "ReplaySummary", "Requests", "summarise"]

_REFUSED = "REFUSED_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Every request of the trace: arrived = finished + unfinished + Σ refused.

    Attributes:
        arrived: requests of the trace.
        finished: delivered their last token.
        unfinished: accepted, without a last token at the replay's end.
        refused: count by reason.
    """

    arrived: int
    finished: int
    unfinished: int
    refused: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What the faults cost; see ``ExcessE2E``, ``WindowMeasures``, ``Recovery``, ``RecoveryParts``,
    ``Binding`` and ``extra_slo_misses`` for the fields."""

    excess_e2e_request_s: float
    excess_ttft_request_s: float
    excess_decode_request_s: float
    excess_e2e_per_affected_s: float | None
    affected: int
    unfinished: int
    horizon_s: float
    window_s: float
    window_cut_short: bool
    recovery_time_s: float | None
    in_system_recovery_s: float | None
    censored: bool
    no_impact: bool
    observed_s: float
    parts: RecoveryParts
    binding: Binding
    ttft_s: Distribution
    tpot_s: Distribution
    slo_attainment: float | None
    extra_slo_misses: int | None
    goodput_per_s: float | None
    recomputed_tokens: int
    restored_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """The measures of one replay; field names are the JSON keys, None is null, no value is NaN."""

    requests: Requests
    ttft_s: Distribution
    tpot_s: Distribution
    token_gap_s: Distribution
    e2e_s: Distribution
    e2e_per_output_s: Distribution
    interrupted: Interrupted
    impact: Impact | None
    checkpoint: Checkpoint
    traffic: Traffic
    handling: Handling
    assist: Assist
    saturation: Saturation


def summarise(
    inp: ReplayInput,
    out: ReplayOutput,
    fault_free: ReplayOutput | None = None,
    options: MeasureOptions | None = None,
) -> ReplaySummary:
    """All measures of a replay.

    Args:
        inp: of ``out``.
        out: the run to measure.
        fault_free: the fault-free run of the same trace, draws and policy; needed if ``inp`` has a fault.
        options: defaults if None.

    Returns:
        ``impact`` is None for a run without a fault.

    Raises:
        ReplayError: a fault without a fault-free run, or one of another trace.
    """
    options = options or MeasureOptions()
    if fault_free is None:
        if len(inp.faults):
            raise ReplayError("a run with faults was to be measured without its fault-free run")
        fault_free = out
    times = request_times(inp, out)
    output = inp.output_tokens[times.index]
    finished = times.finished
    return ReplaySummary(
        requests=_requests(out),
        ttft_s=distribution_of_ps(ttft_ps(inp, out)),
        tpot_s=distribution_of_s(tpot(times, output)),
        token_gap_s=gap_distribution(out),
        e2e_s=distribution_of_ps(times.last_ps[finished] - times.arrival_ps[finished]),
        e2e_per_output_s=distribution_of_s(e2e_per_output(times, output)),
        interrupted=interrupted(inp, out),
        impact=_impact(inp, out, fault_free, options) if len(inp.faults) else None,
        checkpoint=checkpoint(inp, out, fault_free),
        traffic=traffic(inp, out),
        handling=handling(inp, out),
        assist=assist(out),
        saturation=saturation(inp, fault_free),
    )


def _requests(out: ReplayOutput) -> Requests:
    count = {status: int(np.count_nonzero(out.status == status)) for status in Status}
    return Requests(
        arrived=out.status.size,
        finished=count[Status.FINISHED],
        unfinished=count[Status.PENDING],
        refused={
            status.name.removeprefix(_REFUSED).lower(): count[status]
            for status in Status
            if status.name.startswith(_REFUSED)
        },
    )


def _impact(inp: ReplayInput, out: ReplayOutput, fault_free: ReplayOutput, options: MeasureOptions) -> Impact:
    horizon_ps = (
        default_horizon_ps(longest_reload_ps(inp.faults))
        if options.horizon_s is None
        else picoseconds(options.horizon_s)
    )
    excess = excess_e2e(inp, out, fault_free, horizon_ps)
    window = window_measures(inp, out, horizon_ps, options)
    back = recovery(inp, out, fault_free, options.recovery, horizon_ps)
    return Impact(
        excess_e2e_request_s=excess.request_s,
        excess_ttft_request_s=seconds(excess.ttft_ps),
        excess_decode_request_s=seconds(excess.decode_ps),
        excess_e2e_per_affected_s=excess.per_affected_s,
        affected=excess.affected,
        unfinished=excess.unfinished,
        horizon_s=seconds(horizon_ps),
        window_s=window.window_s,
        window_cut_short=window.cut_short,
        recovery_time_s=back.recovery_time_s,
        in_system_recovery_s=back.in_system_recovery_s,
        censored=back.censored,
        no_impact=back.no_impact,
        observed_s=back.observed_s,
        parts=recovery_parts(inp, out, back.in_system_recovery_s),
        binding=binding(inp, out, horizon_ps),
        ttft_s=window.ttft_s,
        tpot_s=window.tpot_s,
        slo_attainment=window.slo_attainment,
        extra_slo_misses=extra_slo_misses(inp, out, fault_free, horizon_ps, options),
        goodput_per_s=window.goodput_per_s,
        recomputed_tokens=window.recomputed_tokens,
        restored_bytes=window.restored_bytes,
    )
