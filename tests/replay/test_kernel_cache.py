"""The compiled kernel is keyed by all its sources: an edited decision function is never served from the cache."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

from lumen_policy.replay.kernel import jit

from .mutants import copy_package

CHILD = """
import json, sys
import numpy as np
import lumen_policy
from replay.inputs import linear, make_costs, make_input
from lumen_policy.replay.engine import replay
from lumen_policy.replay.kernel import jit
assert lumen_policy.__file__.startswith(sys.argv[1]), lumen_policy.__file__
before = jit.is_compiled()
inputs = make_input([0, 0, 0], [4, 4, 4], [2, 2, 2], make_costs(linear(10, 64)), workers=2)
worker = replay(inputs).worker.tolist()
print(json.dumps({
    "digest": jit.source_digest(),
    "directory": str(jit.cache_directory()),
    "before": before,
    "after": jit.is_compiled(),
    "worker": worker,
}))
"""


def run_copy(package: Path, cache: Path, *, compiled: bool) -> dict[str, Any]:
    """What a copy of the package says of its kernel, and where three requests on two workers go."""
    tests = Path(__file__).resolve().parent.parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(package.parent), str(tests)]),
        "LUMEN_TUNE_CACHE_DIR": str(cache),
        "NUMBA_DISABLE_JIT": "0" if compiled else "1",
    }
    finished = subprocess.run(
        [sys.executable, "-c", CHILD, str(package.parent)],
        capture_output=True,
        text=True,
        cwd=package.parent,
        env=environment,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    facts: dict[str, Any] = json.loads(finished.stdout)
    return facts


def edit_shortest_queue(package: Path) -> None:
    """Ties of the shortest queue go to the highest index."""
    path = package / "decide/routing.py"
    text = path.read_text()
    old = "if live[w] != 0 and (best < 0 or queue[w] < queue[best]):"
    assert text.count(old) == 1
    path.write_text(text.replace(old, old.replace("queue[w] <", "queue[w] <=")))


def check_an_edit(tmp_path: Path, *, compiled: bool) -> None:
    package, cache = copy_package(tmp_path), tmp_path / "cache"
    original = run_copy(package, cache, compiled=compiled)
    assert original["worker"] == [0, 1, 0]
    assert (original["before"], original["after"]) == (False, compiled)
    edit_shortest_queue(package)
    edited = run_copy(package, cache, compiled=compiled)
    assert edited["worker"] == [1, 0, 1]
    assert edited["digest"] != original["digest"]
    assert edited["directory"] != original["directory"]
    assert (edited["before"], edited["after"]) == (False, compiled)
    if compiled:
        again = run_copy(package, cache, compiled=True)
        assert (again["before"], again["worker"]) == (True, [1, 0, 1])


def test_an_edited_decision_is_seen(tmp_path: Path) -> None:
    """INV-3: an edited decision function has another digest, another cache and the new result (plain Python)."""
    check_an_edit(tmp_path, compiled=False)


@pytest.mark.integration
def test_an_edited_decision_is_compiled_anew(tmp_path: Path) -> None:
    """INV-3: the same with the compiled kernel, whose own cache would not notice."""
    check_an_edit(tmp_path, compiled=True)


def test_the_digest_is_of_sources_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-3: the digest is stable, and another with another numba or CPU."""
    digest = jit.source_digest()
    assert jit.source_digest() == digest
    monkeypatch.setattr(numba, "__version__", "0.0.0")
    assert jit.source_digest() != digest
    monkeypatch.undo()
    monkeypatch.setattr(jit.llvm, "get_host_cpu_name", lambda: "another")
    assert jit.source_digest() != digest


def sources_of_the_kernel(package: Path) -> set[Path]:
    """The kernel's modules and whatever modules of the package they import, directly or not."""
    found: set[Path] = set()
    todo = set((package / "replay/kernel").glob("*.py"))
    while todo:
        path = todo.pop()
        found.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lumen_policy"):
                base = package.joinpath(*node.module.split(".")[1:])
                modules = [base.with_suffix(".py"), *(base / f"{alias.name}.py" for alias in node.names)]
                todo |= {module for module in modules if module.is_file()} - found
    return found


def test_every_source_of_kernel_and_decisions_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """INV-3: a changed byte in a kernel module, or in any module it imports, changes the digest."""
    package = copy_package(tmp_path)
    monkeypatch.setattr(jit, "_PACKAGE", package)
    digest = jit.source_digest()
    sources = sources_of_the_kernel(package)
    assert {path.name for path in sources} >= {
        "routing.py",
        "placement.py",
        "assist.py",
        "loop.py",
        "draws.py",
    }
    for path in sources:
        text = path.read_bytes()
        path.write_bytes(text + b"\n")
        assert jit.source_digest() != digest, path
        path.write_bytes(text)
    assert jit.source_digest() == digest


def test_the_cache_can_be_put_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """INV-3: LUMEN_TUNE_CACHE_DIR moves the cache; nothing is compiled in an empty one."""
    monkeypatch.setenv("LUMEN_TUNE_CACHE_DIR", str(tmp_path))
    assert jit.cache_directory().is_relative_to(tmp_path)
    assert jit.cache_directory().name == jit.source_digest()[:24]
    assert not jit.is_compiled()
    jit.cache_directory().mkdir(parents=True)
    (jit.cache_directory() / "run.nbc").touch()
    assert jit.is_compiled()
