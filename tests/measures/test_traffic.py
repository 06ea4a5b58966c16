"""Checkpoint traffic and the handling of faults, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lumen_policy.measures.handling import handling
from lumen_policy.measures.traffic import traffic
from lumen_policy.replay.contract import PS_PER_S, RecoveryRules
from tests.measures.builder import COUNTERS, ints, replay_input, replay_output

S = PS_PER_S


def test_tokens_add_up() -> None:
    """1,000 sent = 900 arrived + 60 refused + 40 lost; 900 = 100 evicted + 700 released + 100 held. A page of 16
    tokens has 1,600 bytes.
    """
    counters = COUNTERS | {
        "sent_tokens": 1000,
        "arrived_tokens": 900,
        "refused_tokens": 60,
        "lost_tokens": 40,
        "evicted_tokens": 100,
        "evictions": 3,
        "released_tokens": 700,
        "egress_wait_ps": S // 4,
        "ingress_wait_ps": 2 * S,
    }
    inp = replay_input([0])
    found = traffic(inp, replay_output(inp, [1], [2], counters=counters))
    assert found.sent_tokens == found.arrived_tokens + found.refused_tokens + found.lost_tokens
    assert found.arrived_tokens == found.evicted_tokens + found.released_tokens + found.held_tokens
    assert (found.held_tokens, found.sent_bytes, found.evictions) == (100, 100_000, 3)
    assert (found.egress_wait_s, found.ingress_wait_s) == (0.25, 2.0)


@pytest.mark.parametrize(("regenerate", "partial"), [(False, 2), (True, 0)])
def test_partial_restores(regenerate: bool, partial: int) -> None:
    """Prompts of 10 tokens. Existing KV at the interruption, whole pages, and what came back:
    request 0: 10 + 7 - 1 = 16 → 16, back 16: whole.
    request 1: 10 + 30 - 1 = 39 → 32, back 16: partial.
    request 2: 32 and 64, back 64 of 96: partial.
    request 3: 32, back 0: failed, not partial.
    request 4: recomputed, back 0.
    With regenerate only the prompt's 9 tokens counted: no whole page of any was lost.
    """
    inp = replace(replay_input([0] * 5), rules=RecoveryRules(regenerate=regenerate))
    out = replay_output(
        inp,
        [1] * 5,
        [2] * 5,
        restored_tokens=ints([16, 16, 64, 0, 0]),
        preemptions=ints([0, 2, 1, 0, 0]),
        interruption_request=ints([0, 1, 2, 2, 3, 4]),
        interruption_delivered=ints([7, 30, 30, 60, 30, 30]),
        interruption_restored=ints([1, 1, 1, 1, 1, 0]),
        counters=COUNTERS | {"failed_restores": 1, "restores": 4, "sent_after_crash": 5, "migrated": 6},
    )
    found = handling(inp, out)
    assert found.partial_restores == partial
    assert (found.failed_restores, found.restores, found.preemptions) == (1, 4, 3)
    assert (found.sent_into_void, found.migrated, found.refused_sends) == (5, 6, 0)
