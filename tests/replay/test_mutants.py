"""Kernel bugs, each caught by the comparison with the twin: the comparison can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from twin import compare

from .mutants import MUTANTS, Mutant, copy_package, replay_in, twin_output


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_bug_is_caught(mutant: Mutant, tmp_path: Path) -> None:
    """INV-2: a copy of the package with this bug differs from the twin on each of its seeds."""
    package = copy_package(tmp_path)
    mutant.apply(package)
    outputs = replay_in(package, [mutant.inputs(seed) for seed in mutant.seeds])
    for seed, output in zip(mutant.seeds, outputs, strict=True):
        assert compare(output, twin_output(mutant.inputs, seed)) != [], f"seed {seed} does not show it"


def test_without_a_bug_there_is_no_difference(tmp_path: Path) -> None:
    """INV-2: the unpatched copy, run in the same way, equals the twin on all seeds of all bugs."""
    cases = sorted({(mutant.inputs, seed) for mutant in MUTANTS for seed in mutant.seeds}, key=str)
    outputs = replay_in(copy_package(tmp_path), [inputs(seed) for inputs, seed in cases])
    for case, output in zip(cases, outputs, strict=True):
        assert compare(output, twin_output(*case)) == [], case[1]


def test_no_patch_is_stale_or_twice() -> None:
    """INV-2: at least ten different bugs, in the kernel and in the decisions it compiles."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 10
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.file.split("/")[0] for mutant in MUTANTS} == {"decide", "replay"}
    assert all(mutant.seeds for mutant in MUTANTS)
