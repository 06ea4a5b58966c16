"""Names that may be read before they have a value: Python would raise, so such a function is refused."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lumen_policy.native.source import Source

__all__ = ["check_assigned"]

_Names = set[str] | None
"""Names that have a value for sure; None where no path leads."""


_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Pass)
_ELSEWHERE = (
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Lambda,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.NamedExpr,
)
"""Names of their own; refused when they are written."""


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    left = [node]
    while left:
        part = left.pop()
        yield part
        if not isinstance(part, _ELSEWHERE):
            left.extend(ast.iter_child_nodes(part))


def _meet(a: _Names, b: _Names) -> _Names:
    if a is None:
        return b
    return a if b is None else a & b


@dataclass
class _Loop:
    at_break: _Names = None


@dataclass
class _Walk:
    source: Source
    own: set[str]
    loops: list[_Loop] = field(default_factory=list)

    def reads(self, node: ast.AST, known: set[str]) -> None:
        for part in _walk(node):
            if (
                isinstance(part, ast.Name)
                and isinstance(part.ctx, ast.Load)
                and part.id in self.own
                and part.id not in known
            ):
                raise self.source.refuse(part, f"{part.id} may have no value here")

    def block(self, body: Sequence[ast.stmt], known: _Names) -> _Names:
        for statement in body:
            if known is None:
                break
            known = self.statement(statement, known)
        return known

    def statement(self, node: ast.stmt, known: set[str]) -> _Names:
        if isinstance(node, ast.If):
            self.reads(node.test, known)
            return _meet(self.block(node.body, set(known)), self.block(node.orelse, set(known)))
        if isinstance(node, ast.While):
            self.reads(node.test, known)
            self.loops.append(_Loop())
            self.block(node.body, set(known))
            at_break = self.loops.pop().at_break
            endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
            return at_break if endless else _meet(set(known), at_break)
        if isinstance(node, ast.For):
            self.reads(node.iter, known)
            self.loops.append(_Loop())
            self.block(node.body, known | _stored([node.target]))
            return _meet(set(known), self.loops.pop().at_break)
        if isinstance(node, ast.Break):
            self.loops[-1].at_break = _meet(self.loops[-1].at_break, set(known))
            return None
        if isinstance(node, ast.Continue):
            return None
        if not isinstance(node, _SIMPLE):  # refused when it is written
            return known | _stored([node])
        self.reads(node, known)
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id not in known
        ):
            raise self.source.refuse(node, f"{node.target.id} may have no value here")
        return None if isinstance(node, ast.Return) else known | _stored([node])


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        part.id
        for node in nodes
        for part in _walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def check_assigned(source: Source) -> None:
    """Refuse a function that may read one of its names before it has a value."""
    arguments = {argument.arg for argument in source.node.args.args}
    others = {
        name
        for part in ast.walk(source.node)
        if isinstance(part, (ast.Global, ast.Nonlocal))  # refused when it is written
        for name in part.names
    }
    _Walk(source, (_stored(source.node.body) | arguments) - others).block(source.node.body, arguments)
