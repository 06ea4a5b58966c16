"""Kernel bugs, each caught by the comparison with the twin: the comparison can fail."""

from __future__ import annotations

from typing import Any

import pytest
from twin import compare

import lumen_policy.replay.engine as engine_before

from .mutants import MUTANTS, Mutant, kernel_with, twin_output


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_bug_is_caught(mutant: Mutant) -> None:
    """INV-2: a kernel with this bug differs from the twin on each of its seeds."""
    with kernel_with(mutant) as replay:
        for seed in mutant.seeds:
            differences = compare(replay(mutant.inputs(seed)), twin_output(mutant.inputs, seed))
            assert differences != [], f"seed {seed} does not show it"


@pytest.mark.parametrize("part", range(8))
def test_without_a_bug_there_is_no_difference(part: int) -> None:
    """INV-2: the kernel imported in the same way without one equals the twin on all seeds of all bugs."""
    cases: list[Any] = sorted({(mutant.inputs, seed) for mutant in MUTANTS for seed in mutant.seeds}, key=str)
    with kernel_with(None) as replay:
        for inputs, seed in cases[part::8]:
            assert compare(replay(inputs(seed)), twin_output(inputs, seed)) == [], seed


def test_the_kernel_is_the_own_one_again() -> None:
    """INV-2: what is patched is a second import; the first one stays as it was."""
    with kernel_with(MUTANTS[0]) as replay:
        assert replay is not engine_before.replay
    from lumen_policy.replay import engine

    assert engine is engine_before


def test_no_patch_is_stale_or_twice() -> None:
    """INV-2: at least ten different bugs, in the kernel and in the decisions it compiles."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 10
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.file.split("/")[0] for mutant in MUTANTS} == {"decide", "replay"}
    assert all(mutant.seeds for mutant in MUTANTS)
