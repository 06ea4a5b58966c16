"""The small measures, the per-request columns, and the whole summary."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from lumen_policy.errors import ReplayError
from lumen_policy.measures.assist import assist
from lumen_policy.measures.checkpoint import checkpoint
from lumen_policy.measures.distributions import EMPTY
from lumen_policy.measures.interruptions import interrupted
from lumen_policy.measures.options import MeasureOptions
from lumen_policy.measures.per_request import per_request_columns, per_request_frame
from lumen_policy.measures.summary import ReplaySummary, summarise
from lumen_policy.replay.contract import NONE, PS_PER_S, Interruption, ReplayInput, ReplayOutput, Status

from .builder import COUNTERS, ints, replay_input, replay_output

S = PS_PER_S


def interrupted_run() -> tuple[ReplayInput, ReplayOutput]:
    """Request 0 is interrupted twice (next tokens at 14 and 40 s), 1 twice (none before the second, then 33
    s), 2 once, for ever; 3 is refused."""
    inp = replay_input(ints([0, 2, 4, 5]) * S, [5, 5, 5, 5], [(10 * S, 0), (30 * S, 1)])
    out = replay_output(
        inp,
        [3 * S, 33 * S, NONE, NONE],
        [50 * S, 60 * S, NONE, NONE],
        status=ints([Status.FINISHED, Status.FINISHED, Status.PENDING, Status.REFUSED_TOO_LONG]),
        worker=ints([1, 0, 1, NONE]),
        interruptions=ints([2, 2, 1, 0]),
        interruption_request=ints([0, 1, 0, 1, 2]),
        interruption_class=ints(
            [
                Interruption.RUNNING,
                Interruption.QUEUED,
                Interruption.RUNNING,
                Interruption.QUEUED,
                Interruption.SENT_AFTER_CRASH,
            ]
        ),
        interruption_crash_ps=ints([10, 10, 30, 30, 30]) * S,
        interruption_redispatch_ps=ints([12 * S, 12 * S, 32 * S, 32 * S, NONE]),
        interruption_delivered=ints([2, 0, 3, 0, 0]),
        interruption_restored=ints([1, 0, 0, 0, 0]),
        interruption_next_ps=ints([14 * S, NONE, 40 * S, 33 * S, NONE]),
        restored_tokens=ints([32, 0, 0, 0]),
        recomputed_tokens=ints([9, 0, 0, 0]),
        preemptions=ints([0, 1, 0, 0]),
        end_ps=70 * S,
    )
    return inp, out


def test_replay_ttft_has_one_sample_per_answered_interruption() -> None:
    """From a: 14, 40, 31; from x: 4, 10, 3; from y: 2, 8, 1."""
    found = interrupted(*interrupted_run())
    assert (found.count, found.interruptions, found.without_next_token) == (3, 5, 2)
    assert found.by_class == {"running": 2, "queued": 2, "sent_after_crash": 1}
    means = [
        found.replay_ttft_from_arrival_s.mean,
        found.replay_ttft_from_crash_s.mean,
        found.replay_ttft_from_redispatch_s.mean,
    ]
    assert means == [85 / 3, 17 / 3, 11 / 3]
    assert (found.replay_ttft_from_crash_s.p50, found.replay_ttft_from_crash_s.p99) == (4.0, 10.0)


def test_per_request_columns_take_the_last_interruption() -> None:
    columns = per_request_columns(*interrupted_run())
    assert list(columns) == [
        "request",
        "arrival_s",
        "prompt_tokens",
        "output_tokens",
        "worker",
        "first_token_s",
        "last_token_s",
        "interrupted",
        "replay_ttft_from_crash_s",
        "restored_tokens",
        "recomputed_tokens",
        "preemptions",
    ]
    assert columns["interrupted"].tolist() == [2, 2, 1, 0]
    assert columns["replay_ttft_from_crash_s"][:2].tolist() == [10.0, 3.0]
    assert np.isnan(columns["replay_ttft_from_crash_s"][2:]).all()


def test_per_request_frame_has_nulls() -> None:
    frame = per_request_frame(*interrupted_run())
    assert frame["worker"].to_list() == [1, 0, 1, None]
    assert frame["arrival_s"].to_list() == [0.0, 2.0, 4.0, 5.0]
    assert frame["first_token_s"].to_list() == [3.0, 33.0, None, None]
    assert frame["last_token_s"].to_list() == [50.0, 60.0, None, None]
    assert frame["replay_ttft_from_crash_s"].to_list() == [10.0, 3.0, None, None]
    assert frame.schema["worker"] == pl.Int64


def snapshots() -> tuple[ReplayInput, ReplayOutput]:
    """Three workers; the third is down in the second snapshot; the last snapshot holds nothing.

    Held: 30, 60, 0 → 60/30 = 2; 40, 40 of the live → 1; nothing. L = 2·H + 10·Q: 60 + 10, 120, 20 → 120/70;
    80, 80 → 1; nothing with Q = 0.
    """
    inp = replay_input([0], crashes=[(5, 2)], workers=3, token_weight=2, request_weight=10)
    out = replay_output(
        inp,
        [1],
        [2],
        snapshot_held_tokens=ints([[30, 60, 0], [40, 40, 99], [0, 0, 0]]),  # type: ignore[list-item]
        snapshot_queue=ints([[1, 0, 2], [0, 0, 7], [0, 0, 0]]),  # type: ignore[list-item]
        snapshot_live=ints([[1, 1, 1], [1, 1, 0], [1, 1, 1]]),  # type: ignore[list-item]
        snapshot_existing_tokens=ints([100, 50, 0]),
        snapshot_saved_tokens=ints([80, 10, 0]),
        crash_existing_tokens=ints([100, 300]),
        crash_saved_tokens=ints([96, 208]),
    )
    return inp, out


def test_coverage_and_balance() -> None:
    inp, out = snapshots()
    found = checkpoint(inp, out, out)
    assert found.coverage == 304 / 400
    assert found.coverage_time_mean == (0.8 + 0.2) / 2
    assert found.holder_balance == (2 + 1) / 2
    assert found.load_balance == pytest.approx((120 / 70 + 1) / 2, rel=1e-15)


def test_without_checkpoints_balance_and_coverage_are_undefined() -> None:
    inp, out = snapshots()
    out.snapshot_held_tokens[:] = 0
    out.snapshot_existing_tokens[:] = 0
    out.snapshot_queue[:] = 0
    out.crash_existing_tokens[:] = 0
    found = checkpoint(inp, out, out)
    assert (found.coverage, found.coverage_time_mean, found.holder_balance, found.load_balance) == (None,) * 4


def test_assist_figures() -> None:
    """8 passes of 3 sequences deliver 60 tokens; 36 of 48 drafts accepted; 2 of 10 passes vetoed."""
    inp = replay_input([0])
    counters = COUNTERS | {
        "assisted_passes": 8,
        "vetoed_passes": 2,
        "drafted_tokens": 48,
        "accepted_tokens": 36,
        "verified_sequences": 24,
        "verified_tokens": 60,
        "assisted_ps": 3 * S // 2,
        "draft_busy_ps": S // 4,
        "retargets": 2,
        "ping_pong_passes": 5,
    }
    found = assist(replay_output(inp, [1], [2], counters=counters))
    assert dataclasses.astuple(found) == (2.5, 1.5, 0.2, 0.75, 0.25, 2, 5)
    assert dataclasses.astuple(assist(replay_output(inp, [1], [2]))) == (None, 0.0, None, None, 0.0, 0, 0)


def no_nan(value: str) -> Any:
    raise AssertionError(f"{value} in JSON")


def keys(summary: ReplaySummary) -> dict[str, Any]:
    """Through JSON and back, as the command line does; NaN would be an error."""
    text = json.dumps(dataclasses.asdict(summary), sort_keys=True)
    decoded: dict[str, Any] = json.loads(text, parse_constant=no_nan)
    assert msgspec.json.decode(msgspec.json.encode(summary)) == decoded
    return decoded


def test_summary_of_a_faulty_run_has_the_documented_keys() -> None:
    inp, out = interrupted_run()
    base = replay_output(
        inp,
        ints([3, 5, 6, NONE]) * S,
        ints([12, 20, 15, NONE]) * S,
        status=ints([Status.FINISHED] * 3 + [Status.REFUSED_TOO_LONG]),
    )
    found = keys(summarise(inp, out, base, MeasureOptions(horizon_s=20.0)))
    assert found["requests"] == {"arrived": 4, "finished": 2, "unfinished": 1, "refused": {"too_long": 1}}
    for name in ("ttft_s", "tpot_s", "token_gap_s", "e2e_s"):
        assert set(found[name]) == {"mean", "p50", "p90", "p99"}
    assert found["ttft_s"]["mean"] == (3 + 31) / 2
    assert found["e2e_s"]["mean"] == (50 + 58) / 2
    assert found["token_gap_s"]["mean"] is None
    assert found["interrupted"].keys() >= {
        "count",
        "replay_ttft_from_arrival_s",
        "replay_ttft_from_crash_s",
        "replay_ttft_from_redispatch_s",
    }
    impact = found["impact"]
    assert impact["excess_e2e_request_s"] == (50 - 12) + (60 - 20) + (70 - 15)
    assert impact["excess_ttft_request_s"] == 0 + (33 - 5) + (70 - 6)
    assert impact["excess_decode_request_s"] == 133 - 92
    assert (impact["affected"], impact["unfinished"], impact["window_cut_short"]) == (3, 1, True)
    assert (impact["horizon_s"], impact["window_s"]) == (20.0, 40.0)
    assert impact.keys() >= {"recovery_time_s", "in_system_recovery_s", "censored", "no_impact"}
    assert set(impact["ttft_s"]) == set(impact["tpot_s"]) == {"mean", "p50", "p90", "p99"}
    assert set(found["checkpoint"]) >= {"coverage", "holder_balance"}
    assert set(found["assist"]) >= {"tokens_per_pass", "seconds", "vetoed"}
    assert found["saturation"] in ("stable", "backlogged", "overloaded")


def test_summary_of_a_fault_free_run_has_no_impact_key_values() -> None:
    inp = replay_input(ints([0, 1, 2]) * S, [1, 2, 3])
    out = replay_output(
        inp, ints([1, 2, 3]) * S, ints([1, 3, 5]) * S, [(3 * S, S, 0, 1, 2), (5 * S, 2 * S, 0, 1, 1)]
    )
    found = keys(summarise(inp, out))
    assert found["impact"] is None
    assert found["requests"]["finished"] == found["requests"]["arrived"] == 3
    assert found["token_gap_s"] == {"mean": 4 / 3, "p50": 1.0, "p90": 2.0, "p99": 2.0}
    assert found["tpot_s"]["mean"] == 1.0
    assert found["checkpoint"]["coverage"] is None
    assert found["interrupted"]["count"] == 0
    assert found["interrupted"]["replay_ttft_from_crash_s"] == dataclasses.asdict(EMPTY)


def test_identical_runs_have_exactly_no_impact() -> None:
    inp, _ = interrupted_run()
    run = replay_output(inp, ints([3, 5, 6, 7]) * S, ints([12, 20, 15, 40]) * S)
    impact = summarise(inp, run, run).impact
    assert impact is not None
    assert impact.excess_e2e_request_s == impact.excess_ttft_request_s == impact.excess_decode_request_s == 0
    assert (impact.recovery_time_s, impact.in_system_recovery_s, impact.no_impact) == (0.0, 0.0, True)
    assert impact.horizon_s == 300.0


def test_a_crash_needs_a_fault_free_run() -> None:
    with pytest.raises(ReplayError, match="without its fault-free run"):
        summarise(*interrupted_run())
