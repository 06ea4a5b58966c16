"""Where a function's text stands, and what its names mean."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from lumen_policy.errors import InputError

__all__ = ["UNKNOWN", "Source", "SubsetError", "inline", "is_inline", "leading", "source_of"]


class SubsetError(InputError):
    """A function that cannot be compiled: the message names its file and line."""


def inline(function: Callable[..., Any]) -> Any:
    """Mark a small function to be copied into its callers."""
    function.__lumen_inline__ = True  # type: ignore[attr-defined]
    return function


def leading(row: Any, count: int) -> Any:
    """The first ``count`` elements of a row, to be read; compiled code hands on the row itself with that length.

    Args:
        row: shape (n,), n ≥ ``count``.
        count: how many.
    """
    return row[:count]


def is_inline(function: Callable[..., Any]) -> bool:
    return getattr(function, "__lumen_inline__", False)


UNKNOWN = object()
"""What no name of the module stands for."""


@cache
def _functions_in(text: str, path: str) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(text, path)) if isinstance(node, ast.FunctionDef)]


class Source:
    """A function's text and the meaning of the names in it."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        code = function.__code__
        self.path = code.co_filename
        place = f"{self.path}:{code.co_firstlineno}"
        try:
            known = _functions_in(Path(self.path).read_text(encoding="utf-8"), self.path)
        except OSError:
            raise SubsetError(f"{place}: the source of {function.__name__}() is not there") from None
        except ValueError as error:
            raise SubsetError(
                f"{place}: the source of {function.__name__}() cannot be read: {error}"
            ) from None
        except SyntaxError as error:
            raise SubsetError(f"{self.path}:{error.lineno}: {error.msg}") from None
        for node in known:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if node.name == code.co_name and first == code.co_firstlineno:
                self.node = node
                break
        else:
            raise SubsetError(
                f"{place}: no def of {function.__name__}() as it was loaded; was the file edited?"
            )

    def refuse(self, node: ast.AST, why: str) -> SubsetError:
        """The error that says what cannot be compiled, and where."""
        line = getattr(node, "lineno", self.node.lineno)
        return SubsetError(f"{self.path}:{line}: {why} (in {self.node.name})")

    def meaning(self, node: ast.expr) -> Any:
        """What a name or a dotted name means outside the function; ``UNKNOWN`` if it is none or not there."""
        if isinstance(node, ast.Name):
            function = self.function
            names = function.__code__.co_freevars
            if node.id in names:
                assert function.__closure__ is not None
                try:
                    return function.__closure__[names.index(node.id)].cell_contents
                except ValueError:  # it has no value yet
                    return UNKNOWN
            if node.id in function.__globals__:
                return function.__globals__[node.id]
            return getattr(builtins, node.id, UNKNOWN)
        if isinstance(node, ast.Attribute):
            owner = self.meaning(node.value)
            return UNKNOWN if owner is UNKNOWN else getattr(owner, node.attr, UNKNOWN)
        return UNKNOWN


@cache
def source_of(function: FunctionType) -> Source:
    return Source(function)
