"""Every construct of the subset, compiled, against the same function as plain Python or against numbers by hand."""

from __future__ import annotations

import ctypes
import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lumen_policy.native.plain import from_plain, to_plain
from native import constructs
from native.harness import LAYOUT, Compiled, differences, fresh, untouched, wrapped
from native.random_programs import EDGES

ENTRIES = {
    name: function
    for name, function in vars(constructs).items()
    if inspect.isfunction(function)
    and function.__module__ == constructs.__name__
    and function.__code__.co_varnames[: function.__code__.co_argcount][0] == "s"
    and function.__code__.co_argcount == 3
    and name not in ("several", "several_again")
}
SMALL = (-100, -7, -1, 0, 1, 2, 3, 5, 8, 31)


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return Compiled(list(ENTRIES.values()))


def plainly(name: str, state: Any, a: int, b: int) -> Any:
    plain = to_plain(LAYOUT, state)
    with np.errstate(over="ignore", divide="ignore"):
        result = ENTRIES[name](plain, a, b)
    from_plain(LAYOUT, plain, state)
    return result


def _shift_left(a: int, b: int) -> int:
    return a << b if 0 <= b < 64 else 0


def _shift_right(a: int, b: int) -> int:
    return a >> (b if 0 <= b < 64 else 63)


BY_HAND: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b if b else 0,
    "modulo": lambda a, b: a % b if b else 0,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "negated": lambda a, b: -a,
    "inverted": lambda a, b: ~a,
    "magnitude": lambda a, b: abs(a),
    "divided_by_constants": lambda a, b: (a // 7) ^ (a % 7) ^ (a // -7) ^ (a % -7) ^ a,
    "divided_by_minus_one": lambda a, b: -a,
    "divided_by_zero": lambda a, b: 0,
    "shifted_by_constants": lambda a, b: (a << 3) ^ (a >> 3) ^ a ^ (a >> 63) ^ (a << 63),
    "lowest_of_all": lambda a, b: -(2**63),
    "least_and_most": lambda a, b: min(a, b, 5) ^ (max(a, b) << 1) ^ min(max(a, -3), b, a, 0),
    "compared": lambda a, b: constructs.compared(None, a, b),
    "rounded": lambda a, b: 1,
}


@pytest.mark.parametrize("name", BY_HAND)
def test_ints_wrap_around(compiled: Compiled, name: str) -> None:
    """Operators on ints are Python's, in 64 bits; a division by zero gives 0, a shift may have any width."""
    state = fresh()
    for a, b in itertools.product(EDGES, repeat=2):
        assert compiled(name, state, a, b) == wrapped(BY_HAND[name](a, b)), (a, b)


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in BY_HAND and name != "truncated"])
def test_as_in_python(compiled: Compiled, name: str) -> None:
    """INV-37: The same result and the same memory as the function as plain Python."""
    numbers = [abs(number) for number in SMALL] if name.startswith(("unsigned", "every", "drawn")) else SMALL
    for a, b in itertools.product(numbers, repeat=2):
        ours, theirs = _small_state(), _small_state()
        result = compiled(ENTRIES[name].__name__, ours, a, b)
        assert result == plainly(name, theirs, a, b), (a, b)
        assert differences(ours, theirs) == [], (a, b)
        assert untouched(ours)
        assert compiled.trouble == ""


def _small_state() -> Any:
    """A state of small numbers: what plain Python adds to them fits everywhere."""
    state = fresh()
    counter = itertools.count(-20)
    for name in LAYOUT.fields:
        array = getattr(state, name)
        for column in (
            [array] if array.dtype.fields is None else [array[field] for field in array.dtype.names]
        ):
            column[...] = np.array([abs(next(counter) % 47) for _ in range(column.size)]).reshape(
                column.shape
            )
    return state


def test_unsigned_ones_wrap_around(compiled: Compiled) -> None:
    """np.uint64 counts modulo 2**64 and has no sign."""
    for a, b in itertools.product(EDGES, repeat=2):
        state = fresh()
        compiled("unsigned", state, a, b)
        x, y = a % 2**64, b % 2**64
        shifted = (x << y) ^ (x >> y) if y < 64 else 0
        last = -x ^ (2**64 - 1 - y) ^ x ^ min(x, y) ^ max(x, y)
        expected = [
            x + y,
            x - y,
            x * y,
            x // y if y else 0,
            x % y if y else 0,
            (x & y) ^ (x | y),
            shifted,
            last,
        ]
        assert state.words.tolist() == [number % 2**64 for number in expected]
        bits = (x < y, x <= y, x == y, x != y, x > y, x >= y, x in (y, 3), x == 0)
        assert compiled("unsigned_compared", state, a, b) == sum(
            bit << place for place, bit in enumerate(bits)
        )


def test_ints_and_floats_are_compared_exactly(compiled: Compiled) -> None:
    """Beyond 2**53 a float is still compared with the int itself; a NaN equals nothing."""
    floats = [float(number) for number in EDGES]
    floats += [
        0.5,
        -0.5,
        2.0**63,
        -(2.0**63),
        1e300,
        math.inf,
        -math.inf,
        math.nan,
        math.nextafter(2.0**63, 0),
    ]
    floats += [math.nextafter(number, math.inf) for number in floats]
    state = fresh()
    for number in floats:
        state.floats[0] = number
        for a in EDGES:
            assert compiled("compared_to_float", state, a, 0) == plainly("compared_to_float", state, a, 0), (
                a,
                number,
            )


def test_int_of_a_float(compiled: Compiled) -> None:
    """Towards zero; beyond 64 bits the nearest, and 0 for what is no number."""
    state = fresh()
    for number, whole in [
        (2.9, 2),
        (-2.9, -2),
        (-0.0, 0),
        (1e300, 2**63 - 1),
        (-math.inf, -(2**63)),
        (math.nan, 0),
        (-(2.0**63), -(2**63)),
    ]:
        state.floats[:2] = number, 0.5
        assert compiled("truncated", state, 0, 0) == whole
        state.floats[:2] = 0.5, number
        assert compiled("truncated", state, 0, 0) == whole


def test_float_of_an_int_is_rounded_to_even(compiled: Compiled) -> None:
    state = fresh()
    for number in (*EDGES, 2**53 + 3, -(2**60) - 129, 2**63 - 513):
        compiled("rounded", state, number, 0)
        assert state.floats[0] == float(number)


def test_narrow_places_keep_the_low_bits(compiled: Compiled) -> None:
    """A field of 32, 16 or 8 bits is cut when stored and widened with its sign when read."""
    for a, b in itertools.product(EDGES, EDGES[::5]):
        state = fresh(1)
        result = compiled("every_width", state, a, b)
        w = state.records[2]
        assert [w["wide"], w["middle"], w["short"], w["tiny"]] == [
            wrapped(a, bits) for bits in (64, 32, 16, 8)
        ]
        assert (w["word"], w["share"], w["parts"][2]) == (b % 2**64, float(b), a)
        assert w["bits"][1, 2] == state.tinies[7] == wrapped(a, 8)
        assert state.middles[3] == wrapped(a, 32)
        assert state.shorts[1, 2] == wrapped(b, 16)
        assert result == wrapped(a) ^ wrapped(a, 16) ^ wrapped(b, 16) ^ wrapped(a, 8)
        assert untouched(state)


def test_a_copied_record_is_whole(compiled: Compiled) -> None:
    """``a[i] = a[j]`` copies every byte, wherever the last field ends."""
    state = fresh(4)
    before = state.records[1].copy()
    compiled("copied", state, 0, 0)
    changed = before.copy()
    changed["parts"][0] = wrapped(int(before["parts"][0]) + 1)
    assert state.records[0] == changed
    assert state.records[3] == changed
    assert state.pairs[1, 2]["wide"] == state.pairs[0, 1]["wide"]


def test_code_lives_as_long_as_what_calls_it() -> None:
    """The function of a module may be kept without the module."""
    kept = Compiled([constructs.add])._loaded.calls["add"]
    assert isinstance(kept, ctypes._CFuncPtr)
    assert kept(LAYOUT.words(fresh()).ctypes.data, 2, 3) == 5
