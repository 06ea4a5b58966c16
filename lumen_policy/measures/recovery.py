"""When a run is back: rolling TTFT and token gap, and the number in the system, against the fault-free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np

from lumen_policy.measures.exact import ExactBins, picoseconds, seconds
from lumen_policy.measures.gaps import bin_gaps
from lumen_policy.measures.options import RecoveryOptions
from lumen_policy.measures.times import RequestTimes, check_pair, number_in_system, request_times
from lumen_policy.replay.contract import ReplayInput, ReplayOutput

__all__ = ["Recovery", "recovery"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Recovery of a faulty run from its first fault x.

    Attributes:
        recovery_time_s: from x to the grid point at which TTFT and token gap are back in band for good (for
            the hold); 0 when never out of band; None when censored.
        censored: out of band and not back by the last arrival.
        no_impact: never out of band.
        in_system_recovery_s: from x to the first return of the number in the system after its first excess; 0
            without an excess that begins in [x, x + H]; None when it does not return by the last arrival.
        observed_s: from x to the last grid point.
    """

    recovery_time_s: float | None
    censored: bool
    no_impact: bool
    in_system_recovery_s: float | None
    observed_s: float


def recovery(
    inp: ReplayInput,
    faulty: ReplayOutput,
    fault_free: ReplayOutput,
    options: RecoveryOptions,
    horizon_ps: int | None = None,
) -> Recovery:
    """Recovery time and in-system recovery of a faulty run.

    Grid point i lies at t = x + i·grid, up to the last arrival. At each, TTFT (by arrival) and token gap (by
    the instant it ends) have rolling means over (t − window, t], of samples after x only (arrivals at x
    included), in both runs. A grid point is out of band when for TTFT or for the gap both runs have
    ``min_samples`` and mean > ratio · mean₀ + margin. Recovery is the first grid point after an out-of-band
    one from which on all grid points of a hold, both ends included, are in band. All comparisons are exact.

    Args:
        inp: of the faulty run, with at least one fault.
        faulty, fault_free: the two replays.
        options: window, hold, bands.
        horizon_ps: H; an excess of the number in the system that begins later than x + H is not the fault's
            and counts as none. None = no such limit.

    Raises:
        ReplayError: the two runs accepted different requests.
    """
    grid_ps = picoseconds(options.grid_s)
    origin_ps = int(inp.faults.ps[0])
    points = max(0, int(inp.arrival_ps[-1]) - origin_ps) // grid_ps + 1
    times, base = request_times(inp, faulty), request_times(inp, fault_free)
    check_pair(times, base)

    window = picoseconds(options.window_s) // grid_ps
    ratio = Fraction(repr(float(options.band_ratio)))
    ttft_out = _out_of_band(
        _bin_ttft(times, origin_ps, grid_ps, points),
        _bin_ttft(base, origin_ps, grid_ps, points),
        window,
        options.min_samples,
        ratio,
        picoseconds(options.ttft_margin_s),
    )
    gap_out = _out_of_band(
        bin_gaps(faulty, origin_ps, grid_ps, points),
        bin_gaps(fault_free, origin_ps, grid_ps, points),
        window,
        options.min_samples,
        ratio,
        picoseconds(options.gap_margin_s),
    )
    hold = picoseconds(options.hold_s) // grid_ps
    excursion, back = _first_hold((a or b for a, b in zip(ttft_out, gap_out, strict=True)), hold)
    return Recovery(
        recovery_time_s=None if back is None else seconds(back * grid_ps),
        censored=back is None,
        no_impact=not excursion,
        in_system_recovery_s=_in_system_recovery_s(
            times, base, origin_ps, grid_ps, points, options, horizon_ps
        ),
        observed_s=seconds((points - 1) * grid_ps),
    )


def _bin_ttft(times: RequestTimes, origin_ps: int, bin_ps: int, bins: int) -> ExactBins:
    """TTFT by arrival; bin 0 is the origin itself, bin b is (origin + (b−1)·bin, origin + b·bin]."""
    binned = ExactBins(bins)
    start = np.searchsorted(times.arrival_ps, origin_ps, side="left")
    stop = np.searchsorted(times.arrival_ps, origin_ps + (bins - 1) * bin_ps, side="right")
    arrival = times.arrival_ps[start:stop]
    binned.add(-((origin_ps - arrival) // bin_ps), times.first_ps[start:stop] - arrival, 1)
    return binned


def _out_of_band(
    faulty: ExactBins,
    fault_free: ExactBins,
    window: int,
    min_samples: int,
    ratio: Fraction,
    margin_ps: int,
) -> Iterator[bool]:
    """Per grid point, whether the rolling mean over the last ``window`` bins is above the band."""
    up, down = ratio.numerator, ratio.denominator
    for count, total, count0, total0 in zip(
        _rolling(faulty.counts(), window),
        _rolling(faulty.sums(), window),
        _rolling(fault_free.counts(), window),
        _rolling(fault_free.sums(), window),
        strict=True,
    ):
        if count < min_samples or count0 < min_samples:
            yield False
        else:
            # total/count > (up/down)·total0/count0 + margin, over the common denominator
            yield total * count0 * down > count * (up * total0 + down * margin_ps * count0)


def _rolling(values: list[int], window: int) -> Iterator[int]:
    """Sum of the last ``window`` values at each place."""
    cumulative = list(accumulate(values, initial=0))
    for place in range(1, len(cumulative)):
        yield cumulative[place] - cumulative[max(0, place - window)]


def _first_hold(out_of_band: Iterator[bool], hold: int) -> tuple[bool, int | None]:
    """(was there an excursion, grid point of the return).

    The return is 0 without an excursion and None when no hold of ``hold`` + 1 in-band grid points follows
    one.
    """
    excursion, run = False, 0
    for point, out in enumerate(out_of_band):
        if out:
            excursion, run = True, 0
        elif excursion:
            run += 1
            if run > hold:
                return True, point - hold
    return excursion, None if excursion else 0


def _in_system_recovery_s(
    times: RequestTimes,
    base: RequestTimes,
    origin_ps: int,
    grid_ps: int,
    points: int,
    options: RecoveryOptions,
    horizon_ps: int | None,
) -> float | None:
    at = origin_ps + grid_ps * np.arange(points, dtype=np.int64)
    number, number0 = number_in_system(times, at), number_in_system(base, at)
    ratio = Fraction(repr(float(options.in_system_ratio)))
    margin = Fraction(repr(float(options.in_system_margin_requests)))
    # N is a whole number: N > limit exactly when N > floor(limit)
    limits: dict[int, int] = {n: int(ratio * n + margin) for n in np.unique(number0).tolist()}
    limit = np.array([limits[n] for n in number0.tolist()], dtype=np.int64)
    excess = np.flatnonzero(number > limit)
    if excess.size == 0 or (horizon_ps is not None and int(excess[0]) * grid_ps > horizon_ps):
        return 0.0
    returns = np.flatnonzero(number[excess[0] :] <= limit[excess[0] :])
    return seconds(int(excess[0] + returns[0]) * grid_ps) if returns.size else None
