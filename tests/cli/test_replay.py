"""``replay``: its document, its accounting, and laws that hold through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from .conftest import Run

SMALL = ("--limit", "120", "--rate-scale", "3", "--workers", "3", "--detection-s", "1")
CRASH = ("--crash", "3.5:1", "--crash", "3.5:2")

QUANTILES = {"mean", "p50", "p90", "p99"}
KEYS = {
    "schema_version",
    "cluster",
    "trace",
    "faults",
    "policy",
    "requests",
    "ttft_s",
    "tpot_s",
    "token_gap_s",
    "e2e_s",
    "interrupted",
    "impact",
    "checkpoint",
    "traffic",
    "handling",
    "assist",
    "operator",
    "availability",
    "placebo",
    "saturation",
    "cost",
}
INNER = {
    "requests": {"arrived", "finished", "refused"},
    "ttft_s": QUANTILES,
    "tpot_s": QUANTILES,
    "token_gap_s": QUANTILES,
    "e2e_s": QUANTILES,
    "interrupted": {
        "count",
        "replay_ttft_from_arrival_s",
        "replay_ttft_from_crash_s",
        "replay_ttft_from_redispatch_s",
    },
    "impact": {
        "excess_e2e_request_s",
        "affected",
        "recovery_time_s",
        "in_system_recovery_s",
        "censored",
        "no_impact",
        "ttft_s",
        "tpot_s",
        "window_cut_short",
    },
    "checkpoint": {"coverage", "holder_balance"},
    "assist": {"tokens_per_pass", "seconds", "vetoed"},
    "cost": {"replay_cpu_s", "legs_cpu_s", "iterations", "leaps"},
}


def without_cost(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "cost"}


def without(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}


def walk(value: Any) -> Any:
    yield value
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)


@pytest.fixture(scope="module")
def policy_names() -> tuple[str, ...]:
    return ("stop_and_restart", "fixed_checkpointing", "lumen")


def test_document_keys_and_order(run: Run) -> None:
    ran = run("replay", *SMALL, *CRASH, "--json")
    document = ran.document
    assert set(document) == KEYS
    for name, keys in INNER.items():
        assert keys <= set(document[name]), name
    assert ran.out == json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False) + "\n" or list(
        document
    ) == sorted(document)
    assert document["schema_version"] == 1
    assert document["requests"]["refused"] == {"too_long": 0}
    outside = list(walk(without(document, "policy")))
    assert not {"alpha", "beta", "theta", "tau_tokens"} & {item for item in outside if isinstance(item, str)}


def test_operator_figures_and_placebo(run: Run) -> None:
    """The noise floor costs one leg and moves no other figure; a quiet run has none."""
    plain = run("replay", *SMALL, *CRASH, "--json").document
    assert (plain["placebo"], plain["availability"]) == (None, None)
    asked = run("replay", *SMALL, *CRASH, "--placebo", "--mtbf-hours", "720", "--json").document
    for key in KEYS - {"placebo", "availability", "cost"}:
        assert asked[key] == plain[key], key
    assert set(asked["cost"]["legs_cpu_s"]) == {*plain["cost"]["legs_cpu_s"], "placebo"}
    assert asked["placebo"]["jitter_s"] == 0.02
    assert abs(asked["placebo"]["excess_e2e_request_s"]) < plain["impact"]["excess_e2e_request_s"]
    # three workers, two crash at a time
    assert asked["availability"]["crashes_per_month"] == 1.5
    reload = [outage["rejoin_s"] - outage["start_s"] for outage in plain["impact"]["outages"]]
    down = asked["availability"]["worker_down_minutes_per_month"]
    assert down == pytest.approx(1.5 * sum(reload) / 60)
    parts = plain["impact"]["parts"]
    assert parts["detect_s"] == 1.0
    assert parts["reload_s"] == pytest.approx(max(reload) - 1.0)
    quiet = run("replay", *SMALL, "--placebo", "--mtbf-hours", "720", "--json").document
    assert (quiet["placebo"], quiet["availability"]) == (None, None)
    shown = run("replay", *SMALL, *CRASH, "--placebo", "--mtbf-hours", "720").out
    for line in ("parts ", "binding ", "targets ", "a month ", "placebo "):
        assert f"\n{line}" in shown


def test_every_request_is_accounted_for(run: Run, policy_names: tuple[str, ...]) -> None:
    for name in policy_names:
        requests = run("replay", *SMALL, *CRASH, "--policy", name, "--json").document["requests"]
        assert requests["arrived"] == 120
        assert requests["finished"] + sum(requests["refused"].values()) == 120


def test_refusals_are_counted(run: Run) -> None:
    document = run("replay", *SMALL, "--kv-pages", "60", "--json").document
    refused = document["requests"]["refused"]["too_long"]
    assert refused > 0
    assert document["requests"]["finished"] == 120 - refused
    assert document["cluster"]["kv_pages"] == 60


def test_two_runs_differ_in_cost_alone(run: Run) -> None:
    first, second = (run("replay", *SMALL, *CRASH, "--json").document for _ in range(2))
    assert without_cost(first) == without_cost(second)
    assert first["cost"]["iterations"] == second["cost"]["iterations"]


def test_scaling_the_weights_changes_the_policy_alone(run: Run) -> None:
    documents = [
        run("replay", *SMALL, *CRASH, "--json", "--alpha", alpha, "--beta", beta, "--theta", theta).document
        for alpha, beta, theta in (
            ("0.02", "1", "7"),
            ("0.05", "2.5", "17.5"),
            ("0.000006", "0.0003", "0.0021"),
        )
    ]
    first, *others = (without(document, "policy", "cost") for document in documents)
    assert others == [first, first]


def test_default_weights_follow_beta(run: Run) -> None:
    one, three = (run("replay", *SMALL, *CRASH, "--json", "--beta", beta).document for beta in ("1", "3"))
    assert without(one, "policy", "cost") == without(three, "policy", "cost")
    assert three["policy"]["theta"] == pytest.approx(3 * one["policy"]["theta"])
    assert three["policy"]["alpha"] == pytest.approx(3 * one["policy"]["alpha"])


def test_without_a_crash_nothing_is_impact(run: Run, policy_names: tuple[str, ...]) -> None:
    documents = [run("replay", *SMALL, "--policy", name, "--json").document for name in policy_names]
    for document in documents:
        assert set(document["impact"].values()) == {None}
        assert document["interrupted"]["count"] == 0
        assert set(document["cost"]["legs_cpu_s"]) == {"fault_free"}
    times = [
        [document[key] for key in ("ttft_s", "tpot_s", "token_gap_s", "e2e_s")] for document in documents
    ]
    assert times[0] == times[1] == times[2]


def test_no_checkpoints_and_no_drafts_equal_stop_and_restart(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "bare.toml"
    config.write_text("checkpoint_budget_gb = 0\nk = 0\n")
    bare = run("replay", *SMALL, *CRASH, "--config", config, "--policy", "lumen", "--json").document
    plain = run("replay", *SMALL, *CRASH, "--policy", "stop_and_restart", "--json").document
    for key in ("requests", "ttft_s", "tpot_s", "token_gap_s", "e2e_s", "interrupted", "impact"):
        assert bare[key] == plain[key], key


def test_mechanisms_off_equal_fixed_checkpointing(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "off.toml"
    config.write_text("placement = false\nrouting = false\nassist = false\n")
    off = run("replay", *SMALL, *CRASH, "--config", config, "--json").document
    ring = run("replay", *SMALL, *CRASH, "--policy", "fixed_checkpointing", "--json").document
    for key in ("requests", "ttft_s", "tpot_s", "token_gap_s", "e2e_s", "interrupted", "impact", "assist"):
        assert off[key] == ring[key], key


def test_per_request_file(run: Run, tmp_path: Path) -> None:
    columns = (
        "request, arrival_s, prompt_tokens, output_tokens, worker, first_token_s, last_token_s, interrupted, "
        "replay_ttft_from_crash_s, restored_tokens, recomputed_tokens, preemptions"
    )
    frames = []
    for suffix, read in ((".parquet", pl.read_parquet), (".csv", pl.read_csv)):
        path = tmp_path / f"requests{suffix}"
        ran = run("replay", *SMALL, *CRASH, "--per-request", path, "--json")
        document = ran.document
        frames.append(read(path))
    assert frames[0].columns == columns.split(", ")
    assert frames[0].height == 120
    assert frames[0].equals(frames[1].cast(frames[0].schema))
    assert (frames[0]["interrupted"] > 0).sum() == document["interrupted"]["count"] > 0
    ttft = frames[0]["first_token_s"] - frames[0]["arrival_s"]
    assert ttft.mean() == pytest.approx(document["ttft_s"]["mean"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["requests.csv", "requests.parquet"]


def test_stdout_is_the_document_and_quiet_is_quiet(run: Run) -> None:
    assert json.loads(run("replay", *SMALL, "--json").out)
    table = run("replay", *SMALL, *CRASH, "--quiet")
    assert table.code == 0
    assert table.err == ""
    assert "excess E2E" in table.out


def test_window_cut_by_the_end_is_flagged(run: Run) -> None:
    document = run("replay", *SMALL, *CRASH, "--json").document
    assert document["impact"]["window_cut_short"] is True
    assert "cut short" in run("replay", *SMALL, *CRASH).out
    whole = run("replay", *SMALL, *CRASH, "--horizon-s", "2", "--json").document
    assert whole["impact"]["window_cut_short"] is False


def test_all_workers_dead(run: Run) -> None:
    document = run("replay", *SMALL, "--crash", "2:0,1,2", "--json").document
    assert document["requests"]["finished"] == 120
    assert document["interrupted"]["count"] > 0
    for outage in document["impact"]["outages"]:
        assert outage["start_s"] == 2
        assert outage["detection_s"] == 3
        assert outage["rejoin_s"] > 3


def test_dropped_rows_are_said(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,0,5\n2,10,5\n")
    ran = run("replay", path, "--json")
    assert ran.document["requests"]["arrived"] == 2
    assert ran.document["trace"]["rows"]["read"] == 3
    assert sum(ran.document["trace"]["rows"]["dropped"].values()) == 1
    assert "1 of 3 rows dropped" in ran.err


def test_load_states_the_rate_it_ran(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LUMEN_TUNE_CACHE_DIR", str(tmp_path))
    arguments = ("replay", "--limit", "200", "--workers", "2", "--load", "0.5", "--json")
    fresh = run(*arguments).document
    trace = fresh["trace"]
    assert trace["rate_per_s"] == pytest.approx(0.5 * trace["capacity_per_s"], rel=0.02)
    assert len(list((tmp_path / "capacity").iterdir())) == 1
    again = run(*arguments).document
    assert without_cost(again) == without_cost(fresh)
    assert again["cost"]["legs_cpu_s"]["capacity"] == 0


@pytest.mark.parametrize(
    "damage", ["", "{}", '{"worker_requests_per_s": 0}', '{"worker_requests_per_s": -2.5}']
)
def test_a_damaged_capacity_in_the_cache_is_measured_anew(
    damage: str, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LUMEN_TUNE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("lumen_policy.capacity._KEPT", {})
    first = run("replay", "--limit", "200", "--load", "0.5", "--json").document
    [kept] = (tmp_path / "capacity").iterdir()
    kept.write_text(damage)
    monkeypatch.setattr("lumen_policy.capacity._KEPT", {})
    assert run("replay", "--limit", "200", "--load", "0.5", "--json").document["trace"] == first["trace"]
