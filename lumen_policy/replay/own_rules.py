"""Decisions from outside: a Python file whose functions stand in for those of ``lumen_policy.decide``."""

from __future__ import annotations

import ast
import contextlib
import difflib
import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType

from lumen_policy.decide import assist, placement, routing
from lumen_policy.errors import InputError

__all__ = ["DECISIONS", "STANDARD", "OwnRules", "load_rules"]

DECISIONS: Mapping[str, FunctionType] = {
    name: getattr(module, name)
    for module in (placement, routing, assist)
    for name in module.__all__
    if name != "kv_load"  # a formula that the decisions share, none itself
}
"""Every decision by name. A function of the same name and parameters can stand in for it."""

_MAY_IMPORT = (
    "__future__",
    "collections.abc",
    "enum",
    "math",
    "numpy",
    "typing",
    "lumen_policy.decide",
    "lumen_policy.native",
)
"""Nothing else, so that a file's digest says all that its rules depend on."""


@dataclass(frozen=True, slots=True)
class OwnRules:
    """Functions that stand in for decisions.

    Attributes:
        path: the file they come from; empty for none.
        digest: SHA-256 of that file's bytes; empty for none. It is part of every key and digest that a replay has.
    """

    path: str = ""
    digest: str = ""

    def functions(self) -> Mapping[str, FunctionType]:
        """By the decision each stands in for."""
        return _functions(self.path, self.digest) if self.path else {}

    def describe(self) -> dict[str, object] | None:
        """For results: which file, what it decides; None without rules."""
        if not self.path:
            return None
        return {"file": self.path, "digest": self.digest, "decisions": sorted(self.functions())}

    def substitutes(self) -> Mapping[FunctionType, FunctionType]:
        """By the function each stands in for."""
        return {DECISIONS[name]: function for name, function in self.functions().items()}

    def place(self, names: tuple[str, ...]) -> str:
        """Where the rules of these names stand: ``path:line: name``, with "or" between several."""
        lines = sorted(
            (function.__code__.co_firstlineno, name)
            for name, function in self.functions().items()
            if name in names
        )
        if not lines:
            return self.path
        others = "".join(f" or {name} (line {line})" for line, name in lines[1:])
        return f"{self.path}:{lines[0][0]}: {lines[0][1]}{others}"

    def confirm(self) -> None:
        """Check that the file still holds what was loaded.

        Raises:
            InputError: it does not.
        """
        if self.path and hashlib.sha256(_read(Path(self.path))).hexdigest() != self.digest:
            raise InputError(f"own_rules: {self.path} has changed since it was loaded")

    def line_of(self, error: BaseException) -> int:
        """The line of the file that an exception comes from; 0 if it comes from elsewhere."""
        return _line(error, self.path) if self.path else 0


STANDARD = OwnRules()
"""The package's own decisions."""


def load_rules(path: str | Path) -> OwnRules:
    """Read a file of rules.

    Args:
        path: a Python file with at least one function named as a decision of ``lumen_policy.decide`` (see its modules),
            with the same parameters. Others are helpers. All must keep to the subset of ``lumen_policy.native``, which
            is checked when they are compiled.

    Returns:
        The rules.

    Raises:
        InputError: no such file, no decision in it, other parameters, or an error in the file: file and line.
    """
    if not str(path).strip():
        raise InputError("own_rules: a Python file, or none")
    try:
        place = Path(path).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a zero byte, a loop of links
        raise InputError(f"own_rules: {str(path)!r}: {error}") from None
    rules = OwnRules(str(place), hashlib.sha256(_read(place)).hexdigest())
    rules.functions()
    return rules


def _read(place: Path) -> bytes:
    try:
        return place.read_bytes()
    except OSError as error:
        raise InputError(f"own_rules: {place}: {error.strerror}") from None


@cache
def _functions(path: str, digest: str) -> Mapping[str, FunctionType]:
    content = _read(Path(path))
    if hashlib.sha256(content).hexdigest() != digest:
        raise InputError(f"own_rules: {path} has changed since it was loaded")
    names = _run(content, path)
    for name, value in names.items():
        if isinstance(value, FunctionType) and value.__code__.co_filename == path:
            _check_spelling(name, value)
    found: dict[str, FunctionType] = {}
    for name, standard in DECISIONS.items():
        value = names.get(name, standard)
        if value is standard:
            continue
        if not isinstance(value, FunctionType) or value.__code__.co_filename != path:
            raise InputError(f"own_rules: {path}: {name} is not a function of this file")
        wanted = _parameters(standard)
        if _parameters(value) != wanted:
            line = value.__code__.co_firstlineno
            raise InputError(f"own_rules: {path}:{line}: {name} must take ({', '.join(wanted)})")
        found[name] = value
    if not found:
        raise InputError(f"own_rules: {path} has no function named {', '.join(sorted(DECISIONS))}")
    return found


def _check_spelling(name: str, function: FunctionType) -> None:
    """Refuse a public function that is almost named as a decision: it would stand in for nothing."""
    if name.startswith("_") or name in DECISIONS:
        return
    for near in difflib.get_close_matches(name, DECISIONS, n=1, cutoff=0.84):
        code = function.__code__
        raise InputError(
            f"own_rules: {code.co_filename}:{code.co_firstlineno}: {name} is no decision, did you mean {near!r}? "
            f"Helpers with such a name begin with _"
        )


def _parameters(function: FunctionType) -> tuple[str, ...]:
    code = function.__code__
    plain = code.co_varnames[: code.co_argcount]
    return (*plain, "…") if code.co_kwonlyargcount or code.co_flags & 0x0C else plain


def _run(content: bytes, path: str) -> dict[str, object]:
    """What the file defines; what it prints goes to stderr."""
    names: dict[str, object] = {"__name__": Path(path).stem, "__file__": path}
    try:
        tree = ast.parse(content.decode("utf-8"), path)
        code = compile(tree, path, "exec")
    except SyntaxError as error:
        raise InputError(f"own_rules: {path}:{error.lineno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"own_rules: {path}:{line}: not a text in UTF-8") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"own_rules: {path}: {error}") from None
    for line, why in _misdeeds(tree):
        raise InputError(f"own_rules: {path}:{line}: {why}")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            exec(code, names)
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"own_rules: {path}:{_line(error, path)}: {said}") from None
    return names


def _misdeeds(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Imports whose meaning the digest does not cover, and functions that write what they are given."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in _imported(node):
                if not any(name == known or name.startswith(f"{known}.") for known in _MAY_IMPORT):
                    yield node.lineno, f"it imports {name}; rules may import {', '.join(_MAY_IMPORT)}"
        if isinstance(node, ast.FunctionDef):
            for part in ast.walk(node):
                if isinstance(part, (ast.Subscript, ast.Attribute)) and not isinstance(part.ctx, ast.Load):
                    yield part.lineno, f"{ast.unparse(part)} is not the function's own to change"


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")]


def _line(error: BaseException, path: str) -> int:
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
