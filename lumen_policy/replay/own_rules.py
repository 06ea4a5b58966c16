"""Decisions from outside: a Python file whose functions stand in for those of ``lumen_policy.decide``."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
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
    place = Path(path).resolve()
    rules = OwnRules(str(place), _digest(place))
    rules.functions()
    return rules


def _digest(place: Path) -> str:
    try:
        return hashlib.sha256(place.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"own_rules: {place}: {error.strerror}") from None


@cache
def _functions(path: str, digest: str) -> Mapping[str, FunctionType]:
    place = Path(path)
    if _digest(place) != digest:
        raise InputError(f"own_rules: {path} has changed since it was loaded")
    names = _run(place)
    found: dict[str, FunctionType] = {}
    for name, standard in DECISIONS.items():
        function = names.get(name)
        if not isinstance(function, FunctionType) or function.__code__.co_filename != path:
            continue
        wanted = _parameters(standard)
        if _parameters(function) != wanted:
            line = function.__code__.co_firstlineno
            raise InputError(f"own_rules: {path}:{line}: {name} must take ({', '.join(wanted)})")
        found[name] = function
    if not found:
        raise InputError(f"own_rules: {path} has no function named {', '.join(sorted(DECISIONS))}")
    return found


def _parameters(function: FunctionType) -> tuple[str, ...]:
    code = function.__code__
    plain = code.co_varnames[: code.co_argcount]
    return (*plain, "…") if code.co_kwonlyargcount or code.co_flags & 0x0C else plain


def _run(place: Path) -> dict[str, object]:
    """What the file defines."""
    names: dict[str, object] = {"__name__": place.stem, "__file__": str(place)}
    try:
        tree = ast.parse(place.read_text(encoding="utf-8"), str(place))
        exec(compile(tree, str(place), "exec"), names)
    except SyntaxError as error:
        raise InputError(f"own_rules: {place}:{error.lineno}: {error.msg}") from None
    except Exception as error:
        raise InputError(f"own_rules: {place}:{_line(error, place)}: {type(error).__name__}: {error}") from None
    return names


def _line(error: BaseException, place: Path) -> int:
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(place):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
