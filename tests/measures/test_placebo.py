"""The placebo: told from its own arrivals, and zero where nothing changed."""

from __future__ import annotations

import numpy as np

from lumen_policy.measures.options import RecoveryOptions
from lumen_policy.measures.placebo import placebo, rebased
from lumen_policy.measures.times import request_times
from lumen_policy.replay.contract import NONE, PS_PER_S

from .builder import ints, replay_input, replay_output

S = PS_PER_S


def test_a_run_moved_with_its_arrivals_is_the_same_run() -> None:
    """Arrivals and tokens of request i all moved by shift i: TTFT and E2E stay, so the excess is zero."""
    inp = replay_input([0, 10 * S, 20 * S], crashes=[(5 * S, 0)])
    still = replay_output(inp, [2 * S, 13 * S, 24 * S], [9 * S, 19 * S, 30 * S])
    shift = ints([0, 3, -7])
    moved = replay_output(inp, (still.first_ps + shift).tolist(), (still.last_ps + shift).tolist())
    measured = placebo(inp, rebased(moved, shift), still, 100 * S, RecoveryOptions())
    assert measured.excess_ps == 0
    assert measured.no_impact
    assert measured.recovery_time_s == 0


def test_what_takes_longer_counts() -> None:
    """Request 1 arrives 3 ps later and ends 8 ps later: 5 ps of excess; request 0 left before the crash."""
    inp = replay_input([0, 10 * S], crashes=[(9 * S, 0)])
    still = replay_output(inp, [2 * S, 13 * S], [9 * S, 19 * S])
    moved = replay_output(inp, [2 * S + 1, 13 * S + 3], [9 * S, 19 * S + 8])
    measured = placebo(inp, rebased(moved, ints([0, 3])), still, 100 * S, RecoveryOptions())
    assert (measured.affected, measured.excess_ps) == (1, 5)


def test_what_never_happened_stays_so() -> None:
    inp = replay_input([0, S])
    run = replay_output(inp, [S, NONE], [2 * S, NONE], status=ints([1, 0]))
    told = rebased(run, ints([4, 4]))
    assert told.first_ps.tolist() == [S - 4, NONE]
    assert not request_times(inp, told).finished[1]
    assert np.array_equal(rebased(run, ints([0, 0])).last_ps, run.last_ps)
