"""Checked functions: the first trouble is noted with file and line, and nothing of it happens."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from lumen_policy.native import SubsetError
from native.harness import LAYOUT, Compiled, differences, fresh, load, untouched

LOW, HIGH = -(2**63), 2**63 - 1
BEYOND = "a number beyond 64 bits"
ZERO = "a division by zero"
RANGE = "an index out of range"

CASES: dict[str, list[tuple[tuple[int, int], str]]] = {
    "return a + b": [((HIGH, 1), BEYOND), ((LOW, -1), BEYOND), ((HIGH, 0), ""), ((LOW, HIGH), "")],
    "return a - b": [((LOW, 1), BEYOND), ((0, LOW), BEYOND), ((-1, LOW), ""), ((HIGH, HIGH), "")],
    "return a * b": [((2**32, 2**31), BEYOND), ((LOW, -1), BEYOND), ((2**32, -(2**31)), ""), ((0, LOW), "")],
    "return -a": [((LOW, 0), BEYOND), ((HIGH, 0), ""), ((0, 0), "")],
    "return -LOWEST": [((0, 0), BEYOND)],
    "return -(-5) + -HIGHEST": [((0, 0), "")],
    "return abs(a)": [((LOW, 0), BEYOND), ((LOW + 1, 0), ""), ((HIGH, 0), "")],
    "return a // b": [((1, 0), ZERO), ((LOW, -1), BEYOND), ((LOW, 1), ""), ((HIGH, -1), ""), ((0, 5), "")],
    "return a % b": [((1, 0), ZERO), ((LOW, -1), ""), ((5, -3), "")],
    "return a // 0": [((1, 0), ZERO)],
    "return a // -1": [((LOW, 0), BEYOND), ((5, 0), "")],
    "return a << b": [
        *(((1, 63), BEYOND), ((1, 64), BEYOND), ((-1, 64), BEYOND), ((3, 62), BEYOND), ((-3, 62), BEYOND)),
        *(((1, -1), "a shift by a negative number"), ((0, -1), "a shift by a negative number")),
        *(((1, 62), ""), ((-1, 63), ""), ((-2, 62), ""), ((0, 1000), ""), ((LOW, 0), "")),
    ],
    "return a << 3": [
        ((2**60, 0), BEYOND),
        ((2**59, 0), ""),
        ((-(2**60), 0), ""),
        ((-(2**60) - 1, 0), BEYOND),
    ],
    "return a >> b": [((1, -1), "a shift by a negative number"), ((LOW, 64), ""), ((1, HIGH), "")],
    "a += b\n    return a": [((HIGH, 1), BEYOND), ((1, 1), "")],
    "return s.row[a]": [
        ((-1, 0), RANGE),
        ((8, 0), RANGE),
        ((LOW, 0), RANGE),
        ((HIGH, 0), RANGE),
        ((7, 0), ""),
    ],
    "s.row[a] = b": [((-1, 5), RANGE), ((8, 5), RANGE), ((7, 5), "")],
    "s.row[a] += b": [((8, 5), RANGE), ((7, 5), "")],
    "return s.grid[a, b]": [((4, 0), RANGE), ((0, 5), RANGE), ((1, -1), RANGE), ((3, 4), "")],
    "s.cube[1, a, b] = 1": [((3, 0), RANGE), ((0, 4), RANGE), ((2, 3), "")],
    "s.cube[a][b, 1] = 1": [((2, 0), RANGE), ((0, 3), RANGE), ((1, 2), "")],
    "s.fixed[a, b] = 1": [((3, 0), RANGE), ((-1, 0), RANGE), ((0, 6), RANGE), ((2, 5), "")],
    "s.singles[a] = 1": [((4, 0), RANGE), ((2**32, 0), RANGE), ((3, 0), "")],
    "s.none[a] = b": [((0, 5), RANGE), ((1, 5), RANGE)],
    "return s.none[0]": [((0, 0), RANGE)],
    "return len(leading(s.row, a))": [
        ((9, 0), "more than the row has"),
        ((-1, 0), "more than"),
        ((8, 0), ""),
    ],
    "s.hollow[a, b] = 3": [((0, 0), RANGE)],
    "row = s.hollow[0]\n    row[1] = 3": [((0, 0), RANGE)],
    "return s.records[a].wide": [((4, 0), RANGE), ((-1, 0), RANGE), ((3, 0), "")],
    "w = s.records[a]\n    w.tiny = b": [
        ((4, 0), RANGE),
        ((0, 128), "a number beyond 8 bits"),
        ((3, -128), ""),
    ],
    "s.records[0].parts[a] = 1": [((3, 0), RANGE), ((2, 0), "")],
    "s.records[0].bits[a, b] = 1": [((2, 0), RANGE), ((0, 3), RANGE), ((1, 2), "")],
    "s.records[a] = s.records[b]": [((4, 0), RANGE), ((0, 4), RANGE), ((1, 2), "")],
    "s.middles[0] = a": [
        ((2**31, 0), "a number beyond 32 bits"),
        ((-(2**31), 0), ""),
        ((LOW, 0), "a number beyond 32"),
    ],
    "s.shorts[1, 1] += a": [((2**15, 0), "a number beyond 16 bits"), ((2**15 - 1, 0), "")],
    "s.floats[0] = float(a) / b": [((1, 0), ZERO), ((0, 0), ZERO), ((1, 3), "")],
    "return int(float(a) * 2.0)": [
        ((HIGH, 0), BEYOND),
        ((2**62, 0), BEYOND),
        ((LOW, 0), BEYOND),
        ((2**61, 0), ""),
    ],
    "return int(float(a))": [((HIGH, 0), BEYOND), ((LOW, 0), ""), ((2**62, 0), "")],
    "return int(NAN)": [((0, 0), BEYOND)],
    "s.words[0] = np.uint64(a)": [((-1, 0), "a negative number made unsigned"), ((HIGH, 0), "")],
    "return np.int64(~np.uint64(a))": [((0, 0), BEYOND)],
    "return np.int64(~(~np.uint64(a)))": [((5, 0), "")],
    "s.words[0] = np.uint64(a) * np.uint64(b) - np.uint64(9)": [((HIGH, HIGH), ""), ((0, 0), "")],
    "s.words[0] = np.uint64(a) // np.uint64(b)": [((1, 0), ZERO), ((1, 1), "")],
    "s.words[0] = np.uint64(a) << (np.uint64(0) - np.uint64(b))": [((1, 1), ""), ((1, 2), "")],
    "return a if b else a + 1": [((HIGH, 1), ""), ((HIGH, 0), BEYOND)],
    "return b != 0 and a // b": [((1, 0), ""), ((LOW, -1), BEYOND)],
    "for i in range(a, HIGHEST, 5):\n        b += 1": [((HIGH - 7, 0), ""), ((HIGH - 7, HIGH - 1), BEYOND)],
}
BODIES = list(CASES)
HEAD = f"""\
import math
import numpy as np
from lumen_policy.native import leading

LOWEST = {LOW}
HIGHEST = {HIGH}
NAN = math.nan
"""


@pytest.fixture(scope="module")
def each(tmp_path_factory: pytest.TempPathFactory) -> tuple[Compiled, list[str]]:
    """A function for each case, and the text's lines."""
    text = HEAD
    for number, body in enumerate(BODIES):
        end = "" if "return" in body else "    return 77\n"
        text += f"\n\ndef f{number}(s, a, b):\n    {body}\n{end}"
    module = load(tmp_path_factory.mktemp("checked"), text)
    return Compiled(
        [getattr(module, f"f{number}") for number in range(len(BODIES))], checked=True
    ), text.splitlines()


@pytest.mark.parametrize("body", BODIES)
def test_trouble(each: tuple[Compiled, list[str]], body: str) -> None:
    """Noted with its line, and the function ends with 0; what is right is done and leaves no note."""
    compiled, lines = each
    name = f"f{BODIES.index(body)}"
    for numbers, expected in CASES[body]:
        state, before = fresh(3), fresh(3)
        state.middles[0] = state.shorts[1, 1] = before.middles[0] = before.shorts[1, 1] = 0
        result = compiled(name, state, *numbers)
        assert untouched(state), numbers
        if expected:
            assert expected in compiled.trouble, numbers
            assert compiled.trouble.endswith(f"(in {name})")
            place = compiled.trouble.partition(".py:")[2]
            assert lines[int(place.partition(":")[0]) - 1].strip() in body
            assert result == 0
            assert differences(state, before) == []
        else:
            assert compiled.trouble == "", numbers
            assert "return" in body or result == 77


SEVERAL = """\
from lumen_policy.native import inline


def decide(s, a, b):
    return a + b


def plain(s, a, b):
    return a + b


def entry(s, a, b):
    s.row[0] = decide(s, a, b)
    s.row[1] = plain(s, a, b)
    s.row[2] = a + b
    return 5


def own(s, a, b):
    total = changed(s.row, a) * 3  # tripled
    s.row[4] = 1
    return (
        total
        + halved(a)
        + plain(
            s,
            a,
            b * 2,  # doubled
        )
    )


def changed(row, i):
    nothing(row, i)
    return row[
        i
    ]


def nothing(row, i):
    row[i] += row[i] * 2305843009213693952  # multiplied


@inline
def halved(x):
    return pair(x)


def pair(x):
    y, z = both(x)
    return y - int(z)


def both(x):
    return 100 // x, 1.5 / x  # divided


def of_row(row, a):
    return row[a]


def without_state(row, a):
    return of_row(row, a)  # without state


def handless(s, a, b):
    return without_state(s.row, a)


def half(s, a, b):  # half
    return 0.5
"""


def marked(mark: str) -> str:
    """The end of a path and the line of SEVERAL with this mark."""
    return next(
        f".py:{line}: " for line, text in enumerate(SEVERAL.splitlines(), 1) if text.endswith(f"# {mark}")
    )


@pytest.fixture
def module(tmp_path: Path) -> Any:
    return load(tmp_path, SEVERAL)


def test_only_functions_from_outside_are_checked(module: Any) -> None:
    """What stands in for another function is checked with whatever it calls; the rest wraps around."""
    compiled = Compiled([module.entry], {module.decide: module.own})
    state = fresh()
    assert compiled("entry", state, 2, HIGH) == 5
    assert compiled.trouble.endswith(marked("doubled") + "a number beyond 64 bits (in own)")
    assert state.row.tolist() == [0, LOW + 1, LOW + 1, 0, 1, 0, 0, 0]
    state = fresh()
    assert compiled("entry", state, 2, 3) == 5
    assert compiled.trouble == ""
    assert state.row[:3].tolist() == [50 + 2 + 6, 5, 5]


@pytest.mark.parametrize(
    ("numbers", "mark", "said"),
    [
        ((9, 0), "multiplied", RANGE + " (in nothing)"),
        ((0, 0), "divided", ZERO + " (in both)"),
        ((3, 0), "multiplied", BEYOND + " (in nothing)"),
        ((1, 0), "tripled", BEYOND + " (in own)"),
        ((4, HIGH), "doubled", BEYOND + " (in own)"),
    ],
)
def test_the_first_trouble_counts(module: Any, numbers: tuple[int, int], mark: str, said: str) -> None:
    """The innermost line is named, and no caller goes on."""
    compiled = Compiled([module.own], checked=True)
    state = fresh()
    state.row[:4] = 0, 2, 0, 100
    assert compiled("own", state, *numbers) == 0
    assert state.row[4] == (mark in ("divided", "doubled"))
    assert compiled.trouble.endswith(marked(mark) + said)
    assert untouched(state)


def test_a_function_from_outside_needs_the_state(module: Any) -> None:
    """Its trouble has to be noted somewhere; it must return an int, as what it stands for does."""
    with pytest.raises(
        SubsetError, match=marked("without state") + "a function from outside needs the state around"
    ):
        Compiled([module.handless], {module.of_row: module.of_row})
    with pytest.raises(SubsetError, match=marked("half") + "it must return an int, not a float"):
        Compiled([module.entry], {module.decide: module.half})


def test_threads_share_code_but_no_state(module: Any) -> None:
    """Each call notes its trouble in its own state."""
    compiled = Compiled([module.own], checked=True)
    call, sites = compiled._loaded.calls["own"], compiled.sites
    wrong: list[object] = []

    def work(index: int) -> None:
        for _ in range(300):
            state = fresh()
            table = LAYOUT.words(state)
            result = call(table.ctypes.data, index, 1)
            code = int(table[LAYOUT.trouble_word])
            if index > 7:
                right = code != 0 and RANGE in sites[code - 1]
            else:
                right = code == 0 and result == 100 // index + index + 2
            if not right:
                wrong.append((index, code, result))

    threads = [threading.Thread(target=work, args=(index,)) for index in (3, 9, 5, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
