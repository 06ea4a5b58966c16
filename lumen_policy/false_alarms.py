"""Healthy workers that are taken for dead: drawn for each worker, apart from everything else."""

from __future__ import annotations

from lumen_policy.clock import seconds_to_ps
from lumen_policy.errors import InputError
from lumen_policy.faults import Fault
from lumen_policy.replay.contract import PS_PER_S
from lumen_policy.settings import Settings
from lumen_policy.trace.keyed import exponential, uniform

__all__ = ["FALSE_ALARM", "false_alarms"]

FALSE_ALARM = 84
"""Purpose of the draws of gaps between a worker's false alarms: (worker, gap)."""

_MOST = 100_000


def false_alarms(settings: Settings, *, span_ps: int, key: int) -> tuple[Fault, ...]:
    """A Poisson process for each worker over the trace.

    Args:
        settings: rate and length.
        span_ps: last arrival.
        key: of the scenario's draws.

    Returns:
        In no order; empty where the rate is 0.

    Raises:
        InputError: more than 100,000 are expected.
    """
    rate_per_s = settings.false_alarms_per_hour / 3600
    expected = settings.workers * rate_per_s * span_ps / PS_PER_S
    if expected > _MOST:
        raise InputError(
            f"false_alarms_per_hour: {settings.false_alarms_per_hour:g} makes {expected:,.0f} alarms over this "
            f"trace, at most {_MOST:,} are drawn"
        )
    length_ps = seconds_to_ps("false_alarm_s", settings.false_alarm_s)
    count = 16 + int(2 * expected / settings.workers)
    return tuple(
        Fault(time_ps=time_ps, worker=worker, kind="false_alarm", duration_ps=length_ps)
        for worker in range(settings.workers if rate_per_s > 0 else 0)
        for time_ps in _times_ps(worker, rate_per_s, span_ps, key, count)
    )


def _times_ps(worker: int, rate_per_s: float, span_ps: int, key: int, count: int) -> list[int]:
    """Distinct instants up to the span; ``count`` draws at first, twice as many while they do not reach it."""
    times: list[int] = []
    at_s = 0.0
    for gap in exponential(uniform(key, FALSE_ALARM, worker, count)).tolist():
        at_s += gap / rate_per_s
        time_ps = round(at_s * PS_PER_S)
        if time_ps > span_ps:
            return times
        if not times or time_ps > times[-1]:
            times.append(time_ps)
    return _times_ps(worker, rate_per_s, span_ps, key, 2 * count)
