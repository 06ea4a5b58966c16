"""The decision functions against brute force, and their compiled copies against themselves."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

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
from lumen_policy.native.layout import Layout
from lumen_policy.native.machine import Loaded, compile_object
from lumen_policy.native.module import Entry, Module
from lumen_policy.replay import draws
from lumen_policy.replay.kernel import decisions
from lumen_policy.replay.own_rules import DECISIONS

from .inputs import INFINITE

WORKERS = 6
FLAGS = st.lists(st.integers(0, 1), min_size=WORKERS, max_size=WORKERS)
SMALL = st.lists(st.integers(0, 3), min_size=WORKERS, max_size=WORKERS)
WEIGHT = st.integers(0, 3)
DRAW = st.integers(0, 2**32 - 1)
UINT64 = st.integers(0, 2**64 - 1)


class Table(NamedTuple):
    """The state of the functions below: rows that decisions see, their numbers, and what came of it."""

    rows: Any
    numbers: Any
    seed: Any
    reals: Any
    found: Any
    drawn: Any


LAYOUT = Layout(
    {
        "rows": (np.int64, 2, 4),
        "numbers": (np.int64, 1),
        "seed": (np.uint64, 1),
        "reals": (np.float64, 1),
        "found": (np.int64, 1),
        "drawn": (np.uint64, 1),
    }
)


def choose(s: Any) -> None:
    """Every decision on the same rows and numbers."""
    a, b, server, need = s.numbers[0], s.numbers[1], s.numbers[2], s.numbers[3]
    first, second = s.numbers[4], s.numbers[5]
    live, free, held, queue = s.rows[0], s.rows[1], s.rows[2], s.rows[3]
    s.found[0] = decisions.shortest_queue(live, queue)
    s.found[1] = decisions.least_kv(live, held)
    s.found[2] = decisions.least_loaded(live, held, queue, a, b)
    s.found[3] = decisions.choose_holder(server, need, live, free, held, queue, a, b)
    s.found[4] = decisions.choose_target(live, free, held, queue, a, b)
    s.found[5] = decisions.round_robin(live, server)
    s.found[6] = decisions.next_on_ring(server, live)
    s.found[7] = decisions.power_of_two(live, queue, first, second)
    s.found[8] = decisions.prefer_holder(live[0], held[0], need, a, b)
    s.found[9] = decisions.drafts_per_pass(need, a, b + 1, first & 31, server)
    s.found[10] = decisions.worth_drafting(s.reals[0], a, need, b)
    s.found[11] = decisions.kv_load(a, held[0], b, queue[0])


def draw_one(s: Any) -> None:
    """One draw."""
    s.drawn[0] = decisions.draw(s.seed[0], s.numbers[0], s.numbers[1], s.numbers[2])


@cache
def compiled() -> Loaded:
    module = Module(LAYOUT, [Entry(choose, ints=0), Entry(draw_one, ints=0)])
    return Loaded(compile_object(module.text()), {"choose": (0, False), "draw_one": (0, False)})


def table(rows: Sequence[Sequence[int]], numbers: Sequence[int], seed: int = 0, real: float = 0) -> Table:
    return Table(
        rows=np.array(rows, np.int64),
        numbers=np.array(numbers, np.int64),
        seed=np.array([seed], np.uint64),
        reals=np.array([real], np.float64),
        found=np.full(12, -99, np.int64),
        drawn=np.zeros(1, np.uint64),
    )


def run_compiled(name: str, state: Table) -> None:
    words = LAYOUT.words(state)
    compiled().calls[name](words.ctypes.data)


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
    state = table([[0]] * 4, [purpose, a, b], seed)
    run_compiled("draw_one", state)
    assert int(state.drawn[0]) == draws.draw(seed, purpose, a, b)


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


NUMBERS = st.tuples(WEIGHT, WEIGHT, st.integers(0, WORKERS - 1), st.integers(0, 3), DRAW, DRAW)


@given(FLAGS, SMALL, SMALL, SMALL, NUMBERS, st.floats(0, 100))
def test_compiled_decisions(
    live: list[int],
    free: list[int],
    held: list[int],
    queue: list[int],
    numbers: tuple[int, ...],
    real: float,
) -> None:
    """INV-4: every compiled decision is the plain one, on arrays as on lists."""
    state = table([live, free, held, queue], numbers, real=real)
    run_compiled("choose", state)
    plain = SimpleNamespace(
        rows=[live, free, held, queue], numbers=list(numbers), reals=[real], found=[-99] * 12
    )
    choose(plain)
    assert state.found.tolist() == plain.found


def test_every_decision_is_compiled_above() -> None:
    """INV-4: none is left out."""
    text = inspect.getsource(choose)
    assert [name for name in DECISIONS if f"decisions.{name}(" not in text] == []
