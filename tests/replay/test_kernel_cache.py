"""The compiled kernel is keyed by all its sources: an edited decision function is never served from the cache."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lumen_policy.native import machine
from lumen_policy.native.object_cache import ObjectCache, Stored
from lumen_policy.replay.kernel import program
from lumen_policy.replay.own_rules import STANDARD, load_rules

from .mutants import copy_package

ANNOUNCED = "compiling the replay kernel"

CHILD = """
import json, sys
import lumen_policy
from replay.inputs import linear, make_costs, make_input
from lumen_policy.replay.engine import replay
from lumen_policy.replay.kernel import program
assert lumen_policy.__file__.startswith(sys.argv[1]), lumen_policy.__file__
inputs = make_input([0, 0, 0], [4, 4, 4], [2, 2, 2], make_costs(linear(10, 64)), workers=2)
worker = replay(inputs).worker.tolist()
print(json.dumps({"key": program.program_key(), "worker": worker}))
"""


def start_copy(
    package: Path, cache: Path | str, *, compiled: bool, **environment: str
) -> subprocess.Popen[str]:
    """A process of a copy of the package: its key, and where three requests on two workers go."""
    tests = Path(__file__).resolve().parent.parent
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(package.parent)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=package.parent,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(package.parent), str(tests)]),
            "LUMEN_TUNE_CACHE_DIR": str(cache),
            "LUMEN_TUNE_INTERPRET": "0" if compiled else "1",
            **environment,
        },
    )


def finish(process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    """What it printed, and what it said on stderr."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    facts: dict[str, Any] = json.loads(out)
    return facts, err


def run_copy(package: Path, cache: Path, *, compiled: bool) -> tuple[dict[str, Any], str]:
    return finish(start_copy(package, cache, compiled=compiled))


def edit_shortest_queue(package: Path) -> None:
    """Ties of the shortest queue go to the highest index."""
    path = package / "decide/routing.py"
    text = path.read_text()
    old = "if live[w] != 0 and (best < 0 or queue[w] < queue[best]):"
    assert text.count(old) == 1
    path.write_text(text.replace(old, old.replace("queue[w] <", "queue[w] <=")))


def test_an_edited_decision_is_seen(tmp_path: Path) -> None:
    """INV-3: an edited decision function has another key and the new result (plain Python); nothing is kept."""
    package, cache = copy_package(tmp_path), tmp_path / "cache"
    original, said = run_copy(package, cache, compiled=False)
    assert original["worker"] == [0, 1, 0]
    edit_shortest_queue(package)
    edited, said_later = run_copy(package, cache, compiled=False)
    assert edited["worker"] == [1, 0, 1]
    assert edited["key"] != original["key"]
    assert said == said_later == ""
    assert not cache.exists()


def test_an_edited_decision_is_compiled_anew(tmp_path: Path) -> None:
    """INV-3: two checkouts share a file while their sources agree; an edited one announces its own compilation."""
    first, second, cache = copy_package(tmp_path / "a"), copy_package(tmp_path / "b"), tmp_path / "cache"
    original, said = run_copy(first, cache, compiled=True)
    assert (original["worker"], said.count(ANNOUNCED)) == ([0, 1, 0], 1)
    shared, said = run_copy(second, cache, compiled=True)
    assert (shared, said) == (original, "")
    edit_shortest_queue(second)
    for announced in (1, 0):
        edited, said = run_copy(second, cache, compiled=True)
        assert (edited["worker"], said.count(ANNOUNCED)) == ([1, 0, 1], announced)
        assert edited["key"] != original["key"]
    assert run_copy(first, cache, compiled=True) == (original, "")


def test_two_first_replays_at_once_compile_once(tmp_path: Path) -> None:
    """INV-3: the second process waits for the first one's file."""
    package, cache = copy_package(tmp_path), tmp_path / "cache"
    processes = [start_copy(package, cache, compiled=True) for _ in range(2)]
    said = ""
    for process in processes:
        facts, err = finish(process)
        assert facts["worker"] == [0, 1, 0]
        said += err
    assert said.count(ANNOUNCED) == 1
    assert len(list((cache / "kernel").glob("*.object"))) == 1


def test_without_a_folder_it_runs(tmp_path: Path) -> None:
    """INV-3: a cache that cannot be made (a file in its place) costs a compilation, and says so in one line."""
    package, cache = copy_package(tmp_path), tmp_path / "cache"
    cache.write_text("")
    facts, said = run_copy(package, cache, compiled=True)
    assert facts["worker"] == [0, 1, 0]
    lines = [line for line in said.splitlines() if ANNOUNCED not in line]
    assert len(lines) == 1
    assert "not kept" in lines[0]


def test_the_key_is_of_sources_rules_and_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """INV-3: the key is stable, and another with other rules, another llvmlite or another platform."""
    key = program.program_key()
    assert program.program_key() == key
    rules = tmp_path / "rules.py"
    rules.write_text("def least_kv(live, kv_tokens):\n    return 0\n")
    assert program.program_key(load_rules(rules)) != key
    monkeypatch.setattr(machine.llvmlite, "__version__", "0.0.0")
    assert program.program_key() != key
    monkeypatch.undo()
    assert program.program_key() == key
    monkeypatch.setattr(machine.llvm, "get_process_triple", lambda: "riscv64-unknown-linux-gnu")
    assert program.program_key() != key


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
                modules = [
                    base.with_suffix(".py"),
                    base / "__init__.py",
                    *(base / f"{alias.name}.py" for alias in node.names),
                ]
                todo |= {module for module in modules if module.is_file()} - found
    return found


def test_every_source_of_kernel_and_decisions_counts(tmp_path: Path) -> None:
    """INV-3: a changed byte in a kernel module, or in any module it imports, changes the key."""
    package = copy_package(tmp_path)

    def key() -> str:
        return program._sources_digest.__wrapped__(package)

    before = key()
    sources = sources_of_the_kernel(package) | set((package / "native").glob("*.py"))
    assert {path.name for path in sources} >= {
        "routing.py",
        "placement.py",
        "assist.py",
        "loop.py",
        "draws.py",
        "own_rules.py",
        "object_cache.py",
        "machine.py",
    }
    for path in sources:
        text = path.read_bytes()
        path.write_bytes(text + b"\n")
        assert key() != before, path
        path.write_bytes(text)
    (package / "replay/kernel/another.py").write_text("")
    assert key() != before
    (package / "replay/kernel/another.py").unlink()
    assert key() == before


def test_the_cache_can_be_put_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """INV-3: LUMEN_TUNE_CACHE_DIR moves the cache; a relative one is found from the current folder."""
    monkeypatch.setenv("LUMEN_TUNE_CACHE_DIR", str(tmp_path))
    assert program.cache_directory() == tmp_path / "kernel"
    monkeypatch.setenv("LUMEN_TUNE_CACHE_DIR", "here")
    monkeypatch.chdir(tmp_path)
    assert program.cache_directory() == tmp_path / "here/kernel"


@pytest.mark.parametrize("home", ["~", "error"])
def test_a_user_without_a_home(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """INV-3: where the platform knows no cache folder nothing is kept, and that is one line."""
    import platformdirs

    def no_home(_: str) -> str:
        if home == "error":
            raise RuntimeError("Could not determine home directory.")
        return "~/.cache/lumen-tune"

    monkeypatch.delenv("LUMEN_TUNE_CACHE_DIR", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", no_home)
    assert program.cache_directory() is None
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_without_an_entry_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """INV-3: what loads but is not the kernel, or says nothing of it, is dropped and compiled anew."""
    monkeypatch.setenv("LUMEN_TUNE_CACHE_DIR", str(tmp_path))
    empty = machine.compile_object("define void @other() {\n  ret void\n}\n")
    path = ObjectCache(tmp_path / "kernel", print).path(program.program_key())
    good = program.compiled.__wrapped__(STANDARD)
    kept = ObjectCache(tmp_path / "kernel", print).get(program.program_key(), lambda: pytest.fail("not kept"))
    made: list[Stored] = []
    monkeypatch.setattr(program, "_make", lambda _: made.append(kept) or kept)
    returns = {entry.name: False for entry in program.ENTRIES}
    for facts in ({"returns": returns, "sites": []}, {"returns": {}, "sites": []}, {}):
        path.unlink()
        other = Stored(empty, facts)
        ObjectCache(tmp_path / "kernel", print).get(program.program_key(), lambda other=other: other)
        capsys.readouterr()
        anew = program.compiled.__wrapped__(STANDARD)
        assert anew.loaded.calls.keys() == good.loaded.calls.keys()
        assert "cannot be loaded" in capsys.readouterr().err
        assert made == [kept]
        program.compiled.__wrapped__(STANDARD)
        assert made == [kept]
        made.clear()


def test_the_first_compilation_is_announced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """INV-3: one line on stderr before the kernel is compiled, none where it lies in the cache or in memory."""
    monkeypatch.setenv("LUMEN_TUNE_CACHE_DIR", str(tmp_path))
    program.compiled.__wrapped__(STANDARD)
    captured = capsys.readouterr()
    assert captured.err.count("\n") == captured.err.count(ANNOUNCED) == 1
    assert captured.out == ""
    program.compiled.__wrapped__(STANDARD)
    assert program.compiled(STANDARD) is program.compiled(STANDARD)
    assert capsys.readouterr().err == ""
