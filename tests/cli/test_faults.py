"""``faults``, and ``--faults`` of replay and compare."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Run
from .test_replay import SMALL

LOG = Path(__file__).resolve().parents[2] / "traces/faults.json"


def test_a_file_replays_as_its_crashes_do(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "faults.csv"
    path.write_text("time_s,worker,duration_s\n3.5,1,0\n3.5,2,\n3.5,2,1\n9999,0,\n")
    stated = run(
        "replay", *SMALL, "--fault", "crash@3.5:1:duration_s=0", "--crash", "3.5:2", "--json"
    ).document
    ran = run("replay", *SMALL, "--faults", path, "--json")
    document = ran.document
    for key in set(document) - {"faults", "cost"}:
        assert document[key] == stated[key], key
    assert stated["faults"] is None
    faults = document["faults"]
    assert (faults["read"], faults["replayed"], faults["zero_length"]) == (4, 2, 1)
    assert faults["dropped"] == {
        "after the last arrival": 1,
        "of a kind that hits the worker at the same instant already": 1,
    }
    assert "1 of 4 faults not replayed: after the last arrival" in ran.err
    shown = run("replay", *SMALL, "--faults", path).out
    assert "4 read = 2 replayed (1 of zero length) + dropped: 1" in shown
    compared = run("compare", *SMALL, "--faults", path, "--json").document
    assert compared["faults"] == faults
    assert compared["policies"][-1]["impact"] == document["impact"]


def test_a_log_in_days_says_how_it_was_mapped(run: Run) -> None:
    ran = run("replay", *SMALL, "--faults", LOG, "--fault-nodes", "fold", "--fault-days", "0:30", "--json")
    faults = ran.document["faults"]
    assert faults["format"] == "infinitehbd"
    assert faults["read"] == faults["replayed"] + sum(faults["dropped"].values())
    assert len(faults["mapping"]) == 2
    for line in faults["mapping"]:
        assert line in ran.err
    assert "durations only tell" in ran.err
    assert set(faults["nodes"].values()) <= {0, 1, 2}
    if faults["replayed"] > 8:
        shown = run("replay", *SMALL, "--faults", LOG, "--fault-nodes", "fold", "--fault-days", "0:30").out
        assert "more outages" in shown


BAD = {
    "both": (("replay", *SMALL, "--faults", LOG, "--crash", "1:1"), "exclude each other"),
    "absent": (("replay", *SMALL, "--faults", "absent.csv"), "no such file"),
    "window of a schedule": (("replay", *SMALL, "--faults", "FILE", "--fault-days", "0:1"), "seconds"),
    "kind": (("replay", *SMALL, "--faults", "DRAIN"), "line 2: duration_s -1.0"),
    "fault and file": (("replay", *SMALL, "--faults", LOG, "--fault", "hang@1:1"), "exclude each other"),
    "fault of no worker": (("replay", *SMALL, "--fault", "hang@1:9"), "hang: worker 9 does not exist"),
    "fault twice": (("replay", *SMALL, "--fault", "crash@1:1", "--crash", "1:1"), "twice"),
    "scenarios and fault": (("compare", *SMALL, "--fault", "hang@1:1", "--scenarios", "3"), "fault"),
    "worker": (("replay", *SMALL, "--workers", "1", "--faults", "FILE"), "worker 1 does not exist"),
    "scenarios": (("compare", *SMALL, "--faults", LOG, "--scenarios", "3"), "faults"),
    "ablation": (("compare", *SMALL, "--faults", LOG, "--ablate"), "faults"),
    "two lengths": (("faults", "synth", "out.csv", "--mtbf-hours", "1", "--days", "1", "--span-s", "1"), "either"),
    "no length": (("faults", "synth", "out.csv", "--mtbf-hours", "1"), "either"),
    "suffix": (("faults", "synth", "out.txt", "--mtbf-hours", "1", "--days", "9"), ".csv or .json"),
    "too few watched": (("faults", "info", LOG, "--nodes", "1"), "--nodes 1"),
    "no days": (("faults", "info", LOG, "--watched-days", "0"), "watched-days"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_one_line_and_exit_2(case: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("time_s,worker\n1,1\n")
    Path("DRAIN").write_text("time_s,worker,kind,duration_s\n1,1,drain,-1\n")
    arguments, expected = BAD[case]
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, ""), ran.err
    assert ran.err.count("\n") == 1
    assert expected in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["DRAIN", "FILE"]


def test_tune_draws_its_own_faults(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "setup.toml"
    config.write_text(f'faults = "{LOG}"\n')
    ran = run("tune", "--config", config, "--out", tmp_path / "tuned")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "faults: tune draws its own" in ran.err


def test_synth_info_and_replay(run: Run, tmp_path: Path) -> None:
    """What synth says of its file is what info reads from it, and replay takes it."""
    path = tmp_path / "drawn.json"
    drawn = run(
        "faults", "synth", path, "--workers", "3", "--span-s", "40", "--mtbf-hours", "0.01", "--json",
        "--burst-share", "0.3", "--lemons", "1", "--repair", "fixed:0.001",
    ).document  # fmt: skip
    info = run("faults", "info", path, "--nodes", "3", "--watched-days", str(40 / 86_400), "--json").document
    for key in set(info) - {"source", "format"}:
        assert info[key] == drawn[key], key
    assert drawn["expected_faults"] == pytest.approx(3 * 40 / 36)
    replayed = run("replay", *SMALL, "--faults", path, "--json").document["faults"]
    assert replayed["read"] == info["faults"]
    shown = run("faults", "info", path, "--nodes", "3")
    assert "MTBF" in shown.out
    assert "say --nodes" in run("faults", "info", LOG).out
    assert "expected" in run("faults", "synth", tmp_path / "b.csv", "--mtbf-hours", "9", "--days", "9").out
    assert "synth" in run("faults").out
