"""Bad input: one clear line on stderr, nothing on stdout, exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Run

SMALL = ("--limit", "40")

CASES = {
    "unknown command": (("replya",), "replya"),
    "unknown flag": (("replay", "--wrokers", "3"), "--wrokers"),
    "flag without value": (("replay", "--workers"), "--workers"),
    "unknown model": (("replay", "--model", "qwen9"), "qwen9"),
    "unknown draft": (("replay", "--draft", "qwen9"), "qwen9"),
    "unknown profile": (("replay", "--hardware", "h900"), "h900"),
    "unknown policy, near match": (("replay", *SMALL, "--policy", "stop_and_restat"), "stop_and_restart"),
    "unknown router, near match": (("replay", "--router", "round_robbin"), "round_robin"),
    "unknown scheduler": (("replay", "--scheduler", "fifo"), "prefill_first"),
    "missing policy file": (("replay", *SMALL, "--policy", "absent.json"), "absent.json"),
    "missing config": (("replay", "--config", "absent.toml"), "absent.toml"),
    "missing trace": (("replay", "absent.csv"), "absent.csv"),
    "zero workers": (("replay", "--workers", "0"), "workers"),
    "text for workers": (("replay", "--workers", "many"), "workers"),
    "fraction for workers": (("replay", "--workers", "2.5"), "workers"),
    "TP that splits no heads": (("replay", *SMALL, "--tp", "3"), "64 query heads"),
    "negative load": (("replay", "--load", "-0.5"), "load"),
    "nan load": (("replay", "--load", "nan"), "load"),
    "infinite rate scale": (("replay", "--rate-scale", "inf"), "rate_scale"),
    "zero rate scale": (("replay", "--rate-scale", "0"), "rate_scale"),
    "load and rate scale": (("replay", "--load", "0.5", "--rate-scale", "2"), "exclude each other"),
    "zero limit": (("replay", "--limit", "0"), "limit"),
    "negative alpha": (("replay", "--alpha", "-1"), "alpha"),
    "alpha and beta zero": (("replay", *SMALL, "--alpha", "0", "--beta", "0"), "alpha and beta"),
    "nan theta": (("replay", "--theta", "nan"), "theta"),
    "word for theta": (("replay", "--theta", "always"), "never"),
    "fractional tau": (("replay", "--tau", "1.5"), "tau"),
    "negative k": (("replay", "--k", "-1"), "k"),
    "k without a draft": (("replay", *SMALL, "--draft", "none", "--k", "2"), "draft"),
    "alpha beside a plain policy": (
        ("replay", *SMALL, "--policy", "stop_and_restart", "--alpha", "1"),
        "alpha",
    ),
    "negative detection": (("replay", "--detection-s", "-1"), "detection_s"),
    "horizon below the clock's resolution": (
        ("replay", *SMALL, "--horizon-s", "1e-300", "--crash", "1:1"),
        "picosecond",
    ),
    "rate scale beyond 90 days": (("replay", *SMALL, "--rate-scale", "1e-300"), "90 days"),
    "format of no file": (("replay", "--format", "csv"), "no"),
    "no processes": (("tune", "--jobs", "0", "--out", "never"), "jobs"),
    "zero horizon": (("replay", "--horizon-s", "0"), "horizon_s"),
    "negative seed": (("replay", "--seed", "-1"), "seed"),
    "crash without workers": (("replay", *SMALL, "--crash", "300"), "300:2,5"),
    "crash of no worker": (("replay", *SMALL, "--crash", "3:8"), "0 to 7"),
    "crash after the end": (("replay", *SMALL, "--crash", "3000:1"), "last arrival"),
    "crash at a negative time": (("replay", *SMALL, "--crash", "-1:1"), "-1"),
    "crash at no time": (("replay", *SMALL, "--crash", "nan:1"), "nan"),
    "crash twice at once": (("replay", *SMALL, "--crash", "3:1", "--crash", "3.0:1"), "twice"),
    "per-request of another type": (("replay", *SMALL, "--per-request", "out.xlsx"), ".parquet"),
    "per-request onto a folder": (("replay", *SMALL, "--per-request", "folder.csv"), "no regular file"),
    "per-request into no folder": (("replay", *SMALL, "--per-request", "absent/out.csv"), "absent"),
    "pool without room": (("replay", *SMALL, "--kv-pages", "0"), "kv_pages"),
    "more pages than memory": (("replay", *SMALL, "--kv-pages", "9999999"), "kv_pages"),
    "model that does not fit": (("replay", *SMALL, "--model", "llama-3.1-405b"), "GB"),
    "costs that do not fit": (("costs", "--model", "llama-3.1-405b"), "GB"),
    "policy compared twice": (
        ("compare", *SMALL, "--policy", "lumen", "--policy", "lumen"),
        "twice",
    ),
    "scenarios and crashes": (("compare", "--scenarios", "4", "--crash", "3:1"), "crash"),
    "one scenario": (("compare", "--scenarios", "1"), "scenarios"),
    "scenarios of a short trace": (("compare", *SMALL, "--scenarios", "4"), "too short"),
    "tune of a short trace": (("tune", *SMALL, "--load", "0.5", "--out", "never"), "too short"),
    "tune without trials": (("tune", "--trials", "0", "--out", "never"), "trials"),
    "absent policy file": (("validate", "absent.json"), "absent.json"),
}


def assert_one_line(err: str, expected: str) -> None:
    """One line that names the problem; a first compile may have been announced before it."""
    lines = [line for line in err.splitlines() if "compiling the replay kernel" not in line]
    assert len(lines) == 1, err
    assert lines[0].startswith("lumen-tune: ")
    assert expected in lines[0]


@pytest.mark.parametrize("case", CASES)
def test_one_line_and_exit_2(case: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, expected = CASES[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    ran = run(*arguments)
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert_one_line(ran.err, expected)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


TRACES = {
    "empty": ("", "empty"),
    "header alone": ("arrival_s,prompt_tokens,output_tokens\n", "no rows"),
    "missing column": ("arrival_s,prompt_tokens\n0,10\n", "output_tokens"),
    "unreadable number": ("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,ten,5\n", "line 3"),
    "option of another command": ("when,prompt_tokens,output_tokens\n0,10,5\n", "trace convert"),
    "default alpha out of range": (
        "arrival_s,prompt_tokens,output_tokens\n0,1000000000,5\n1,10,5\n",
        "1000000005 tokens",
    ),
    "time that is none": ("arrival_s,prompt_tokens,output_tokens\n0,10,5\nnan,10,5\n", "line 3"),
}


@pytest.mark.parametrize("case", TRACES)
def test_bad_trace(case: str, run: Run, tmp_path: Path) -> None:
    text, expected = TRACES[case]
    path = tmp_path / "trace.csv"
    path.write_text(text)
    ran = run("replay", path)
    assert (ran.code, ran.out) == (2, "")
    assert_one_line(ran.err, expected)
    assert "trace.csv" in ran.err


CONFIGS = {
    "unknown key": ("wokers = 4\n", "did you mean 'workers'?"),
    "table": ("[cluster]\nworkers = 4\n", "cluster"),
    "not TOML": ("workers 4\n", "TOML"),
    "nan": ("load = nan\n", "load"),
    "wrong type": ("workers = true\n", "workers"),
    "list for a text": ('model = ["qwen3-32b"]\n', "model"),
    "number for a list": ("crash = 3\n", "crash"),
    "table for a list": ('crash = { "3:1" = 1 }\n', "crash"),
    "text for a list": ('crash = "3:1"\n', "crash"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_bad_config(case: str, run: Run, tmp_path: Path) -> None:
    text, expected = CONFIGS[case]
    path = tmp_path / "setup.toml"
    path.write_text(text)
    ran = run("config", "--config", path)
    assert (ran.code, ran.out) == (2, "")
    assert_one_line(ran.err, expected)
    assert "setup.toml" in ran.err


def test_profile_with_unknown_key_or_other_version(run: Run, tmp_path: Path) -> None:
    shipped = Path(__file__).resolve().parents[2] / "cost_models/profiles/h100-sxm.json"
    profile = json.loads(shipped.read_text())
    for key, value in (("hbm_byte", 1), ("schema_version", 99)):
        path = tmp_path / "profile.json"
        path.write_text(json.dumps({**profile, key: value}))
        ran = run("costs", "--hardware", path)
        assert (ran.code, ran.out) == (2, "")
        assert_one_line(ran.err, key)
