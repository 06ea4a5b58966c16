"""``tune``, ``rerun`` and ``validate`` from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lumen_policy.cli.main import main
from lumen_policy.tune.output import OutputFolder
from tests.policy_file.documents import as_json

CONFIG = """\
workers = 3
limit = 1500
horizon_s = 40
warmup_s = 20
detection_s = 1
trials = 7
scenarios = 2
validation_scenarios = 3
"""

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A command line in this process: exit code, stdout, stderr."""

    def command(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "setup.toml").write_text(CONFIG)
    code = main(["tune", "--config", str(folder / "setup.toml"), "--out", str(folder / "out"), "--jobs", "1"])
    assert code == 0
    return folder / "out"


def test_tune_writes_three_files_and_ends_with_a_table(run: Run, tuned: Path, tmp_path: Path) -> None:
    """Table and verdict on stdout, progress in plain lines on stderr."""
    config = tuned.parent / "setup.toml"
    code, out, err = run("tune", "--config", config, "--out", tmp_path / "again", "--jobs", "1")
    assert code == 0
    for word in ("stop_and_restart", "fixed_checkpointing", "lumen default", "lumen tuned", "random search"):
        assert word in out
    assert "tuned against lumen default:" in out
    assert "trial 7/7: " in err
    assert sorted(path.name for path in tuned.iterdir()) == ["policy.json", "result.json", "trials.jsonl"]
    for name in ("policy.json", "trials.jsonl"):
        assert (tmp_path / "again" / name).read_bytes() == (tuned / name).read_bytes()


def test_json_is_the_result(run: Run, tuned: Path, tmp_path: Path) -> None:
    """One document on stdout, nothing else; quiet leaves stderr empty."""
    config = tuned.parent / "setup.toml"
    code, out, err = run(
        "tune", "--config", config, "--out", tmp_path / "o", "--jobs", "1", "--json", "--quiet"
    )
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads((tmp_path / "o" / "result.json").read_bytes())


def test_validate(run: Run, tuned: Path, tmp_path: Path) -> None:
    """The exported file is valid; a broken one gets a line for each problem and exit code 2."""
    code, out, err = run("validate", tuned / "policy.json")
    assert (code, err) == (0, "")
    assert "a valid policy for qwen3-32b" in out
    broken = as_json()
    broken["spec"]["assist"] = {"k_drafts_per_pass": 65}
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(broken))
    code, out, err = run("validate", path)
    assert (code, out) == (2, "")
    assert [line.split(": ")[2] for line in err.splitlines()] == [
        "$.spec.assist.k_drafts_per_pass",
        "$.spec.assist.guard",
    ]
    code, out, _ = run("validate", path, "--json")
    assert code == 2
    assert [problem["path"] for problem in json.loads(out)["problems"]] == [
        "$.spec.assist.k_drafts_per_pass",
        "$.spec.assist.guard",
    ]


def test_replay_runs_the_exported_policy(run: Run, tuned: Path) -> None:
    """Same parameters under `policy`; elsewhere than tuned for it warns; another model is an error."""
    policy = json.loads((tuned / "policy.json").read_bytes())
    common = ("--limit", "400", "--crash", "30:1", "--json", "--policy", tuned / "policy.json")
    code, out, err = run("replay", "--workers", "3", *common)
    assert code == 0, err
    spec, ran = policy["spec"], json.loads(out)["policy"]
    assert str(ran["alpha"]) == spec["placement"]["alpha_per_page"]
    assert ran["tau_tokens"] == spec["routing"]["tau_tokens"]
    assert ran["k"] == spec["assist"]["k_drafts_per_pass"]
    assert "tuned for load" in err
    assert "tuned for workers 3, here 4" in run("replay", "--workers", "4", *common)[2]
    code, _, err = run("replay", "--workers", "3", "--model", "qwen3-14b", *common)
    assert code == 2
    assert "tuned for model qwen3-32b, this cluster has qwen3-14b" in err
    code, _, err = run("replay", "--workers", "3", "--theta", "inf", *common)
    assert code == 2
    assert "theta" in err


def test_rerun_agrees(run: Run, tuned: Path, tmp_path: Path) -> None:
    """The same bytes again, written where asked."""
    code, out, _ = run("rerun", tuned / "result.json", "--jobs", "1", "--out", tmp_path / "r")
    assert (code, out) == (0, "agrees byte for byte (cost left out)\n")
    assert (tmp_path / "r" / "policy.json").read_bytes() == (tuned / "policy.json").read_bytes()


def test_rerun_says_what_differs(run: Run, tuned: Path, tmp_path: Path) -> None:
    """An altered result is found out, with the place."""
    document = json.loads((tuned / "result.json").read_bytes())
    document["choice"]["trial"] += 1
    (tmp_path / "result.json").write_text(json.dumps(document))
    (tmp_path / "policy.json").write_text("{}")
    code, out, _ = run("rerun", tmp_path / "result.json", "--jobs", "1")
    assert (code, out) == (1, "differs in result.json.choice.trial, policy.json\n")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "replay"}, "not a result of lumen-tune tune"),
        ({"schema_version": 99}, "schema_version 99"),
        ({"interrupted": True}, "interrupted run"),
        ({"manifest": {}}, "'settings' is missing"),
    ],
)
def test_results_that_cannot_be_repeated(
    run: Run, tuned: Path, tmp_path: Path, change: dict[str, object], says: str
) -> None:
    """One clear line and exit code 2."""
    document = json.loads((tuned / "result.json").read_bytes())
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**document, **change}))
    code, _, err = run("rerun", path)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1


def test_rerun_refuses_another_trace(run: Run, tuned: Path, tmp_path: Path) -> None:
    """A result of other requests is not repeated on these."""
    document = json.loads((tuned / "result.json").read_bytes())
    document["manifest"]["digests"]["trace"] = "0" * 64
    (tmp_path / "result.json").write_text(json.dumps(document))
    code, _, err = run("rerun", tmp_path / "result.json", "--quiet")
    assert code == 2
    assert "is not the one of this result" in err


def test_a_folder_that_is_not_empty_is_refused(run: Run, tuned: Path, tmp_path: Path) -> None:
    """Before any work; --force replaces the three files and touches no other."""
    config = tuned.parent / "setup.toml"
    (tmp_path / "note.txt").write_text("mine")
    (tmp_path / "policy.json").write_text("old")
    command = ("tune", "--config", config, "--out", tmp_path, "--jobs", "1", "--quiet", "--trials", "1")
    code, _, err = run(*command)
    assert code == 2
    assert "is not empty; --force" in err
    assert (tmp_path / "policy.json").read_text() == "old"
    code, _, err = run(*command, "--force", "--no-random-search")
    assert code == 0, err
    assert (tmp_path / "note.txt").read_text() == "mine"
    names = ["note.txt", "policy.json", "result.json", "trials.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert run("validate", tmp_path / "policy.json")[0] == 0


def test_output_folder_is_whole_or_absent(tmp_path: Path) -> None:
    """A file of that name is refused; None removes what an earlier run left."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        OutputFolder(tmp_path / "file", force=True)
    folder = OutputFolder(tmp_path / "new", force=False)
    folder.write({"policy.json": b"1", "result.json": b"2"})
    folder.write({"policy.json": None, "result.json": b"3"})
    assert [path.name for path in folder.path.iterdir()] == ["result.json"]
    assert (folder.path / "result.json").read_bytes() == b"3"


@pytest.mark.skipif(os.name == "nt", reason="signals to a process group are POSIX")
def test_ctrl_c_in_a_terminal(tuned: Path, tmp_path: Path) -> None:
    """SIGINT to the whole group, as a terminal sends it: exit code 130, one valid result, no traceback."""
    program = "import sys; from lumen_policy.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "tune", "--config", str(tuned.parent / "setup.toml")]
    command += ["--out", str(tmp_path / "out"), "--jobs", "2", "--trials", "400"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "trial 3/400" in line:
            os.killpg(process.pid, signal.SIGINT)
            break
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "interrupted before validation: no verdict" in out
    result = json.loads((tmp_path / "out" / "result.json").read_bytes())
    assert result["interrupted"] is True
    assert result["trials"]["done"] >= 3
    assert main(["validate", str(tmp_path / "out" / "policy.json")]) == 0


def test_compare_over_scenarios_repeats_the_validation(run: Run, tuned: Path) -> None:
    """`compare` at the tuner's load gives the tuner's validation figures for the exported file exactly."""
    config = tuned.parent / "setup.toml"
    policies = ("--policy", "stop_and_restart", "--policy", tuned / "policy.json")
    code, out, err = run(
        "compare", "--config", config, "--load", "0.7", "--scenarios", "3", *policies, "--json"
    )
    assert code == 0, err
    compared = [entry["excess_e2e_request_s"] for entry in json.loads(out)["policies"]]
    validated = json.loads((tuned / "result.json").read_bytes())["validation"]["policies"]
    figures = {
        entry["policy"]["name"]: {name: entry[f"{name[:-2]}_request_s"] for name in compared[0]}
        for entry in validated
    }
    assert set(compared[0]) == {"mean_s", "low_s", "high_s"}
    assert compared == [figures["stop_and_restart"], figures["lumen tuned"]]
