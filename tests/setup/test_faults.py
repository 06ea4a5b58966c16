"""Crash timelines and their detection."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.clock import seconds_to_ps
from lumen_policy.detection import FixedDetection, HangDetection
from lumen_policy.errors import InputError
from lumen_policy.faults import Fault, check_faults, parse_crashes, parse_faults

S = 10**12


def test_one_timeline_in_order() -> None:
    assert parse_crashes(["300:5,2", "10.5:0"]) == (
        Fault(time_ps=105 * S // 10, worker=0),
        Fault(time_ps=300 * S, worker=2),
        Fault(time_ps=300 * S, worker=5),
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


def test_a_fault_must_meet_a_worker_and_the_trace() -> None:
    crashes = parse_crashes(["3:1"])
    check_faults(crashes, workers=2, span_ps=3 * S)
    with pytest.raises(InputError, match="the 1 workers are 0 to 0"):
        check_faults(crashes, workers=1, span_ps=3 * S)
    with pytest.raises(InputError, match="last arrival"):
        check_faults(crashes, workers=2, span_ps=3 * S - 1)


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


def test_checks_that_would_never_notice_are_refused() -> None:
    with pytest.raises(InputError, match="hang_interval_s: 1000000 checks"):
        HangDetection(interval_s=1e5, misses=10**6, timeout_s=1)


def test_fixed_detection() -> None:
    assert list(FixedDetection(delay_s=0.25).delays_ps(2, 7)) == [S // 4, S // 4]
    with pytest.raises(InputError):
        _ = FixedDetection(delay_s=-1).longest_ps


def test_faults_of_every_kind() -> None:
    assert parse_faults(["crash@300:5,2:scope=process", "crash@7:0:duration_s=60"]) == (
        Fault(time_ps=7 * S, worker=0, scope="gpu", duration_ps=60 * S),
        Fault(time_ps=300 * S, worker=2, scope="process"),
        Fault(time_ps=300 * S, worker=5, scope="process"),
    )
    slow, hang, away, drain, alarm = (
        parse_faults([text])[0]
        for text in (
            "slow@1:0:factor=1.34,duration_s=600",
            "hang@1:0",
            "unreachable@1:0:duration_s=2.5",
            "drain@1:0:mode=migrate,duration_s=3",
            "false_alarm@1:0:duration_s=4",
        )
    )
    assert (slow.code.name, slow.factor_ppm, slow.duration_ps, slow.scope) == (
        "SLOW",
        1_340_000,
        600 * S,
        None,
    )
    assert (hang.code.name, hang.duration_ps, hang.scope) == ("HANG", None, "process")
    assert parse_faults(["hang@1:0:duration_s=inf"]) == (hang,)
    assert (away.code.name, away.duration_ps) == ("UNREACHABLE", 25 * S // 10)
    assert (drain.code.name, drain.mode, drain.duration_ps, drain.scope) == (
        "MIGRATE",
        "migrate",
        3 * S,
        "node",
    )
    assert (alarm.code.name, alarm.kind) == ("UNREACHABLE", "false_alarm")
    assert parse_faults(["drain@1:0"])[0].mode == "finish"
    endless = parse_faults(["crash@1:0:duration_s=inf"])[0]
    assert endless.duration_ps == 950_400 * S, "a repair without end counts as 11 days"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("crash", "KIND@TIME"),
        ("crash@5", "KIND@TIME"),
        ("@5:1", "kind ''"),
        ("flood@5:1", "kind 'flood'"),
        ("crash@x:1", "'x'"),
        ("crash@5:a", "'a'"),
        ("crash@5:1:scope=rack", "scope 'rack'"),
        ("crash@5:1:scope=gpu,scope=gpu", "each once"),
        ("crash@5:1:speed=1", "speed=1"),
        ("crash@5:1:scope", "FIELD=VALUE"),
        ("crash@5:1:scope=gpu:mode=finish", "KIND@TIME"),
        ("slow@5:1:duration_s=5", "factor None"),
        ("slow@5:1:factor=1,duration_s=5", "factor 1.0"),
        ("slow@5:1:factor=nan,duration_s=5", "factor nan"),
        ("slow@5:1:factor=1001,duration_s=5", "factor 1001.0"),
        ("slow@5:1:factor=fast,duration_s=5", "factor 'fast'"),
        ("slow@5:1:factor=2", "duration_s is missing"),
        ("hang@5:1:duration_s=0", "duration_s 0.0"),
        ("hang@5:1:duration_s=nan", "duration_s nan"),
        ("unreachable@5:1:duration_s=inf", "11 days"),
        ("unreachable@5:1:scope=gpu,duration_s=5", "scope 'gpu'"),
        ("hang@5:1:factor=2", "factor 2.0"),
        ("crash@5:1:mode=migrate", "mode 'migrate'"),
        ("crash@5:1:scope=process,duration_s=5", "has no repair"),
    ],
)
def test_faults_that_are_refused_by_field(text: str, named: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_faults([text])
    assert named in str(refused.value)
    assert str(refused.value).startswith("fault")
    assert "\n" not in str(refused.value)


def test_one_kind_twice_is_refused_and_two_kinds_are_not() -> None:
    assert len(parse_faults(["hang@3:1", "crash@3:1", "slow@3:1:factor=2,duration_s=1"])) == 3
    with pytest.raises(InputError, match="unreachable: worker 1 has it twice"):
        parse_faults(["unreachable@3:1:duration_s=1", "unreachable@3:0,1:duration_s=2"])
