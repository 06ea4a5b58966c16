"""The kernel as a program: one module of machine code with these entries, or the same functions as plain Python."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from lumen_policy.digests import cache_root
from lumen_policy.errors import InputError
from lumen_policy.native import SubsetError
from lumen_policy.native.module import Entry, Module
from lumen_policy.native.object_cache import ObjectCache, Stored
from lumen_policy.native.plain import from_plain, to_plain
from lumen_policy.replay.kernel import decisions, faults, loop, outages, sending, snapshots
from lumen_policy.replay.kernel.state import LAYOUT, State
from lumen_policy.replay.own_rules import STANDARD, OwnRules

if TYPE_CHECKING:
    from lumen_policy.native.machine import Loaded

__all__ = [
    "CompiledRun",
    "PlainRun",
    "cache_directory",
    "check_rules",
    "compiled",
    "interpreted",
    "program_key",
]

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
_SOURCES = ("decide/*.py", "native/*.py", "replay/kernel/*.py", "replay/*.py", "digests.py", "errors.py")
_RULES, _HERE = "<rules>", "<package>"
"""Stand for folders in what is kept: one file serves every checkout with the same sources."""


def interpreted() -> bool:
    """Whether the kernel runs as plain Python (``LUMEN_TUNE_INTERPRET=1``), to debug it or to try an edit."""
    return os.environ.get("LUMEN_TUNE_INTERPRET", "0") not in ("", "0")


def cache_directory() -> Path | None:
    """Where compiled kernels are kept; None where the user has no folder for such things, which is said."""
    try:
        return Path(os.path.abspath(cache_root() / "kernel"))
    except OSError as error:
        _say(f"{error}: compiled code is not kept")
        return None


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


@cache
def check_rules(rules: OwnRules) -> Module:
    """Translate the kernel with these rules.

    Raises:
        InputError: a rule that cannot be compiled, or a file that has changed; the message names file and line.
    """
    try:
        module = Module(LAYOUT, ENTRIES, rules.substitutes())
    except SubsetError as error:
        if rules.path:
            rules.confirm()
            raise InputError(f"own_rules: {error}") from None
        raise
    rules.confirm()  # the text that was translated is the one of the key
    return module


def _make(rules: OwnRules) -> Stored:
    from lumen_policy.native.machine import compile_object

    module = check_rules(rules)
    _say("compiling the replay kernel (once, a few seconds) …")
    sites = [_moved(site, (rules.path, _RULES), (str(_PACKAGE), _HERE)) for site in module.sites]
    return Stored(compile_object(module.text()), {"returns": module.returns, "sites": sites})


def _moved(site: str, *places: tuple[str, str]) -> str:
    """What a trouble means, with another path in front."""
    for before, after in places:
        if before and site.startswith(before):
            return after + site[len(before) :]
    return site


def _load(stored: Stored, rules: OwnRules) -> Program:
    from lumen_policy.native.machine import Loaded

    ints = {entry.name: entry.ints for entry in ENTRIES}
    returns = stored.facts["returns"]
    entries = {name: (ints[name], bool(returns[name])) for name in ints}
    sites = [
        _moved(str(site), (_RULES, rules.path), (_HERE, str(_PACKAGE))) for site in stored.facts["sites"]
    ]
    return Program(Loaded(stored.code, entries), sites)


@cache
def compiled(rules: OwnRules = STANDARD) -> Program:
    """The compiled kernel with these rules: from the cache, or made now and kept there.

    Raises:
        InputError: a rule that cannot be compiled; the message names its file and line.
    """
    folder = cache_directory()
    if folder is None:
        return _load(_make(rules), rules)
    key = program_key(rules)
    kept = ObjectCache(folder, _say)
    stored = kept.get(key, lambda: _make(rules))
    try:
        return _load(stored, rules)
    except (KeyError, TypeError, ValueError, RuntimeError, OSError) as error:
        kept.forget(key, f"cannot be loaded ({error})")
        return _load(kept.get(key, lambda: _make(rules)), rules)


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
                setattr(decisions, decision, _guarded(function))
            with np.errstate(over="ignore"):  # draws wrap around
                return _FUNCTIONS[name](self._plain, number)
        except Exception as error:
            line = self._rules.line_of(error)
            if not line:
                raise
            raise InputError(f"own_rules: {self._rules.path}:{line}: {_in_words(error)}") from None
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


class _Row(list[int]):
    """A row as a rule from outside sees it: a copy, counted from 0."""

    def __getitem__(self, index: Any) -> Any:
        if index < 0:
            raise IndexError
        return super().__getitem__(index)


def _guarded(function: FunctionType) -> Callable[..., Any]:
    """A rule whose rows are out of its reach."""

    def guarded(*arguments: Any) -> Any:
        return function(*(_Row(value) if isinstance(value, list) else value for value in arguments))

    return guarded


def _in_words(error: Exception) -> str:
    if isinstance(error, IndexError):
        return "an index out of range"
    if isinstance(error, ZeroDivisionError):
        return "a division by zero"
    return f"{type(error).__name__}: {error}"


_FUNCTIONS = {entry.name: entry.function for entry in ENTRIES}
