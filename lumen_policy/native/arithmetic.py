"""Numbers as Python has them, in 64 bits: floor division, shifts of any width, exact comparisons.

Overflow wraps around. In *checked* functions, those from outside, it is trouble, as is a division by zero.
"""

from __future__ import annotations

import ast

from lumen_policy.native.emitter import Emitter
from lumen_policy.native.kinds import FLOAT, INT, UNSIGNED, Scalar, Value

__all__ = ["BEYOND", "Arithmetic", "UnsupportedError", "known"]


class UnsupportedError(Exception):
    """What the subset does not have; the caller knows the line."""


_PLAIN: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
_OVERFLOWS = {ast.Add: "sadd", ast.Sub: "ssub", ast.Mult: "smul"}
_FLOATS: dict[type[ast.operator], str] = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_SIGNED = {ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge", ast.Eq: "eq", ast.NotEq: "ne"}
_UNSIGNED = {**_SIGNED, ast.Lt: "ult", ast.LtE: "ule", ast.Gt: "ugt", ast.GtE: "uge"}
_ORDERED = {ast.Lt: "olt", ast.LtE: "ole", ast.Gt: "ogt", ast.GtE: "oge", ast.Eq: "oeq", ast.NotEq: "une"}
_MIRRORED = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
_SYMBOLS = {
    ast.Div: "/",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.LShift: "<<",
    ast.RShift: ">>",
}


BEYOND = "a number beyond 64 bits"
"""What an overflow is called."""


def known(kind: Scalar, number: float) -> Value:
    """A whole number that is known while compiling, wrapped around as registers would."""
    whole = int(number) % 2**64
    if kind == INT and whole >= 2**63:
        whole -= 2**64
    return Value(kind, (str(whole),), whole)


class Arithmetic(Emitter):
    """Operators over numbers."""

    def trouble(self, condition: str, what: str) -> None:
        """Where the condition holds in a checked function, note what went wrong and leave the function."""
        raise NotImplementedError

    @property
    def checked(self) -> bool:
        raise NotImplementedError

    def number(self, text: str, kind: Scalar) -> Value:
        return Value(kind, (self.op(text),))

    def as_float(self, value: Value) -> Value:
        """Correctly rounded, half to even, as ``float()``."""
        if value.kind == FLOAT:
            return value
        op = "uitofp" if value.kind == UNSIGNED else "sitofp"
        return self.number(f"{op} i64 {value.parts[0]} to double", FLOAT)

    def as_int(self, value: Value) -> Value:
        """``int()``: towards zero; beyond 64 bits the nearest."""
        x = value.parts[0]
        if value.kind == FLOAT:
            if self.checked:
                above = self.op(f"fcmp uge double {x}, 0x43E0000000000000")
                below = self.op(f"fcmp ult double {x}, 0xC3E0000000000000")
                self.trouble(self.op(f"or i1 {above}, {below}"), BEYOND)
            return self.number(f"call i64 @llvm.fptosi.sat.i64.f64(double {x})", INT)
        if value.kind == UNSIGNED and self.checked:
            self.trouble(self.op(f"icmp slt i64 {x}, 0"), BEYOND)
        return known(INT, value.constant) if value.constant is not None else Value(INT, value.parts)

    def as_unsigned(self, value: Value) -> Value:
        if value.kind == FLOAT:
            raise UnsupportedError("a float cannot become unsigned")
        if value.kind == INT and value.constant is not None and value.constant < 0:
            raise UnsupportedError(f"{value.constant} cannot become unsigned")
        if value.kind == INT and self.checked:
            self.trouble(self.op(f"icmp slt i64 {value.parts[0]}, 0"), "a negative number made unsigned")
        return known(UNSIGNED, value.constant) if value.constant is not None else Value(UNSIGNED, value.parts)

    def binary(self, operator: ast.operator, a: Value, b: Value) -> Value:
        op = type(operator)
        if FLOAT in (a.kind, b.kind):
            if UNSIGNED in (a.kind, b.kind) or op not in _FLOATS:
                raise UnsupportedError(f"{_SYMBOLS.get(op, op.__name__)} of {a.kind.name} and {b.kind.name}")
            first, second = self.as_float(a).parts[0], self.as_float(b).parts[0]
            if op is ast.Div and self.checked:
                self.trouble(self.op(f"fcmp oeq double {second}, 0.0"), "a division by zero")
            return self.number(f"{_FLOATS[op]} double {first}, {second}", FLOAT)
        if a.kind != b.kind:
            raise UnsupportedError(
                f"{a.kind.name} and {b.kind.name} in one operation; write np.uint64(…) or np.int64(…)"
            )
        kind = a.kind
        assert isinstance(kind, Scalar)
        x, y = a.parts[0], b.parts[0]
        if op in _OVERFLOWS and self.checked and kind == INT:
            return self._careful(_OVERFLOWS[op], x, y)
        if op in _PLAIN:
            return self.number(f"{_PLAIN[op]} i64 {x}, {y}", kind)
        if op in (ast.LShift, ast.RShift):
            return self._shift(op, kind, x, b)
        if op in (ast.FloorDiv, ast.Mod):
            return self._divide(op, kind, x, b)
        if op is ast.Div:
            raise UnsupportedError("/ of ints; write float(a) / float(b), or a // b")
        raise UnsupportedError(f"{_SYMBOLS.get(op, op.__name__)} of ints")

    def _careful(self, op: str, x: str, y: str) -> Value:
        both = self.op(f"call {{i64, i1}} @llvm.{op}.with.overflow.i64(i64 {x}, i64 {y})")
        self.trouble(self.op(f"extractvalue {{i64, i1}} {both}, 1"), BEYOND)
        return self.number(f"extractvalue {{i64, i1}} {both}, 0", INT)

    def _shift(self, op: type[ast.operator], kind: Scalar, x: str, count: Value) -> Value:
        left = op is ast.LShift
        name = "shl" if left else ("lshr" if kind == UNSIGNED else "ashr")
        n = count.parts[0]
        careful = self.checked and left and kind == INT
        if count.constant is not None:
            if not 0 <= count.constant < 64:
                raise UnsupportedError(f"a shift by {count.constant}; from 0 to 63")
            if not careful:
                return self.number(f"{name} i64 {x}, {n}", kind)
        far = self.op(f"icmp ugt i64 {n}, 63")
        if self.checked and kind == INT:
            self.trouble(self.op(f"icmp slt i64 {n}, 0"), "a shift by a negative number")
        near = self.op(f"select i1 {far}, i64 63, i64 {n}")
        shifted = self.op(f"{name} i64 {x}, {near}")
        if careful:
            back = self.op(f"ashr i64 {shifted}, {near}")
            lost = self.op(f"icmp ne i64 {back}, {x}")
            some = self.op(f"icmp ne i64 {x}, 0")
            beyond = self.op(f"and i1 {far}, {some}")
            self.trouble(self.op(f"or i1 {lost}, {beyond}"), BEYOND)
        if name == "ashr":
            return Value(kind, (shifted,))
        return self.number(f"select i1 {far}, i64 0, i64 {shifted}", kind)

    def _divide(self, op: type[ast.operator], kind: Scalar, x: str, b: Value) -> Value:
        """Rounds down, as Python does; by zero 0; -2**63 // -1 wraps around."""
        y = b.parts[0]
        safe = b.constant not in (None, 0, -1)
        if not safe:
            zero = self.op(f"icmp eq i64 {y}, 0")
            if self.checked:
                self.trouble(zero, "a division by zero")
            odd = zero
            if kind == INT:
                minus = self.op(f"icmp eq i64 {y}, -1")
                if self.checked and op is ast.FloorDiv:
                    lowest = self.op(f"icmp eq i64 {x}, {-(2**63)}")
                    self.trouble(self.op(f"and i1 {minus}, {lowest}"), BEYOND)
                odd = self.op(f"or i1 {zero}, {minus}")
            y = self.op(f"select i1 {odd}, i64 1, i64 {y}")
        if kind == UNSIGNED:
            found = self.op(f"{'udiv' if op is ast.FloorDiv else 'urem'} i64 {x}, {y}")
            return Value(kind, (found if safe else self.op(f"select i1 {zero}, i64 0, i64 {found}"),))
        rest = self.op(f"srem i64 {x}, {y}")
        mixed = self.op(f"xor i64 {rest}, {y}")
        down = self.op(f"icmp slt i64 {mixed}, 0")
        some = self.op(f"icmp ne i64 {rest}, 0")
        adjust = self.op(f"and i1 {down}, {some}")
        if op is ast.FloorDiv:
            quotient = self.op(f"sdiv i64 {x}, {y}")
            less = self.op(f"zext i1 {adjust} to i64")
            found = self.op(f"sub i64 {quotient}, {less}")
            if not safe:
                negated = self.op(f"sub i64 0, {x}")
                found = self.op(f"select i1 {minus}, i64 {negated}, i64 {found}")
                found = self.op(f"select i1 {zero}, i64 0, i64 {found}")
            return Value(INT, (found,))
        more = self.op(f"select i1 {adjust}, i64 {y}, i64 0")
        found = self.op(f"add i64 {rest}, {more}")
        return Value(INT, (found if safe else self.op(f"select i1 {odd}, i64 0, i64 {found}"),))

    def negative(self, value: Value) -> Value:
        if value.kind == FLOAT:
            return self.number(f"fneg double {value.parts[0]}", FLOAT)
        assert isinstance(value.kind, Scalar)
        if value.constant is not None and not (self.checked and value.constant == -(2**63)):
            return known(value.kind, -value.constant)
        if self.checked and value.kind == INT:
            return self._careful("ssub", "0", value.parts[0])
        return self.number(f"sub i64 0, {value.parts[0]}", value.kind)

    def inverted(self, value: Value) -> Value:
        if value.kind == FLOAT or not isinstance(value.kind, Scalar):
            raise UnsupportedError(f"~ of {value.kind.name}")
        return self.number(f"xor i64 {value.parts[0]}, -1", value.kind)

    def truth(self, value: Value) -> str:
        """Whether a number is not zero, as one bit."""
        if value.kind == FLOAT:
            return self.op(f"fcmp une double {value.parts[0]}, 0.0")
        if value.kind not in (INT, UNSIGNED):
            raise UnsupportedError(f"the truth of {value.kind.name}")
        return self.op(f"icmp ne i64 {value.parts[0]}, 0")

    def compare(self, operator: ast.cmpop, a: Value, b: Value) -> str:
        """One bit; an int and a float are compared exactly, not rounded to one type."""
        op = type(operator)
        if op not in _SIGNED:
            raise UnsupportedError("comparisons other than < <= > >= == != and in")
        if not isinstance(a.kind, Scalar) or not isinstance(b.kind, Scalar):
            raise UnsupportedError(f"a comparison of {a.kind.name} and {b.kind.name}")
        x, y = a.parts[0], b.parts[0]
        if a.kind == b.kind == FLOAT:
            return self.op(f"fcmp {_ORDERED[op]} double {x}, {y}")
        if a.kind == b.kind:
            names = _UNSIGNED if a.kind == UNSIGNED else _SIGNED
            return self.op(f"icmp {names[op]} i64 {x}, {y}")
        if UNSIGNED in (a.kind, b.kind):
            raise UnsupportedError(
                f"{a.kind.name} and {b.kind.name} compared; write np.uint64(…) or np.int64(…)"
            )
        if a.kind == FLOAT:
            op, x, y = _MIRRORED[op], y, x
        # x an int, y a float: where x rounded equals y, the whole numbers decide
        rounded = self.op(f"sitofp i64 {x} to double")
        whole = self.op(f"call i64 @llvm.fptosi.sat.i64.f64(double {y})")
        beyond = self.op(f"fcmp oeq double {y}, 0x43E0000000000000")
        level = self.op(f"fcmp oeq double {rounded}, {y}")
        apart = self.op(f"fcmp {_ORDERED[op]} double {rounded}, {y}")
        exact = self.op(f"icmp {_SIGNED[op]} i64 {x}, {whole}")
        below = "true" if op in (ast.Lt, ast.LtE, ast.NotEq) else "false"
        near = self.op(f"select i1 {beyond}, i1 {below}, i1 {exact}")
        return self.op(f"select i1 {level}, i1 {near}, i1 {apart}")

    def bit(self, condition: str) -> Value:
        return self.number(f"zext i1 {condition} to i64", INT)

    def least(self, a: Value, b: Value, *, largest: bool) -> Value:
        """min or max: the first of equals."""
        if a.kind != b.kind:
            raise UnsupportedError(f"min or max of {a.kind.name} and {b.kind.name}")
        other = self.compare(ast.Gt() if largest else ast.Lt(), b, a)
        assert isinstance(a.kind, Scalar)
        kind = a.kind.llvm
        return self.number(f"select i1 {other}, {kind} {b.parts[0]}, {kind} {a.parts[0]}", a.kind)

    def magnitude(self, value: Value) -> Value:
        if value.kind == FLOAT:
            return self.number(f"call double @llvm.fabs.f64(double {value.parts[0]})", FLOAT)
        if value.kind == UNSIGNED:
            return value
        below = self.op(f"icmp slt i64 {value.parts[0]}, 0")
        opposite = self.negative(value)
        return self.number(f"select i1 {below}, i64 {opposite.parts[0]}, i64 {value.parts[0]}", INT)
