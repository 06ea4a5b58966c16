"""Figures with unit and origin, and the bandwidth curve."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.errors import CostModelError
from cost_models.sourced import Sourced, SourcedByTp, SourcedCurve, exact

ORIGIN = {"kind": "assumed", "source": "a test"}


def curve(latency_s: float, points: list[tuple[float, float]]) -> SourcedCurve:
    return SourcedCurve(latency_s=latency_s, points=points, unit="byte/s", **ORIGIN)  # type: ignore[arg-type]


def test_a_decimal_is_taken_as_written() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert exact(3.35e12) == 3_350_000_000_000
    assert exact(5) == 5


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_only_finite_values(value: float) -> None:
    with pytest.raises(CostModelError, match="not a finite number"):
        Sourced(value=value, unit="s", **ORIGIN)  # type: ignore[arg-type]
    with pytest.raises(CostModelError, match="not a finite number"):
        curve(0.0, [(1.0, value)])


def test_no_figure_without_a_source() -> None:
    with pytest.raises(CostModelError, match="source: empty"):
        Sourced(value=1.0, unit="s", kind="assumed", source=" ")


def test_by_tp_steps_to_the_next_smaller_degree() -> None:
    figure = SourcedByTp(values={"2": 0.2, "4": 0.4}, unit="1", **ORIGIN)  # type: ignore[arg-type]
    assert [figure.at(tp) for tp in (1, 2, 3, 4, 8)] == [exact(v) for v in (0.2, 0.2, 0.2, 0.4, 0.4)]


@pytest.mark.parametrize("degree", ["0", "x", "-1", "1.5", ""])
def test_by_tp_keys_are_degrees(degree: str) -> None:
    with pytest.raises(CostModelError, match="not a tensor-parallel degree"):
        SourcedByTp(values={degree: 1.0}, unit="1", **ORIGIN)  # type: ignore[arg-type]


def test_one_point_is_latency_and_bandwidth() -> None:
    """A point (S, B) with latency l: l + s · (S/B − l)/S below it, then 1/B a byte."""
    link = curve(0.5, [(100.0, 50.0)])
    assert link.seconds(0) == Fraction(1, 2)
    assert link.seconds(50) == Fraction(5, 4)
    assert link.seconds(100) == 2
    assert link.seconds(150) == 3


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([], "empty"),
        ([(10.0, 1.0), (10.0, 1.0)], "must increase"),
        ([(10.0, 1.0), (20.0, 10.0)], "would take less time"),
        ([(10.0, 0.0)], "must be > 0"),
        ([(-10.0, 1.0)], "must be > 0"),
    ],
)
def test_a_curve_is_a_possible_link(points: list[tuple[float, float]], words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        curve(0.0, points)


def test_a_negative_latency_is_refused() -> None:
    with pytest.raises(CostModelError, match="latency_s"):
        curve(-1.0, [(10.0, 1.0)])


@given(
    st.integers(0, 100),
    st.lists(st.integers(1, 1000), min_size=1, max_size=5),
    st.lists(st.integers(0, 100), min_size=5, max_size=5),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
)
def test_a_longer_transfer_never_takes_less_time(
    latency: int, steps: list[int], rises: list[int], first: int, second: int
) -> None:
    size, duration, points = 0, latency, []
    for step, rise in zip(steps, rises, strict=False):
        size, duration = size + step, duration + rise + 1
        points.append((float(size), size / duration))
    link = curve(float(latency), points)
    low, high = sorted((first, second))
    assert link.seconds(low) <= link.seconds(high)
    for point, rate in points:
        assert link.seconds(Fraction(point)) == exact(point) / exact(rate)
