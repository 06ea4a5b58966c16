"""Nearest-rank quantiles and the three per-request durations."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.measures.distributions import (
    EMPTY,
    distribution_of_ps,
    distribution_of_s,
    e2e_per_output,
    nearest_rank,
    tpot,
)
from lumen_policy.measures.times import request_times
from lumen_policy.replay.contract import NONE, PS_PER_S, Status

from .builder import ints, replay_input, replay_output


@pytest.mark.parametrize(
    ("size", "percent", "rank"),
    [
        (1, 50, 1),
        (1, 99, 1),
        (2, 50, 1),
        (3, 50, 2),
        (10, 90, 9),
        (11, 90, 10),
        (100, 99, 99),
        (101, 99, 100),
    ],
)
def test_rank_is_the_smallest_that_covers_the_percentage(size: int, percent: int, rank: int) -> None:
    assert nearest_rank(size, percent) == rank


@given(st.lists(st.integers(0, 10**16), min_size=1, max_size=60))
def test_quantiles_cover_their_share_and_no_smaller_value_does(values: list[int]) -> None:
    found = distribution_of_ps(ints([value - value % 1000 for value in values]))
    ordered = [value - value % 1000 for value in values]
    for percent, quantile in ((50, found.p50), (90, found.p90), (99, found.p99)):
        assert quantile is not None
        at_most = sum(value / PS_PER_S <= quantile for value in ordered)
        below = sum(value / PS_PER_S < quantile for value in ordered)
        assert 100 * at_most >= percent * len(values) > 100 * below


def test_mean_is_exact_where_an_int64_sum_would_wrap() -> None:
    values = ints([2**62, 2**62, 2**62, 1])
    assert distribution_of_ps(values).mean == float(Fraction(3 * 2**62 + 1, 4 * PS_PER_S))


def test_seconds_and_picoseconds_agree() -> None:
    values = ints([1, 2, 3, 4, 50]) * PS_PER_S
    assert distribution_of_s(values / PS_PER_S) == distribution_of_ps(values)


def test_nothing_has_no_quantiles() -> None:
    assert distribution_of_ps(ints([])) == EMPTY == distribution_of_s(np.array([]))


def test_tpot_leaves_out_single_tokens_and_the_unfinished() -> None:
    """Outputs 1, 3, 5, 4: the second takes (7 − 3)/2 s a token, the third never ends, then (9 − 3)/3."""
    inp = replay_input(ints([0, 1, 2, 3]) * PS_PER_S, [1, 3, 5, 4])
    out = replay_output(
        inp,
        [2 * PS_PER_S, 3 * PS_PER_S, 4 * PS_PER_S, 3 * PS_PER_S],
        [2 * PS_PER_S, 7 * PS_PER_S, NONE, 9 * PS_PER_S],
        status=ints([Status.FINISHED, Status.FINISHED, Status.PENDING, Status.FINISHED]),
    )
    times = request_times(inp, out)
    assert tpot(times, inp.output_tokens).tolist() == [2.0, 2.0]
    assert e2e_per_output(times, inp.output_tokens).tolist() == [2.0, 2.0, 1.5]


def test_mean_of_seconds_is_correctly_rounded() -> None:
    values = np.array([1e16, 1.0, -1e16, 1.0])
    assert distribution_of_s(values).mean == math.fsum(values.tolist()) / 4 == 0.5
