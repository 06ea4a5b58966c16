"""``compare``: policies side by side over the same crashes or scenarios."""

from __future__ import annotations

import importlib.util
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
        for key in set(entry) - {"label"}:
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
