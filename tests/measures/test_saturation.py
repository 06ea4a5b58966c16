"""The saturation label on queues whose load is known."""

from __future__ import annotations

import numpy as np
import pytest

from lumen_policy.measures.saturation import Saturation, saturation, saturation_of_numbers
from lumen_policy.replay.contract import PS_PER_S, ReplayInput, ReplayOutput

from .builder import ints, replay_input, replay_output


def queue(
    load: float, seed: int, *, servers: int = 1, count: int = 10_000
) -> tuple[ReplayInput, ReplayOutput]:
    """M/D/c: Poisson arrivals at ``load`` times the capacity, service of exactly 1 s, in order of arrival."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1 / (load * servers), count))
    arrival_ps = ((arrival - arrival[0]) * PS_PER_S).astype(np.int64)
    # with equal service times request i starts when request i − c has left
    left = np.empty(count, dtype=np.int64)
    for row, at in enumerate(arrival_ps.tolist()):
        free = left[row - servers] if row >= servers else 0
        left[row] = max(at, free) + PS_PER_S
    inp = replay_input(arrival_ps)
    return inp, replay_output(inp, left, left)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("load", "label"),
    [
        (0.3, Saturation.STABLE),
        (0.5, Saturation.STABLE),
        (0.7, Saturation.STABLE),
        (0.85, Saturation.STABLE),
        (1.0, Saturation.BACKLOGGED),
        (1.02, Saturation.BACKLOGGED),
        (1.15, Saturation.OVERLOADED),
        (1.3, Saturation.OVERLOADED),
        (2.0, Saturation.OVERLOADED),
    ],
)
def test_one_server(load: float, label: Saturation, seed: int) -> None:
    assert saturation(*queue(load, seed)) == label


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("load", "label"), [(0.7, Saturation.STABLE), (0.9, Saturation.STABLE), (1.15, Saturation.OVERLOADED)]
)
def test_many_servers(load: float, label: Saturation, seed: int) -> None:
    assert saturation(*queue(load, seed, servers=64, count=20_000)) == label


def test_a_rate_that_varies_without_queueing_is_stable() -> None:
    """Ten times as many arrivals in the middle third, each in the system for 20 s: N is 20, 200, 20."""
    arrival = bursty_arrivals()
    inp = replay_input(arrival)
    last = [at + 20 * PS_PER_S for at in arrival]
    assert saturation(inp, replay_output(inp, last, last)) == Saturation.STABLE


def test_a_queue_that_forms_and_clears_is_backlogged() -> None:
    """The same arrivals at one server that serves 9 a second: 1,000 wait at 2,000 s, none from 2,125 s on."""
    arrival, left, free = bursty_arrivals(), [], 0
    for at in arrival:
        free = max(free, at) + PS_PER_S // 9
        left.append(free)
    inp = replay_input(arrival)
    assert saturation(inp, replay_output(inp, left, left)) == Saturation.BACKLOGGED


def bursty_arrivals() -> list[int]:
    slow = [at * PS_PER_S for at in (*range(1000), *range(2000, 3000))]
    return sorted(slow + [at * PS_PER_S // 10 for at in range(10_000, 20_000)])


def test_growth_threshold() -> None:
    """N rises by 128 over the span, m₄ − m₂ = 64: 5 % of 1,280 arrivals, 2·√1024; N/d stays within twice."""
    number, left = 500 + 128 * np.arange(1000) // 1000, np.full(10, 100)
    assert saturation_of_numbers(number, left, 1_024) == Saturation.OVERLOADED
    assert saturation_of_numbers(number, left, 1_025) == Saturation.STABLE
    many = 500 + 1280 * np.arange(1000) // 1000
    assert saturation_of_numbers(many, left, 12_800) == Saturation.OVERLOADED
    assert saturation_of_numbers(many, left, 12_801) == Saturation.BACKLOGGED


def test_no_growth_without_arrivals_is_no_overload() -> None:
    assert saturation_of_numbers(np.full(1000, 3), np.zeros(10, dtype=np.int64), 0) == Saturation.STABLE


def test_residence_threshold() -> None:
    """r = 20/100; in one part 50 leave and the limit is 2 · 0.2 · 50 + 10 = 30 requests."""
    number, left = np.full(1000, 20), np.array([1, 1, 100, 100, 100, 50, 100, 100, 100, 100])
    number[500:600] = 30
    assert saturation_of_numbers(number, left, 10_000) == Saturation.STABLE
    number[599] = 31
    assert saturation_of_numbers(number, left, 10_000) == Saturation.BACKLOGGED


@pytest.mark.parametrize(("arrival", "label"), [([0], Saturation.STABLE), ([7, 7, 7], Saturation.BACKLOGGED)])
def test_arrivals_of_one_instant(arrival: list[int], label: Saturation) -> None:
    inp = replay_input(arrival)
    last = [at + PS_PER_S for at in arrival]
    assert saturation(inp, replay_output(inp, last, last)) == label


def test_long_spans_do_not_overflow() -> None:
    """90 days: 1,000 instants times the span exceed int64."""
    arrival = ints(range(0, 90 * 86_400, 3_600)) * PS_PER_S
    inp = replay_input(arrival)
    assert saturation(inp, replay_output(inp, arrival + 1, arrival + 2)) == Saturation.STABLE
