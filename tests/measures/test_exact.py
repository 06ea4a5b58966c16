"""Exact sums: no overflow, one rounding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.measures.exact import CHUNK, ExactBins, exact_sum, picoseconds, seconds

from .builder import ints

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(INT64, max_size=50))
def test_sum_equals_python_integers(values: list[int]) -> None:
    assert exact_sum(ints(values)) == sum(values)


def test_sum_over_several_chunks_beyond_int64() -> None:
    values = np.full(2 * CHUNK + 5, 2**62 + 1, dtype=np.int64)
    assert exact_sum(values) == (2 * CHUNK + 5) * (2**62 + 1)


@given(st.lists(st.tuples(st.integers(0, 3), INT64), max_size=30))
def test_bins_equal_python_integers(samples: list[tuple[int, int]]) -> None:
    bins = ExactBins(4)
    bins.add(ints([bin_of for bin_of, _ in samples]), ints([value for _, value in samples]), 1)
    for place in range(4):
        inside = [value for bin_of, value in samples if bin_of == place]
        assert (bins.counts()[place], bins.sums()[place]) == (len(inside), sum(inside))


@pytest.mark.parametrize(("text", "expected"), [(0.1, 10**11), (1.2, 1_200_000_000_000), (1e-12, 1)])
def test_picoseconds_of_decimal_seconds(text: float, expected: int) -> None:
    assert picoseconds(text) == expected


def test_seconds_rounds_once() -> None:
    assert seconds(1, 3) == 1 / 3e12
    assert seconds(3 * 10**12, 2) == 1.5
