"""What faults cost their requests: excess E2E, and the state of the windows after them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy.measures.distributions import Distribution, distribution_of_ps, distribution_of_s, tpot
from lumen_policy.measures.exact import exact_sum, picoseconds, seconds
from lumen_policy.measures.options import MeasureOptions
from lumen_policy.measures.times import RequestTimes, check_pair, request_times
from lumen_policy.replay.contract import IntArray, ReplayInput, ReplayOutput

__all__ = [
    "ExcessE2E",
    "WindowMeasures",
    "affected_requests",
    "excess_e2e",
    "extra_slo_misses",
    "window_measures",
]

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcessE2E:
    """The primary measure, exact: Σ (E2E − E2E₀) over the affected requests, signed.

    Attributes:
        affected: number of requests with a < x + H and l > x for some fault x.
        unfinished: how many of them never finished in either run; they count up to the replay's end.
        ttft_ps: Σ (TTFT − TTFT₀).
        decode_ps: Σ ((l − f) − (l₀ − f₀)).
    """

    affected: int
    unfinished: int
    ttft_ps: int
    decode_ps: int

    @property
    def e2e_ps(self) -> int:
        """Σ (E2E − E2E₀) = ttft_ps + decode_ps."""
        return self.ttft_ps + self.decode_ps

    @property
    def request_s(self) -> float:
        """Excess E2E in request-seconds."""
        return seconds(self.e2e_ps)

    @property
    def per_affected_s(self) -> float | None:
        """Mean excess per affected request; None when none is affected."""
        return seconds(self.e2e_ps, self.affected) if self.affected else None

    def weighted_request_s(self, ttft_weight: float, decode_weight: float) -> float:
        """ttft_weight · TTFT part + decode_weight · decode part in request-seconds."""
        if ttft_weight == decode_weight:
            return ttft_weight * self.request_s
        return ttft_weight * seconds(self.ttft_ps) + decode_weight * seconds(self.decode_ps)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowMeasures:
    """Service after the faults.

    Attributes:
        window_s: length of the union of [x, x + H] over the faults.
        cut_short: a window reaches beyond the last arrival, so it saw fewer requests than it should.
        ttft_s, tpot_s: over the affected requests (TPOT without those of one output token).
        slo_attainment: share of the affected requests that met every objective set; None without objective
            or request.
        goodput_per_s: affected requests that met every objective and ended inside the union, per second of
            it; None without objective.
        recomputed_tokens, restored_bytes: summed over the affected requests.
    """

    window_s: float
    cut_short: bool
    ttft_s: Distribution
    tpot_s: Distribution
    slo_attainment: float | None
    goodput_per_s: float | None
    recomputed_tokens: int
    restored_bytes: int


def affected_requests(times: RequestTimes, fault_ps: IntArray, horizon_ps: int) -> BoolArray:
    """Requests in the system at some time of a window: a < x + H and l > x for some fault x.

    Args:
        times: of the faulty run; unfinished requests are in the system to the end.
        fault_ps: shape (m,), non-decreasing.
        horizon_ps: H.

    Returns:
        Shape (n',), one entry per accepted request.
    """
    if fault_ps.size == 0:
        return np.zeros(times.arrival_ps.size, dtype=np.bool_)
    # the latest fault before l decides: an earlier one has an earlier window
    latest = np.searchsorted(fault_ps, times.last_ps, side="left") - 1
    latest[~times.finished] = fault_ps.size - 1
    return (latest >= 0) & (times.arrival_ps < fault_ps[latest] + horizon_ps)


def excess_e2e(
    inp: ReplayInput, faulty: ReplayOutput, fault_free: ReplayOutput, horizon_ps: int
) -> ExcessE2E:
    """Excess E2E of a faulty run over the fault-free run of the same trace and draws.

    Args:
        inp: of the faulty run.
        faulty, fault_free: the two replays.
        horizon_ps: H, the same for all policies compared.

    Raises:
        ReplayError: the two runs accepted different requests.
    """
    times, base = request_times(inp, faulty), request_times(inp, fault_free)
    check_pair(times, base)
    rows = np.flatnonzero(affected_requests(times, inp.faults.ps, horizon_ps))
    ttft = times.first_ps[rows] - base.first_ps[rows]
    e2e = times.last_ps[rows] - base.last_ps[rows]
    return ExcessE2E(
        affected=rows.size,
        unfinished=int((~(times.finished & base.finished))[rows].sum()),
        ttft_ps=exact_sum(ttft),
        decode_ps=exact_sum(e2e - ttft),
    )


def window_measures(
    inp: ReplayInput, faulty: ReplayOutput, horizon_ps: int, options: MeasureOptions
) -> WindowMeasures:
    """Service over the windows after the faults; ``inp`` has at least one fault."""
    times = request_times(inp, faulty)
    rows = np.flatnonzero(affected_requests(times, inp.faults.ps, horizon_ps))
    index = times.index[rows]
    affected = RequestTimes(
        index=index,
        arrival_ps=times.arrival_ps[rows],
        first_ps=times.first_ps[rows],
        last_ps=times.last_ps[rows],
        finished=times.finished[rows],
    )
    output = inp.output_tokens[index]
    window_ps = _union_ps(inp.faults.ps, horizon_ps)
    met = _meets_objectives(affected, output, options)
    ended_inside = _inside_union(affected.last_ps, inp.faults.ps, horizon_ps)
    return WindowMeasures(
        window_s=seconds(window_ps),
        cut_short=int(inp.faults.ps[-1]) + horizon_ps > int(inp.arrival_ps[-1]),
        ttft_s=distribution_of_ps(affected.first_ps - affected.arrival_ps),
        tpot_s=distribution_of_s(tpot(affected, output)),
        slo_attainment=None if met is None or rows.size == 0 else int(met.sum()) / rows.size,
        goodput_per_s=None if met is None else int((met & ended_inside).sum()) / seconds(window_ps),
        recomputed_tokens=int(faulty.recomputed_tokens[index].sum()),
        restored_bytes=int(faulty.restored_tokens[index].sum()) * inp.costs.page_bytes // PAGE_TOKENS,
    )


def extra_slo_misses(
    inp: ReplayInput,
    faulty: ReplayOutput,
    fault_free: ReplayOutput,
    horizon_ps: int,
    options: MeasureOptions,
) -> int | None:
    """Affected requests that missed an objective, less those that miss one without the faults; None without
    objective.
    """
    times, base = request_times(inp, faulty), request_times(inp, fault_free)
    check_pair(times, base)
    rows = affected_requests(times, inp.faults.ps, horizon_ps)
    output = inp.output_tokens[times.index]
    met, met0 = (_meets_objectives(run, output, options) for run in (times, base))
    if met is None or met0 is None:
        return None
    return int(met0[rows].sum()) - int(met[rows].sum())


def _union_ps(fault_ps: IntArray, horizon_ps: int) -> int:
    """Length of the union of [x, x + H]."""
    return horizon_ps + int(np.minimum(np.diff(fault_ps), horizon_ps).sum())


def _inside_union(at_ps: IntArray, fault_ps: IntArray, horizon_ps: int) -> BoolArray:
    """Which instants lie in some (x, x + H]."""
    latest = np.searchsorted(fault_ps, at_ps, side="left") - 1
    inside: BoolArray = (latest >= 0) & (at_ps <= fault_ps[latest] + horizon_ps)
    return inside


def _meets_objectives(
    times: RequestTimes, output_tokens: IntArray, options: MeasureOptions
) -> BoolArray | None:
    if options.slo_ttft_s is None and options.slo_tpot_s is None:
        return None
    met = times.finished.copy()
    if options.slo_ttft_s is not None:
        met &= times.first_ps - times.arrival_ps <= picoseconds(options.slo_ttft_s)
    if options.slo_tpot_s is not None:
        met &= times.last_ps - times.first_ps <= picoseconds(options.slo_tpot_s) * (output_tokens - 1)
    return met
