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
        (0.95, Saturation.BACKLOGGED),
        (0.98, Saturation.BACKLOGGED),
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


def test_fluid_threshold() -> None:
    """A linear rise: m₄ − m₂ is half of it; 1,000 arrivals between the middles, so 64 > 2·√1000 is 6.4 %."""
    rise = np.arange(1000)
    flat = np.full(1000, 500)
    assert saturation_of_numbers(flat + 128 * rise // 1000, 1_000) == Saturation.OVERLOADED
    assert saturation_of_numbers(flat + 128 * rise // 1000, 1_300) == Saturation.STABLE
    assert saturation_of_numbers(flat + 60 * rise // 1000, 500) == Saturation.STABLE


def test_tail_threshold() -> None:
    """Median 5: the limit of the 99th percentile is 20."""
    number = np.full(1000, 5)
    number[300:310] = 1000
    assert saturation_of_numbers(number, 10_000) == Saturation.STABLE
    number[300:311] = 20
    assert saturation_of_numbers(number, 10_000) == Saturation.STABLE
    number[300:311] = 21
    assert saturation_of_numbers(number, 10_000) == Saturation.BACKLOGGED


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
