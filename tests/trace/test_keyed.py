"""Vectorised draws equal the scalar ones; the logarithm equals the library's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.replay.draws import draw
from lumen_policy.trace import keyed


@given(st.integers(0, 2**64 - 1), st.integers(0, 1000), st.integers(0, 2**32))
def test_keyed_draws_are_the_scalar_draws(seed: int, purpose: int, a: int) -> None:
    assert keyed.keyed(seed, purpose, a, 5).tolist() == [draw(seed, purpose, a, b) for b in range(5)]


def test_uniform_lies_strictly_inside_and_has_the_right_moments() -> None:
    u = keyed.uniform(1, keyed.GAP, 0, 200_000)
    assert 0.0 < u.min() < u.max() < 1.0
    assert abs(u.mean() - 0.5) < 4 / np.sqrt(12 * len(u))


def test_exponential_is_minus_the_logarithm() -> None:
    u = np.concatenate([keyed.uniform(2, keyed.GAP, 0, 100_000), [2.0**-53, 0.5, 1 - 2.0**-53, np.sqrt(0.5)]])
    x = keyed.exponential(u.copy())
    assert np.abs(x + np.log(u)).max() < 1e-11
    assert (x > 0).all()
