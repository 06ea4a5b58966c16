"""The decision functions against brute force, and their compiled copies against themselves."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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
from lumen_policy.replay import draws
from lumen_policy.replay.kernel import decisions

from .inputs import INFINITE

WORKERS = 6
FLAGS = st.lists(st.integers(0, 1), min_size=WORKERS, max_size=WORKERS)
SMALL = st.lists(st.integers(0, 3), min_size=WORKERS, max_size=WORKERS)
WEIGHT = st.integers(0, 3)
DRAW = st.integers(0, 2**32 - 1)
UINT64 = st.integers(0, 2**64 - 1)


@numba.njit
def compiled_draw(seed: int, purpose: int, a: int, b: int) -> int:
    """The kernel's functions have no entry from Python but through compiled code."""
    return decisions.draw(seed, purpose, a, b)


@numba.njit
def compiled_least_loaded(live: Any, held: Any, queue: Any, a: int, b: int) -> int:
    return decisions.least_loaded(live, held, queue, a, b)


@numba.njit
def compiled_shortest_queue(live: Any, queue: Any) -> int:
    return decisions.shortest_queue(live, queue)


def least(candidates: Sequence[int], cost: Sequence[int]) -> int:
    """The first of the candidates with the smallest cost; -1 without candidates."""
    return min(candidates, key=lambda w: (cost[w], w), default=-1)


def believed(live: Sequence[int]) -> list[int]:
    return [w for w in range(len(live)) if live[w]]


def loads(token_weight: int, held: Sequence[int], request_weight: int, queue: Sequence[int]) -> list[int]:
    return [kv_load(token_weight, tokens, request_weight, q) for tokens, q in zip(held, queue, strict=True)]


@given(FLAGS, SMALL)
def test_argmins(live: list[int], cost: list[int]) -> None:
    """INV-4: smallest first, ties to the lowest index, -1 where nobody is believed live."""
    assert shortest_queue(live, cost) == least_kv(live, cost) == least(believed(live), cost)


@given(FLAGS, SMALL, SMALL, WEIGHT, WEIGHT)
def test_least_loaded(live: list[int], held: list[int], queue: list[int], a: int, b: int) -> None:
    """INV-4: argmin L over believed-live workers; with no weight on tokens the shortest queue."""
    assert least_loaded(live, held, queue, a, b) == least(believed(live), loads(a, held, b, queue))
    assert least_loaded(live, held, queue, 0, 1) == shortest_queue(live, queue)


@given(st.integers(0, WORKERS - 1), st.integers(0, 3), FLAGS, SMALL, SMALL, SMALL, WEIGHT, WEIGHT)
def test_choose_holder(
    server: int,
    need: int,
    live: list[int],
    free: list[int],
    held: list[int],
    queue: list[int],
    a: int,
    b: int,
) -> None:
    """INV-4: argmin L over believed-live workers with room, never the server."""
    candidates = [w for w in believed(live) if w != server and free[w] >= need]
    expected = least(candidates, loads(a, held, b, queue))
    assert choose_holder(server, need, live, free, held, queue, a, b) == expected


@given(FLAGS, FLAGS, SMALL, SMALL, WEIGHT, WEIGHT)
def test_choose_target(
    live: list[int], helped: list[int], held: list[int], queue: list[int], a: int, b: int
) -> None:
    """INV-4: argmax L over believed-live workers without a drafter, ties lowest."""
    candidates = [w for w in believed(live) if not helped[w]]
    expected = least(candidates, [-load for load in loads(a, held, b, queue)])
    assert choose_target(live, helped, held, queue, a, b) == expected


@given(FLAGS, st.integers(0, WORKERS - 1))
def test_rings(live: list[int], server: int) -> None:
    """INV-4: the next believed-live worker, the server itself only for round robin, and last."""
    turn = [(server + step) % WORKERS for step in range(1, WORKERS + 1)]
    assert round_robin(live, server) == next((w for w in turn if live[w]), -1)
    assert next_on_ring(server, live) == next((w for w in turn[:-1] if live[w]), -1)
    assert round_robin(live, -1) == least(believed(live), range(WORKERS))


@given(FLAGS, SMALL, DRAW, DRAW)
def test_power_of_two_picks_one_of_two(live: list[int], queue: list[int], first: int, second: int) -> None:
    """INV-4: the less queued of two distinct believed-live workers, ties lowest."""
    among = believed(live)
    chosen = power_of_two(live, queue, first, second)
    if len(among) < 2:
        assert chosen == (among[0] if among else -1)
        return
    one = among[first * len(among) // 2**32]
    rest = [w for w in among if w != one]
    other = rest[second * (len(among) - 1) // 2**32]
    assert chosen == least(sorted([one, other]), queue)


def test_power_of_two_is_even_handed() -> None:
    """INV-4: with equal queues every pair of three workers is drawn equally often."""
    seen: dict[int, int] = {}
    for i in range(30):
        for j in range(20):
            chosen = power_of_two([1, 1, 1], [2, 1, 0], (2 * i + 1) * 2**32 // 60, (2 * j + 1) * 2**32 // 40)
            seen[chosen] = seen.get(chosen, 0) + 1
    assert seen == {1: 200, 2: 400}


@given(st.integers(0, 1), st.integers(0, 5), st.integers(0, 5), st.integers(-1, 5), st.integers(0, 5))
def test_prefer_holder(live: int, load: int, saved: int, theta: int, tau: int) -> None:
    """INV-5: only a live holder with something to restore; then L ≤ θ or saved > τ, equality on θ's side only."""
    expected = live == 1 and saved > 0 and (load <= theta or saved > tau)
    assert prefer_holder(live, load, saved, theta, tau) == expected


@given(st.integers(0, 2**62), st.integers(1, 2**31))
def test_corners_of_the_holder(load: int, saved: int) -> None:
    """INV-5: θ = inf is always the holder, never with τ = inf never, τ = 0 whenever anything is saved."""
    assert prefer_holder(1, load, saved, INFINITE, INFINITE)
    assert not prefer_holder(1, load, saved, -1, INFINITE)
    assert prefer_holder(1, load, saved, -1, 0)


@given(st.integers(0, 8), st.integers(0, 20), st.integers(1, 20), st.integers(0, 120), st.integers(0, 40))
def test_drafts_per_pass(k: int, plain: int, verified: int, budget: int, reserved: int) -> None:
    """INV-6: the largest k' ≤ k whose rows fit in the budget; 0 if none does."""
    fitting = [d for d in range(1, k + 1) if plain + verified * (d + 1) <= budget - reserved]
    assert drafts_per_pass(k, plain, verified, budget, reserved) == max(fitting, default=0)


@given(st.integers(0, 1000), st.integers(1, 10**6), st.integers(1, 1000), st.integers(1, 10**6))
def test_worth_drafting(expected: int, pass_ps: int, plain: int, plain_ps: int) -> None:
    """INV-6: at least the plain rate of tokens; equality drafts."""
    worth = Fraction(expected, pass_ps) >= Fraction(plain, plain_ps)
    assert worth_drafting(float(expected), pass_ps, plain, plain_ps) == worth
    assert worth_drafting(float(plain), plain_ps, plain, plain_ps)
    assert not worth_drafting(float(plain), plain_ps + 1, plain, plain_ps)


@given(UINT64, st.sampled_from([1, 2, 3, 4]), st.integers(0, 2**40), st.integers(0, 2**40))
def test_draws_of_the_kernel(seed: int, purpose: int, a: int, b: int) -> None:
    """INV-7: a draw in 64-bit registers is the draw in whole numbers."""
    assert int(compiled_draw(np.uint64(seed), purpose, a, b)) == draws.draw(seed, purpose, a, b)


def test_draws_are_uniform_and_apart() -> None:
    """INV-7: neighbouring counters, purposes and seeds give unrelated uniform numbers."""
    keys = [
        (seed, purpose, a, b) for seed in (0, 1) for purpose in (1, 2) for a in range(40) for b in range(40)
    ]
    values = np.array([draws.draw(*key) for key in keys], dtype=np.float64) / 2**64
    assert len(set(values)) == len(keys)
    assert abs(values.mean() - 0.5) < 4 * (1 / 12 / len(values)) ** 0.5
    for shift in (1, 40, 1600):
        assert abs(np.corrcoef(values[:-shift], values[shift:])[0, 1]) < 4 / len(values) ** 0.5


@given(FLAGS, SMALL, SMALL, WEIGHT, WEIGHT)
def test_compiled_decisions(live: list[int], held: list[int], queue: list[int], a: int, b: int) -> None:
    """INV-4: a compiled decision is the plain one, on arrays as on lists."""
    arrays = [np.array(values, dtype=np.int64) for values in (live, held, queue)]
    assert compiled_least_loaded(*arrays, a, b) == least_loaded(live, held, queue, a, b)
    assert compiled_shortest_queue(arrays[0], arrays[2]) == shortest_queue(live, queue)
