"""Targets and minutes a month, by hand."""

from __future__ import annotations

import pytest

from lumen_policy.operator_figures import availability_section, recovery_share, targets_section


def test_equality_misses_a_target() -> None:
    figures = targets_section(coverage=0.9, holder_balance=1.5, load_balance=1.49, acceptance=0.41)
    assert [
        figures[name]["met"] for name in ("coverage", "holder_balance", "load_balance", "acceptance")
    ] == [
        False,
        False,
        True,
        True,
    ]
    unknown = targets_section(coverage=None, holder_balance=None, load_balance=None, acceptance=None)
    assert {figure["met"] for figure in unknown.values()} == {None}


def test_recovery_as_a_share() -> None:
    assert recovery_share(4.0, 10.0) == {"value": 0.4, "target": "< 0.5", "met": True}
    assert recovery_share(5.0, 10.0)["met"] is False
    for own, baseline in ((None, 10.0), (3.0, None), (3.0, 0.0)):
        assert recovery_share(own, baseline)["value"] is None


def test_minutes_a_month() -> None:
    """8 workers, 720 h a worker: 8 crashes a month, or 4 of two workers; each loses 90 s."""
    alone = availability_section(mtbf_hours=720, workers=8, victims=1, unserved_s=90.0, worker_down_s=120.0)
    assert alone["crashes_per_month"] == 8
    assert alone["unserved_minutes_per_month"] == 12
    assert alone["availability"] == pytest.approx(1 - 12 / 43_200)
    assert alone["worker_down_minutes_per_month"] == 16
    together = availability_section(mtbf_hours=720, workers=8, victims=2, unserved_s=90.0, worker_down_s=None)
    assert together["unserved_minutes_per_month"] == 6
    assert together["worker_down_minutes_per_month"] is None
