"""The decision functions, compiled: the same code that the twin and a gateway call."""

from __future__ import annotations

from typing import Any

import numpy as np

from lumen_policy.decide import assist, placement, routing
from lumen_policy.replay.kernel.jit import compile_inline, compile_plain

__all__ = [
    "choose_holder",
    "choose_target",
    "drafts_per_pass",
    "draw",
    "kv_load",
    "least_kv",
    "least_loaded",
    "next_on_ring",
    "power_of_two",
    "prefer_holder",
    "round_robin",
    "shortest_queue",
    "worth_drafting",
]

kv_load = compile_inline(placement.kv_load)
choose_holder = compile_plain(placement.choose_holder)
next_on_ring = compile_plain(placement.next_on_ring)
shortest_queue = compile_plain(routing.shortest_queue)
least_kv = compile_plain(routing.least_kv)
round_robin = compile_plain(routing.round_robin)
power_of_two = compile_plain(routing.power_of_two)
prefer_holder = compile_inline(routing.prefer_holder)
least_loaded = compile_plain(routing.least_loaded)
choose_target = compile_plain(assist.choose_target)
drafts_per_pass = compile_inline(assist.drafts_per_pass)
worth_drafting = compile_inline(assist.worth_drafting)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


@compile_inline
def _mix(z: Any) -> Any:
    z = z + _GOLDEN
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return z ^ (z >> _S31)


@compile_inline
def draw(seed: Any, purpose: int, a: int, b: int) -> Any:
    """``lumen_policy.replay.draws.draw`` in 64-bit registers."""
    return _mix(_mix(_mix(seed ^ np.uint64(purpose)) ^ np.uint64(a)) ^ np.uint64(b))
