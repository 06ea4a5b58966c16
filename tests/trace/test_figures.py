"""Figures against hand-computed values and independent implementations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from lumen_policy.trace.figures import (
    arrival_figures,
    correlation,
    equal_rows,
    length_figures,
    nearest_rank,
    prefix_figures,
)
from lumen_policy.trace.table import PS_PER_S, PrefixBlocks


def test_arrivals_by_hand() -> None:
    # Windows of 10 s: [0, 10) has 3, [10, 20) none, [20, 30) 1; the part from 30 s on is left out.
    figures = arrival_figures(np.array([0, 1, 2, 25, 34]) * PS_PER_S)
    assert figures["span_s"] == 34
    assert figures["rate_per_s"] == 5 / 34
    assert figures["window_count_max"] == 3
    assert figures["window_empty_share"] == pytest.approx(1 / 3)
    assert figures["window_count_cv"] == pytest.approx(np.std([3, 0, 1], ddof=1) / (4 / 3))
    assert figures["gap_cv"] == pytest.approx(np.std([1, 1, 23, 9], ddof=1) / 8.5)
    assert figures["gap_max_s"] == 23


def test_a_single_arrival_has_no_rate() -> None:
    figures = arrival_figures(np.array([0]))
    assert [figures[key] for key in ("rate_per_s", "window_count_cv", "gap_cv", "gap_max_s")] == [None] * 4


@given(st.lists(st.integers(0, 400), min_size=2, max_size=60))
def test_window_counts_equal_the_full_list(seconds: list[int]) -> None:
    arrival = np.sort(np.array(seconds)) * PS_PER_S
    figures = arrival_figures(arrival)
    whole = int(arrival[-1] - arrival[0]) // (10 * PS_PER_S)
    counts = np.bincount((arrival - arrival[0]) // (10 * PS_PER_S), minlength=whole)[:whole]
    if whole >= 2 and counts.any():
        assert figures["window_count_cv"] == pytest.approx(counts.std(ddof=1) / counts.mean())
        assert figures["window_empty_share"] == pytest.approx((counts == 0).mean())


def test_quantiles_are_values_of_the_sample() -> None:
    assert nearest_rank(np.array([5, 1, 3]), (0.0, 0.1, 0.5, 0.9, 1.0)) == [1, 1, 3, 5, 5]
    figures = length_figures(np.array([1, 2, 3, 8, 9000]))
    assert figures["histogram_log2"] == [1, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert (figures["mean"], figures["p50"], figures["share_over_8192"]) == (1802.8, 3, 0.2)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=50))
def test_correlation_equals_other_implementations(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(column) for column in zip(*pairs, strict=True))
    found = correlation(a, b)
    if len(set(a.tolist())) == 1 or len(set(b.tolist())) == 1:
        assert found == {"pearson": None, "spearman": None}
        return
    assert found["pearson"] == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-12)
    assert found["spearman"] == pytest.approx(spearmanr(a, b)[0], abs=1e-12)


def test_equal_rows_by_hand() -> None:
    assert equal_rows(np.array([1, 1, 2, 1]), np.array([5, 5, 5, 6])) == 1
    assert equal_rows(np.array([7, 7, 7])) == 2
    assert equal_rows(np.array([], np.int64)) == 0


def blocks(*requests: list[int]) -> PrefixBlocks:
    offsets = np.cumsum([0, *map(len, requests)])
    return PrefixBlocks(block_tokens=16, offsets=offsets, ids=np.array([i for r in requests for i in r]))


def test_prefix_reuse_by_hand() -> None:
    prefix = blocks([1, 2, 3], [1, 2, 4], [9, 2], [1, 2, 3])
    # Second request: 1, 2. Third: 2 follows a miss, so nothing. Fourth: all three.
    assert prefix_figures(prefix)["reuse_unlimited"] == 5 / 11
    # Three blocks: 1 2 3 → 1 2 hit, 4 evicts 3 → 9 evicts 1, 2 stays → 1 evicts 4, and so on: 2 hits in all.
    assert prefix_figures(prefix, 3)["reuse_limited"] == 2 / 11


@given(
    st.lists(st.lists(st.integers(0, 8), max_size=6, unique=True), min_size=1, max_size=12),
    st.integers(1, 12),
)
def test_a_larger_cache_with_nested_prefixes_never_reuses_less(requests: list[list[int]], size: int) -> None:
    # Chains as hash ids make them: an id stands for the whole prefix up to it.
    chained = [[hash(tuple(r[: i + 1])) % (1 << 62) for i in range(len(r))] for r in requests]
    prefix = blocks(*chained)
    small, large = (prefix_figures(prefix, n)["reuse_limited"] for n in (size, 10_000))
    assert small <= large == prefix_figures(prefix)["reuse_unlimited"]
