"""Uses of the four resources: by hand, and within their bounds on whole replays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from crash_table import Reload, crash_table
from twin.simulation import replay
from twin.strategies import random_input

from lumen_policy.measures.binding import RESOURCES, binding
from lumen_policy.replay.contract import PS_PER_S, ReplayInput, ReplayOutput

from .builder import ints, replay_input, replay_output

S = PS_PER_S


def by_hand(sequences: int) -> tuple[ReplayInput, ReplayOutput]:
    """Two workers, worker 0 down from 10 s on, window 10 … 30 s: 20 s of live worker time. One batch of
    ``sequences`` decodes in steps of 1 s from 10 to 20 s: 10 · sequences of 8 · 20 slot seconds.
    """
    inp = replace(
        replay_input([0, 30 * S], crashes=[(10 * S, 0)]),
        snapshot_ps=ints([15 * S, 25 * S, 35 * S]),
    )
    out = replay_output(
        inp,
        [S, 31 * S],
        [20 * S, 32 * S],
        [(11 * S, S, 0, 10, sequences)],
        outage_worker=ints([0]),
        outage_stop_ps=ints([10 * S]),
        outage_detection_ps=ints([13 * S]),
        outage_rejoin_ps=ints([-1]),
        snapshot_live=np.array([[0, 1]] * 3),
        snapshot_existing_tokens=ints([1200, 0, 7]),
    )
    return inp, out


def test_decode_and_kv_by_hand() -> None:
    """8 slots full half of the time; 1,200 and 0 of 1,600 KV tokens; the snapshot after the window is out."""
    inp, out = by_hand(8)
    uses = binding(inp, out, 20 * S)
    assert uses.decode == pytest.approx(0.5)
    assert uses.kv == pytest.approx(600 / 1600)
    assert (uses.prefill, uses.link) == (0, 0)
    assert uses.resource == "decode"
    assert binding(*by_hand(7), 20 * S).resource == "none"


def test_prefill_and_link_by_hand() -> None:
    """A full iteration of 512 tokens takes 1 s; 4 decodes leave room for 508. Prefilled: request 0's prompt of
    10 tokens and 498 recomputed ones: one full iteration in 20 s. Restored: one page in 2 s of 20 s.
    """
    inp, out = by_hand(8)
    target = replace(
        inp.costs.target, token_ps=np.arange(513) * (S // 512), lm_head_ps=np.zeros(9, dtype=np.int64)
    )
    inp = replace(inp, costs=replace(inp.costs, target=target, restore_ps=ints([0, 2 * S])))
    out = replace(
        out,
        first_ps=ints([12 * S, 31 * S]),
        recomputed_tokens=ints([498, 77]),
        restored_tokens=ints([16, 0]),
        interruption_request=ints([0, 1]),
        interruption_restored=ints([1, 1]),
        interruption_next_ps=ints([15 * S, 31 * S]),
    )
    uses = binding(inp, out, 20 * S)
    assert uses.prefill == pytest.approx(0.05, rel=1e-9)
    assert uses.link == pytest.approx(0.1)


def test_an_empty_window_binds_nothing() -> None:
    inp, out = by_hand(8)
    late = replace(inp, faults=crash_table([31 * S], [0], [0], Reload(0, 0, 1, 0)))
    assert binding(late, out, 20 * S).resource is None


@pytest.mark.parametrize("seed", range(20))
def test_bounds_on_replays(seed: int) -> None:
    inp = random_input(seed)
    if not len(inp.faults):
        return
    uses = binding(inp, replay(inp), 10 * S)
    if uses.resource is None:
        return
    assert uses.resource in RESOURCES
    assert all(use is not None and use >= 0 for use in (uses.prefill, uses.decode, uses.kv, uses.link))
