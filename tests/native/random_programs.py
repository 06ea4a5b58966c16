"""Random programs of the subset, as text: every operator, statement and kind of memory; all loops end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

__all__ = ["EDGES", "random_program"]

EDGES = (
    *(-(2**63), -(2**63) + 1, -(2**53) - 1, -(2**31), -65, -64, -63, -8, -7, -3, -2, -1),
    *(0, 1, 2, 3, 5, 7, 8, 31, 62, 63, 64, 65, 127, 128, 255, 2**31 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1),
)
_FIELDS = ("wide", "middle", "short", "tiny")
_LOOPS = 3
"""So many loops inside each other."""


class _Program:
    """Writes one function after another.

    Args:
        random: draws.
        careful: small numbers, so that overflow is rare.
    """

    def __init__(self, random: Random, *, careful: bool) -> None:
        self._random = random
        self._careful = careful
        self.lines: list[str] = []
        self._indent = 0
        self._loops: list[str] = []
        """Loops around the statement; the names of those with a counter."""
        self._helpers: list[str] = []
        self._may_call = True
        self._returns = "int"
        self._given: set[str] = set()
        self._names = 0

    # --- draws ------------------------------------------------------------------------------------------------
    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _write(self, line: str) -> None:
        self.lines.append("    " * self._indent + line)

    @contextmanager
    def _inside(self, line: str) -> Iterator[None]:
        self._write(line)
        self._indent += 1
        yield
        self._indent -= 1

    # --- expressions ------------------------------------------------------------------------------------------
    def _literal(self) -> str:
        if self._careful:
            number = self._random.randint(-9, 9)
        else:
            number = self._random.choice(EDGES) if self._chance(0.6) else self._random.randint(-100, 100)
        return f"({number})" if number < 0 else str(number)

    def _index(self, length: int, depth: int) -> str:
        if self._careful and self._chance(0.03):
            return f"{self._int(min(depth, 1))} + 0"
        if depth <= 0 or self._chance(0.4):
            names = [name for name in self._loops if name]
            if names and self._chance(0.5):
                return f"{self._random.choice(names)} % {length}"
            return str(self._random.randrange(length))
        return f"{self._int(depth - 1)} % {length}"

    def _element(self, depth: int) -> str:
        """An int of the memory, which may be stored to."""
        deep = depth - 1
        kind = self._random.randrange(14)
        if kind == 0:
            return f"s.grid[{self._index(4, deep)}, {self._index(5, deep)}]"
        if kind == 1:
            return f"s.cube[{self._index(2, deep)}, {self._index(3, deep)}, {self._index(4, deep)}]"
        if kind == 2:
            return f"s.fixed[{self._index(3, deep)}, {self._index(6, deep)}]"
        if kind == 3:
            return f"s.singles[{self._index(4, deep)}]"
        if kind == 4:
            return f"s.{self._pick('middles', 'tinies')}[{self._index(8, deep)}]"
        if kind == 5:
            return f"s.shorts[{self._index(2, deep)}, {self._index(4, deep)}]"
        if kind == 6:
            return (
                f"r[{self._int(min(deep, 1))} % len(r)]"
                if "r" in self._given
                else f"r[{self._index(5, deep)}]"
            )
        if kind == 7:
            return f"w.{self._pick(*_FIELDS)}"
        if kind == 8:
            return f"s.{self._pick('records', 'others')}[{self._index(4, deep)}].{self._pick(*_FIELDS)}"
        if kind == 9:
            return f"w.parts[{self._index(3, deep)}]"
        if kind == 10:
            return f"s.others[{self._index(4, deep)}].bits[{self._index(2, deep)}, {self._index(3, deep)}]"
        if kind == 11:
            return f"s.pairs[{self._index(2, deep)}, {self._index(3, deep)}].{self._pick(*_FIELDS)}"
        return f"s.row[{self._index(8, deep)}]"

    def _int(self, depth: int) -> str:
        if depth <= 0:
            names = ["a", "b", "v0", "v1", "v2", *(name for name in self._loops if name)]
            return self._random.choice(names) if self._chance(0.6) else self._literal()
        deep = depth - 1
        kind = self._random.randrange(20)
        if kind <= 5:
            op = self._pick("+", "-", "*", "+", "-", "//", "%", "&", "|", "^")
            return f"({self._int(deep)} {op} {self._int(deep)})"
        if kind == 6:
            count = str(self._random.randrange(64)) if self._chance(0.5) else f"({self._int(deep)} + 0)"
            if self._careful and self._chance(0.8):
                count = str(self._random.randrange(8))
            return f"({self._int(deep)} {self._pick('<<', '>>')} {count})"
        if kind == 7:
            return f"({self._pick('-', '~', '+')}{self._int(deep)})"
        if kind == 8:
            return f"abs({self._int(deep)})"
        if kind == 9:
            several = ", ".join(self._int(deep) for _ in range(self._random.randint(2, 4)))
            return f"{self._pick('min', 'max')}({several})"
        if kind == 10:
            return f"({self._int(deep)} if {self._condition(deep)} else {self._int(deep)})"
        if kind == 11:
            return f"({self._int(deep)} {self._pick('and', 'or')} {self._int(deep)})"
        if kind == 12:
            return self._pick(
                f"({self._comparison(deep)})", f"bool({self._condition(deep)})", f"(not {self._int(deep)})"
            )
        if kind == 13:
            return f"int({self._float(deep)})"
        if kind == 14:
            return f"{self._pick('np.int64', 'int')}({self._unsigned(deep)})"
        if kind == 15:
            return self._pick(
                "len(s.row)", "len(r)", "len(s.grid)", "s.cube.shape[2]", "s.fixed.shape[1]", "LATER", "K"
            )
        if kind == 16 and self._helpers and self._may_call:
            return self._call()
        return self._element(depth)

    def _unsigned(self, depth: int) -> str:
        if depth <= 0:
            return self._pick("u0", "u1", f"np.uint64({abs(self._random.choice(EDGES[1:]))})", "WORD")
        deep = depth - 1
        kind = self._random.randrange(9)
        if kind <= 2:
            op = self._pick("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")
            return f"({self._unsigned(deep)} {op} ({self._unsigned(deep)} + np.uint64(0)))"
        if kind == 3:
            return f"({self._pick('-', '~')}{self._unsigned(deep)})"
        if kind == 4:
            return (
                f"np.uint64({self._int(deep)} & 1023)"
                if self._careful
                else f"np.uint64({self._int(deep)} | u)"
            )
        if kind == 5:
            return f"({self._unsigned(deep)} if {self._condition(deep)} else {self._unsigned(deep)})"
        if kind == 6:
            return f"{self._pick('min', 'max')}({self._unsigned(deep)}, {self._unsigned(deep)})"
        return self._pick("w.word", f"s.words[{self._index(8, deep)}]")

    def _float(self, depth: int) -> str:
        if depth <= 0:
            return self._pick("x0", "x1", "0.5", "-0.0", "1e300", "9007199254740993.0", "RATE")
        deep = depth - 1
        kind = self._random.randrange(10)
        if kind <= 3:
            op = self._pick("+", "-", "*", "/")
            if self._chance(0.3):
                return f"({self._float(deep)} {op} {self._int(deep)})"
            return f"({self._float(deep)} {op} {self._float(deep)})"
        if kind == 4:
            return f"{self._pick('abs', '-')}({self._float(deep)})"
        if kind == 5:
            return f"float({self._unsigned(deep) if self._chance(0.3) else self._int(deep)})"
        if kind == 6:
            return f"({self._float(deep)} if {self._condition(deep)} else {self._float(deep)})"
        if kind == 7:
            return f"{self._pick('min', 'max')}({self._float(deep)}, {self._float(deep)})"
        if kind == 8:
            return f"({self._float(deep)} {self._pick('and', 'or')} {self._float(deep)})"
        return self._pick("w.share", f"s.floats[{self._index(8, deep)}]")

    def _comparison(self, depth: int) -> str:
        deep = depth - 1
        op = self._pick("<", "<=", ">", ">=", "==", "!=")
        kind = self._random.randrange(7)
        if depth <= 0 or kind <= 2:
            return f"{self._int(deep)} {op} {self._int(deep)}"
        if kind == 3:
            sides = [self._int(deep), self._float(deep)]
            self._random.shuffle(sides)
            return f"{sides[0]} {op} {sides[1]}"
        if kind == 4:
            return f"{self._unsigned(deep)} {op} {self._unsigned(deep)}"
        if kind == 5:
            return f"{self._int(deep)} {op} {self._int(deep)} {self._pick('<', '>=', '!=')} {self._int(deep)}"
        among = ", ".join(self._int(deep) for _ in range(self._random.randint(1, 3)))
        return f"{self._int(deep)} {self._pick('in', 'not in')} ({among},)"

    def _condition(self, depth: int) -> str:
        deep = depth - 1
        kind = self._random.randrange(10)
        if depth <= 0 or kind <= 5:
            return self._comparison(depth)
        if kind <= 7:
            return f"(({self._condition(deep)}) {self._pick('and', 'or')} ({self._condition(deep)}))"
        if kind == 8:
            return f"not ({self._condition(deep)})"
        return self._pick(self._int(deep), self._float(deep), self._unsigned(deep))

    def _call(self) -> str:
        name = self._random.choice(self._helpers)
        if name.startswith("row"):
            return f"{name}(s, {self._pick('r', 's.grid[1]', 's.cube[1, 2]', 's.row', 'w.parts')}, {self._int(1)})"
        if name.startswith("record"):
            record = self._pick("w", "s.others[1]", "s.records[b % 4]", "s.pairs[1, 2]")
            if self._chance(0.5):
                return f"{name}(s, b={self._int(1)}, w={record})"
            return f"{name}(s, {record})"
        return f"{name}(s, {self._int(1)}, {self._int(1)})"

    # --- statements -------------------------------------------------------------------------------------------
    def _block(self, depth: int, most: int = 4) -> None:
        for _ in range(self._random.randint(1, most)):
            self._statement(depth)

    def _statement(self, depth: int) -> None:
        kind = self._random.randrange(24)
        if kind <= 3 and depth > 0:
            self._if(depth)
        elif kind in (4, 5, 6) and depth > 0 and len(self._loops) < _LOOPS:
            self._for(depth)
        elif kind == 7 and depth > 0 and len(self._loops) < _LOOPS:
            self._while(depth)
        elif kind == 8 and self._loops:
            self._write(self._pick("break", "continue"))
        elif kind == 9 and self._indent > 1:
            self._return()
        elif kind == 10:
            target, value = (f"s.records[{self._index(4, 1)}]" for _ in range(2))
            self._write(f"{target} = {value}")
        elif kind == 11:
            name, rows = self._random.choice((("w", "records"), ("r", "grid")))
            if name not in self._given:  # rows of an argument are of another kind
                self._write(f"{name} = s.{rows}[{self._index(4, 1)}]")
            else:
                self._write("pass")
        elif kind == 12:
            self._write(
                self._pick("v0, v1 = v1, v0", f"v1, s.row[v2 & 7], v2 = {self._int(1)}, v1, {self._int(1)}")
            )
        elif kind == 13 and self._may_call and self._helpers:
            self._write(self._pick(f"v1, x0 = pair(s, {self._int(1)}, {self._float(1)})", self._call()))
        elif kind == 14:
            op = self._pick("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")
            target = self._pick("u0", "u1", "w.word", f"s.words[{self._index(8, 1)}]")
            self._write(
                self._pick(f"{target} {op}= {self._unsigned(2)} | u0", f"{target} = {self._unsigned(3)}")
            )
        elif kind == 15:
            op = self._pick("+", "-", "*", "/")
            target = self._pick("x0", "x1", "w.share", f"s.floats[{self._index(8, 1)}]")
            self._write(self._pick(f"{target} {op}= {self._float(2)}", f"{target} = {self._float(3)}"))
        else:
            op = self._pick("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")
            target = (
                self._element(2)
                if self._chance(0.6)
                else self._pick("v0", "v1", "v2", "a", *self._counters())
            )
            if self._chance(0.4):
                self._write(f"{target} {op}= {self._int(2)}{' + 0' if op in ('<<', '>>') else ''}")
            else:
                self._write(f"{target} = {self._int(3)}")

    def _counters(self) -> list[str]:
        """Loop variables, which a body may change: the loop goes on as if it had not."""
        return [name for name in self._loops if name.startswith("i")][:1]

    def _if(self, depth: int) -> None:
        with self._inside(f"if {self._condition(2)}:"):
            self._block(depth - 1)
        if self._chance(0.3):
            with self._inside(f"elif {self._condition(2)}:"):
                self._block(depth - 1)
        if self._chance(0.5):
            with self._inside("else:"):
                self._block(depth - 1)

    def _for(self, depth: int) -> None:
        self._names += 1
        name = f"i{self._names}"
        bounds = self._pick(
            f"{self._int(1)} & 3",
            f"{self._random.randint(-4, 0)}, {self._int(1)} % 4",
            f"{self._int(1)} % 5, -2, {self._pick('-1', '-2', '-3')}",
            f"0, {self._int(1)} & 15, {self._random.randint(3, 7)}",
        )
        if not self._careful and self._chance(0.1):
            bounds = self._pick(
                "9223372036854775800, 9223372036854775807, 3", "-9223372036854775800, LOW, -3"
            )
        with self._inside(f"for {name} in range({bounds}):"):
            self._loops.append(name)
            self._block(depth - 1)
            self._loops.pop()

    def _while(self, depth: int) -> None:
        self._names += 1
        name = f"n{self._names}"
        self._write(f"{name} = 0")
        endless = self._chance(0.3)
        with self._inside("while True:" if endless else f"while {name} < 4 and ({self._condition(1)}):"):
            self._write(f"{name} += 1")
            if endless:
                with self._inside(f"if {name} > 3:"):
                    self._write("break")
            self._loops.append(name)
            self._block(depth - 1)
            self._loops.pop()

    def _return(self) -> None:
        if self._returns == "pair":
            self._write(f"return {self._int(2)}, {self._float(2)}")
        else:
            self._write(f"return {self._int(2)}")

    def function(self, name: str, parameters: str, depth: int, returns: str = "int") -> None:
        """One whole function; the first statements give every name a value."""
        self._returns = returns
        self._indent = 0
        given = {parameter.partition("=")[0] for parameter in parameters.split(", ")}
        with self._inside(f"def {name}(s, {parameters}):"):
            if "b" not in given:
                self._write("b = 3")
            self._write(f"v0, v1, v2 = {self._literal()}, b, {self._literal()}")
            self._write("v0 = a" if "a" in given else "a = v0 ^ 1")
            self._write("x0 = x" if "x" in given else "x0 = float(b)")
            self._write("x1 = 0.25")
            self._write("u = 0" if self._careful else "u = b & 3")
            self._write(f"u0 = {self._pick('np.uint64(7)', 's.words[1]')}")
            self._write("u1 = WORD")
            if "w" not in given:
                self._write("w = s.records[b % 4]")
            if "r" not in given:
                self._write("r = s.grid[b % 4]")
            self._given = given
            self._block(depth, 7)
            self._write("s.floats[0] = x0")
            self._write("s.words[0] = u0")
            if self._returns == "pair":
                self._write("return v1, x1")
            else:
                self._write("return v0 ^ v1 ^ v2")
        self._write("")

    def helpers(self) -> None:
        """Functions that the programs call, each of them a random program too."""
        self._may_call = False
        for name, parameters, returns in (
            ("plain", "a, b", "int"),
            ("pair", "a, x", "pair"),
            ("row", "r, b", "int"),
            ("record", "w, b=5", "int"),
        ):
            self._indent = 0
            if self._chance(0.5):
                self._write("@inline")
            self.function(name, parameters, 1, returns)
        self._helpers = ["plain", "row", "record"]
        self._may_call = True


_HEAD = """\
import numpy as np

from lumen_policy.native import inline

K = 6
LATER = -7
RATE = 2.5
LOW = -9223372036854775807
WORD = np.uint64(0x9E3779B97F4A7C15)


"""


def random_program(seed: int | Random, functions: int, *, careful: bool = False) -> tuple[str, list[str]]:
    """A module's text and the names of its functions, each of (s, a, b)."""
    program = _Program(seed if isinstance(seed, Random) else Random(seed), careful=careful)
    program.helpers()
    names = [f"f{number}" for number in range(functions)]
    for name in names:
        program.function(name, "a, b", 3)
    return _HEAD + "\n".join(program.lines) + "\n", names
