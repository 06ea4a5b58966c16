"""One LLVM module from Python functions: every function once for each kind of arguments it is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from lumen_policy.native.assigned import check_assigned
from lumen_policy.native.calls import CallsItselfError
from lumen_policy.native.kinds import INT, NOTHING, Handle, Kind, Scalar, Several
from lumen_policy.native.layout import Layout
from lumen_policy.native.source import SubsetError, inline, is_inline, source_of
from lumen_policy.native.statements import Statements

__all__ = ["Entry", "Module"]

_INTRINSICS = """\
declare {i64, i1} @llvm.sadd.with.overflow.i64(i64, i64)
declare {i64, i1} @llvm.ssub.with.overflow.i64(i64, i64)
declare {i64, i1} @llvm.smul.with.overflow.i64(i64, i64)
declare i64 @llvm.fptosi.sat.i64.f64(double)
declare double @llvm.fabs.f64(double)
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A function that Python calls: the state's handle first, then so many ints."""

    function: Callable[..., Any]
    ints: int = 1

    @property
    def name(self) -> str:
        return self.function.__name__


@dataclass(frozen=True, slots=True)
class Specialised:
    """A function written for arguments of certain kinds."""

    symbol: str
    returns: Scalar | Several


class Module:
    """Translates functions of the subset.

    Args:
        layout: the arrays behind the handle.
        entries: what can be called from Python; their names must differ.
        substitutes: functions from outside, by the function each stands for. They and whatever they call are checked:
            an index out of range, a number beyond its bits or a division by zero is noted, and ends them as an
            exception would: the one that stands in returns 0.
        checked: every function is; to look for such errors in the entries themselves.

    Raises:
        SubsetError: a function that cannot be compiled; the message names file and line.
    """

    def __init__(
        self,
        layout: Layout,
        entries: Sequence[Entry],
        substitutes: Mapping[FunctionType, FunctionType] | None = None,
        *,
        checked: bool = False,
    ) -> None:
        self.layout = layout
        self.sites: list[str] = []
        """What trouble number i + 1 means."""
        self._site_numbers: dict[str, int] = {}
        self._substitutes = dict(substitutes or {})
        self._outside = set(self._substitutes.values())
        self._written: dict[tuple[FunctionType, tuple[Kind, ...], bool], Specialised] = {}
        self._under_way: list[FunctionType] = []
        self._symbols = 0
        self._bodies: list[str] = []
        self._metadata: list[str] = ["!{}", '!{!"memory"}']
        self._aliases: dict[tuple[str, str], int] = {}
        self._parents: dict[str, int] = {}
        self.returns: dict[str, bool] = {}
        """Whether an entry returns an int."""
        for entry in entries:
            kinds: tuple[Kind, ...] = (Handle(layout), *(INT,) * entry.ints)
            if not isinstance(entry.function, FunctionType):
                raise SubsetError(f"{entry.name} is not a Python function")
            if entry.name in self.returns:
                raise SubsetError(f"two entries are called {entry.name}")
            made = self._write(entry.function, kinds, checked=checked, symbol=entry.name)
            if made.returns not in (NOTHING, INT):
                source = source_of(entry.function)
                raise source.refuse(source.node, "an entry returns one int or nothing")
            self.returns[entry.name] = made.returns == INT

    def substitute(self, function: FunctionType) -> FunctionType:
        return self._substitutes.get(function, function)

    def is_from_outside(self, function: FunctionType) -> bool:
        return function in self._outside

    def site(self, what: str) -> int:
        """The number of a place where trouble can arise."""
        if what not in self._site_numbers:
            self.sites.append(what)
            self._site_numbers[what] = len(self.sites)
        return self._site_numbers[what]

    def specialise(self, function: FunctionType, kinds: tuple[Kind, ...], *, checked: bool) -> Specialised:
        """The function for arguments of these kinds, written at its first call.

        Raises:
            CallsItselfError: a function that is under way.
        """
        key = (function, kinds, checked)
        if key not in self._written:
            if function in self._under_way:
                raise CallsItselfError
            self._symbols += 1
            symbol = f"{function.__code__.co_name}.{self._symbols}"
            self._written[key] = self._write(function, kinds, checked=checked, symbol=symbol)
        return self._written[key]

    def _write(
        self, function: FunctionType, kinds: tuple[Kind, ...], *, checked: bool, symbol: str
    ) -> Specialised:
        self._under_way.append(function)
        source = source_of(function)
        unknown = [name for name in source.node.decorator_list if source.meaning(name) is not inline]
        if unknown:
            raise source.refuse(unknown[0], "decorators other than inline")
        outside = not symbol.count(".")
        writer = Statements(self, source, kinds, checked=checked)
        try:
            check_assigned(source)
            writer.write(is_entry=outside)
        except RecursionError:
            raise source.refuse(source.node, "it is nested too deeply") from None
        assert writer.returns is not None
        if function in self._outside and writer.returns != INT:
            raise source.refuse(source.node, f"it must return an int, not {writer.returns.name}")
        linkage = "" if outside else "internal fastcc "
        attribute = "#1" if is_inline(function) and not outside else "#0"
        head = f'define {linkage}{writer.returns.llvm} @"{symbol}"({", ".join(writer.parameters)}) {attribute} {{'
        self._bodies += [head, "entry:", *writer.slots, *writer.lines, "}"]
        self._under_way.pop()
        return Specialised(f'"{symbol}"', writer.returns)

    def alias(self, tag: str, element: str) -> str:
        """What an access may share memory with: only others of its tag."""
        key = (tag, element)
        if key not in self._aliases:
            if element not in self._parents:
                self._parents[element] = self._node(f'!{{!"any {element}", !1, i64 0}}')
            kind = self._node(f'!{{!"{tag} {element}", !{self._parents[element]}, i64 0}}')
            self._aliases[key] = self._node(f"!{{!{kind}, !{kind}, i64 0}}")
        return f"!{self._aliases[key]}"

    def _node(self, text: str) -> int:
        self._metadata.append(text)
        return len(self._metadata) - 1

    def text(self) -> str:
        """The module as LLVM assembly."""
        lines = [_INTRINSICS, *self._bodies]
        lines += [
            'attributes #0 = { nounwind nobuiltin "no-builtins" }',
            'attributes #1 = { alwaysinline nounwind nobuiltin "no-builtins" }',
        ]
        lines += [f"!{number} = {node}" for number, node in enumerate(self._metadata)]
        return "\n".join(lines) + "\n"
