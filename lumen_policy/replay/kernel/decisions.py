"""The decisions the kernel takes, by name: those of ``lumen_policy.decide``, which the twin and a gateway call too.

The kernel always asks ``decisions.name(…)``, so that ``replay.own_rules`` can put another function in its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lumen_policy.decide.assist import choose_target, drafts_per_pass, worth_drafting
from lumen_policy.decide.placement import choose_holder, kv_load, next_on_ring
from lumen_policy.decide.routing import (
    least_kv,
    least_loaded,
    power_of_two,
    prefer_holder,
    round_robin,
    shortest_queue,
)
from lumen_policy.native import inline

__all__ = [
    "CHOICES",
    "DRAFTS",
    "HOLDER",
    "ROUTE",
    "TARGET",
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
    "taken",
    "worth_drafting",
]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


HOLDER, ROUTE, TARGET, DRAFTS = 1, 2, 3, 4
"""What was chosen wrong, in ``GLOBAL.wrong_choice``."""
_NO_WORKER = "that is no number of a worker or is believed dead"
CHOICES: tuple[tuple[tuple[str, ...], str], ...] = (
    ((), ""),
    (
        ("choose_holder", "next_on_ring"),
        f"chose a holder {_NO_WORKER}, is the request's own worker, or is excluded by a rule of failure domains",
    ),
    (
        ("shortest_queue", "round_robin", "power_of_two", "least_kv", "least_loaded", "prefer_holder"),
        f"chose a worker {_NO_WORKER}",
    ),
    (("choose_target",), f"chose a worker {_NO_WORKER}, or has a drafter"),
    (("drafts_per_pass",), "chose fewer drafts than none, more than k, or more than fit in the token budget"),
)
"""Which decisions each of these is, and what that means."""


@inline
def taken(g: Any, live: Any, choice: int, what: int) -> int:
    """A choice of a worker, or -1: one from outside may name a worker that is no candidate, which is noted, and -1."""
    if choice == -1 or (choice >= 0 and choice < g.workers and live[choice] != 0):
        return choice
    g.wrong_choice = what
    return -1


@inline
def _mix(z: Any) -> Any:
    z = z + _GOLDEN
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return z ^ (z >> _S31)


@inline
def draw(seed: Any, purpose: int, a: int, b: int) -> Any:
    """``lumen_policy.replay.draws.draw`` in 64-bit registers."""
    return _mix(_mix(_mix(seed ^ np.uint64(purpose)) ^ np.uint64(a)) ^ np.uint64(b))
