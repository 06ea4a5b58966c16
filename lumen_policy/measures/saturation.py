"""Whether the cluster kept up with its trace: stable, backlogged or overloaded."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

import numpy as np

from lumen_policy.measures.times import number_in_system, request_times
from lumen_policy.replay.contract import IntArray, ReplayInput, ReplayOutput

__all__ = ["Saturation", "saturation", "saturation_of_numbers"]

_PARTS = 10
_PART_INSTANTS = 100
_INSTANTS = _PARTS * _PART_INSTANTS
_QUARTER = _INSTANTS // 4
_FILLING_PARTS = 2
_GROWTH_PERCENT = 5
_NOISE_DEVIATIONS = 2
_RESIDENCE_FACTOR = 2
_MARGIN_REQUESTS = 10


class Saturation(StrEnum):
    """Label of a fault-free run."""

    STABLE = "stable"
    BACKLOGGED = "backlogged"
    OVERLOADED = "overloaded"


def saturation(inp: ReplayInput, fault_free: ReplayOutput) -> Saturation:
    """The label of a fault-free run, from the number in the system N(t) between first and last arrival.

    N is read at 1,000 evenly spaced instants (the middles of 1,000 equal parts of that span).

    * overloaded: N grows by what the cluster cannot serve. m₂ and m₄ are the means of N over the second and
      the fourth quarter, A the arrivals between the middles of these quarters; m₄ − m₂ ≥ 5 % of A and ≥ 2·√A.
      In a fluid m₄ − m₂ = A·(1 − capacity/rate), so 5 % means a rate 5.3 % above the capacity. At capacity N
      is a random walk with a deviation of about one per arrival, hence 2·√A.
    * backlogged: not overloaded, but queues form. The span is cut into ten equal parts; n is the mean of N
      in a part, d the departures in it. By Little's law n/d is the residence time in units of the part. With
      r the smallest n/d, the run is backlogged if in some part n > 2·r·d + 10: requests stay more than twice
      as long as in the calmest part, and by more than 10 requests. A trace whose rate varies without
      queueing is not backlogged, since n and d vary together.
    * stable: otherwise.

    While the system fills nothing can be told: the first quarter and the first two parts are left out.

    Valid for: spans of several mean E2E; in a shorter one the system fills throughout, which reads as
    overloaded. A trace that arrives in one instant is backlogged if it has several requests.
    """
    times = request_times(inp, fault_free)
    if times.arrival_ps.size == 0:
        return Saturation.STABLE
    first, span = int(times.arrival_ps[0]), int(times.arrival_ps[-1] - times.arrival_ps[0])
    if span == 0:
        return Saturation.STABLE if times.arrival_ps.size == 1 else Saturation.BACKLOGGED
    number = number_in_system(times, _places(first, span, range(1, 2 * _INSTANTS, 2), 2 * _INSTANTS))
    left = _count_between(
        np.sort(times.last_ps[times.finished]), _places(first, span, range(_PARTS + 1), _PARTS)
    )
    arrived = _count_between(times.arrival_ps, _places(first, span, (3, 7), 8))
    return saturation_of_numbers(number, left, int(arrived[0]))


def saturation_of_numbers(number: IntArray, departures: IntArray, arrivals: int) -> Saturation:
    """The rule of ``saturation``.

    Args:
        number: shape (1000,), N at evenly spaced instants.
        departures: shape (10,), in ten equal parts of the span.
        arrivals: A.
    """
    growth = Fraction(int(number[-_QUARTER:].sum()) - int(number[_QUARTER : 2 * _QUARTER].sum()), _QUARTER)
    enough = growth >= Fraction(_GROWTH_PERCENT, 100) * arrivals
    if growth > 0 and enough and growth**2 >= _NOISE_DEVIATIONS**2 * arrivals:
        return Saturation.OVERLOADED
    mean = [
        Fraction(total, _PART_INSTANTS)
        for total in number.reshape(_PARTS, _PART_INSTANTS).sum(axis=1)[_FILLING_PARTS:].tolist()
    ]
    left: list[int] = departures[_FILLING_PARTS:].tolist()
    residence = min((n / d for n, d in zip(mean, left, strict=True) if d), default=Fraction(0))
    if any(n > _RESIDENCE_FACTOR * residence * d + _MARGIN_REQUESTS for n, d in zip(mean, left, strict=True)):
        return Saturation.BACKLOGGED
    return Saturation.STABLE


def _places(first: int, span: int, numerators: tuple[int, ...] | range, denominator: int) -> IntArray:
    """Instants first + span · numerator / denominator, rounded down."""
    return np.array([first + span * numerator // denominator for numerator in numerators], dtype=np.int64)


def _count_between(instants: IntArray, edges: IntArray) -> IntArray:
    """How many sorted instants lie in each (edge, next edge]."""
    return np.diff(np.searchsorted(instants, edges, side="right"))
