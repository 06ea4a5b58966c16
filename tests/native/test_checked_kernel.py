"""The kernel with every check: it never indexes out of range, and no number outgrows its bits."""

from __future__ import annotations

import pytest
from twin.compare import compare
from twin.strategies import random_input

from lumen_policy.native.machine import Loaded, compile_object
from lumen_policy.native.module import Module
from lumen_policy.replay.engine import replay
from lumen_policy.replay.kernel import program
from lumen_policy.replay.kernel.state import LAYOUT

SEEDS = range(60)


def test_the_kernel_has_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-38: compiled with checks, the kernel replays as it does without, and notes nothing."""
    inputs = [random_input(seed) for seed in SEEDS]
    expected = [replay(one) for one in inputs]
    module = Module(LAYOUT, program.ENTRIES, checked=True)
    entries = {entry.name: (entry.ints, module.returns[entry.name]) for entry in program.ENTRIES}
    checked = program.Program(Loaded(compile_object(module.text()), entries), module.sites)
    assert len(module.sites) > 1000
    used = []
    monkeypatch.setattr(program, "compiled", lambda rules=None: used.append(rules) or checked)
    different = {}
    for seed, one, output in zip(SEEDS, inputs, expected, strict=True):
        differences = compare(replay(one), output)
        if differences:
            different[seed] = differences
    assert different == {}
    assert len(used) >= len(SEEDS)
