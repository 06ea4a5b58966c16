"""Whole commands: start-up, a warm replay, the default tuning run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.line import Line, median

__all__ = ["lines"]

_COMMAND = str(Path(sys.executable).with_name("lumen-tune"))


def _wall_s(*arguments: str) -> float:
    started = time.perf_counter()
    subprocess.run([_COMMAND, *arguments], capture_output=True, check=True)
    return time.perf_counter() - started


def lines() -> Iterator[Line]:
    """Wall seconds of commands as a user runs them."""
    yield Line(
        name="lumen-tune --help, wall", value=median(lambda: _wall_s("--help"), 5), target=0.4, unit="s"
    )
    yield Line(
        name="lumen-tune replay --crash 300:2,5, built-in trace, warm, wall",
        value=median(lambda: _wall_s("replay", "--crash", "300:2,5"), 3),
        target=2.5,
        unit="s",
    )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "tuned"
        wall = _wall_s(
            "tune", "--trials", "40", "--scenarios", "8", "--jobs", "2", "--out", str(out), "--quiet"
        )
        cost = json.loads((out / "result.json").read_text())["cost"]
    yield Line(name="lumen-tune tune, 40 trials x 8 scenarios, 2 jobs, wall", value=wall, target=90, unit="s")
    yield Line(
        name="  share of the optimizer in the CPU it accounts for",
        value=100 * cost["optimizer_share_of_cpu"],
        target=None,
        unit="%",
    )
