"""Draw a fault schedule: rate, repairs, bursts, lemons."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist

from lumen_policy.errors import InputError
from lumen_policy.fault_schedule.schedule import FaultSchedule, ScheduledFault
from lumen_policy.trace.keyed import exponential, uniform

__all__ = ["FaultModel", "RepairLaw", "draw_schedule"]

SINGLE, BURST, WORKER, RACK, OFFSET, REPAIR, PROCESS = range(77, 84)
"""Purposes of the draws: gaps of single faults and of bursts (block of draws, index); worker, rack, offsets in
a burst, repair and kind (0, event or fault)."""
_BLOCK = 4096
_MOST_FAULTS = 100_000
_BURST_S = 120.0
_MICROSECONDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairLaw:
    """How long a repair takes: ``fixed:H``, ``exp:MEAN_H`` or ``lognormal:P50_H:P90_H``.

    Attributes:
        family: fixed, exp or lognormal.
        hours: its parameters.
    """

    family: str
    hours: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> RepairLaw:
        """From its text."""
        family, *numbers = text.split(":")
        wanted = {"fixed": 1, "exp": 1, "lognormal": 2}.get(family)
        try:
            hours = tuple(float(number) for number in numbers)
        except ValueError:
            hours = ()
        least = 0.0 if family == "fixed" else math.ulp(0.0)
        if (
            wanted != len(hours)
            or not all(least <= hour < math.inf for hour in hours)
            or (family == "lognormal" and hours[1] <= hours[0])
        ):
            raise InputError(
                f"--repair {text!r} is not fixed:H, exp:MEAN_H or lognormal:P50_H:P90_H, in hours, P50 < P90"
            )
        return cls(family=family, hours=hours)

    def seconds(self, u: float) -> float:
        """The repair time at a uniform draw in (0, 1)."""
        if self.family == "fixed":
            return 3600 * self.hours[0]
        if self.family == "exp":
            return -3600 * self.hours[0] * math.log(u)
        sigma = math.log(self.hours[1] / self.hours[0]) / NormalDist().inv_cdf(0.9)
        return 3600 * self.hours[0] * math.exp(sigma * NormalDist().inv_cdf(u))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultModel:
    """A cluster's faults.

    Attributes:
        workers: ≥ 1.
        span_s: length of the schedule.
        mtbf_hours: mean time between faults of a worker, on average over the workers.
        repair: law of the durations; None leaves them unstated. Process crashes need no repair.
        burst_share: share of the faults that come in bursts.
        burst_workers: workers of a burst: a block of neighbours, its faults spread over two minutes.
        lemons: workers (the first ones) whose single faults are more frequent …
        lemon_factor: … by this factor.
        process_share: share of the faults that are process crashes; the rest are of scope gpu.
        seed: of every draw.
    """

    workers: int
    span_s: float
    mtbf_hours: float
    repair: RepairLaw | None = None
    burst_share: float = 0.0
    burst_workers: int = 2
    lemons: int = 0
    lemon_factor: float = 10.0
    process_share: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, good, wanted in (
            ("workers", self.workers, self.workers >= 1, "≥ 1"),
            ("span", self.span_s, 0 < self.span_s < math.inf, "> 0 and finite"),
            ("mtbf-hours", self.mtbf_hours, 0 < self.mtbf_hours < math.inf, "> 0 and finite"),
            ("burst-share", self.burst_share, 0 <= self.burst_share <= 1, "from 0 to 1"),
            ("lemons", self.lemons, 0 <= self.lemons <= self.workers, f"from 0 to {self.workers} (workers)"),
            ("lemon-factor", self.lemon_factor, 1 <= self.lemon_factor < math.inf, "≥ 1 and finite"),
            ("process-share", self.process_share, 0 <= self.process_share <= 1, "from 0 to 1"),
        ):
            if not good:
                raise InputError(f"--{name} {value!r} is not {wanted}")
        if self.burst_share and not 2 <= self.burst_workers <= self.workers:
            raise InputError(
                f"--burst-workers {self.burst_workers!r} is not from 2 to {self.workers} (workers)"
            )
        if self.expected_faults > _MOST_FAULTS:
            raise InputError(
                f"--mtbf-hours {self.mtbf_hours:g}: {self.expected_faults:,.0f} faults are expected, at most "
                f"{_MOST_FAULTS:,} are drawn"
            )

    @property
    def expected_faults(self) -> float:
        """workers · span / MTBF."""
        return self.workers * self.span_s / (3600 * self.mtbf_hours)


def draw_schedule(model: FaultModel) -> FaultSchedule:
    """Faults as two Poisson processes: single faults and bursts, together at the model's rate.

    Single faults come at (1 - burst_share) of it and hit worker i with a weight of ``lemon_factor`` (the
    lemons) or 1. Bursts come at burst_share / burst_workers of it; each hits a uniformly drawn block of
    neighbours, the first worker at once and the others within two minutes. What a burst has left after the
    end of the span is cut off. Every draw is keyed by what it is for; times are rounded to microseconds.

    Raises:
        InputError: no fault was drawn.
    """
    rate_per_s = model.workers / (3600 * model.mtbf_hours)
    singles = _arrivals(model, SINGLE, (1 - model.burst_share) * rate_per_s)
    edges = list(accumulate([model.lemon_factor] * model.lemons + [1.0] * (model.workers - model.lemons)))
    hits = [(time_s, _worker(model, edges, index)) for index, time_s in enumerate(singles)]
    bursts = _arrivals(model, BURST, model.burst_share * rate_per_s / model.burst_workers)
    for index, time_s in enumerate(bursts):
        hits += _burst(model, index, time_s)
    hits = sorted((round(time_s, _MICROSECONDS), worker) for time_s, worker in hits if time_s < model.span_s)
    if not hits:
        raise InputError(
            f"no fault was drawn: {model.expected_faults:.3g} are expected in this span; lengthen it, or lower "
            "the MTBF"
        )
    repairs = uniform(model.seed, REPAIR, 0, len(hits)).tolist()
    process = uniform(model.seed, PROCESS, 0, len(hits)).tolist()
    return FaultSchedule.of(
        (
            ScheduledFault(
                time_s=time_s,
                worker=worker,
                scope="process" if process[index] < model.process_share else "gpu",
                duration_s=None
                if model.repair is None or process[index] < model.process_share
                else round(model.repair.seconds(repairs[index]), _MICROSECONDS),
                place=f"synthetic: fault {index}",
            )
            for index, (time_s, worker) in enumerate(hits)
        ),
        source="synthetic",
        format="synthetic",
    )


def _arrivals(model: FaultModel, purpose: int, rate_per_s: float) -> list[float]:
    """Poisson arrivals in [0, span)."""
    times: list[float] = []
    at_s, block = 0.0, 0
    while rate_per_s > 0:
        for gap in exponential(uniform(model.seed, purpose, block, _BLOCK)).tolist():
            at_s += gap / rate_per_s
            if at_s >= model.span_s:
                return times
            times.append(at_s)
        block += 1
    return times


def _worker(model: FaultModel, edges: Sequence[float], index: int) -> int:
    """The worker of a single fault; ``edges`` are the cumulated weights."""
    at = float(uniform(model.seed, WORKER, index, 1)[0]) * edges[-1]
    return min(bisect_right(edges, at), model.workers - 1)


def _burst(model: FaultModel, index: int, time_s: float) -> list[tuple[float, int]]:
    racks = -(-model.workers // model.burst_workers)
    rack = int(float(uniform(model.seed, RACK, index, 1)[0]) * racks)
    first = min(rack * model.burst_workers, model.workers - model.burst_workers)
    offsets = (_BURST_S * uniform(model.seed, OFFSET, index, model.burst_workers)).tolist()
    start_s = min(offsets)
    return [(time_s + offset - start_s, first + place) for place, offset in enumerate(offsets)]
