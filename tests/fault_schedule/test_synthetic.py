"""Drawn schedules: rate, repairs, bursts and lemons as stated; keyed draws; bad models refused."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import pytest

from lumen_policy.errors import InputError
from lumen_policy.fault_schedule.figures import schedule_figures
from lumen_policy.fault_schedule.synthetic import FaultModel, RepairLaw, draw_schedule

DAY_S = 86_400.0
PLAIN = FaultModel(workers=40, span_s=1000 * DAY_S, mtbf_hours=600.0, seed=5)
"""1,600 faults expected: standard deviation 40."""


def test_rate_and_workers() -> None:
    """Poisson: the count within four deviations; gaps with a CV near one; every worker hit."""
    faults = draw_schedule(PLAIN).faults
    assert PLAIN.expected_faults == pytest.approx(1600)
    assert abs(len(faults) - 1600) < 4 * 40
    gaps = [b.time_s - a.time_s for a, b in pairwise(faults)]
    mean = fmean(gaps)
    cv = math.sqrt(fmean([(gap - mean) ** 2 for gap in gaps])) / mean
    assert abs(cv - 1) < 0.12
    assert {fault.worker for fault in faults} == set(range(40))
    assert all(0 <= fault.time_s < PLAIN.span_s for fault in faults)


def test_bursts_keep_the_rate_and_hit_neighbours() -> None:
    """Half of the faults in bursts of four neighbours within two minutes: 200 ± 14 bursts and 800 ± 28
    single faults, so 1,600 ± 63 in all.
    """
    model = replace(PLAIN, burst_share=0.5, burst_workers=4)
    schedule = draw_schedule(model)
    assert abs(len(schedule.faults) - 1600) < 4 * 63
    figures = schedule_figures(schedule, watched=40)
    assert abs(figures["burst_share"] - 0.5) < 0.08
    assert figures["largest_burst"] >= 4
    alone = draw_schedule(replace(model, burst_share=1.0)).faults
    racks = Counter((fault.worker or 0) // 4 for fault in alone)
    assert set(racks) == set(range(10))
    first = [fault.worker for fault in alone[:4]]
    assert sorted(first) == list(range(min(first), min(first) + 4))
    assert alone[3].time_s - alone[0].time_s <= 120


def test_lemons_fail_more_often() -> None:
    """4 lemons at factor 9 have 36 of 72 shares: half of the faults."""
    faults = draw_schedule(replace(PLAIN, lemons=4, lemon_factor=9.0)).faults
    share = sum((fault.worker or 0) < 4 for fault in faults) / len(faults)
    assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(1600)
    assert abs(len(faults) - 1600) < 4 * 40


def test_repairs_and_processes() -> None:
    """Log-normal with p50 20 h and p90 300 h; a quarter of process crashes."""
    law = RepairLaw.parse("lognormal:20:300")
    faults = draw_schedule(replace(PLAIN, repair=law, process_share=0.25)).faults
    assert all((fault.duration_s is None) == (fault.scope == "process") for fault in faults)
    hours = sorted(fault.duration_s / 3600 for fault in faults if fault.duration_s is not None)
    below = [sum(hour <= edge for hour in hours) / len(hours) for edge in (20, 300)]
    assert abs(below[0] - 0.5) < 4 * 0.5 / math.sqrt(1200)
    assert abs(below[1] - 0.9) < 4 * 0.3 / math.sqrt(1200)
    share = sum(fault.scope == "process" for fault in faults) / len(faults)
    assert abs(share - 0.25) < 4 * 0.44 / 40
    mean = fmean(
        (fault.duration_s or 0) / 3600
        for fault in draw_schedule(replace(PLAIN, repair=RepairLaw.parse("exp:10"))).faults
    )
    assert abs(mean - 10) < 4 * 10 / 40
    fixed = draw_schedule(replace(PLAIN, repair=RepairLaw.parse("fixed:2"))).faults
    assert {fault.duration_s for fault in fixed} == {7200.0}
    assert draw_schedule(PLAIN).faults[0].duration_s is None


def test_draws_are_keyed() -> None:
    """The same seed gives the same faults; what is added moves no other draw."""
    base = draw_schedule(PLAIN)
    assert draw_schedule(PLAIN) == base
    assert draw_schedule(replace(PLAIN, seed=6)) != base
    at = [(fault.time_s, fault.worker) for fault in base.faults]
    for changed in (
        replace(PLAIN, repair=RepairLaw.parse("exp:1")),
        replace(PLAIN, process_share=0.5),
    ):
        assert [(fault.time_s, fault.worker) for fault in draw_schedule(changed).faults] == at
    longer = draw_schedule(replace(PLAIN, span_s=2 * PLAIN.span_s)).faults
    assert [(fault.time_s, fault.worker) for fault in longer[: len(at)]] == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "exp",
        "exp:0",
        "exp:-1",
        "exp:nan",
        "exp:1:2",
        "fixed:-1",
        "lognormal:5",
        "lognormal:9:9",
        "weibull:1",
    ],
)
def test_what_is_no_repair_law(text: str) -> None:
    with pytest.raises(InputError, match="--repair"):
        RepairLaw.parse(text)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"workers": 0}, "workers"),
        ({"span_s": 0.0}, "span"),
        ({"mtbf_hours": math.nan}, "mtbf-hours"),
        ({"mtbf_hours": 1e-6}, "expected"),
        ({"burst_share": 1.5}, "burst-share"),
        ({"burst_share": 0.5, "burst_workers": 41}, "burst-workers"),
        ({"lemons": 41}, "lemons"),
        ({"lemon_factor": 0.5}, "lemon-factor"),
        ({"process_share": -0.1}, "process-share"),
    ],
)
def test_models_that_are_refused(change: dict[str, float], named: str) -> None:
    with pytest.raises(InputError, match=named):
        replace(PLAIN, **change)


def test_a_span_without_a_fault_is_said() -> None:
    with pytest.raises(InputError, match="no fault was drawn"):
        draw_schedule(replace(PLAIN, span_s=1.0))
