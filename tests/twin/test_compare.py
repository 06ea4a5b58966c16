"""The comparison of two outputs."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from lumen_policy.replay.contract import ReplayOutput

from .compare import compare
from .simulation import replay
from .strategies import random_input


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


class TestCompare:
    def test_runs_stand_for_their_steps(self) -> None:
        """A record of three steps of 10, 12, 14 equals three records."""
        output = replay(random_input(3))
        short = replace(
            output,
            gap_end_ps=ints(100, 112, 126),
            gap_ps=ints(10, 12, 14),
            gap_growth_ps=ints(0, 0, 0),
            gap_steps=ints(1, 1, 1),
            gap_sequences=ints(2, 2, 2),
        )
        run = replace(
            output,
            gap_end_ps=ints(100),
            gap_ps=ints(10),
            gap_growth_ps=ints(2),
            gap_steps=ints(3),
            gap_sequences=ints(2),
        )
        assert compare(short, run) == []
        assert compare(output, run) != []

    def test_every_field_is_looked_at(self) -> None:
        output = replay(random_input(3))
        for field in fields(ReplayOutput):
            value = getattr(output, field.name)
            if isinstance(value, np.ndarray) and (value.size == 0 or field.name.startswith("gap_")):
                continue
            if not isinstance(value, dict):
                changed = replace(output, **{field.name: value + 1})
            else:
                changed = replace(output, counters={**value, "restores": value["restores"] + 1})
            assert compare(output, changed) != [], field.name

    def test_how_the_kernel_worked_is_not_compared(self) -> None:
        output = replay(random_input(3))
        leapt = {**output.counters, "leaps": 9, "leap_count": 3, "ordered_syncs": 1}
        assert compare(output, replace(output, counters=leapt)) == []
