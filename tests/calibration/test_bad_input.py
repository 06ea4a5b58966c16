"""What cannot be measured or fitted is refused in one line with exit 2."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.cli.conftest import Run

from .synthetic import Known, component_samples

KNOWN = Known(weights_s=1e-3, token_s=1e-4, pair_s=1e-8, context_s=1e-7, sequence_s=1e-5)


def refused(run: Run, *arguments: str) -> str:
    ran = run("calibrate", *arguments)
    assert ran.code == 2, ran.err
    assert ran.out == ""
    lines = ran.err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def csv(tmp_path: Path, table: pl.DataFrame) -> str:
    path = tmp_path / "samples.csv"
    table.write_csv(path)
    return str(path)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda t: t.with_columns(seconds=pl.lit(float("nan"))), "row 1 .*seconds is nan"),
        (lambda t: t.with_columns(seconds=-pl.col("seconds")), "row 1 .*seconds is -0.001"),
        (lambda t: t.with_columns(seconds=pl.lit(2e6)), "allowed: a finite number of seconds > 0"),
        (lambda t: t.with_columns(seconds=pl.lit(None, dtype=pl.Float64)), "seconds is None"),
        (lambda t: t.with_columns(tokens=-pl.col("tokens")), "tokens is -1"),
        (lambda t: t.with_columns(tokens=pl.lit(0)), "tokens is 0, allowed: an integer ≥ 1"),
        (lambda t: t.with_columns(kind=pl.lit("gemm")), "kind is 'gemm', allowed: linear"),
        (lambda t: t.with_columns(clock=pl.lit(1)), "column 'clock' is unknown"),
        (lambda t: t.drop("seconds"), "column 'seconds' is missing"),
        (lambda t: t.head(3), "3 rows of linear, allowed: at least 8"),
        (lambda t: t.head(0), "no samples"),
        (lambda t: t.with_columns(model=pl.lit("other")), "none of qwen3-14b, there are: other"),
        (lambda t: t.filter(pl.col("kind") == "lm_head"), "no linear, prefill or decode rows"),
        (
            lambda t: t.with_columns(
                kind=pl.lit("host_to_device"), bytes=pl.lit(10**12), seconds=pl.lit(1e-6)
            ),
            "bytes / seconds ≤ 1e14 byte/s",
        ),
    ],
)
def test_samples(run: Run, tmp_path: Path, edit: Callable[[pl.DataFrame], pl.DataFrame], words: str) -> None:
    path = csv(tmp_path, edit(component_samples(KNOWN)))
    line = refused(run, "--from-samples", path, "--model", "qwen3-14b", "--out", str(tmp_path / "p.json"))
    import re

    assert re.search(words, line), line
    assert not (tmp_path / "p.json").exists()


def test_options(run: Run, tmp_path: Path) -> None:
    out = str(tmp_path / "p.json")
    assert "--out FILE is needed" in refused(run)
    assert "allowed: one of them" in refused(
        run, "--out", out, "--from-samples", "a.csv", "--observe", "b.csv"
    )
    assert "need --from-operators" in refused(run, "--out", out, "--attention", "a.csv")
    assert "--device is 'tpu'" in refused(run, "--out", out, "--device", "tpu")
    assert "unknown model 'gpt'" in refused(run, "--out", out, "--model", "gpt")
    assert "cannot be read" in refused(run, "--out", out, "--from-samples", str(tmp_path / "none.csv"))
    assert "cannot be read" in refused(run, "--out", out, "--from-operators", str(tmp_path / "none.csv"))
    assert "--overhead-ms is -1" in refused(run, "--out", out, "--overhead-ms", "-1", "--from-samples", "a")


def test_no_torch(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    line = refused(run, "--device", "cpu", "--out", str(tmp_path / "p.json"))
    assert "pip install 'lumen-policy[calibrate]'" in line


def test_no_gpu(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: calibrate)")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "no CUDA device" in refused(run, "--out", str(tmp_path / "p.json"))
