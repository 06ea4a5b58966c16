"""``compare``: policies side by side over the same crashes or scenarios."""

from __future__ import annotations

from typing import Any

import pytest

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
