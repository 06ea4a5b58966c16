"""Expressions of the subset: names, numbers, elements, fields, operators; ``calls`` has the calls."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lumen_policy.native.arithmetic import Arithmetic, UnsupportedError, known
from lumen_policy.native.kinds import (
    FLOAT,
    INT,
    NOTHING,
    UNSIGNED,
    Handle,
    Kind,
    Record,
    Rows,
    Scalar,
    Value,
    registers,
)
from lumen_policy.native.source import UNKNOWN, Source

if TYPE_CHECKING:
    from lumen_policy.native.module import Module

__all__ = ["Expressions", "Name", "Place", "constant"]

_LOADS = {"int64": "i64", "uint64": "i64", "float64": "double", "int32": "i32", "int16": "i16", "int8": "i8"}


@dataclass(frozen=True, slots=True)
class Name:
    """A name of a function: its kind, and the memory of its parts."""

    kind: Kind
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an element or a field lies."""

    address: str
    dtype: Any
    tag: str


def constant(value: Any) -> Value | None:
    """A number of the world outside as a value; None if it is no number."""
    if isinstance(value, np.uint64):
        return known(UNSIGNED, int(value))
    if isinstance(value, (int, np.int64)):  # numpy's other ints and bools calculate differently
        whole = int(value)
        if not -(2**63) <= whole < 2**63:
            raise UnsupportedError(f"{whole} is beyond 64 bits; write np.uint64(…)")
        return known(INT, whole)
    if isinstance(value, float):
        return Value(FLOAT, (f"0x{np.float64(value).view(np.uint64):016X}",), value)
    return None


class Expressions(Arithmetic):
    """Writes what an expression computes; returns its value."""

    def __init__(self, module: Module, source: Source, *, checked: bool) -> None:
        super().__init__()
        self.module = module
        self.source = source
        self.names: dict[str, Name] = {}
        self.handle = ""
        """The operand of the state among the parameters, if there is one."""
        self.line = source.node.lineno
        """Of the innermost expression under way."""
        self.failed = ""
        """The block that leaves the function after trouble, once there is some."""
        self._checked = checked

    @property
    def checked(self) -> bool:
        return self._checked

    def trouble(self, condition: str, what: str) -> None:
        code = self.module.site(f"{self.source.path}:{self.line}: {what} (in {self.source.node.name})")
        noted, on = self.label(), self.label()
        self.branch(condition, noted, on)
        self.begin_after_branch(noted)
        before = self.op("load i64, ptr %trouble")
        first = self.op(f"icmp eq i64 {before}, 0")
        self.do(f"store i64 {self.op(f'select i1 {first}, i64 {code}, i64 {before}')}, ptr %trouble")
        self.failed = self.failed or self.label()
        self.jump(self.failed)
        self.begin_after_branch(on)

    def _leave_if(self, condition: str) -> None:
        on = self.label()
        self.failed = self.failed or self.label()
        self.branch(condition, self.failed, on)
        self.begin_after_branch(on)

    def begin_after_branch(self, label: str) -> None:
        """The block that a branch just written leads to."""
        self.lines.append(f"{label}:")
        self.ended = False

    # --- values -----------------------------------------------------------------------------------------------
    def value(self, node: ast.expr) -> Value:
        """The value of an expression.

        Raises:
            SubsetError: what the subset does not have.
        """
        found = getattr(self, f"_{type(node).__name__.lower()}", None)
        around, self.line = self.line, node.lineno
        try:
            if found is None:
                raise UnsupportedError(f"{ast.unparse(node)}: {type(node).__name__} is not in the subset")
            result: Value = found(node)
        except UnsupportedError as error:
            raise self.source.refuse(node, str(error)) from None
        self.line = around
        return result

    def numeric(self, node: ast.expr) -> Value:
        """The value of an expression that must be a number."""
        value = self.value(node)
        if value.kind == NOTHING or not isinstance(value.kind, Scalar):
            raise self.source.refuse(node, f"{ast.unparse(node)} is {value.kind.name}, not a number")
        return value

    def whole(self, node: ast.expr) -> Value:
        value = self.numeric(node)
        if value.kind != INT:
            raise self.source.refuse(node, f"{ast.unparse(node)} is {value.kind.name}, not an int")
        return value

    def _constant(self, node: ast.Constant) -> Value:
        found = constant(node.value)
        if found is None:
            raise UnsupportedError(f"{node.value!r} is not a number")
        return found

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            name = self.names[node.id]
            kinds = registers(name.kind)
            loads = tuple(
                self.op(f"load {kind}, ptr {slot}") for kind, slot in zip(kinds, name.slots, strict=True)
            )
            return Value(name.kind, loads)
        return self._outside(node)

    def _outside(self, node: ast.expr) -> Value:
        meaning = self.source.meaning(node)
        if meaning is UNKNOWN:
            raise UnsupportedError(f"{ast.unparse(node)} is not known")
        found = constant(meaning)
        if found is None:
            raise UnsupportedError(f"{ast.unparse(node)} is a {type(meaning).__name__}, not a number")
        return found

    def _is_outside(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id not in self.names

    def _attribute(self, node: ast.Attribute) -> Value:
        if self._is_outside(node):
            return self._outside(node)
        owner = self.value(node.value)
        if isinstance(owner.kind, Handle):
            layout = owner.kind.layout
            if node.attr not in layout.fields:
                raise UnsupportedError(f"the state has no {node.attr}")
            field = layout.fields[node.attr]
            kind = Rows(field.dtype, field.axes, node.attr, field.rows > 0)
            return Value(kind, source=(owner.parts[0], node.attr))
        place = self.field(owner, node)
        if place.dtype.subdtype is not None:
            base, shape = place.dtype.subdtype
            return Value(
                Rows(base, len(shape), place.tag), (place.address, *(str(length) for length in shape))
            )
        return self.load(place)

    def field(self, owner: Value, node: ast.Attribute) -> Place:
        """Where a field of a record lies."""
        if not isinstance(owner.kind, Record):
            raise self.source.refuse(
                node, f"{ast.unparse(node.value)} is {owner.kind.name} and has no .{node.attr}"
            )
        fields = owner.kind.dtype.fields
        if node.attr not in fields:
            raise self.source.refuse(node, f"{owner.kind.name} has no field {node.attr}")
        dtype, offset = fields[node.attr][:2]
        address = self.op(f"getelementptr inbounds i8, ptr {owner.parts[0]}, i64 {offset}")
        return Place(address, dtype, f"{owner.kind.tag}.{node.attr}")

    # --- rows -------------------------------------------------------------------------------------------------
    def _word(self, handle: str, number: int) -> str:
        return self.op(f"getelementptr inbounds i64, ptr {handle}, i64 {number}")

    def _first(self, value: Value) -> str:
        """The address of an array's data, or of the table of its rows."""
        kind = value.kind
        assert isinstance(kind, Rows)
        if value.source is None:
            return value.parts[0]
        handle, name = value.source
        word = self._word(handle, self.module.layout.first_word[name])
        return word if kind.by_pointer else self.op(f"load ptr, ptr {word}, !invariant.load !0")

    def length(self, value: Value, axis: int) -> str:
        kind = value.kind
        if not isinstance(kind, Rows):
            raise UnsupportedError(f"the length of {kind.name}")
        if not 0 <= axis < kind.axes:
            raise UnsupportedError(f"axis {axis} of {kind.axes}")
        if value.source is None:
            return value.parts[1 + axis]
        handle, name = value.source
        word = self._word(handle, self.module.layout.first_length(name) + axis)
        return self.op(f"load i64, ptr {word}, !invariant.load !0")

    def parts(self, value: Value) -> tuple[str, ...]:
        """All parts of a value, to be kept or handed on."""
        if value.source is None:
            return value.parts
        assert isinstance(value.kind, Rows)
        return (self._first(value), *(self.length(value, axis) for axis in range(value.kind.axes)))

    def _at(self, value: Value, axis: int, index: Value) -> str:
        """An index as an operand; in checked functions one that is out of range is trouble."""
        if index.constant is not None and index.constant < 0:
            raise UnsupportedError(f"index {index.constant}; count from 0")
        if not self.checked:
            return index.parts[0]
        far = self.op(f"icmp uge i64 {index.parts[0]}, {self.length(value, axis)}")
        self.trouble(far, "an index out of range")
        return index.parts[0]

    def element(self, node: ast.Subscript) -> Value | Place:
        """An element as a place; a record, or rows, as a value."""
        value = self.value(node.value)
        kind = value.kind
        if not isinstance(kind, Rows):
            raise UnsupportedError(f"{ast.unparse(node.value)} is {kind.name} and has no elements")
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(isinstance(index, ast.Slice) for index in indices):
            raise UnsupportedError("a slice; hand on the row and where to begin")
        if not 1 <= len(indices) <= kind.axes:
            raise UnsupportedError(f"{len(indices)} indices for {kind.axes} axes")
        found = [self.whole(index) for index in indices]
        whole = [self._at(value, axis, index) for axis, index in enumerate(found)]
        base = self._first(value)
        offset = ""
        axis = 0
        if kind.by_pointer:
            word = self.op(f"getelementptr inbounds ptr, ptr {base}, i64 {whole[0]}")
            base = self.op(f"load ptr, ptr {word}, !invariant.load !0")
            axis = 1
        for number in range(axis, len(whole)):
            if offset:
                offset = self.op(f"mul i64 {offset}, {self.length(value, number)}")
                offset = self.op(f"add i64 {offset}, {whole[number]}")
            else:
                offset = whole[number]
        rest = [self.length(value, number) for number in range(len(whole), kind.axes)]
        for length in rest if offset else ():
            offset = self.op(f"mul i64 {offset}, {length}")
        size = kind.dtype.itemsize
        address = (
            self.op(f"getelementptr inbounds [{size} x i8], ptr {base}, i64 {offset}") if offset else base
        )
        if rest:
            return Value(Rows(kind.dtype, len(rest), kind.tag), (address, *rest))
        if kind.dtype.fields is not None:
            return Value(Record(kind.dtype, kind.tag), (address,))
        return Place(address, kind.dtype, kind.tag)

    def _subscript(self, node: ast.Subscript) -> Value:
        if (
            isinstance(node.value, ast.Attribute)
            and node.value.attr == "shape"
            and not self._is_outside(node.value)
        ):
            owner = self.value(node.value.value)
            if isinstance(owner.kind, Rows):
                if owner.kind.axes == 1:
                    raise UnsupportedError("the shape of one axis; write len(…)")
                axis = self.whole(node.slice).constant
                if not isinstance(axis, int):
                    raise UnsupportedError("an axis that is not a number")
                return Value(INT, (self.length(owner, axis),))
        found = self.element(node)
        return self.load(found) if isinstance(found, Place) else found

    def load(self, place: Place) -> Value:
        """A number from memory, widened to 64 bits."""
        name = place.dtype.name
        narrow = _LOADS[name]
        found = self.op(f"load {narrow}, ptr {place.address}, !tbaa {self.module.alias(place.tag, name)}")
        if name == "float64":
            return Value(FLOAT, (found,))
        if name == "uint64":
            return Value(UNSIGNED, (found,))
        return Value(INT, (found if narrow == "i64" else self.op(f"sext {narrow} {found} to i64"),))

    def store(self, place: Place, value: Value) -> None:
        """A number into memory; a narrow place keeps the low bits."""
        name = place.dtype.name
        narrow = _LOADS[name]
        wanted = FLOAT if name == "float64" else UNSIGNED if name == "uint64" else INT
        if value.kind != wanted:
            raise UnsupportedError(f"{value.kind.name} where {wanted.name} is kept")
        operand = value.parts[0]
        if narrow not in ("i64", "double"):
            whole, operand = operand, self.op(f"trunc i64 {operand} to {narrow}")
            if self.checked:
                back = self.op(f"sext {narrow} {operand} to i64")
                self.trouble(self.op(f"icmp ne i64 {back}, {whole}"), f"a number beyond {narrow[1:]} bits")
        self.do(f"store {narrow} {operand}, ptr {place.address}, !tbaa {self.module.alias(place.tag, name)}")

    # --- operators --------------------------------------------------------------------------------------------
    def _binop(self, node: ast.BinOp) -> Value:
        a = self.numeric(node.left)
        b = self.numeric(node.right)
        return self.binary(node.op, a, b)

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self._choice(node)
        lowest = isinstance(node.operand, ast.Constant) and node.operand.value == 2**63
        if lowest and isinstance(node.op, ast.USub):
            return known(INT, -(2**63))
        value = self.numeric(node.operand)
        if isinstance(node.op, ast.USub):
            return self.negative(value)
        return self.inverted(value) if isinstance(node.op, ast.Invert) else value

    def _choice(self, node: ast.expr) -> Value:
        """A comparison or a negation as 0 or 1."""
        yes, no, on = self.label(), self.label(), self.label()
        result = self.slot(("i64",))[0]
        self.decide(node, yes, no)
        for label, bit in ((yes, 1), (no, 0)):
            self.begin_after_branch(label)
            self.do(f"store i64 {bit}, ptr {result}")
            self.jump(on)
        self.begin_after_branch(on)
        return self.number(f"load i64, ptr {result}", INT)

    def _compare(self, node: ast.Compare) -> Value:
        if len(node.ops) == 1 and not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            a = self.numeric(node.left)
            return self.bit(self.compare(node.ops[0], a, self.numeric(node.comparators[0])))
        return self._choice(node)

    def _ifexp(self, node: ast.IfExp) -> Value:
        yes, no, on = self.label(), self.label(), self.label()
        self.decide(node.test, yes, no)
        self.begin_after_branch(yes)
        first = self.numeric(node.body)
        assert isinstance(first.kind, Scalar)
        result = self.slot((first.kind.llvm,))[0]
        self.do(f"store {first.kind.llvm} {first.parts[0]}, ptr {result}")
        self.jump(on)
        self.begin_after_branch(no)
        second = self.numeric(node.orelse)
        if second.kind != first.kind:
            raise UnsupportedError(f"{first.kind.name} or {second.kind.name}, by the condition")
        self.do(f"store {first.kind.llvm} {second.parts[0]}, ptr {result}")
        self.begin(on)
        return self.number(f"load {first.kind.llvm}, ptr {result}", first.kind)

    def _boolop(self, node: ast.BoolOp) -> Value:
        """``and`` and ``or`` give one of their operands."""
        on = self.label()
        first = self.numeric(node.values[0])
        assert isinstance(first.kind, Scalar)
        result = self.slot((first.kind.llvm,))[0]
        value = first
        for index, operand in enumerate(node.values):
            if index:
                value = self.numeric(operand)
                if value.kind != first.kind:
                    raise UnsupportedError(f"{first.kind.name} or {value.kind.name}, by the condition")
            self.do(f"store {first.kind.llvm} {value.parts[0]}, ptr {result}")
            if index + 1 < len(node.values):
                further = self.label()
                true = self.truth(value)
                if isinstance(node.op, ast.And):
                    self.branch(true, further, on)
                else:
                    self.branch(true, on, further)
                self.begin_after_branch(further)
        self.begin(on)
        return self.number(f"load {first.kind.llvm}, ptr {result}", first.kind)

    def decide(self, node: ast.expr, yes: str, no: str) -> None:
        """Go to one of two blocks by the truth of an expression."""
        around, self.line = self.line, node.lineno
        try:
            self._decide(node, yes, no)
        except UnsupportedError as error:
            raise self.source.refuse(node, str(error)) from None
        self.line = around

    def _decide(self, node: ast.expr, yes: str, no: str) -> None:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.decide(node.operand, no, yes)
        elif isinstance(node, ast.BoolOp):
            for operand in node.values[:-1]:
                further = self.label()
                if isinstance(node.op, ast.And):
                    self.decide(operand, further, no)
                else:
                    self.decide(operand, yes, further)
                self.begin_after_branch(further)
            self.decide(node.values[-1], yes, no)
        elif isinstance(node, ast.Compare):
            self._decide_chain(node, yes, no)
        else:
            self.branch(self.truth(self.numeric(node)), yes, no)

    def _decide_chain(self, node: ast.Compare, yes: str, no: str) -> None:
        left = self.numeric(node.left)
        for index, (operator, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            last = index + 1 == len(node.ops)
            to = yes if last else self.label()
            if isinstance(operator, (ast.In, ast.NotIn)):
                if not last or not isinstance(right, (ast.Tuple, ast.List, ast.Set)) or not right.elts:
                    raise UnsupportedError("in: write x in (a, b)")
                found, missing = (to, no) if isinstance(operator, ast.In) else (no, to)
                values = [self.numeric(choice) for choice in right.elts]
                for value in values[:-1]:
                    further = self.label()
                    self.branch(self.compare(ast.Eq(), left, value), found, further)
                    self.begin_after_branch(further)
                self.branch(self.compare(ast.Eq(), left, values[-1]), found, missing)
                return
            value = self.numeric(right)
            self.branch(self.compare(operator, left, value), to, no)
            if not last:
                self.begin_after_branch(to)
            left = value
