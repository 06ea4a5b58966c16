"""The parts of a recovery, by hand.

x = 10 s      detected 13 s       last next token 15 s       in system back 30 s
|-- detect 3 --|-- restore + recompute 2 --|------ drain 15 ------|
               |------------------- reload 40 (rejoin 53 s) ---------------------|
"""

from __future__ import annotations

from typing import Any

from lumen_policy.measures.parts import RecoveryParts, recovery_parts
from lumen_policy.replay.contract import NONE, PS_PER_S, ReplayInput, ReplayOutput

from .builder import ints, replay_input, replay_output

S = PS_PER_S


def run_of(**facts: Any) -> tuple[ReplayInput, ReplayOutput]:
    inp = replay_input([0, 9 * S], crashes=[(10 * S, 0), (10 * S, 1), (40 * S, 0)], workers=3)
    known: dict[str, Any] = {
        "outage_worker": ints([0, 1, 0]),
        "outage_crash_ps": ints([10 * S, 10 * S, 40 * S]),
        "outage_detection_ps": ints([12 * S, 13 * S, 44 * S]),
        "outage_rejoin_ps": ints([50 * S, 53 * S, 90 * S]),
        "interruption_crash_ps": ints([10 * S, 10 * S, 10 * S, 40 * S]),
        "interruption_next_ps": ints([14 * S, 15 * S, NONE, 70 * S]),
    }
    return inp, replay_output(inp, [S, 15 * S], [2 * S, 70 * S], **(known | facts))


def test_as_drawn() -> None:
    """Only the workers, requests and outages of the first crash instant count."""
    assert recovery_parts(*run_of(), 20.0) == RecoveryParts(
        detect_s=3.0, restore_recompute_s=2.0, queue_drain_s=15.0, reload_s=40.0
    )


def test_a_queue_that_was_back_before_has_no_drain() -> None:
    assert recovery_parts(*run_of(), 4.0).queue_drain_s == 0.0
    assert recovery_parts(*run_of(), None).queue_drain_s is None


def test_what_did_not_happen() -> None:
    parts = recovery_parts(*run_of(outage_rejoin_ps=ints([50 * S, NONE, NONE])), 20.0)
    assert parts.reload_s is None
    parts = recovery_parts(*run_of(interruption_next_ps=ints([NONE, NONE, NONE, 70 * S])), 20.0)
    assert (parts.restore_recompute_s, parts.queue_drain_s) == (None, 17.0)
    parts = recovery_parts(*run_of(outage_detection_ps=ints([12 * S, NONE, NONE])), 20.0)
    assert parts == RecoveryParts(detect_s=None, restore_recompute_s=None, queue_drain_s=None, reload_s=None)
