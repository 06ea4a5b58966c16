"""Calls: the builtins of the subset, and other functions of it, written for the kinds of their arguments."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from lumen_policy.native.arithmetic import UnsupportedError, known
from lumen_policy.native.expressions import Expressions, constant
from lumen_policy.native.kinds import (
    INT,
    NOTHING,
    UNSIGNED,
    Rows,
    Several,
    Value,
    registers,
)
from lumen_policy.native.source import leading

__all__ = ["Calls", "CallsItselfError"]


class CallsItselfError(Exception):
    """A function that is under way was called; the caller knows the line."""


class Calls(Expressions):
    """Writes what a call computes; returns its value."""

    def _call(self, node: ast.Call) -> Value:
        if not self._is_outside(node.func):
            raise UnsupportedError(f"{ast.unparse(node.func)} is not a function of the module")
        function = self.source.meaning(node.func)
        known: dict[Any, Callable[[ast.Call], Value]] = {
            min: self._least,
            max: self._most,
            abs: lambda call: self.magnitude(self._only(call)),
            len: self._len,
            int: lambda call: self.as_int(self._only(call)),
            bool: self._bool,
            float: lambda call: self.as_float(self._only(call)),
            np.int64: lambda call: self.as_int(self._only(call)),
            np.uint64: self._unsigned,
            np.float64: lambda call: self.as_float(self._only(call)),
            leading: self._leading,
        }
        try:
            builtin = known.get(function)
        except TypeError:
            builtin = None
        if builtin is not None:
            return builtin(node)
        if not isinstance(function, FunctionType):
            raise UnsupportedError(f"{ast.unparse(node.func)}() is not in the subset")
        return self._call_function(node, function)

    def _only(self, node: ast.Call) -> Value:
        if len(node.args) != 1 or node.keywords:
            raise UnsupportedError(f"{ast.unparse(node.func)} takes one number here")
        return self.numeric(node.args[0])

    def _leading(self, node: ast.Call) -> Value:
        """A row with a length of its own; in checked functions a longer one than the row's is trouble."""
        if len(node.args) != 2 or node.keywords:
            raise UnsupportedError("leading takes a row and how many")
        row = self.value(node.args[0])
        count = self.whole(node.args[1])
        if not isinstance(row.kind, Rows) or row.kind.axes != 1:
            raise UnsupportedError(f"leading of {row.kind.name}; of a row")
        address, length = self.parts(row)
        if self.checked:
            self.trouble(self.op(f"icmp ugt i64 {count.parts[0]}, {length}"), "more than the row has")
        return Value(row.kind, (address, count.parts[0]))

    def _bool(self, node: ast.Call) -> Value:
        if len(node.args) != 1 or node.keywords:
            raise UnsupportedError("bool takes one condition here")
        return self._choice(node.args[0])

    def _unsigned(self, node: ast.Call) -> Value:
        only = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if isinstance(only, ast.Constant) and type(only.value) is int and only.value < 2**64:
            return known(UNSIGNED, only.value)
        return self.as_unsigned(self._only(node))

    def _several(self, node: ast.Call) -> Sequence[Value]:
        if len(node.args) < 2 or node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            raise UnsupportedError(f"{ast.unparse(node.func)} takes two numbers or more here")
        return [self.numeric(argument) for argument in node.args]

    def _least(self, node: ast.Call) -> Value:
        return self._fold(node, largest=False)

    def _most(self, node: ast.Call) -> Value:
        return self._fold(node, largest=True)

    def _fold(self, node: ast.Call, *, largest: bool) -> Value:
        values = self._several(node)
        result = values[0]
        for value in values[1:]:
            result = self.least(result, value, largest=largest)
        return result

    def _len(self, node: ast.Call) -> Value:
        if len(node.args) != 1 or node.keywords:
            raise UnsupportedError("len takes one row")
        return Value(INT, (self.length(self.value(node.args[0]), 0),))

    def _arguments(self, node: ast.Call, function: FunctionType, names: Sequence[str]) -> list[Value]:
        given: dict[str, Value] = {}
        if len(node.args) > len(names) or any(isinstance(arg, ast.Starred) for arg in node.args):
            raise UnsupportedError(f"{function.__name__} takes {', '.join(names)}")
        for name, argument in zip(names, node.args, strict=False):
            given[name] = self.value(argument)
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg not in names or keyword.arg in given:
                raise UnsupportedError(f"{function.__name__} takes {', '.join(names)}")
            given[keyword.arg] = self.value(keyword.value)
        defaults = function.__defaults__ or ()
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            if name not in given:
                found = constant(default)
                if found is None:
                    raise UnsupportedError(f"{function.__name__}: {name} = {default!r} is not a number")
                given[name] = found
        missing = [name for name in names if name not in given]
        if missing:
            raise UnsupportedError(f"{function.__name__} lacks {', '.join(missing)}")
        return [given[name] for name in names]

    def _call_function(self, node: ast.Call, function: FunctionType) -> Value:
        function = self.module.substitute(function)
        code = function.__code__
        if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or code.co_kwonlyargcount:
            raise UnsupportedError(f"{function.__name__} has parameters other than plain ones")
        names = code.co_varnames[: code.co_argcount]
        arguments = self._arguments(node, function, names)
        for name, argument in zip(names, arguments, strict=True):
            if isinstance(argument.kind, Several) or argument.kind == NOTHING:
                raise UnsupportedError(f"{name} of {function.__name__} is {argument.kind.name}")
        checked = self.checked or self.module.is_from_outside(function)
        try:
            callee = self.module.specialise(
                function, tuple(value.kind for value in arguments), checked=checked
            )
        except CallsItselfError:
            raise self.source.refuse(node, f"{function.__name__} calls itself") from None
        operands = [
            f"{register} {part}"
            for value in arguments
            for register, part in zip(registers(value.kind), self.parts(value), strict=True)
        ]
        if checked:
            operands.insert(0, f"ptr {self._trouble_word(node)}")
        text = f"call fastcc {callee.returns.llvm} @{callee.symbol}({', '.join(operands)})"
        result = Value(NOTHING)
        if callee.returns == NOTHING:
            self.do(text)
        else:
            result = Value(callee.returns, (self.op(text),))
        if self.checked:  # as an exception would, trouble ends the callers too
            noted = self.op("load i64, ptr %trouble")
            self._leave_if(self.op(f"icmp ne i64 {noted}, 0"))
        return result

    def _trouble_word(self, node: ast.Call) -> str:
        if self.checked:
            return "%trouble"
        if not self.handle:
            raise self.source.refuse(node, "a function from outside needs the state around it")
        return self._word(self.handle, self.module.layout.trouble_word)
