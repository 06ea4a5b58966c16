"""Three window lengths: the ranking holds, or the result says that it does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.measures.windows import rank_by_window, window_choices_ps

HORIZON_PS = 300 * 10**12


def test_windows_are_half_three_quarters_and_all() -> None:
    assert window_choices_ps(HORIZON_PS) == (150 * 10**12, 225 * 10**12, 300 * 10**12)


def test_a_flip_is_said() -> None:
    """A crosses B between the second and the third window."""
    ranking = rank_by_window({"a": (1, 2, 9), "b": (5, 5, 5)}, HORIZON_PS)
    assert ranking.orders == (("a", "b"), ("a", "b"), ("b", "a"))
    assert not ranking.robust


def test_a_tie_that_opens_is_a_flip() -> None:
    assert not rank_by_window({"a": (5, 5, 6), "b": (5, 5, 5)}, HORIZON_PS).robust


@given(
    st.dictionaries(st.text(min_size=1), st.integers(-1000, 1000), min_size=1),
    st.lists(st.integers(1, 1000), min_size=3, max_size=3),
)
def test_scaling_every_policy_alike_keeps_the_ranking(excess: dict[str, int], scales: list[int]) -> None:
    """A window that scales all policies by one positive factor changes no relation."""
    totals = {label: [value * scale for scale in scales] for label, value in excess.items()}
    ranking = rank_by_window(totals, HORIZON_PS)
    assert ranking.robust
    assert len(set(ranking.orders)) == 1
