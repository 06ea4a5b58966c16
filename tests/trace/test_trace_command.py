"""`lumen-tune trace`: one JSON document on stdout, everything else on stderr."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from lumen_policy.cli import trace as command
from lumen_policy.errors import InputError
from lumen_policy.trace.read import read_trace
from lumen_policy.trace.synthetic import built_in_trace

SAMPLES = Path(__file__).resolve().parents[2] / "traces"


@dataclass(frozen=True)
class Said:
    stdout: str
    stderr: str


def run(*arguments: object) -> Said:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        command.app([str(argument) for argument in arguments], standalone_mode=False)
    return Said(out.getvalue(), err.getvalue())


def document(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    assert list(found) == sorted(found)
    return found


def test_info_has_the_documented_keys() -> None:
    found = document("info", SAMPLES / "mooncake.jsonl", "--cache-blocks", 20)
    assert {"schema_version", "kind", "format", "rows", "span_s", "rate_per_s", "prefix"} <= found.keys()
    assert set(found["rows"]) == {"read", "kept", "dropped"}
    assert found["rows"]["read"] == found["rows"]["kept"] == 120
    assert found["prefix"]["reuse_limited"] <= found["prefix"]["reuse_unlimited"]
    assert {"mean", "p50", "p90", "p99"} <= found["prompt_tokens"].keys() & found["output_tokens"].keys()
    assert found == document("info", SAMPLES / "mooncake.jsonl", "--cache-blocks", 20)


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir() if path.suffix != ".py"))
def test_info_prints_every_sample(name: str) -> None:
    if name.endswith(".md") or (SAMPLES / name).is_dir():
        return
    assert name in run("info", SAMPLES / name).stdout


def test_info_shows_drops_and_the_options_that_settle_a_doubt() -> None:
    assert "8 zero prompt tokens" in run("info", SAMPLES / "burstgpt.csv").stdout
    assert document("info", SAMPLES / "faults.json", "--nodes", 20)["faults_per_1000_node_days"] > 0
    assert document("info", SAMPLES / "servegen.csv")["kind"] == "rate_windows"
    served = document("info", SAMPLES / "servegen.csv", "--lengths", "built-in", "--seed", 1)
    assert served["kind"] == "requests"
    assert document("info", "built-in")["digest"] == built_in_trace().digest()


def test_convert_keeps_the_requests(tmp_path: Path) -> None:
    found = document("convert", SAMPLES / "azure.csv", tmp_path / "out.jsonl.gz")
    assert found["written"] == str(tmp_path / "out.jsonl.gz")
    assert read_trace(tmp_path / "out.jsonl.gz").digest() == read_trace(SAMPLES / "azure.csv").digest()
    assert found["digest"] == read_trace(SAMPLES / "azure.csv").digest()


def test_convert_transforms_and_says_so(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    found = document(
        *("convert", SAMPLES / "azure.csv", out, "--window", "2:15", "--limit", 40, "--cap-gaps-s", 0.5),
        *("--context-limit", 4000, "--superpose-rate", 20, "--rate-scale", 2),
    )
    trace = read_trace(out)
    assert found["digest"] == trace.digest()
    assert trace.rate_per_s == pytest.approx(40, rel=0.1)
    assert (trace.prompt_tokens + trace.output_tokens).max() <= 4000
    notes = " | ".join(found["notes"])
    for phrase in ("window 2 … 15 s", "first 40 requests", "capped", "shifted copies", "clock compressed"):
        assert phrase in notes


def test_convert_says_what_a_format_cannot_hold(tmp_path: Path) -> None:
    result = run("convert", SAMPLES / "mooncake.jsonl", tmp_path / "out.csv", "--json")
    json.loads(result.stdout)
    assert "prefix hash ids are not part of format csv" in result.stderr


def test_synth_keeps_lengths_together(tmp_path: Path) -> None:
    found = document(
        *("synth", tmp_path / "a.csv", "--from", "built-in", "--requests", 20_000, "--rate", 9, "--cv", 3),
        *("--seed", 5),
    )
    donor = document("info", "built-in")
    assert found["rate_per_s"] == pytest.approx(9, rel=0.1)
    assert found["gap_cv"] == pytest.approx(3, rel=0.1)
    for name in ("prompt_tokens", "output_tokens"):
        assert found[name]["mean"] == pytest.approx(donor[name]["mean"], rel=0.04)
        assert found[name]["p90"] == pytest.approx(donor[name]["p90"], rel=0.06)
    for name in ("pearson", "spearman"):
        assert found["correlation"][name] == pytest.approx(donor["correlation"][name], abs=0.04)
    again = document(
        *("synth", tmp_path / "b.csv", "--from", "built-in", "--requests", 20_000, "--rate", 9, "--cv", 3),
        *("--seed", 5),
    )
    assert again["digest"] == found["digest"]
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_without_a_command_it_explains_itself() -> None:
    assert "convert" in run().stdout


def test_formats_are_listed() -> None:
    listed = run("formats").stdout
    assert "mooncake" in listed
    assert "read, write" in listed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "no-such-file"], "no-such-file: no such file"),
        (["info", SAMPLES / "azure.csv", "--map", "prompt"], "is not field=column"),
        (["info", SAMPLES / "azure.csv", "--window", "5"], "is not START:END"),
        (["info", SAMPLES / "azure.csv", "--format", "x"], "unknown trace format"),
        (["convert", SAMPLES / "azure.csv", "out.dat"], "say the format with --to"),
        (["convert", SAMPLES / "lengths.csv", "out.csv"], "--arrivals"),
        (["convert", SAMPLES / "azure.csv", os.devnull, "--to", "csv"], "no regular file"),
        (["synth", "out.csv", "--rate", "0"], "rate_per_s must be a positive"),
        (["synth", "out.csv", "--cv", "0"], "cv must be a positive"),
    ],
)
def test_bad_input_is_an_input_error(arguments: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(*arguments)


def test_the_command_mounts_without_heavy_imports() -> None:
    code = (
        "import sys, typer; from lumen_policy.cli.trace import register; app = typer.Typer(); register(app);"
        "heavy = {'polars', 'numpy', 'msgspec'} & set(sys.modules); sys.exit(str(heavy) if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    parent = typer.Typer()
    command.register(parent)
    assert [group.name for group in parent.registered_groups] == ["trace"]
