"""Run-length records against their brute-force expansion."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.measures.distributions import EMPTY, PERCENTS, nearest_rank
from lumen_policy.measures.gaps import bin_gaps, gap_distribution
from lumen_policy.replay.contract import PS_PER_S

from .builder import GapRecord, brute_gaps, gap_records, replay_input, replay_output

ONE_REQUEST = replay_input([0])


def distribution_in_ps(records: list[GapRecord]) -> tuple[float, ...]:
    found = gap_distribution(replay_output(ONE_REQUEST, [1], [2], records))
    return (found.mean, found.p50, found.p90, found.p99)  # type: ignore[return-value]


def expanded_in_ps(records: list[GapRecord]) -> tuple[float, ...]:
    lengths = sorted(length for _, length in brute_gaps(records))
    ranked = [lengths[nearest_rank(len(lengths), percent) - 1] for percent in PERCENTS]
    exact = [Fraction(sum(lengths), len(lengths)), *ranked]
    return tuple(float(Fraction(value) / PS_PER_S) for value in exact)


@given(gap_records(10).filter(bool))
def test_colliding_gaps_equal_the_expansion(records: list[GapRecord]) -> None:
    assert distribution_in_ps(records) == expanded_in_ps(records)


@given(gap_records(10**12).filter(bool))
def test_wide_gaps_equal_the_expansion(records: list[GapRecord]) -> None:
    assert distribution_in_ps(records) == expanded_in_ps(records)


def test_many_records_equal_the_expansion() -> None:
    """More records than the sample and than one chunk, with many equal ones and a heavy tail."""
    rng = np.random.default_rng(1)
    count = 70_000
    gap = np.where(rng.random(count) < 0.4, 20_000, rng.integers(10_000, 90_000, count))
    gap[rng.random(count) < 0.02] = 10**9
    growth = np.where(rng.random(count) < 0.5, 0, rng.integers(0, 50, count))
    steps = np.where(rng.random(count) < 0.9, 1, rng.integers(1, 9, count))
    columns = (rng.integers(0, 10**9, count), gap, growth, steps, rng.integers(1, 3, count))
    records = list(zip(*(column.tolist() for column in columns), strict=True))
    assert distribution_in_ps(records) == expanded_in_ps(records)


def test_quantiles_do_not_depend_on_the_split() -> None:
    """10, 13, 16, 19 as one record or as two."""
    assert distribution_in_ps([(100, 10, 3, 4, 2)]) == distribution_in_ps(
        [(100, 10, 3, 2, 2), (129, 16, 3, 2, 2)]
    )


def test_mean_where_int64_would_wrap() -> None:
    """A span of 80 days for 10,000 sequences."""
    span = 80 * 86_400 * PS_PER_S
    assert distribution_in_ps([(span, span, 0, 1, 10_000)])[0] == 80 * 86_400


def test_no_gaps_have_no_quantiles() -> None:
    assert gap_distribution(replay_output(ONE_REQUEST, [1], [1])) == EMPTY


@given(gap_records(40), st.integers(-5, 500), st.integers(1, 60), st.integers(1, 12))
def test_bins_equal_the_expansion(records: list[GapRecord], origin: int, width: int, bins: int) -> None:
    binned = bin_gaps(replay_output(ONE_REQUEST, [1], [2], records), origin, width, bins)
    counts, sums = [0] * bins, [0] * bins
    for at, length in brute_gaps(records):
        for number in range(1, bins):
            if origin + (number - 1) * width < at <= origin + number * width:
                counts[number] += 1
                sums[number] += length
    assert (binned.counts(), binned.sums()) == (counts, sums)


def test_long_leaps_are_cut_at_the_exact_step() -> None:
    """30 ms growing by 7 ns a step over 20,000 steps: edges found by a square root of 22-digit numbers."""
    record = (123_456_789, 30 * 10**9, 7_001, 20_000, 3)
    bins = 900
    binned = bin_gaps(replay_output(ONE_REQUEST, [1], [2], [record]), 0, PS_PER_S, bins)
    counts, sums = [0] * bins, [0] * bins
    for at, length in brute_gaps([record]):
        place = -(-at // PS_PER_S)
        if place < bins:
            counts[place] += 1
            sums[place] += length
    assert (binned.counts(), binned.sums()) == (counts, sums)


def test_edges_on_a_step_count_that_step() -> None:
    """Gaps 2, 3, 4 end at 10, 13, 17; bins (9, 13], (13, 17]."""
    binned = bin_gaps(replay_output(ONE_REQUEST, [1], [2], [(10, 2, 1, 3, 1)]), 9, 4, 3)
    assert (binned.counts(), binned.sums()) == ([0, 2, 1], [0, 5, 4])
