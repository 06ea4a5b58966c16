"""What a program of the subset computes, by Python: its text rewritten so that every number keeps to its width.

Ints wrap around at 64 bits, unsigned ones are numpy's, memory is that of numpy arrays. In a *checked* program the first
trouble raises instead.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from lumen_policy.native import inline
from native.harness import LAYOUT, wrapped


class TroubleError(Exception):
    """What a checked function notes: the line, and what went wrong."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"{line}: {what}")
        self.line = line


class _Array:
    """An array whose elements are Python's numbers."""

    def __init__(self, array: Any, numbers: Numbers) -> None:
        self._array = array
        self._numbers = numbers
        self.shape = array.shape

    def __len__(self) -> int:
        return len(self._array)

    def _check(self, key: Any) -> Any:
        for index, length in zip(key if isinstance(key, tuple) else (key,), self.shape, strict=False):
            if not 0 <= index < length:
                self._numbers.trouble("an index out of range")
        return key

    def __getitem__(self, key: Any) -> Any:
        return self._numbers.looked_at(self._array[self._check(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check(key)
        if isinstance(value, _Record):
            self._array[key] = value._record.copy()
        else:
            self._array[key] = self._numbers.kept(value, self._array.dtype)


class _Record:
    """A record whose fields are Python's numbers."""

    __slots__ = ("_numbers", "_record")

    def __init__(self, record: Any, numbers: Numbers) -> None:
        object.__setattr__(self, "_record", record)
        object.__setattr__(self, "_numbers", numbers)

    def __getattr__(self, name: str) -> Any:
        return self._numbers.looked_at(self._record[name])

    def __setattr__(self, name: str, value: Any) -> None:
        self._record[name] = self._numbers.kept(value, self._record.dtype.fields[name][0])


class Numbers:
    """Operations of the subset; ``line`` is the one under way."""

    def __init__(self, *, checked: bool) -> None:
        self.checked = checked
        self.line = 0

    def trouble(self, what: str) -> None:
        if self.checked:
            raise TroubleError(self.line, what)

    def fit(self, number: int) -> int:
        if not -(2**63) <= number < 2**63:
            self.trouble("a number beyond 64 bits")
        return wrapped(number)

    def looked_at(self, found: Any) -> Any:
        if isinstance(found, np.ndarray):
            return _Array(found, self)
        if isinstance(found, np.void):
            return _Record(found, self)
        if isinstance(found, np.uint64):
            return found
        return float(found) if isinstance(found, np.float64) else int(found)

    def kept(self, value: Any, dtype: np.dtype[Any]) -> Any:
        if dtype.kind != "i":
            return value
        short = wrapped(value, 8 * dtype.itemsize)
        if short != value:
            self.trouble(f"a number beyond {8 * dtype.itemsize} bits")
        return short

    def binary(self, line: int, op: str, a: Any, b: Any) -> Any:
        self.line = line
        if isinstance(a, np.uint64):
            return self._unsigned(op, int(a), int(b))
        if isinstance(a, float) or isinstance(b, float):
            return self._float(op, float(a), float(b))
        return self._int(op, int(a), int(b))

    def _unsigned(self, op: str, a: int, b: int) -> Any:
        if op in ("FloorDiv", "Mod") and b == 0:
            self.trouble("a division by zero")
            return np.uint64(0)
        if op in ("LShift", "RShift") and b > 63:
            return np.uint64(0)
        return np.uint64(_WHOLE[op](a, b) % 2**64)

    def _float(self, op: str, a: float, b: float) -> float:
        if op == "Div" and b == 0:
            self.trouble("a division by zero")
        with np.errstate(all="ignore"):
            return float(_REAL[op](np.float64(a), np.float64(b)))

    def _int(self, op: str, a: int, b: int) -> int:
        if op in ("FloorDiv", "Mod") and b == 0:
            self.trouble("a division by zero")
            return 0
        if op in ("LShift", "RShift"):
            if b < 0:
                self.trouble("a shift by a negative number")
            if not 0 <= b < 64:
                if op == "RShift":
                    return a >> 63
                if a:
                    self.trouble("a number beyond 64 bits")
                return 0
        return self.fit(_WHOLE[op](a, b))

    def unary(self, line: int, op: str, a: Any) -> Any:
        self.line = line
        if isinstance(a, np.uint64):
            return np.uint64((-int(a) if op == "USub" else ~int(a) if op == "Invert" else int(a)) % 2**64)
        if isinstance(a, float):
            return -a if op == "USub" else a
        return self.fit(-int(a) if op == "USub" else ~int(a) if op == "Invert" else int(a))

    def magnitude(self, line: int, a: Any) -> Any:
        self.line = line
        return a if isinstance(a, np.uint64) else abs(a) if isinstance(a, float) else self.fit(abs(int(a)))

    def whole(self, line: int, a: Any) -> int:
        self.line = line
        if isinstance(a, np.uint64):
            return self.fit(int(a))
        if isinstance(a, float):
            if math.isnan(a):
                self.trouble("a number beyond 64 bits")
                return 0
            if not -(2.0**63) <= a < 2.0**63:
                self.trouble("a number beyond 64 bits")
                return 2**63 - 1 if a > 0 else -(2**63)
        return int(a)

    def unsigned(self, line: int, a: Any) -> Any:
        self.line = line
        if a < 0:
            self.trouble("a negative number made unsigned")
        return np.uint64(int(a) % 2**64)

    def item(self, line: int, base: Any, index: Any) -> Any:
        self.line = line
        return base[index]

    def at(self, line: int, value: Any) -> Any:
        """Marks the line before a statement's store."""
        self.line = line
        return value


_WHOLE: dict[str, Callable[[int, int], int]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mult": lambda a, b: a * b,
    "FloorDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "BitAnd": lambda a, b: a & b,
    "BitOr": lambda a, b: a | b,
    "BitXor": lambda a, b: a ^ b,
    "LShift": lambda a, b: a << b,
    "RShift": lambda a, b: a >> b,
}
_REAL: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mult": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
}
_CALLS = {"abs": "magnitude", "int": "whole", "np.int64": "whole", "np.uint64": "unsigned"}


def _to(name: str, node: ast.expr | ast.stmt, *arguments: ast.expr) -> ast.expr:
    call = ast.Call(
        ast.Attribute(ast.Name("numbers_", ast.Load()), name, ast.Load()),
        [ast.Constant(node.lineno), *arguments],
        [],
    )
    return ast.copy_location(call, node)


class _Rewrite(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return _to("binary", node, ast.Constant(type(node.op).__name__), node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) or (
            isinstance(node.operand, ast.Constant) and isinstance(node.op, ast.USub)
        ):
            return node
        return _to("unary", node, ast.Constant(type(node.op).__name__), node.operand)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = _CALLS.get(ast.unparse(node.func))
        return _to(name, node, *node.args) if name else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        return _to("item", node, node.value, node.slice) if isinstance(node.ctx, ast.Load) else node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        node.value = _to("at", node, node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        """The target is looked at before the right side, and found only once."""
        self.generic_visit(node)
        target = node.target
        before: list[ast.stmt] = []

        def keep(name: str, value: ast.expr) -> ast.expr:
            before.append(ast.Assign([ast.Name(name, ast.Store())], _to("at", node, value)))
            return ast.Name(name, ast.Load())

        if isinstance(target, ast.Subscript):
            base, index = keep("base_", target.value), keep("index_", target.slice)
            load: ast.expr = ast.Subscript(base, index, ast.Load())
            store: ast.expr = ast.Subscript(base, index, ast.Store())
        elif isinstance(target, ast.Attribute):
            base = keep("base_", target.value)
            load = ast.Attribute(base, target.attr, ast.Load())
            store = ast.Attribute(base, target.attr, ast.Store())
        else:
            load, store = ast.Name(target.id, ast.Load()), ast.Name(target.id, ast.Store())
        changed = _to("binary", node, ast.Constant(type(node.op).__name__), load, node.value)
        statements = [*before, ast.Assign([store], changed)]
        for statement in statements:
            ast.copy_location(statement, node)
        return statements


class Reference:
    """The functions of a module's text, to be called on a state's arrays."""

    def __init__(self, text: str, *, checked: bool = False) -> None:
        tree = ast.fix_missing_locations(_Rewrite().visit(ast.parse(text)))
        self._numbers = Numbers(checked=checked)
        self._functions: dict[str, Any] = {"numbers_": self._numbers, "inline": inline}
        exec(compile(tree, "<reference>", "exec"), self._functions)

    def __call__(self, name: str, state: SimpleNamespace, *arguments: int) -> Any:
        """The function's result.

        Raises:
            TroubleError: what a checked function notes first.
        """
        arrays = {field: _Array(getattr(state, field), self._numbers) for field in LAYOUT.fields}
        return self._functions[name](SimpleNamespace(**arrays), *arguments)
