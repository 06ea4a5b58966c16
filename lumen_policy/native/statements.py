"""Statements of the subset, and whole functions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lumen_policy.native.arithmetic import UnsupportedError
from lumen_policy.native.calls import Calls
from lumen_policy.native.expressions import Name, Place
from lumen_policy.native.kinds import INT, NOTHING, Handle, Kind, Record, Scalar, Several, Value, registers
from lumen_policy.native.layout import alignment
from lumen_policy.native.source import Source

if TYPE_CHECKING:
    from lumen_policy.native.module import Module

__all__ = ["Statements"]


class Statements(Calls):
    """Writes one function for arguments of given kinds."""

    def __init__(self, module: Module, source: Source, kinds: Sequence[Kind], *, checked: bool) -> None:
        super().__init__(module, source, checked=checked)
        self.returns: Scalar | Several | None = None
        self.parameters: list[str] = []
        self._loops: list[tuple[str, str]] = []
        """Where ``continue`` and ``break`` go."""
        self._broken: list[bool] = []
        self._kinds = kinds

    def write(self, *, is_entry: bool) -> None:
        """The body; afterwards ``returns``, ``parameters``, ``slots`` and ``lines`` hold the function.

        Args:
            is_entry: called from Python, with the state first; others are handed the trouble word if they are checked.
        """
        if self.checked and not is_entry:
            self.parameters.append("ptr %trouble")
        arguments = self.source.node.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
            raise self.source.refuse(self.source.node, "parameters other than plain ones")
        if len(arguments.args) != len(self._kinds):
            raise self.source.refuse(self.source.node, f"it must take {len(self._kinds)} parameters")
        for argument, kind in zip(arguments.args, self._kinds, strict=True):
            self._take_parameter(argument.arg, kind)
        if self.checked and is_entry:
            self.do(
                f"%trouble = getelementptr inbounds i64, ptr {self.handle}, i64 {self.module.layout.trouble_word}"
            )
        self.block(self.source.node.body)
        if not self.ended:
            if self.returns not in (None, NOTHING):
                raise self.source.refuse(self.source.node, "it may end without a value")
            self._returns(self.source.node, NOTHING)
            self.give("ret void")
        self.returns = self.returns or NOTHING  # it never ends
        if self.failed:
            self.begin_after_branch(self.failed)
            self.give(f"ret {self.returns.llvm}{' zeroinitializer' if self.returns != NOTHING else ''}")

    def _take_parameter(self, name: str, kind: Kind) -> None:
        operands = []
        for register in registers(kind):
            operand = f"%p{len(self.parameters)}"
            self.parameters.append(f"{register} {operand}")
            operands.append(operand)
        if isinstance(kind, Handle):
            self.handle = operands[0]
        self._keep(name, Value(kind, tuple(operands)))

    def _keep(self, name: str, value: Value) -> None:
        """Write a value into the memory of a name, which has its first one's kind."""
        known = self.names.get(name)
        if isinstance(value.kind, Several) or value.kind == NOTHING:
            raise UnsupportedError(f"{name} cannot be {value.kind.name}")
        if known is None:
            known = Name(value.kind, self.slot(registers(value.kind)))
            self.names[name] = known
        if known.kind != value.kind:
            raise UnsupportedError(f"{name} is {known.kind.name} and cannot become {value.kind.name}")
        for register, part, slot in zip(registers(value.kind), self.parts(value), known.slots, strict=True):
            self.do(f"store {register} {part}, ptr {slot}")

    # --- statements -------------------------------------------------------------------------------------------
    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if self.ended:  # nothing leads here
                break
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """Write one statement.

        Raises:
            SubsetError: what the subset does not have.
        """
        self.line = node.lineno
        found: Callable[[ast.stmt], None] | None = getattr(self, f"_do_{type(node).__name__.lower()}", None)
        try:
            if found is None:
                raise UnsupportedError(f"{type(node).__name__} is not in the subset")
            found(node)
        except UnsupportedError as error:
            raise self.source.refuse(node, str(error)) from None

    def _do_pass(self, node: ast.Pass) -> None:
        pass

    def _do_expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        self.value(node.value)
        if not isinstance(node.value, ast.Call):
            raise UnsupportedError("an expression whose value nobody takes")

    def _do_return(self, node: ast.Return) -> None:
        if node.value is None:
            self._returns(node, NOTHING)
            self.give("ret void")
        elif isinstance(node.value, ast.Tuple) and node.value.elts:
            values = [self.numeric(element) for element in node.value.elts]
            kinds = tuple(value.kind for value in values if isinstance(value.kind, Scalar))
            returned = Several(kinds)
            self._returns(node, returned)
            whole = "poison"
            for index, (kind, value) in enumerate(zip(kinds, values, strict=True)):
                whole = self.op(f"insertvalue {returned.llvm} {whole}, {kind.llvm} {value.parts[0]}, {index}")
            self.give(f"ret {returned.llvm} {whole}")
        else:
            value = self.value(node.value)
            if value.kind == NOTHING or not isinstance(value.kind, (Scalar, Several)):
                raise UnsupportedError(f"{value.kind.name} cannot be returned")
            self._returns(node, value.kind)
            self.give(f"ret {value.kind.llvm} {value.parts[0]}")

    def _returns(self, node: ast.AST, kind: Scalar | Several) -> None:
        if self.returns is None:
            self.returns = kind
        elif self.returns != kind:
            raise self.source.refuse(node, f"it returned {self.returns.name} before and {kind.name} here")

    def _do_assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.Tuple):
            if len(node.targets) != 1:
                raise UnsupportedError("several values for several names at once")
            self._assign_several(node.targets[0], [self.value(element) for element in node.value.elts])
            return
        value = self.value(node.value)
        for target in node.targets:
            self._assign(target, value)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            raise UnsupportedError("a name without a value")
        self._assign(node.target, self.value(node.value))

    def _assign_several(self, target: ast.expr, values: Sequence[Value]) -> None:
        if not isinstance(target, (ast.Tuple, ast.List)) or len(target.elts) != len(values):
            raise UnsupportedError(f"{len(values)} values for {ast.unparse(target)}")
        for one, value in zip(target.elts, values, strict=True):
            self._assign(one, value)

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(value.kind, Several):
            taken = [
                self.number(f"extractvalue {value.kind.llvm} {value.parts[0]}, {index}", kind)
                for index, kind in enumerate(value.kind.kinds)
            ]
            self._assign_several(target, taken)
        elif isinstance(target, ast.Name):
            self._keep(target.id, value)
        elif isinstance(target, (ast.Attribute, ast.Subscript)):
            place = self._place(target)
            if isinstance(place, Place):
                self.store(place, value)
            else:
                self._copy_record(place, value)
        else:
            raise UnsupportedError(f"an assignment to {ast.unparse(target)}")

    def _place(self, target: ast.Attribute | ast.Subscript) -> Place | Value:
        if isinstance(target, ast.Subscript):
            return self.element(target)
        if self._is_outside(target):
            raise UnsupportedError(f"{ast.unparse(target)} is not the function's own")
        place = self.field(self.value(target.value), target)
        if place.dtype.subdtype is not None:
            raise UnsupportedError(f"an assignment to all of {ast.unparse(target)}")
        return place

    def _copy_record(self, target: Value, value: Value) -> None:
        if not isinstance(target.kind, Record) or target.kind != value.kind:
            raise UnsupportedError(f"{value.kind.name} assigned to {target.kind.name}")
        offset, size, width = 0, target.kind.dtype.itemsize, alignment(target.kind.dtype)
        loaded = []
        while offset < size:
            step = next(step for step in (8, 4, 2, 1) if step <= size - offset)
            kind = f"i{8 * step}"
            source = self.op(f"getelementptr inbounds i8, ptr {value.parts[0]}, i64 {offset}")
            word = self.op(f"load {kind}, ptr {source}, align {min(step, width)}")
            loaded.append((kind, step, offset, word))
            offset += step
        for kind, step, offset, word in loaded:
            place = self.op(f"getelementptr inbounds i8, ptr {target.parts[0]}, i64 {offset}")
            self.do(f"store {kind} {word}, ptr {place}, align {min(step, width)}")

    def _do_augassign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            before = self.numeric(ast.copy_location(ast.Name(node.target.id, ast.Load()), node))
            self._keep(node.target.id, self._changed(node, before))
            return
        place = self._place(node.target)
        if not isinstance(place, Place):
            raise UnsupportedError(f"an operation on {place.kind.name}")
        self.store(place, self._changed(node, self.load(place)))

    def _changed(self, node: ast.AugAssign, before: Value) -> Value:
        by = self.numeric(node.value)
        return self.binary(node.op, before, by)

    # --- flow -------------------------------------------------------------------------------------------------
    def _do_if(self, node: ast.If) -> None:
        yes, no, on = self.label(), self.label(), self.label()
        self.decide(node.test, yes, no if node.orelse else on)
        self.begin_after_branch(yes)
        self.block(node.body)
        ends = self.ended
        self.jump(on)
        if node.orelse:
            self.begin_after_branch(no)
            self.block(node.orelse)
            if ends and self.ended:
                return
            self.jump(on)
        self.begin_after_branch(on)

    def _do_while(self, node: ast.While) -> None:
        if node.orelse:
            raise UnsupportedError("else of a loop")
        again, body, on = self.label(), self.label(), self.label()
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        self.begin(again)
        if not endless:
            self.decide(node.test, body, on)
            self.begin_after_branch(body)
        broken = self._body(node.body, again, on)
        self.jump(again)
        if not endless or broken:
            self.begin_after_branch(on)

    def _body(self, body: Sequence[ast.stmt], again: str, on: str) -> bool:
        """A loop's body; whether it has a ``break``."""
        self._loops.append((again, on))
        self._broken.append(False)
        self.block(body)
        self._loops.pop()
        return self._broken.pop()

    def _do_for(self, node: ast.For) -> None:
        if node.orelse:
            raise UnsupportedError("else of a loop")
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and self._is_outside(call.func)
            and self.source.meaning(call.func) is range
            and 1 <= len(call.args) <= 3
            and not call.keywords
        ):
            raise UnsupportedError("a loop over anything but range(…)")
        if not isinstance(node.target, ast.Name):
            raise UnsupportedError("a loop with several names")
        bounds = [self.whole(argument) for argument in call.args]
        step = bounds[2].constant if len(bounds) == 3 else 1
        if not isinstance(step, int) or step == 0:
            raise UnsupportedError("a step that is not a number, or 0")
        first = bounds[0] if len(bounds) > 1 else Value(INT, ("0",), 0)
        end = bounds[1 if len(bounds) > 1 else 0]
        counter = self.slot(("i64",))[0]
        self.do(f"store i64 {first.parts[0]}, ptr {counter}")
        again, body, further, on = self.label(), self.label(), self.label(), self.label()
        self.begin(again)
        now = self.op(f"load i64, ptr {counter}")
        self.branch(self.op(f"icmp {'slt' if step > 0 else 'sgt'} i64 {now}, {end.parts[0]}"), body, on)
        self.begin_after_branch(body)
        self._keep(node.target.id, Value(INT, (now,)))
        self._body(node.body, further, on)
        self.begin(further)
        before = self.op(f"load i64, ptr {counter}")
        if step not in (1, -1):  # the last step may lead beyond 64 bits
            left = (end.parts[0], before) if step > 0 else (before, end.parts[0])
            more = self.label()
            rest = self.op(f"sub i64 {left[0]}, {left[1]}")
            self.branch(self.op(f"icmp ugt i64 {rest}, {abs(step)}"), more, on)
            self.begin_after_branch(more)
        self.do(f"store i64 {self.op(f'add i64 {before}, {step}')}, ptr {counter}")
        self.jump(again)
        self.begin_after_branch(on)

    def _do_break(self, node: ast.Break) -> None:
        self._broken[-1] = True
        self.jump(self._loops[-1][1])

    def _do_continue(self, node: ast.Continue) -> None:
        self.jump(self._loops[-1][0])
