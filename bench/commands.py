"""Whole commands: the first replay, start-up, a warm replay, the default tuning run."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.line import Line, median

__all__ = ["lines"]

_WITH_CRASHES = ("replay", "--crash", "300:2,5")
_RULE = """
def choose_holder(server, need_pages, live, free_pages, held_tokens, queue, token_weight, request_weight):
    best = -1
    for w in range(len(live)):
        if live[w] != 0 and w != server and free_pages[w] >= need_pages:
            if best < 0 or held_tokens[w] < held_tokens[best]:
                best = w
    return best
"""
_COMMAND = str(Path(sys.executable).with_name("lumen-tune"))


def _wall_s(*arguments: str) -> float:
    started = time.perf_counter()
    subprocess.run([_COMMAND, *arguments], capture_output=True, check=True)
    return time.perf_counter() - started


def _cpu_s(*arguments: str, **environment: str) -> float:
    """CPU seconds of a command, its own and the kernel's on its behalf."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    before = used()
    subprocess.run([_COMMAND, *arguments], capture_output=True, check=True, env={**os.environ, **environment})
    return used() - before


def _first_replay_s() -> float:
    with tempfile.TemporaryDirectory() as cache:
        return _cpu_s(*_WITH_CRASHES, LUMEN_TUNE_CACHE_DIR=cache)


def _first_with_a_rule_s(number: int) -> float:
    """A rule that no cache knows; the package's own kernel lies there."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rule.py"
        path.write_text(f"{_RULE}# {time.time_ns()} {number}\n")
        return _cpu_s(*_WITH_CRASHES, "--own-rules", str(path))


def _start_lines() -> Iterator[Line]:
    """From nothing to a figure."""
    yield Line(
        name="installed, empty cache → first replay of the built-in trace, CPU",
        value=statistics.median(_first_replay_s() for _ in range(3)),
        target=8,
        unit="s",
        note="115 s before the compiler was our own",
    )
    yield Line(
        name="the same, warm, whole process, CPU",
        value=median(lambda: _cpu_s(*_WITH_CRASHES), 5),
        target=1.0,
        unit="s",
        note="2.0 to 2.9 s before",
    )
    yield Line(
        name="own rule saved → first replayed figure, CPU",
        value=statistics.median(_first_with_a_rule_s(number) for number in range(3)),
        target=6,
        unit="s",
    )


def lines() -> Iterator[Line]:
    """Seconds of commands as a user runs them."""
    yield from _start_lines()
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
