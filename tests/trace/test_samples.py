"""The committed samples are what their script writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lumen_policy.trace.read import read_trace

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "traces"


def test_samples_are_regenerated_byte_for_byte(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, SAMPLES / "make.py", tmp_path],
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    made = {path.name for path in tmp_path.iterdir()}
    kept = {path.name for path in SAMPLES.iterdir() if path.suffix in (".csv", ".json", ".jsonl", ".parquet")}
    assert made == kept
    for name in sorted(made):
        if name.endswith(".parquet"):
            # Parquet's pages change with the library that writes them; the requests do not.
            assert read_trace(tmp_path / name).digest() == read_trace(SAMPLES / name).digest()
        else:
            assert (tmp_path / name).read_bytes() == (SAMPLES / name).read_bytes(), name


def test_samples_are_small() -> None:
    for path in SAMPLES.iterdir():
        if path.suffix in (".csv", ".jsonl"):
            assert len(path.read_text().splitlines()) <= 200
        assert path.is_dir() or path.stat().st_size < 100_000


def test_the_example_of_the_docs_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "traces.md").read_text()
    code = text.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(code, "docs/traces.md", "exec"), names)
    assert names["busy"].rate_per_s == pytest.approx(20.0, rel=1e-3)
