"""``compare``: policies side by side over the same crashes or scenarios."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lumen_policy.policy_file.document import document_bytes

from .conftest import Run
from .test_replay import CRASH, SMALL

SCENARIOS = (
    "--limit", "400", "--workers", "3", "--detection-s", "1", "--horizon-s", "8", "--scenarios", "3",
)  # fmt: skip


def test_columns_equal_single_replays(run: Run) -> None:
    compared = run("compare", *SMALL, *CRASH, "--json").document
    assert [entry["label"] for entry in compared["policies"]] == [
        "stop_and_restart",
        "fixed_checkpointing",
        "lumen",
    ]
    for entry in compared["policies"]:
        alone: dict[str, Any] = run("replay", *SMALL, *CRASH, "--policy", entry["label"], "--json").document
        for key in set(entry) - {"label", "recovery_share"}:
            assert entry[key] == alone[key], (entry["label"], key)


def test_scenarios_have_intervals_and_a_verdict(run: Run, tmp_path: Any) -> None:
    config = tmp_path / "short.toml"
    config.write_text("warmup_s = 8\n")
    documents = [run("compare", *SCENARIOS, "--config", config, "--json").document for _ in range(2)]
    first, second = documents
    assert {**first, "cost": None} == {**second, "cost": None}
    for entry in first["policies"]:
        interval = entry["excess_e2e_request_s"]
        assert interval["low_s"] <= interval["mean_s"] <= interval["high_s"]
    assert [entry["against"] for entry in first["differences"]] == ["stop_and_restart", "fixed_checkpointing"]
    means = {entry["label"]: entry["excess_e2e_request_s"]["mean_s"] for entry in first["policies"]}
    for entry in first["differences"]:
        saved = means[entry["against"]] - means["lumen"]
        assert entry["saves_request_s"]["mean_s"] == pytest.approx(saved)
    shown = run("compare", *SCENARIOS, "--config", config)
    assert "lumen against stop_and_restart: saves" in shown.out


def test_strata_part_the_scenarios_by_load(run: Run, tmp_path: Path) -> None:
    """Every scenario in one stratum, loads ascending; the strata's means make the whole mean."""
    config = tmp_path / "short.toml"
    config.write_text("warmup_s = 8\n")
    few = run("compare", *SCENARIOS, "--config", config, "--json").document
    assert few["strata"] == [], "three scenarios are too few for two strata of two"
    arguments = (*SCENARIOS[:-1], "7", "--config", config, "--mtbf-hours", "720", "--placebo")
    document = run("compare", *arguments, "--json").document
    strata = document["strata"]
    assert [stratum["load"] for stratum in strata] == ["low", "middle", "high"]
    assert [stratum["scenarios"] for stratum in strata] == [2, 2, 3]
    for lower, upper in pairwise(strata):
        assert lower["in_system_least"] <= lower["in_system_most"] <= upper["in_system_least"]
    for row, entry in enumerate(document["policies"]):
        parts = [
            stratum["scenarios"] * stratum["policies"][row]["excess_e2e_request_s"]["mean_s"]
            for stratum in strata
        ]
        assert sum(parts) / 7 == pytest.approx(entry["excess_e2e_request_s"]["mean_s"])
        assert entry["availability"]["crashes_per_month"] == 3
        assert sum(entry["binding"].values()) == 7
    assert document["placebo"]["scenarios"] == 7
    assert document["policies"][0]["recovery_share"]["value"] in (None, 1.0)
    shown = run("compare", *arguments).out
    assert "by load at the crash" in shown
    assert "a month:" in shown
    assert "placebo (no crash" in shown


def test_ablation(run: Run, tmp_path: Path) -> None:
    """Eight subsets and three baselines; none is fixed_checkpointing request for request; the worth of a
    mechanism is the mean over its four pairs; the words follow the intervals.
    """
    config = tmp_path / "short.toml"
    config.write_text("warmup_s = 8\n")
    arguments = (*SCENARIOS, "--config", config, "--ablate", "--victims", "2", "--victim-choice", "rack")
    document = run("compare", *arguments, "--json").document
    labels = [entry["label"] for entry in document["policies"]]
    assert labels[:4] == ["stop_and_restart", "fixed_checkpointing", "remote_store", "none"]
    assert len(set(labels)) == 11
    means = {entry["label"]: entry["excess_e2e_request_s"]["mean_s"] for entry in document["policies"]}
    by_label = {entry["label"]: entry for entry in document["policies"]}
    for label in ("none", "fixed_checkpointing"):
        # L, and so its balance, has the α of the policy in it
        del by_label[label]["operator"]["load_balance"]
    for key in set(by_label["none"]) - {"label", "policy"}:
        assert by_label["none"][key] == by_label["fixed_checkpointing"][key], key

    pairs = {
        "placement": [("none", "placement"), ("routing", "placement + routing"),
                      ("assist", "placement + assist"), ("routing + assist", labels[-1])],
        "routing": [("none", "routing"), ("placement", "placement + routing"),
                    ("assist", "routing + assist"), ("placement + assist", labels[-1])],
        "assist": [("none", "assist"), ("placement", "placement + assist"),
                   ("routing", "routing + assist"), ("placement + routing", labels[-1])],
    }  # fmt: skip
    for entry in document["mechanisms"]:
        saved = [means[off] - means[on] for off, on in pairs[entry["mechanism"]]]
        assert entry["saves_request_s"]["mean_s"] == pytest.approx(sum(saved) / 4, abs=1e-9)
    assert len(document["against"]) == 24
    for entry in document["against"]:
        saved = means[entry["against"]] - means[entry["policy"]]
        assert entry["saves_request_s"]["mean_s"] == pytest.approx(saved, abs=1e-9)
    whole = {entry["against"]: entry for entry in document["against"] if entry["policy"] == labels[-1]}
    said = {"better": "wins", "worse": "loses", "no difference": "no difference"}
    for baseline, entry in whole.items():
        assert any(
            line.startswith(f"all three against {baseline}: {said[entry['verdict']]}")
            for line in document["words"]
        )
    assert document["scenarios"]["victim_choice"] == "rack"
    assert document["placebo"]["zero"] is True
    shown = run("compare", *arguments)
    assert "placebo (no crash)" in shown.out
    assert document["words"][0] in shown.out


def test_an_ablation_takes_one_whole_policy_apart(run: Run, tmp_path: Path, policy_file: bytes) -> None:
    config = tmp_path / "short.toml"
    config.write_text("warmup_s = 8\n")
    path = tmp_path / "policy.json"
    path.write_bytes(policy_file)
    arguments = (*SCENARIOS, "--config", config, "--ablate", "--quiet")
    document = run("compare", *arguments, "--policy", path, "--json").document
    assert document["policies"][-1]["policy"]["k"] == 3
    for policy in ("stop_and_restart", "fixed_checkpointing", "remote_store"):
        refused = run("compare", *arguments, "--policy", policy)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "placement" in refused.err
    assert run("compare", *arguments, "--policy", "lumen", "--policy", path).code == 2
    # without a draft the rows with assist repeat those without, and cost nothing
    ran = run("compare", *SCENARIOS, "--config", config, "--ablate", "--draft", "none", "--json")
    assert "k = 0" in ran.err
    assert ran.document["cost"]["legs_cpu_s"]["assist"] == 0.0


@pytest.fixture
def policy_file() -> bytes:
    """An exported policy, as the tests of policy files make it."""
    path = Path(__file__).resolve().parents[1] / "policy_file/documents.py"
    spec = importlib.util.spec_from_file_location("policy_documents", path)
    assert spec is not None
    assert spec.loader is not None
    documents = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(documents)
    exported: bytes = document_bytes(documents.document())
    return exported


def test_equal_content_under_two_names_is_no_difference(run: Run, tmp_path: Path, policy_file: bytes) -> None:
    config = tmp_path / "short.toml"
    config.write_text("warmup_s = 8\n")
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in files:
        path.write_bytes(policy_file)
    arguments = [argument for path in files for argument in ("--policy", path)]
    ran = run("compare", *SCENARIOS, "--config", config, "--json", *arguments)
    (difference,) = ran.document["differences"]
    assert set(difference["saves_request_s"].values()) == {0.0}
    assert difference["verdict"] == "no difference"
    # tuned for 8 workers and another load: warnings, not errors
    assert "workers" in ran.err


def test_a_policy_file_states_its_own_parameters(run: Run, tmp_path: Path, policy_file: bytes) -> None:
    path = tmp_path / "policy.json"
    path.write_bytes(policy_file)
    document = run("replay", *SMALL, *CRASH, "--policy", path, "--json").document
    policy = document["policy"]
    assert (policy["alpha"], policy["theta"], policy["tau_tokens"], policy["k"]) == (0.01417, 21.43, 640, 3)
    flags = ("--alpha", "0.01417", "--theta", "21.43", "--tau", "640", "--k", "3")
    stated = run("replay", *SMALL, *CRASH, *flags, "--json").document
    for key in set(document) - {"policy", "cost"}:
        assert document[key] == stated[key], key

    refused = run("replay", *SMALL, "--policy", path, "--alpha", "1")
    assert (refused.code, refused.out) == (2, "")
    assert "alpha" in refused.err

    newer = tmp_path / "newer.json"
    newer.write_bytes(policy_file.replace(b"v1", b"v9", 1))
    refused = run("replay", *SMALL, "--policy", newer)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1

    other = run("replay", *SMALL, "--model", "qwen3-14b", "--policy", path)
    assert other.code == 2
    assert "qwen3-32b" in other.err
