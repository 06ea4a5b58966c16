"""Crash timelines and their detection."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.clock import seconds_to_ps
from lumen_policy.detection import FixedDetection, HangDetection
from lumen_policy.errors import InputError
from lumen_policy.faults import Crash, check_crashes, parse_crashes

S = 10**12


def test_one_timeline_in_order() -> None:
    assert parse_crashes(["300:5,2", "10.5:0"]) == (
        Crash(time_ps=105 * S // 10, worker=0),
        Crash(time_ps=300 * S, worker=2),
        Crash(time_ps=300 * S, worker=5),
    )


@given(st.decimals(0, 7_000_000, places=12))
def test_times_are_exact_to_the_picosecond(seconds: object) -> None:
    assert seconds_to_ps("time", str(seconds)) == Fraction(str(seconds)) * S


@pytest.mark.parametrize(
    "text",
    [
        "",
        "300",
        ":",
        "300:",
        ":2",
        "a:2",
        "-1:2",
        "nan:2",
        "inf:2",
        "3:x",
        "3:-1",
        "3:1.0",
        "3:1,,2",
        "1e999999:1",
        "1e9999999999999999999999:1",
    ],
)
def test_what_is_no_crash(text: str) -> None:
    with pytest.raises(InputError, match="crash"):
        parse_crashes([text])


def test_the_same_worker_twice_at_one_instant() -> None:
    with pytest.raises(InputError, match="twice"):
        parse_crashes(["3:1", "3.000:0,1"])
    assert len(parse_crashes(["3:1", "3.000000000001:1"])) == 2


def test_a_crash_must_meet_a_worker_and_the_trace() -> None:
    crashes = parse_crashes(["3:1"])
    check_crashes(crashes, workers=2, span_ps=3 * S)
    with pytest.raises(InputError, match="the 1 workers are 0 to 0"):
        check_crashes(crashes, workers=1, span_ps=3 * S)
    with pytest.raises(InputError, match="last arrival"):
        check_crashes(crashes, workers=2, span_ps=3 * S - 1)


@given(
    seed=st.integers(0, 2**64 - 1),
    interval_ms=st.integers(1, 10_000),
    misses=st.integers(1, 10),
    timeout_ms=st.integers(0, 5_000),
)
def test_hang_lies_within_its_interval(seed: int, interval_ms: int, misses: int, timeout_ms: int) -> None:
    hang = HangDetection(interval_s=interval_ms / 1000, misses=misses, timeout_s=timeout_ms / 1000)
    delays = hang.delays_ps(8, seed)
    least = ((misses - 1) * interval_ms + timeout_ms) * S // 1000
    assert all(least <= delay < least + interval_ms * S // 1000 for delay in delays)
    assert hang.longest_ps == least + interval_ms * S // 1000
    assert list(hang.delays_ps(3, seed)) == list(delays[:3]), "a crash's delay must not depend on later ones"


def test_hang_phase_is_uniform() -> None:
    hang = HangDetection(interval_s=1.0, misses=3, timeout_s=1.0)
    delays = [delay for seed in range(500) for delay in hang.delays_ps(4, seed)]
    mean_s = sum(int(delay) for delay in delays) / len(delays) / S
    # 2,000 draws of U(3, 4): standard error 0.0065 s
    assert abs(mean_s - 3.5) < 0.026


def test_fixed_detection() -> None:
    assert list(FixedDetection(delay_s=0.25).delays_ps(2, 7)) == [S // 4, S // 4]
    with pytest.raises(InputError):
        _ = FixedDetection(delay_s=-1).longest_ps
