"""Random programs compute what Python computes in 64 bits, and leave the same memory.

``FUZZ=N`` tries N more modules of them, from seed ``FUZZ_FROM`` (default 1,000,000) on.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from native.harness import Compiled, differences, fresh, load, untouched
from native.random_programs import EDGES, random_program
from native.reference import Reference, TroubleError

FUNCTIONS = 6
CALLS = 4
SMALL = (0, 1, 2, 3, 7, -1, -5, 100)


def wrong(random: Random, *, checked: bool) -> list[str]:
    """What a module of random programs computes differently from the reference."""
    text, names = random_program(random, FUNCTIONS, careful=checked)
    with TemporaryDirectory() as folder:
        module = load(Path(folder), text)
        compiled = Compiled([getattr(module, name) for name in names], checked=checked)
    reference = Reference(text, checked=checked)
    found = []
    for name in names:
        for _ in range(CALLS):
            seed = random.randrange(1000)
            numbers = random.choices(SMALL if checked else EDGES, k=2)
            ours, theirs = fresh(seed), fresh(seed)
            got = compiled(name, ours, *numbers)
            where = f"{name}{tuple(numbers)} on state {seed}"
            try:
                expected = reference(name, theirs, *numbers)
            except TroubleError as trouble:
                if f".py:{trouble.line}: " not in compiled.trouble or got != 0 or differences(ours, theirs):
                    changed = differences(ours, theirs)
                    found.append(f"{where}: trouble {compiled.trouble!r} instead of {trouble} {changed}")
            else:
                if compiled.trouble or got != int(expected) or differences(ours, theirs):
                    changed = differences(ours, theirs)
                    found.append(f"{where}: {got} instead of {expected} {changed} {compiled.trouble}")
            if not untouched(ours):
                found.append(f"{where}: foreign memory")
    return found and [text, *found]


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=8, phases=[Phase.generate])
def test_programs(seed: int) -> None:
    """INV-37: Results and memory of random programs are those of Python in 64 bits."""
    assert wrong(Random(seed), checked=False) == []


@pytest.mark.parametrize("seed", range(5))
def test_checked_programs(seed: int) -> None:
    """A checked program computes as Python does up to the first trouble, whose line it notes."""
    assert wrong(Random(seed), checked=True) == []


@pytest.mark.skipif("FUZZ" not in os.environ, reason="FUZZ=N tries N more modules")
def test_more_programs() -> None:
    """As many more as the environment asks for, every third one checked."""
    first = int(os.environ.get("FUZZ_FROM", "1000000"))
    failed = {}
    for seed in range(first, first + int(os.environ.get("FUZZ", "0"))):
        found = wrong(Random(seed), checked=seed % 3 == 0)
        if found:
            failed[seed] = found[1:]
            print(f"seed {seed}: {found[1]}")
    assert failed == {}
