"""The acceptance curve and its tables."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.acceptance import AcceptanceCurve
from lumen_policy.errors import InputError
from lumen_policy.replay.draws import ACCEPTANCE, draw
from lumen_policy.settings import Settings

RATE = st.floats(0, 1)


@given(RATE, RATE, st.floats(0, 50))
def test_the_curve_runs_from_start_to_final(start: float, final: float, scale: float) -> None:
    curve = AcceptanceCurve(start=start, final=final, scale_passes=scale)
    rates = [float(rate) for rate in curve.rates()]
    assert rates[-1] == final
    if scale > 0 and abs(start - final) > 1e-8:
        assert rates[0] == pytest.approx(start, abs=1e-12)
        for s in range(0, len(rates) - 1, 17):
            formula = final - (final - start) * math.exp(-s / scale)
            assert rates[s] == pytest.approx(formula, abs=1e-9)
    assert rates == sorted(rates, reverse=start > final)
    assert all(0 <= rate <= 1 for rate in rates)


@given(RATE, st.integers(0, 8))
def test_expected_tokens_are_a_geometric_sum(rate: float, k: int) -> None:
    table = AcceptanceCurve(start=rate, final=rate, scale_passes=0).expected_tokens(k)
    assert table.shape == (1, k + 1)
    assert list(table[0]) == pytest.approx([math.fsum(rate**j for j in range(n + 1)) for n in range(k + 1)])


def test_thresholds_accept_at_the_stated_rate() -> None:
    thresholds = AcceptanceCurve(start=0.4, final=0.765, scale_passes=20).thresholds()
    draws = [draw(3, ACCEPTANCE, request, 1) for request in range(20_000)]
    for threshold, rate in ((int(thresholds[0, 0]), 0.4), (int(thresholds[-1, 0]), 0.765)):
        accepted = sum(value < threshold for value in draws) / len(draws)
        assert abs(accepted - rate) < 4 * math.sqrt(rate * (1 - rate) / len(draws))


def test_ends_of_the_range() -> None:
    never = AcceptanceCurve(start=0, final=0, scale_passes=20)
    always = AcceptanceCurve(start=1, final=1, scale_passes=20)
    assert never.thresholds().tolist() == [[0]]
    assert always.thresholds().tolist() == [[2**64 - 1]]
    assert list(always.expected_tokens(3)[0]) == [1, 2, 3, 4]


def test_defaults_fit_the_published_tokens_per_pass() -> None:
    settings = Settings()
    final = settings.acceptance_final
    published = (1.77, 2.35, 2.80, 3.13, 3.40, 3.58)
    fitted = AcceptanceCurve(start=final, final=final, scale_passes=0).expected_tokens(6)[0][1:]
    # read off a plot to within 0.05
    assert all(abs(a - b) < 0.05 for a, b in zip(fitted, published, strict=True))


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability(bad: float) -> None:
    with pytest.raises(InputError, match="acceptance_start"):
        AcceptanceCurve(start=bad, final=0.5, scale_passes=1)
    with pytest.raises(InputError, match="acceptance_final"):
        AcceptanceCurve(start=0.5, final=bad, scale_passes=1)
    with pytest.raises(InputError, match="scale_passes"):
        AcceptanceCurve(start=0.5, final=0.5, scale_passes=-1)
