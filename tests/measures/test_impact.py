"""Excess E2E and the window after the crashes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.errors import InputError, ReplayError
from lumen_policy.measures.impact import affected_requests, excess_e2e, window_measures
from lumen_policy.measures.options import MeasureOptions, default_horizon_ps, longest_reload_ps
from lumen_policy.measures.times import request_times
from lumen_policy.replay.contract import NONE, PS_PER_S, FaultTable, ReplayInput, ReplayOutput, Status

from .builder import ints, replay_input, replay_output

S = PS_PER_S


def finished(inp: ReplayInput, pairs: list[tuple[int, int]]) -> ReplayOutput:
    return replay_output(inp, [first for first, _ in pairs], [last for _, last in pairs])


def hand_made() -> tuple[ReplayInput, ReplayOutput, ReplayOutput]:
    """Crash at 10 s, H = 20 s: requests 1, 2, 3 are affected (0 ended at 10, 4 arrives at 30).

    =======  =======  ==========  ==========  =====  ==========  =======
    request  arrival  fault-free  faulty      E2E    TTFT part   decode
    =======  =======  ==========  ==========  =====  ==========  =======
    0        0        1 … 10      1 … 10      (out)
    1        5        6 … 11      6 … 16      +5     0           +5
    2        9        12 … 15     20 … 22     +7     +8          −1
    3        29       31 … 34     30 … 32     −2     −1          −1
    4        30       31 … 35     40 … 50     (out)
    =======  =======  ==========  ==========  =====  ==========  =======
    """
    inp = replay_input(ints([0, 5, 9, 29, 30]) * S, [5, 6, 3, 3, 2], [(10 * S, 0)])
    faulty = [(1, 10), (6, 16), (20, 22), (30, 32), (40, 50)]
    base = [(1, 10), (6, 11), (12, 15), (31, 34), (31, 35)]
    scaled = [[(first * S, last * S) for first, last in run] for run in (faulty, base)]
    return inp, finished(inp, scaled[0]), finished(inp, scaled[1])


def test_hand_made_excess() -> None:
    inp, faulty, base = hand_made()
    excess = excess_e2e(inp, faulty, base, 20 * S)
    assert (excess.affected, excess.unfinished) == (3, 0)
    assert (excess.ttft_ps, excess.decode_ps, excess.e2e_ps) == (7 * S, 3 * S, 10 * S)
    assert (excess.request_s, excess.per_affected_s) == (10.0, 10 / 3)
    assert excess.weighted_request_s(2.0, 1.0) == 17.0
    assert excess.weighted_request_s(1.0, 1.0) == 10.0


def test_hand_made_window() -> None:
    """TTFTs 1, 11, 1 s; TPOTs 10/5, 2/2, 2/2 s; request 3 ends at 32, outside (10, 30]."""
    inp, faulty, _ = hand_made()
    faulty.recomputed_tokens[:] = [7, 10, 0, 3, 9]
    faulty.restored_tokens[:] = [16, 32, 0, 16, 0]
    window = window_measures(inp, faulty, 20 * S, MeasureOptions(slo_ttft_s=1.0))
    assert (window.ttft_s.mean, window.ttft_s.p50, window.ttft_s.p99) == (13 / 3, 1.0, 11.0)
    assert (window.tpot_s.mean, window.tpot_s.p50, window.tpot_s.p90) == (4 / 3, 1.0, 2.0)
    assert (window.recomputed_tokens, window.restored_bytes) == (13, 3 * 1600)
    assert (window.window_s, window.cut_short) == (20.0, False)
    assert (window.slo_attainment, window.goodput_per_s) == (2 / 3, 1 / 20)
    both = window_measures(inp, faulty, 20 * S, MeasureOptions(slo_ttft_s=11.0, slo_tpot_s=1.0))
    assert (both.slo_attainment, both.goodput_per_s) == (2 / 3, 1 / 20)
    near = window_measures(inp, faulty, 20 * S, MeasureOptions(slo_tpot_s=1.9))
    assert near.slo_attainment == 2 / 3
    none = window_measures(inp, faulty, 20 * S, MeasureOptions())
    assert none.slo_attainment is None
    assert none.goodput_per_s is None


def test_window_beyond_the_last_arrival_is_flagged() -> None:
    inp, faulty, _ = hand_made()
    assert window_measures(inp, faulty, 20 * S + 1, MeasureOptions()).cut_short


def test_unfinished_requests_count_up_to_the_end() -> None:
    """The second never gets a token in a replay that ends at 100 s: TTFT part 100 − 12, decode part 0 − 3."""
    inp = replay_input(ints([0, 9]) * S, [2, 2], [(10 * S, 0)])
    base = finished(inp, [(1 * S, 2 * S), (12 * S, 15 * S)])
    faulty = replay_output(
        inp,
        [1 * S, NONE],
        [2 * S, NONE],
        status=ints([Status.FINISHED, Status.PENDING]),
        end_ps=100 * S,
    )
    excess = excess_e2e(inp, faulty, base, 20 * S)
    assert (excess.affected, excess.unfinished, excess.ttft_ps, excess.decode_ps) == (1, 1, 88 * S, -3 * S)
    window = window_measures(inp, faulty, 20 * S, MeasureOptions(slo_ttft_s=1000.0))
    assert (window.slo_attainment, window.tpot_s.mean) == (0.0, None)


def test_an_unfinished_request_is_in_the_window_of_a_crash_at_the_very_end() -> None:
    """It arrived after the first window; the second crash is the last event."""
    inp = replay_input(ints([0, 50]) * S, crashes=[(10 * S, 0), (100 * S, 1)])
    status = ints([Status.FINISHED, Status.PENDING])
    run = replay_output(inp, [S, NONE], [2 * S, NONE], status=status, end_ps=100 * S)
    assert affected_requests(request_times(inp, run), inp.faults.ps, 20 * S).tolist() == [False, True]


def test_refused_requests_are_left_out() -> None:
    inp = replay_input(ints([0, 11, 12]) * S, [2, 2, 2], [(10 * S, 0)])
    status = ints([Status.FINISHED, Status.REFUSED_TOO_LONG, Status.FINISHED])
    base = replay_output(inp, [S, NONE, 13 * S], [2 * S, NONE, 15 * S], status=status)
    faulty = replay_output(inp, [S, NONE, 14 * S], [2 * S, NONE, 17 * S], status=status)
    excess = excess_e2e(inp, faulty, base, 20 * S)
    assert (excess.affected, excess.ttft_ps, excess.decode_ps) == (1, S, S)


def test_runs_of_two_traces_are_refused() -> None:
    inp, faulty, base = hand_made()
    base.status[1] = Status.REFUSED_TOO_LONG
    with pytest.raises(ReplayError, match="other requests"):
        excess_e2e(inp, faulty, base, S)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[ReplayInput, ReplayOutput, ReplayOutput]:
    """Two arbitrary runs of one trace on a tiny clock, with up to four crashes."""
    count = draw(st.integers(1, 8))
    arrival = sorted(draw(st.lists(st.integers(0, 30), min_size=count, max_size=count)))
    crashes = sorted(draw(st.lists(st.integers(0, 40), min_size=1, max_size=4)))
    inp = replay_input(arrival, crashes=[(at, 0) for at in crashes])
    runs = []
    for _ in range(2):
        waits = draw(
            st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=count, max_size=count)
        )
        runs.append(finished(inp, [(a + w, a + w + s) for a, (w, s) in zip(arrival, waits, strict=True)]))
    return inp, runs[0], runs[1]


@given(pairs(), st.integers(1, 20))
def test_affected_and_excess_equal_their_definition(
    pair: tuple[ReplayInput, ReplayOutput, ReplayOutput], horizon: int
) -> None:
    inp, faulty, base = pair
    expected = [
        any(a < x + horizon and last > x for x in inp.faults.ps.tolist())
        for a, last in zip(inp.arrival_ps.tolist(), faulty.last_ps.tolist(), strict=True)
    ]
    assert affected_requests(request_times(inp, faulty), inp.faults.ps, horizon).tolist() == expected
    excess = excess_e2e(inp, faulty, base, horizon)
    difference = (faulty.last_ps - inp.arrival_ps) - (base.last_ps - inp.arrival_ps)
    ttft = (faulty.first_ps - inp.arrival_ps) - (base.first_ps - inp.arrival_ps)
    assert excess.affected == sum(expected)
    assert excess.e2e_ps == difference[expected].sum() == excess.ttft_ps + excess.decode_ps
    assert excess.ttft_ps == ttft[expected].sum()


@given(pairs(), st.integers(1, 20))
def test_identical_runs_give_exactly_zero_and_swapped_runs_the_opposite(
    pair: tuple[ReplayInput, ReplayOutput, ReplayOutput], horizon: int
) -> None:
    inp, faulty, base = pair
    same = excess_e2e(inp, faulty, faulty, horizon)
    assert (same.ttft_ps, same.decode_ps, same.request_s) == (0, 0, 0.0)
    base.last_ps[:] = faulty.last_ps
    there, back = excess_e2e(inp, faulty, base, horizon), excess_e2e(inp, base, faulty, horizon)
    assert (there.ttft_ps, there.decode_ps) == (-back.ttft_ps, -back.decode_ps)


@given(pairs(), st.integers(1, 20))
def test_windows_are_united(pair: tuple[ReplayInput, ReplayOutput, ReplayOutput], horizon: int) -> None:
    inp, faulty, _ = pair
    covered = {t for x in inp.faults.ps.tolist() for t in range(x + 1, x + horizon + 1)}
    window = window_measures(inp, faulty, horizon, MeasureOptions(slo_ttft_s=1000.0))
    assert window.window_s * S == pytest.approx(len(covered), abs=1e-9)
    inside = sum(last in covered for last in faulty.last_ps.tolist())
    assert window.goodput_per_s == inside / window.window_s


def test_default_horizon() -> None:
    """300 s until the reload from the crash exceeds 120 s; the draft's load counts if the cluster has one."""
    for reload_s, draft, expected_s in (
        (20, False, 300),
        (117, False, 300),
        (200, False, 383),
        (200, True, 393),
    ):
        inp = replay_input([0], crashes=[(0, 0)], reload_s=reload_s, draft=draft)
        assert default_horizon_ps(longest_reload_ps(inp.faults)) == expected_s * S
    assert default_horizon_ps(longest_reload_ps(FaultTable.none())) == 300 * S


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_options_out_of_range_are_named(value: float) -> None:
    with pytest.raises(InputError, match=r"horizon_s: found .*allowed is a finite number > 0"):
        MeasureOptions(horizon_s=value)
