"""Whatever is outside the subset is refused: with its file, its line and what is wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from lumen_policy.errors import InputError
from lumen_policy.native import SubsetError
from lumen_policy.native.layout import Layout
from lumen_policy.native.module import Entry, Module
from native.harness import LAYOUT, load

HEAD = """\
import math
import numpy as np
from functools import cache, wraps
from types import SimpleNamespace
from lumen_policy.native import inline

NUMBERS = [1, 2, 3]
TABLE = np.arange(5)
SPACE = SimpleNamespace(x=1)
BIG = 2**70
NARROW = np.int32(5)
TRUE = np.bool_(True)
TEXT = "text"
HOLDER = 4


def twice(x):
    return 2 * x


def nothing(x):
    pass


def two(x):
    return x, 1


def half(x):
    return 0.5


def many(*numbers):
    return 1


def named(*, a):
    return 1


def first_only(a, /):  # first only
    return 1


def listing(x=NUMBERS):
    return 1


@cache
def cached(x):
    return x


def wrapping(function):
    @wraps(function)
    def wrapper(*numbers):
        return function(*numbers)

    return wrapper


@wrapping
def decorated(x):
    return x


def same(function):
    return function


@same  # decorator
def returned(x):
    return x


def itself(x):
    if x > 0:
        return itself(x - 1)  # itself
    return 0


def ping(x):
    return pong(x)


def pong(x):
    return ping(x) + 1  # pong


def on_one_path(x):  # one path
    if x > 0:
        return 1


def generating(x):
    yield x  # yield


async def waiting(x):  # async
    return x


def with_error(x):
    y = x
    return y.z  # inside


class Thing:
    def __call__(self, x):
        return x


shortest = lambda x: x  # lambda

"""

EXPRESSIONS = {
    "[1, 2]": "List",
    "(1, 2)[a]": "Tuple",
    "{1: 2}": "Dict",
    "{1, 2}": "Set",
    "'text'": "'text' is not a number",
    "b'text'": "not a number",
    "f'{a}'": "JoinedStr",
    "None": "None is not a number",
    "...": "not a number",
    "2j": "not a number",
    "s.row[1:2]": "slice",
    "s.grid[1, :]": "slice",
    "s.grid[..., 1]": "not a number",
    "s.row[()]": "0 indices",
    "s.fixed[()]": "0 indices",
    "s.row[1, 2]": "2 indices for 1 axes",
    "s.row[-1]": "index -1",
    "s.grid[1, -2]": "index -2",
    "s.row[0.5]": "not an int",
    "s.row[np.uint64(1)]": "not an int",
    "s.row[*NUMBERS]": "Starred",
    "s.row": "not a number",
    "s.grid[0]": "not a number",
    "s.records[0]": "not a number",
    "s": "the state",
    "s.nowhere": "the state has no nowhere",
    "s.nowhere[0]": "the state has no nowhere",
    "s.records[0].nowhere": "no field nowhere",
    "s.records[0].parts": "not a number",
    "s.records.wide": "has no .wide",
    "s.row.x": "has no .x",
    "s.row.shape": "has no .shape",
    "s.row.shape[0]": "write len",
    "s.grid.shape[2]": "axis 2 of 2",
    "s.grid.shape[-1]": "axis -1 of 2",
    "s.grid.shape[a]": "an axis",
    "s.grid.shape[0.0]": "not an int",
    "s.grid.shape[0, 1]": "Tuple",
    "s.records[0].shape[0]": "no field shape",
    "s[0]": "no elements",
    "a[0]": "no elements",
    "a.real": "has no .real",
    "TABLE[0]": "ndarray",
    "TABLE.shape[0]": "tuple",
    "NUMBERS[0]": "list",
    "SPACE.y": "not known",
    "SPACE.y.z": "not known",
    "BIG": "beyond 64 bits",
    "9223372036854775808": "beyond 64 bits",
    "-9223372036854775809": "beyond 64 bits",
    "np.uint64(18446744073709551616)": "beyond 64 bits",
    "np.uint64(-1)": "-1 cannot become unsigned",
    "np.uint64(0.5)": "cannot become unsigned",
    "NARROW": "int32",
    "TRUE": "bool",
    "TEXT": "str",
    "math": "module",
    "math.sqrt": "builtin",
    "twice": "function",
    "unheard_of": "not known",
    "unheard_of(1)": "not in the subset",
    "a / 2": "/ of ints",
    "a ** 2": "**",
    "0.5 ** 2": "**",
    "a @ a": "@",
    "0.5 // 2.0": "//",
    "0.5 % 2.0": "%",
    "0.5 & 1": "BitAnd",
    "a << 0.5": "<<",
    "a << 64": "a shift by 64",
    "a >> -1": "a shift by -1",
    "np.uint64(1) + 1": "in one operation",
    "1 + np.uint64(1)": "in one operation",
    "np.uint64(1) << 1": "in one operation",
    "np.uint64(1) * 0.5": "Mult",
    "np.uint64(1) / np.uint64(1)": "/ of ints",
    "np.uint64(1) < 1": "compared",
    "np.uint64(1) < 0.5": "compared",
    "~0.5": "~ of a float",
    "s.row + 1": "not a number",
    "-s.row": "not a number",
    "not s.row": "not a number",
    "s.row == 1": "not a number",
    "1 == s.row": "not a number",
    "s.records[0] == s.records[0]": "not a number",
    "a is True": "comparisons other than",
    "a is not False": "comparisons other than",
    "1 if a is None else 2": "None",
    "a in NUMBERS": "write x in",
    "a in ()": "write x in",
    "a in (1, *NUMBERS)": "Starred",
    "a in (1, 2) in (3, 4)": "write x in",
    "a in s.row": "write x in",
    "(y := a)": "NamedExpr",
    "(y := a) + y": "NamedExpr",
    "[y for y in NUMBERS]": "ListComp",
    "{y for y in NUMBERS}": "SetComp",
    "{y: y for y in NUMBERS}": "DictComp",
    "sum(y for y in NUMBERS)": "not in the subset",
    "(lambda y: y)(a)": "not a function",
    "(yield)": "Yield",
    "1 if a else 0.5": "an int or a float",
    "1 if a else s.row": "not a number",
    "a and 0.5": "an int or a float",
    "a or s.row": "not a number",
    "s.row and a": "not a number",
    "min(a)": "two numbers or more",
    "min(s.row)": "two numbers or more",
    "max(a, 0.5)": "an int and a float",
    "max(a, b=2)": "two numbers or more",
    "min(*NUMBERS)": "two numbers or more",
    "abs()": "takes one number",
    "abs(a, a)": "takes one number",
    "abs(s.row)": "not a number",
    "int('5')": "not a number",
    "int(a, 10)": "takes one number",
    "float()": "takes one number",
    "bool(s.row)": "not a number",
    "len(a)": "the length of an int",
    "len(s)": "the length of the state",
    "len(s.records[0])": "the length of a record",
    "len()": "len takes one row",
    "len(s.row, s.row)": "len takes one row",
    "np.int32(5)": "not in the subset",
    "round(0.5)": "not in the subset",
    "math.sqrt(2.0)": "not in the subset",
    "print(a)": "not in the subset",
    "sorted(s.row)": "not in the subset",
    "range(3)": "not in the subset",
    "NUMBERS(1)": "not in the subset",
    "HOLDER(1)": "not in the subset",
    "Thing()(1)": "not a function",
    "Thing(1)": "not in the subset",
    "a(1)": "not a function of the module",
    "s.row.sum()": "not a function of the module",
    "NUMBERS.append(1)": "not in the subset",
    "cached(1)": "not in the subset",
    "twice()": "lacks x",
    "twice(1, 2)": "takes x",
    "twice(y=2)": "takes x",
    "twice(1, x=2)": "takes x",
    "twice(*NUMBERS)": "takes x",
    "twice(**SPACE)": "takes x",
    "twice(nothing(1))": "is nothing",
    "twice(two(1))": "is 2 values",
    "listing()": "x = [1, 2, 3] is not a number",
    "nothing(1)": "is nothing",
    "two(1)": "is 2 values",
    "two(1) + 1": "is 2 values",
    "nothing(1) + 1": "is nothing",
    "1 < nothing(1)": "is nothing",
}
"""Expressions that are no number, by what the message says."""

STATEMENTS = {
    "y = [1]": "List",
    "y = 'text'": "not a number",
    "y = nothing(a)": "y cannot be nothing",
    "y, z = 1": "an assignment to",
    "y, z = 1, 2, 3": "3 values",
    "y, z = two(a), 1\nreturn z": "2 values",
    "y, *z = 1, 2": "an assignment to *z",
    "*y, z = two(a)": "an assignment to *y",
    "y = 1, 2": "2 values for y",
    "y = two(a)": "2 values for y",
    "y = z = 1, 2": "at once",
    "y: int": "without a value",
    "a = 0.5": "a is an int and cannot become a float",
    "a = s": "a is an int and cannot become the state",
    "a = s.row": "cannot become rows of row",
    "s = 1": "cannot become an int",
    "for a in range(2):\n    a = 0.5": "cannot become a float",
    "y = 0.5\nfor y in range(2):\n    pass": "cannot become an int",
    "w = s.records[0]\nw = s.others[0]": "cannot become a record of others",
    "r = s.grid[0]\nr = s.fixed[0]": "cannot become rows of fixed",
    "r = s.grid\nr = s.grid[0]": "cannot become rows",
    "y = 1\ny = np.uint64(1)": "cannot become an unsigned int",
    "y = 1\ny += 0.5": "cannot become a float",
    "s.row = 1": "has no .row",
    "s.row[0] = 0.5": "a float where an int is kept",
    "s.row[0] = np.uint64(1)": "an unsigned int where",
    "s.floats[0] = 1": "an int where a float is kept",
    "s.words[0] = 1": "an int where an unsigned int is kept",
    "s.row[0] = s.row": "rows of row where",
    "s.row[0] = s": "the state where",
    "s.row[0] = nothing(a)": "nothing where",
    "s.row[0] = two(a)": "2 values for",
    "s.row[0] += 0.5": "a float where",
    "s.row[-1] = 0": "index -1",
    "s.row[1:2] = 0": "slice",
    "s.grid[0] = 0": "assigned to rows of grid",
    "s.grid[0] = s.grid[1]": "assigned to rows of grid",
    "s.grid[0] += 1": "an operation on rows",
    "s.records[0] = 1": "an int assigned to a record",
    "s.records[0] = s.others[0]": "a record of others assigned",
    "s.records[0] += 1": "an operation on a record",
    "s.records[0].parts = s.records[1].parts": "an assignment to all of",
    "s.records[0].parts += 1": "an assignment to all of",
    "s.records[0].nowhere = 1": "no field nowhere",
    "s.grid.shape[0] = 1": "has no .shape",
    "SPACE.x = 1": "not the function's own",
    "SPACE.x += 1": "not the function's own",
    "math.pi = 3": "not the function's own",
    "NUMBERS[0] = 1": "list",
    "a.x = 1": "has no .x",
    "twice(a).x = 1": "has no .x",
    "y = 1 if a else None": "None",
    "a": "nobody takes",
    "a + 1": "nobody takes",
    "yield a": "Yield",
    "x = yield": "Yield",
    "y": "y is not known",
    "y += 1": "y may have no value here",
    "HOLDER += 1": "HOLDER may have no value here",
    "y = HOLDER\nHOLDER = 2": None,
    "if a:\n    y = 1\na = y": "y may have no value here",
    "for y in range(a):\n    pass\na = y": "y may have no value here",
    "while a:\n    y = 1\n    break\na = y": "y may have no value here",
    "while True:\n    if a:\n        break\n    y = 1\na = y": "y may have no value here",
    "while a:\n    if a > 2:\n        continue\n    y = 1\na = y": "y may have no value here",
    "for _ in range(3):\n    if a > 1:\n        a = y\n    y = 1": None,
    "y = y": "y may have no value here",
    "range = 3\nfor y in range(3):\n    pass": "range",
    "del a": "Delete",
    "del s.row[0]": "Delete",
    "assert a": "Assert",
    "raise ValueError": "Raise",
    "global HOLDER\nHOLDER = 3": None,
    "global HOLDER\nHOLDER += 3": None,
    "import math": "Import",
    "from math import pi": "ImportFrom",
    "try:\n    y = 1\n    a = y\nexcept ValueError:\n    pass": None,
    "with a as y:\n    pass": None,
    "match a:\n    case 1:\n        pass": None,
    "def inner(x):\n    return x": None,
    "class Inner:\n    pass": None,
    "while a:\n    a = 0\nelse:\n    a = 1": None,
    "for y in range(3):\n    pass\nelse:\n    a = 1": None,
    "for y in NUMBERS:\n    pass": None,
    "for y in s.row:\n    pass": None,
    "for y in range(0.5):\n    pass": None,
    "for y in range():\n    pass": None,
    "for y in range(1, 2, 3, 4):\n    pass": None,
    "for y in range(*NUMBERS):\n    pass": None,
    "for y in range(0, 5, a):\n    pass": None,
    "for y in range(0, 5, 0):\n    pass": None,
    "for y, z in range(3):\n    pass": None,
    "for s.row[0] in range(3):\n    pass": None,
    "if s.row:\n    pass": None,
    "while s:\n    pass": None,
    "return s.row": "rows of row cannot be returned",
    "return s": "the state cannot be returned",
    "return s.records[0]": "cannot be returned",
    "return nothing(a)": "nothing cannot be returned",
    "return ()": "Tuple",
    "return 1, s.row": "not a number",
    "return (1, 2), 3": "Tuple",
    "return *NUMBERS, 1": "Starred",
    "return [1]": "List",
    "if a:\n    return 1\nreturn 0.5": "it returned an int before and a float here",
    "if a:\n    return\nreturn 1": "it returned nothing before and an int here",
    "if a:\n    return 1, 2\nreturn 1, 2, 3": "it returned 2 values before and 3 values here",
    "many(1)": "plain ones",
    "named(a=1)": "plain ones",
    "first_only(1)": ("first only", "plain ones"),
    "decorated(1)": "plain ones",
    "returned(1)": ("decorator", "decorators"),
    "itself(1)": ("itself", "itself calls itself"),
    "ping(1)": ("pong", "ping calls itself"),
    "f(s, 1)": "f calls itself",
    "on_one_path(1)": ("one path", "without a value"),
    "generating(1)": ("yield", "Yield"),
    "waiting(1)": ("async", "no def of waiting"),
    "shortest(1)": ("lambda", "no def of <lambda>"),
    "with_error(1)": ("inside", "y is an int and has no .z"),
    "with_error(\n    1\n    + 1\n)": ("inside", "has no .z"),
    "y = (\n    1\n    + s.nowhere\n)": 3,
    "y = twice(\n    twice(a)\n    + twice(0.5 % a)\n)": 3,
    "y = (\n    1\n    if a\n    else 0.5 // 2\n)": 4,
    "s.row[\n    -1\n] = 0": None,
}
"""Statements that are refused, by what the message says (None: anything), on which line of theirs, or on which marked
line of HEAD and what."""


def refusal(folder: Path, body: str, *, end: str = "return 0") -> tuple[str, int]:
    """The message for a function with this body, and the line where the body begins."""
    lines = "".join(f"    {line}\n" for line in [*body.splitlines(), end])
    module = load(folder, f"{HEAD}\ndef f(s, a):\n{lines}")
    with pytest.raises(SubsetError) as caught:
        Module(LAYOUT, [Entry(module.f)])
    message = str(caught.value)
    assert message.startswith(f"{module.__file__}:")
    return message.removeprefix(f"{module.__file__}:"), HEAD.count("\n") + 3


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(tmp_path: Path, expression: str) -> None:
    """INV-37: An expression outside the subset, or one that is no number where one is needed."""
    message, line = refusal(tmp_path, f"b = 0 + ({expression})")
    assert message.startswith(f"{line}: ")
    assert EXPRESSIONS[expression] in message
    assert message.endswith("(in f)")
    if expression not in ("1 if a else 0.5", "a and 0.5"):
        assert refusal(tmp_path, f"if {expression}:\n    return 5")[0].startswith(f"{line}: ")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements(tmp_path: Path, statement: str) -> None:
    """INV-37: A statement outside the subset, here or in a function that is called."""
    message, line = refusal(tmp_path, statement)
    expected = STATEMENTS[statement]
    named = int(message.partition(":")[0])
    if isinstance(expected, tuple):
        mark, said = expected
        assert HEAD.splitlines()[named - 1].endswith(f"# {mark}")
        assert said in message
    elif isinstance(expected, int):
        assert named == line + expected - 1
    else:
        assert line <= named <= line + statement.count("\n")
        assert (expected or "") in message


def test_an_entry_must_be_a_function_of_the_subset(tmp_path: Path) -> None:
    """Entries: their parameters, results and names."""
    module = load(
        tmp_path, HEAD + "def f(s):\n    return 0.5\n\n\ndef g(s, a):\n    while True:\n        a += 1\n"
    )
    lines = HEAD.count("\n")
    for entries, said in (
        ([Entry(module.f, 0)], f":{lines + 1}: an entry returns one int or nothing"),
        ([Entry(module.f, 1)], f":{lines + 1}: it must take 2 parameters"),
        ([Entry(module.g, 0)], "it must take 1 parameters"),
        ([Entry(module.g, 1), Entry(module.g, 1)], "two entries are called g"),
        ([Entry(len, 0)], "len is not a Python function"),
        ([Entry(module.many, 0)], "parameters"),
    ):
        with pytest.raises(SubsetError) as caught:
            Module(LAYOUT, entries)
        assert said in str(caught.value)
    assert Module(LAYOUT, [Entry(module.g)]).returns == {"g": False}


def test_the_text_must_be_there(tmp_path: Path) -> None:
    """A function without a file, or whose file has changed."""
    names: dict[str, object] = {}
    exec("def f(s, a):\n    return a", names)
    with pytest.raises(SubsetError, match=r"<string>:1: the source of f\(\) is not there"):
        Module(LAYOUT, [Entry(names["f"])])  # type: ignore[arg-type]
    for text, said in (
        ("\n\ndef f(s, a):\n    return a\n", r":2: no def of f\(\) as it was loaded; was the file edited"),
        ("def f(s, a:\n", ":1: "),
        ("\0", ":"),
    ):
        module = load(tmp_path, "\ndef f(s, a):\n    return a\n")
        Path(str(module.__file__)).write_text(text, encoding="utf-8")
        with pytest.raises(SubsetError, match=said):
            Module(LAYOUT, [Entry(module.f)])
    module = load(tmp_path, "\ndef f(s, a):\n    return a\n")
    Path(str(module.__file__)).write_bytes(b"\xff\n")
    with pytest.raises(SubsetError, match=r":2: the source of f\(\) cannot be read"):
        Module(LAYOUT, [Entry(module.f)])


def test_a_file_is_read_anew(tmp_path: Path) -> None:
    """A file that was edited and loaded again is compiled as it now is."""
    first = load(tmp_path, "def f(s, a):\n    return a\n")
    before = Module(LAYOUT, [Entry(first.f)]).text()
    path = Path(str(first.__file__))
    path.write_text("def f(s, a):\n    return a + 1\n", encoding="utf-8")
    names: dict[str, object] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    assert "add i64" in Module(LAYOUT, [Entry(names["f"])]).text()  # type: ignore[arg-type]
    assert "add i64" not in before


def test_what_is_nested_too_deeply(tmp_path: Path) -> None:
    """An expression beyond Python's own depth of calls."""
    module = load(tmp_path, f"def f(s, a):\n    return {'+'.join('a' * 2000)}\n")
    with pytest.raises(SubsetError, match=r":1: it is nested too deeply"):
        Module(LAYOUT, [Entry(module.f)])


def test_a_cell_without_a_value(tmp_path: Path) -> None:
    """A name around the function that has no value yet."""
    text = "def make():\n    def f(s, a):\n        return later\n    if f is None:\n        later = 1\n    return f\n"
    with pytest.raises(SubsetError, match=":3: later is not known"):
        Module(LAYOUT, [Entry(load(tmp_path, text).make())])


def test_a_refusal_is_an_error_of_input() -> None:
    """The command line shows it without a traceback."""
    assert issubclass(SubsetError, InputError)
    assert not asyncio.iscoroutinefunction(refusal)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ((np.float32, 1), "not float32"),
        ((np.dtype(">i8"), 1), "not >i8"),
        ((np.bool_, 1), "not bool"),
        ((np.int64, 0), "0 axes"),
        ((np.dtype([("a", np.int64), ("b", "U3")]), 1), "not <U3"),
        ((np.dtype([("a", np.dtype([("b", np.int64)]))]), 1), "not"),
        ((np.dtype([("a", np.int8), ("b", np.int64)]), 1), "byte 1 lies across words"),
        ((np.dtype([("a", np.int64), ("b", np.int8)]), 1), "records of 9 bytes"),
        (
            (np.dtype({"names": ["a", "b"], "formats": ["i8", "i4"], "offsets": [0, 4]}), 1),
            "overlap at byte 4",
        ),
    ],
)
def test_layouts(stated: tuple[object, int], said: str) -> None:
    """Elements that compiled code does not know, or that it could not load whole."""
    with pytest.raises(TypeError, match=said):
        Layout({"x": stated})
