"""From schedule to faults: nothing lost uncounted, overlaps and windows by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.errors import InputError
from lumen_policy.fault_schedule.schedule import DAY_S, FaultSchedule, ScheduledFault
from lumen_policy.fault_schedule.timeline import NODE_CHOICES, Timeline, parse_days, timeline

S = 10**12


def on_workers(*rows: tuple[float, int, float | None]) -> FaultSchedule:
    return FaultSchedule.of(
        (ScheduledFault(time_s=at, worker=worker, duration_s=long) for at, worker, long in rows),
        source="made",
        format="schedule",
    )


def in_days(*rows: tuple[float, str, float]) -> FaultSchedule:
    return FaultSchedule.of(
        (ScheduledFault(time_s=at * DAY_S, node=node, duration_s=long * DAY_S) for at, node, long in rows),
        source="log",
        format="infinitehbd",
        clock="days",
    )


def crashes(found: Timeline) -> list[tuple[float, int]]:
    return [(crash.time_s, crash.worker) for crash in found.faults]


def test_overlaps_by_hand() -> None:
    """Of a log, node a:  |=10──────30|        20 starts inside, and reaches to 50: |=20────────50|
                                                40 starts inside what 20 prolonged;  50 starts when all have ended.
    Node b:  three faults without length at 5: one crash; another at 6.
    """
    found = timeline(
        in_days((10, "a", 20), (20, "a", 30), (40, "a", 1), (50, "a", 5), *((5, "b", 0),) * 3, (6, "b", 0)),
        workers=2,
        span_ps=100 * S,
        days=(0.0, 100.0),
        choice="worst",
    )
    assert crashes(found) == [(5, 1), (6, 1), (10, 0), (50, 0)]
    assert found.dropped == {"while the worker was already faulty": 4}
    assert found.zero_length == 2


def test_a_logged_fault_without_an_end_is_the_last() -> None:
    found = timeline(
        in_days((10, "a", math.inf), (20, "a", 1), (20, "b", 1)),
        workers=2,
        span_ps=100 * S,
        days=(0.0, 100.0),
        choice="worst",
    )
    assert crashes(found) == [(10, 0), (20, 1)]
    assert {fault.duration_ps for fault in found.faults} == {None}


def test_a_schedule_keeps_overlaps_and_drops_doubles() -> None:
    """Of one kind, worker and instant the first stays; everything else is replayed, however it overlaps."""
    rows = (
        {"time_s": 10, "duration_s": 20},
        {"time_s": 10, "duration_s": 5},
        {"time_s": 20},
        {"time_s": 20, "kind": "slow", "factor": 1.5, "duration_s": 9},
        {"time_s": 20, "kind": "unreachable", "duration_s": 3},
        {"time_s": 20, "kind": "false_alarm", "duration_s": 4},
        {"time_s": 20, "kind": "drain"},
        {"time_s": 20, "kind": "drain", "mode": "migrate"},
    )
    schedule = FaultSchedule.of(
        (ScheduledFault(worker=0, **row) for row in rows), source="made", format="schedule"
    )
    found = timeline(schedule, workers=1, span_ps=100 * S)
    assert [(fault.time_s, fault.code.name, fault.duration_ps) for fault in found.faults] == [
        (10, "CRASH", 20 * S),
        (20, "CRASH", None),
        (20, "UNREACHABLE", 3 * S),
        (20, "SLOW", 9 * S),
        (20, "DRAIN", None),
        (20, "MIGRATE", None),
    ]
    assert found.dropped == {"of a kind that hits the worker at the same instant already": 2}
    assert found.faults[3].factor_ppm == 1_500_000


def test_after_the_last_arrival() -> None:
    found = timeline(on_workers((10, 0, None), (10.000000000001, 1, None)), workers=2, span_ps=10 * S)
    assert crashes(found) == [(10, 0)]
    assert found.dropped == {"after the last arrival": 1}


def test_window_of_days_by_hand() -> None:
    """Days 10 to 20 become 1,000 s: day 15 is 500 s; day 20 is outside, day 10 inside."""
    log = in_days((9, "a", 0.5), (10, "a", 0.5), (15, "b", 0), (20, "a", 1))
    found = timeline(log, workers=2, span_ps=1000 * S, days=(10.0, 20.0), choice="fold")
    assert crashes(found) == [(0, 0), (500, 1)]
    assert found.dropped == {"outside the window of days": 2}
    assert found.nodes == {"a": 0, "b": 1}
    assert "864 times as often" in found.words[0]
    real_time = timeline(log, workers=2, span_ps=864_000 * S, days=(10.0, 20.0), choice="fold")
    assert "times as often" not in real_time.words[0]
    assert crashes(real_time) == [(0, 0), (432_000, 1)]


def test_the_whole_log_by_default() -> None:
    found = timeline(in_days((5, "a", 1), (20, "a", 1)), workers=1, span_ps=400 * S, choice="worst")
    assert crashes(found) == [(pytest.approx(100), 0), (400, 0)]


def test_worst_nodes_come_first() -> None:
    log = in_days((1, "c", 0), (2, "b", 0), (3, "b", 0), (4, "a", 0), (5, "d", 0))
    found = timeline(log, workers=3, span_ps=100 * S, choice="worst")
    assert found.nodes == {"b": 0, "a": 1, "c": 2}
    assert found.dropped == {"on nodes that are no worker": 1}


def test_a_sample_keeps_the_rate_of_a_node() -> None:
    """10 of 100 watched nodes fail once; 20 workers get 2 of them on average: mean of 300 seeds within four
    standard errors (hypergeometric, variance 20·0.1·0.9·80/99).
    """
    log = in_days(*((1 + node / 100, f"node-{node}", 0) for node in range(10)))
    counts = [
        len(timeline(log, workers=20, span_ps=100 * S, watched=100, seed=seed).faults) for seed in range(300)
    ]
    deviation = math.sqrt(20 * 0.1 * 0.9 * 80 / 99 / 300)
    assert abs(sum(counts) / 300 - 2) < 4 * deviation
    assert len(set(counts)) > 3


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from("abcdef"), st.sampled_from([0, 0.5, 3, math.inf])),
        min_size=1,
        max_size=20,
    ),
    workers=st.integers(1, 4),
    choice=st.sampled_from(NODE_CHOICES),
    start=st.integers(0, 10),
)
def test_every_fault_is_replayed_or_counted(
    rows: list[tuple[float, str, float]], workers: int, choice: Any, start: int
) -> None:
    found = timeline(
        in_days(*rows),
        workers=workers,
        span_ps=1000 * S,
        days=(float(start), 25.0),
        choice=choice,
        watched=50 if choice == "sample" else None,
    )
    assert found.read == len(rows) == len(found.faults) + sum(found.dropped.values())
    assert all(0 <= crash.time_ps <= 1000 * S and crash.worker < workers for crash in found.faults)
    orders = [fault.order for fault in found.faults]
    assert orders == sorted(set(orders))
    assert all(count > 0 for count in found.dropped.values())


def test_options_without_meaning_are_refused() -> None:
    schedule, log = on_workers((1, 0, None), (2, 1, None)), in_days((1, "a", 0))
    for options, expected in (
        ({"days": (0.0, 1.0)}, "seconds"),
        ({"choice": "worst"}, "names workers"),
        ({"watched": 9}, "names workers"),
        ({"workers": 1}, "worker 1 does not exist"),
    ):
        with pytest.raises(InputError, match=expected):
            timeline(schedule, **({"workers": 2, "span_ps": 9 * S} | options))
    with pytest.raises(InputError, match="fewer than 2 workers"):
        timeline(log, workers=2, span_ps=9 * S)
    with pytest.raises(InputError, match="below the 1 nodes"):
        timeline(log, workers=1, span_ps=9 * S, watched=0)


@pytest.mark.parametrize("text", ["", "5", "5:5", "6:5", "-1:5", "a:b", "0:inf", "nan:5", "1:2:3"])
def test_what_is_no_window(text: str) -> None:
    with pytest.raises(InputError, match="fault_days"):
        parse_days(text)
    assert parse_days("100:107.5") == (100.0, 107.5)
