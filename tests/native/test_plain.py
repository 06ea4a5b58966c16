"""The state of plain Python: there and back, and the same programs on it as in compiled code."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.native.plain import from_plain, to_plain
from native.harness import LAYOUT, Compiled, differences, fresh, load
from native.random_programs import random_program


@given(st.integers(0, 2**32 - 1))
def test_there_and_back(seed: int) -> None:
    """Every number of every array comes back, into arrays that held others."""
    state, other = fresh(seed), fresh(seed + 1)
    from_plain(LAYOUT, to_plain(LAYOUT, state), other)
    assert differences(state, other) == []


def test_plain_numbers_are_pythons() -> None:
    """Ints and floats; unsigned ones stay numpy's."""
    plain = to_plain(LAYOUT, fresh(1))
    assert {type(plain.row[0]), type(plain.grid[1, 2]), type(plain.records[0].tiny)} == {int}
    assert {type(plain.pairs[1, 2].middle), type(plain.others[1].bits[0, 2]), type(plain.cube[1][2, 0])} == {
        int
    }
    assert {type(plain.floats[0]), type(plain.records[0].share)} == {float}
    assert {type(plain.words[0]), type(plain.records[1].word)} == {np.uint64}


def test_shapes() -> None:
    """Lengths and shapes of rows and rows of rows."""
    plain = to_plain(LAYOUT, fresh())
    assert (len(plain.row), len(plain.grid), plain.grid.shape, len(plain.grid[1])) == (8, 4, (4, 5), 5)
    assert (plain.cube[1].shape, len(plain.cube[0, 1]), plain.records[0].bits.shape) == ((3, 4), 4, (2, 3))
    assert (len(plain.none), len(plain.hollow), plain.hollow.shape) == (0, 0, (0, 3))


def test_rows_are_the_same_memory() -> None:
    """A row of a row is no copy; an assigned record is one, with its rows."""
    state = fresh(1)
    plain = to_plain(LAYOUT, state)
    plane, line = plain.cube[1], plain.cube[1, 2]
    plane[2, 3] = 7
    assert line[3] == plain.cube[1, 2, 3] == 7
    kept = plain.records[0].parts
    plain.records[0] = plain.records[1]
    plain.records[1].parts[0] = 5
    plain.records[1].bits[1, 1] = 6
    assert plain.records[0].parts is kept
    assert kept[0] == state.records[1]["parts"][0] != 5
    assert plain.records[0].bits[1, 1] == state.records[1]["bits"][1, 1] != 6
    plain.pairs[1, 2] = plain.pairs[0, 0]
    plain.pairs[0, 0].wide = 1
    assert plain.pairs[1, 2].wide == state.pairs[0, 0]["wide"]


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.row.__setitem__(0, 2**63),
        lambda plain: plain.grid.__setitem__((1, 1), -(2**63) - 1),
        lambda plain: plain.fixed.__setitem__((1, 1), 2**64),
        lambda plain: plain.middles.__setitem__(0, 2**31),
        lambda plain: plain.shorts.__setitem__((0, 0), 2**15),
        lambda plain: plain.tinies.__setitem__(0, -129),
        lambda plain: plain.words.__setitem__(0, -1),
        lambda plain: setattr(plain.records[0], "tiny", 128),
        lambda plain: setattr(plain.pairs[1, 2], "middle", 2**40),
        lambda plain: plain.records[2].parts.__setitem__(0, 2**63),
        lambda plain: plain.others[2].bits.__setitem__((0, 0), 300),
        lambda plain: setattr(plain.records[0], "short", np.int64(2**15)),
    ],
)
def test_a_number_without_room(change: Any) -> None:
    """What compiled code would have wrapped around or cut shows on the way back."""
    state = fresh()
    plain = to_plain(LAYOUT, state)
    change(plain)
    with pytest.raises(OverflowError):
        from_plain(LAYOUT, plain, state)


def test_random_programs(tmp_path: Path) -> None:
    """Where a checked program has no trouble, plain Python leaves the same result and memory."""
    compared = 0
    for seed in range(500, 506):
        random = Random(seed)
        text, names = random_program(random, 6, careful=True)
        module = load(tmp_path, text)
        compiled = Compiled([getattr(module, name) for name in names], checked=True)
        for name in names:
            for _ in range(4):
                ours, theirs = fresh(), fresh()
                a, b = random.randrange(8), random.randrange(8)
                for state in (ours, theirs):
                    state.row[:] = np.arange(8)
                    state.grid[...] = np.arange(20).reshape(4, 5)
                    state.floats[:] = np.arange(1, 9) / 4
                    state.records["wide"] = state.others["short"] = np.arange(4)
                result = compiled(name, ours, a, b)
                if compiled.trouble:
                    continue
                plain = to_plain(LAYOUT, theirs)
                with np.errstate(over="ignore", divide="ignore"):
                    assert result == getattr(module, name)(plain, a, b)
                from_plain(LAYOUT, plain, theirs)
                assert differences(ours, theirs) == []
                compared += 1
    assert compared > 20
