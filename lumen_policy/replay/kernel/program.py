"""The kernel as a program: one module of machine code with these entries, or the same functions as plain Python."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lumen_policy.digests import cache_root
from lumen_policy.native.module import Entry, Module
from lumen_policy.native.object_cache import ObjectCache, Stored
from lumen_policy.native.plain import from_plain, to_plain
from lumen_policy.replay.kernel import decisions, faults, loop, outages, sending, snapshots
from lumen_policy.replay.kernel.state import LAYOUT, State
from lumen_policy.replay.own_rules import STANDARD, OwnRules

if TYPE_CHECKING:
    from lumen_policy.native.machine import Loaded

__all__ = ["CompiledRun", "PlainRun", "cache_directory", "compiled", "interpreted", "program_key"]

ENTRIES = tuple(
    Entry(function)
    for function in (
        loop.run,
        faults.strike,
        sending.send_on,
        outages.detect,
        outages.come_back,
        outages.drafts,
        snapshots.report,
        snapshots.snapshot,
    )
)
_PACKAGE = Path(__file__).resolve().parent.parent.parent
_SOURCES = ("decide/*.py", "native/*.py", "replay/kernel/*.py", "replay/*.py")


def interpreted() -> bool:
    """Whether the kernel runs as plain Python (``LUMEN_TUNE_INTERPRET=1``), to debug it or to try an edit."""
    return os.environ.get("LUMEN_TUNE_INTERPRET", "0") not in ("", "0")


def cache_directory() -> Path:
    """Where compiled kernels are kept."""
    return cache_root() / "kernel"


def _say(line: str) -> None:
    """One line for the user, on stderr."""
    print(f"lumen-tune: {line}", file=sys.stderr)


@cache
def _sources_digest(package: Path) -> str:
    digest = hashlib.sha256()
    for pattern in _SOURCES:
        for path in sorted(package.glob(pattern)):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def program_key(rules: OwnRules = STANDARD) -> str:
    """SHA-256 over every source of the kernel, the decisions and the compiler, the rules from outside, the platform and
    the version of LLVM."""
    from lumen_policy.native.machine import machine_name

    parts = (_sources_digest(_PACKAGE), rules.digest, machine_name())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Program:
    """The kernel's entries, and what trouble number i + 1 in a rule from outside means."""

    loaded: Loaded
    sites: Sequence[str]


def _make(rules: OwnRules) -> Stored:
    from lumen_policy.native.machine import compile_object

    _say("compiling the replay kernel (once, a few seconds) …")
    module = Module(LAYOUT, ENTRIES, rules.substitutes())
    return Stored(compile_object(module.text()), {"returns": module.returns, "sites": module.sites})


@cache
def compiled(rules: OwnRules = STANDARD) -> Program:
    """The compiled kernel with these rules: from the cache, or made now and kept there.

    Raises:
        SubsetError: a rule that cannot be compiled; the message names its file and line.
    """
    from lumen_policy.native.machine import Loaded

    key = program_key(rules)
    kept = ObjectCache(cache_directory(), _say)
    stored = kept.get(key, lambda: _make(rules))
    ints = {entry.name: entry.ints for entry in ENTRIES}
    entries = {name: (ints[name], returns) for name, returns in stored.facts["returns"].items()}
    return Program(Loaded(stored.code, entries), stored.facts["sites"])


class CompiledRun:
    """One replay in compiled code."""

    def __init__(self, state: State, rules: OwnRules) -> None:
        self._state = state
        self._table = LAYOUT.words(state)
        self._program = compiled(rules)
        self._g = {name: state.g[name] for name in ("now", "to_send", "life_next", "flushing")}

    def call(self, name: str, number: int) -> Any:
        return self._program.loaded.calls[name](self._table.ctypes.data, number)

    def look(self, name: str) -> int:
        """A field of the global record."""
        return int(self._g[name][0])

    def close(self) -> str:
        """What went wrong in a rule from outside; empty if nothing did."""
        code = int(self._table[LAYOUT.trouble_word])
        return self._program.sites[code - 1] if code else ""


class PlainRun:
    """One replay in plain Python."""

    def __init__(self, state: State, rules: OwnRules) -> None:
        self._state = state
        self._plain = to_plain(LAYOUT, state)
        self._rules = rules

    def call(self, name: str, number: int) -> Any:
        standing_in = self._rules.functions()
        before = {decision: getattr(decisions, decision) for decision in standing_in}
        try:
            for decision, function in standing_in.items():
                setattr(decisions, decision, function)
            with np.errstate(over="ignore"):  # draws wrap around
                return _FUNCTIONS[name](self._plain, number)
        finally:
            for decision, function in before.items():
                setattr(decisions, decision, function)

    def look(self, name: str) -> int:
        """A field of the global record."""
        return int(getattr(self._plain.g[0], name))

    def close(self) -> str:
        """Writes the state back; nothing goes wrong without an exception here."""
        from_plain(LAYOUT, self._plain, self._state)
        return ""


_FUNCTIONS = {entry.name: entry.function for entry in ENTRIES}
