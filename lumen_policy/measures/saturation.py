"""Whether the cluster kept up with its trace: stable, backlogged or overloaded."""

from __future__ import annotations

from enum import StrEnum
from math import isqrt

import numpy as np

from lumen_policy.measures.distributions import nearest_rank
from lumen_policy.measures.times import RequestTimes, number_in_system, request_times
from lumen_policy.replay.contract import IntArray, ReplayInput, ReplayOutput

__all__ = ["Saturation", "saturation", "saturation_of_numbers"]

_INSTANTS = 1000
_QUARTER = _INSTANTS // 4
_GROWTH_PERCENT = 5
_NOISE_DEVIATIONS = 2
_TAIL_FACTOR = 2
_TAIL_MARGIN_REQUESTS = 10


class Saturation(StrEnum):
    """Label of a fault-free run."""

    STABLE = "stable"
    BACKLOGGED = "backlogged"
    OVERLOADED = "overloaded"


def saturation(inp: ReplayInput, fault_free: ReplayOutput) -> Saturation:
    """The label of a fault-free run, from the number in the system while requests arrive.

    N(t) is read at 1,000 evenly spaced instants between the first and the last arrival (the middles of 1,000
    equal parts); m₂ and m₄ are its means over the second and the fourth quarter, A the arrivals between the
    middles of these quarters.

    * overloaded: m₄ − m₂ ≥ 5 % of A and m₄ − m₂ ≥ 2·√A. What arrives between the two middles and is not
      served stays in the system, so m₄ − m₂ = A·(1 − capacity/rate) in a fluid: at least 5 % means the rate
      exceeds the capacity by 5.3 % or more; at capacity N is a random walk of about one request's deviation
      per arrival, hence 2·√A. The first quarter is left out: there the system fills.
    * backlogged: not overloaded, and the 99th percentile of N > 2 · its median + 10: queues form, hold more
      than twice the usual number for 1 % of the time or longer, and clear. For one server with Poisson
      arrivals and equal service times that starts at about 87 % of its capacity.
    * stable: otherwise.

    Valid for: spans of several mean E2E; in a shorter one the system is still filling, which reads as
    overloaded. A trace that arrives in one instant is backlogged if it has several requests.
    """
    times = request_times(inp, fault_free)
    if times.arrival_ps.size == 0:
        return Saturation.STABLE
    first, span = int(times.arrival_ps[0]), int(times.arrival_ps[-1] - times.arrival_ps[0])
    if span == 0:
        return Saturation.STABLE if times.arrival_ps.size == 1 else Saturation.BACKLOGGED
    at = first + _middles(span, _INSTANTS)
    return saturation_of_numbers(number_in_system(times, at), _arrivals_between(times, first, span))


def saturation_of_numbers(number: IntArray, arrivals: int) -> Saturation:
    """The rule of ``saturation``.

    Args:
        number: shape (1000,), N at evenly spaced instants.
        arrivals: A.
    """
    growth = int(number[-_QUARTER:].sum()) - int(number[_QUARTER : 2 * _QUARTER].sum())
    enough = arrivals * _QUARTER
    if 100 * growth >= _GROWTH_PERCENT * enough and growth >= _NOISE_DEVIATIONS * _root(arrivals):
        return Saturation.OVERLOADED
    median, tail = (
        int(value)
        for value in np.sort(number)[[nearest_rank(_INSTANTS, 50) - 1, nearest_rank(_INSTANTS, 99) - 1]]
    )
    if tail > _TAIL_FACTOR * median + _TAIL_MARGIN_REQUESTS:
        return Saturation.BACKLOGGED
    return Saturation.STABLE


def _root(arrivals: int) -> int:
    """√arrivals in the scale of a quarter's sum of N."""
    return isqrt(arrivals * _QUARTER * _QUARTER)


def _middles(span: int, parts: int) -> IntArray:
    return np.array([span * (2 * part + 1) // (2 * parts) for part in range(parts)], dtype=np.int64)


def _arrivals_between(times: RequestTimes, first: int, span: int) -> int:
    """Arrivals between the middle of the second and the middle of the fourth quarter."""
    edges = np.array([first + span * 3 // 8, first + span * 7 // 8], dtype=np.int64)
    before = np.searchsorted(times.arrival_ps, edges, side="right")
    return int(before[1] - before[0])
