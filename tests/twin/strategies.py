"""Random replays: small clusters, small pools and small whole-number costs, so that everything collides."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from crash_table import Reload, crash_table
from hypothesis import strategies as st

from cost_models.serving_costs import PAGE_TOKENS, IterationCosts, ServingCosts
from lumen_policy.replay.contract import (
    FaultTable,
    Placement,
    PolicyCodes,
    ReplayInput,
    Router,
    Routing,
    Scheduler,
)

from .chooser import Chooser, DrawnChooser, SeededChooser
from .compare import compare
from .random_faults import with_faults, with_links, with_rules
from .simulation import replay

__all__ = ["PLAIN_PLACEMENTS", "PLAIN_ROUTINGS", "compare", "random_input", "replay_inputs"]

INFINITE = 2**63 - 1
UNLIMITED_PAGES = 2**40
PLAIN_PLACEMENTS = [Placement.OFF, Placement.RING, Placement.LOAD_AWARE]
PLAIN_ROUTINGS = [Routing.SHORTEST_QUEUE, Routing.HOLDER, Routing.LOAD_AWARE]


@dataclass(frozen=True)
class Shape:
    """What the parts of one input must agree on."""

    unit_ps: int  # every duration and instant is a multiple of it
    pool_pages: int
    max_batch: int
    token_budget: int
    longest: int  # prompt + output of the longest request
    has_draft: bool
    focus: str  # "restore" and "assist" make those likely, "any" leaves all to chance

    @property
    def rows(self) -> int:
        return max(self.token_budget, self.max_batch)


def random_input(rng_seed: int) -> ReplayInput:
    """The input of a seed: the same on every machine."""
    return build_input(SeededChooser(rng_seed))


@st.composite
def replay_inputs(draw: st.DrawFn) -> ReplayInput:
    """Any small replay."""
    return build_input(DrawnChooser(draw))


def build_input(choose: Chooser) -> ReplayInput:
    """One replay from a chooser: half of them plain (crashes alone, rules of the paper, free links)."""
    plain, busy, reload, unit = _plain_input(choose)
    extra = choose.pick(["plain"] * 5 + ["faults", "links", "rules", "everything", "everything"])
    if extra in ("links", "everything"):
        plain = with_links(choose, plain, unit)
    if extra in ("rules", "everything"):
        plain = with_rules(choose, plain, unit, busy[-1])
    if extra in ("faults", "everything"):
        plain = with_faults(choose, plain, reload, unit, busy)
    return plain


def _plain_input(choose: Chooser) -> tuple[ReplayInput, list[int], Reload, int]:
    """A replay, the instants at which something happens in it without faults, its reload and the unit of its times."""
    focus = choose.pick(["any", "restore", "assist"])
    workers = choose.integer(1, 6) if focus == "any" else choose.integer(2, 4)
    small_pool = choose.integer(2, 12) if focus == "any" else choose.integer(5, 14)
    pool_pages = choose.pick([small_pool, small_pool, choose.integer(8, 40), choose.integer(100, 350)])
    few = choose.integer(1, 8) if focus == "any" else choose.integer(6, 20)
    count = choose.pick([few, few, choose.integer(5, 40), choose.integer(5, 40), choose.integer(40, 150)])
    prompts, outputs = _lengths(choose, count, pool_pages, focus)
    shape = Shape(
        unit_ps=choose.pick([1, 7, 1000, 10**9]),
        pool_pages=pool_pages,
        max_batch=choose.pick([1, 2, 3, 4, 8, 64] if focus == "any" else [2, 3, 4, 8, 64]),
        token_budget=choose.pick([1, 2, 5, 16, 33, 64, 512] if focus == "any" else [16, 33, 64, 512]),
        longest=max(p + o for p, o in zip(prompts, outputs, strict=True)),
        has_draft=focus == "assist" or choose.integer(0, 4) > 0,
        focus=focus,
    )
    costs, reload = _costs(choose, shape)
    arrivals = _arrivals(choose, count, shape)
    k = choose.integer(1 if focus == "assist" else 0, 4) if shape.has_draft else 0
    thresholds = _thresholds(choose)
    calm = ReplayInput(
        arrival_ps=_array(arrivals),
        prompt_tokens=_array(prompts),
        output_tokens=_array(outputs),
        workers=workers,
        costs=costs,
        token_budget=shape.token_budget,
        max_batch=shape.max_batch,
        min_prefill_tokens=choose.pick([0, 1, shape.token_budget // 2, shape.token_budget]),
        scheduler=int(choose.pick(list(Scheduler))),
        router=int(choose.pick(list(Router))),
        faults=FaultTable.none(),
        policy=_policy(choose, k, shape, prompts),
        acceptance_threshold=np.array(thresholds, dtype=np.uint64)[:, None],
        expected_tokens=np.array(
            [[_expected_tokens(t / 2**64, drafts) for drafts in range(k + 1)] for t in thresholds],
            dtype=np.float64,
        ),
        seed=choose.integer(0, 2**64 - 1),
        snapshot_ps=_array([]),
    )
    busy = _busy_instants(calm)
    return _add_crashes(choose, calm, reload, shape, busy), busy, reload, shape.unit_ps


def _busy_instants(calm: ReplayInput) -> list[int]:
    """Arrivals and ends of iterations."""
    output = replay(calm)
    ends = np.concatenate([output.first_ps, output.gap_end_ps, [output.end_ps]])
    return [int(ps) for ps in np.unique(np.concatenate([calm.arrival_ps, ends])) if ps >= 0]


def _add_crashes(
    choose: Chooser, calm: ReplayInput, reload: Reload, shape: Shape, busy: list[int]
) -> ReplayInput:
    """Crashes and snapshots, often at instants at which something happens without them."""
    early = busy if shape.focus == "any" else busy[: len(busy) // 2 + 1]
    crashes = _crashes(choose, calm.workers, early, shape)
    return replace(
        calm,
        faults=crash_table(
            [at for at, _ in crashes],
            [worker for _, worker in crashes],
            _detection_delays(choose, crashes, busy, shape),
            reload,
        ),
        snapshot_ps=_array(sorted({choose.pick(busy) for _ in range(choose.integer(0, 4))})),
    )


def _array(values: Sequence[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _lengths(choose: Chooser, count: int, pool_pages: int, focus: str) -> tuple[list[int], list[int]]:
    """Prompts and outputs; now and then one too long for the pool."""
    pool_tokens = PAGE_TOKENS * pool_pages
    longest_prompt = min(choose.pick([40, 120, 400] + [3, 16] * (focus == "any")), pool_tokens)
    longest_output = min(choose.pick([1, 4, 16, 60, 150] if focus == "any" else [16, 60, 150]), pool_tokens)
    longest_prompt = min(longest_prompt, max(32, 4000 // count))
    longest_output = min(longest_output, max(4, 800 // count))
    prompts = choose.integers(count, 1, longest_prompt)
    outputs = choose.integers(count, 1 if focus == "any" else longest_output // 2 + 1, longest_output)
    if choose.integer(0, 2) == 0:  # whole pages, and all alike: everything ends together
        prompts = [PAGE_TOKENS * max(1, prompt // PAGE_TOKENS) for prompt in prompts]
        outputs = [outputs[0]] * count
    return prompts, outputs


def _arrivals(choose: Chooser, count: int, shape: Shape) -> list[int]:
    """Bursts, trickles, or all at once, on the grid of the unit."""
    longest_gap = choose.pick([0, 1, 5, 40, 300])
    burst = choose.pick([1, 2, 7])
    gaps = choose.integers(count, 0, longest_gap)
    arrivals = []
    now = choose.pick([0, 0, 0, gaps[0]])
    for index in range(count):
        if index > 0 and index % burst == 0:
            now += gaps[index]
        arrivals.append(now * shape.unit_ps)
    return arrivals


def _draft_costs(choose: Chooser, shape: Shape) -> IterationCosts | None:
    """Dear or nearly free, so that drafting pays at times."""
    if not shape.has_draft:
        return None
    tokens = max(shape.longest, shape.rows)
    if choose.integer(0, 2) == 0:
        return _iteration_costs(choose, shape, tokens, shape.rows)
    each = choose.pick([0, 1, 1, 2])
    return IterationCosts(
        token_ps=_array([shape.unit_ps * each] * (tokens + 1)),
        lm_head_ps=_array([0] * (shape.rows + 1)),
        prefill_pair_ps=0,
        decode_context_ps=choose.pick([0, 0, 1]),
        decode_sequence_ps=choose.pick([0, 0, shape.unit_ps]),
    )


def _iteration_costs(choose: Chooser, shape: Shape, tokens: int, rows: int) -> IterationCosts:
    """Whole units in several shapes of a roofline; at least one unit an iteration."""
    base = choose.integer(1, 12)
    slope = choose.integer(0, 3)
    noise = random.Random(choose.integer(0, 2**16))
    form = choose.pick(["flat", "linear", "tiles", "roofline", "any"])
    per_tokens = {
        "flat": lambda n: base,
        "linear": lambda n: base + slope * n,
        "tiles": lambda n: base + slope * -(-n // 8),
        "roofline": lambda n: max(base, slope * n),
        "any": lambda n: noise.randint(1, 20),
    }[form]
    row = choose.pick([0, 0, 1, 2])
    return IterationCosts(
        token_ps=_array([shape.unit_ps * per_tokens(n) for n in range(tokens + 1)]),
        lm_head_ps=_array([shape.unit_ps * row * n for n in range(rows + 1)]),
        prefill_pair_ps=shape.unit_ps * choose.pick([0, 0, 1, 2]),
        decode_context_ps=shape.unit_ps * choose.pick([0, 0, 1, 3]),
        decode_sequence_ps=shape.unit_ps * choose.pick([0, 1, 5]),
    )


def _costs(choose: Chooser, shape: Shape) -> tuple[ServingCosts, Reload]:
    unit = shape.unit_ps
    scale = choose.pick([1, 10, 200] if shape.focus == "any" else [10, 200])
    latency, per_page = choose.pick([1, 10, 100]), choose.pick([0, 1, 5, 50])
    target = _iteration_costs(choose, shape, shape.rows, shape.rows)
    draft = _draft_costs(choose, shape)
    verify_context_ppm = choose.pick([10**6, 10**6, 1_234_567, 500_000])
    round_trip_ps = unit * choose.pick([0, 1, 3])
    restart_ps = unit * choose.integer(0, 5) * choose.pick([1, 1, scale])
    load_ps = unit * choose.integer(1, 30) * scale
    init_ps = unit * choose.integer(0, 10) * scale
    draft_ps = unit * choose.integer(0, 3) + unit * choose.integer(0, 3) * choose.pick([1, 1, scale])
    costs = ServingCosts(
        target=target,
        draft=draft,
        verify_context_ppm=verify_context_ppm,
        draft_round_trip_ps=round_trip_ps,
        restore_ps=_array([0] + [unit * (latency + per_page * p) for p in range(1, shape.pool_pages + 1)]),
        pool_pages=shape.pool_pages,
        draft_pool_pages=choose.pick([0, 1, 4, 12, 20, 20] + [10**6] * 6),
        page_bytes=1,
    )
    return costs, Reload(restart_ps, draft_ps, load_ps, init_ps)


def _crashes(choose: Chooser, workers: int, busy: list[int], shape: Shape) -> list[tuple[int, int]]:
    """(instant, worker): often the same worker, together, or shortly after one another."""
    unit = shape.unit_ps
    crashes: list[tuple[int, int]] = []
    for _ in range(choose.pick([0, 1, 1, 2, 3, 4, 6] if shape.focus == "any" else [1, 2, 3])):
        near, same = choose.pick(crashes) if crashes else (0, 0)
        at = choose.pick(
            [
                choose.pick(busy),
                choose.pick(busy),
                choose.pick(busy) + unit,
                max(0, choose.pick(busy) - unit),
                unit * choose.integer(0, busy[-1] // unit),
                near,
                near + unit * choose.integer(0, 30),
            ]
        )
        other = choose.integer(0, workers - 1)
        crashes.append((at, choose.pick([other, other, same])))
    if choose.integer(0, 15) == 0:
        crashes.append((0, 0))
    if crashes and choose.integer(0, 5) == 0:  # the whole cluster at once
        at = choose.pick(crashes)[0]
        crashes += [(at, worker) for worker in range(workers)]
    return sorted(set(crashes))


def _detection_delays(
    choose: Chooser, crashes: list[tuple[int, int]], busy: list[int], shape: Shape
) -> list[int]:
    """At once, soon, late, or at an instant at which something else happens."""
    unit = shape.unit_ps
    return [
        choose.pick(
            [
                0,
                unit,
                unit * choose.integer(0, 20),
                unit * (choose.integer(20, 600) if shape.focus == "any" else choose.integer(0, 60)),
                max(0, choose.pick(crashes)[0] - at),
                max(0, choose.pick(busy) - at),
            ]
        )
        for at, _ in crashes
    ]


def _policy(choose: Chooser, k: int, shape: Shape, prompts: list[int]) -> PolicyCodes:
    token_weight, request_weight = choose.pick([(1, 0), (0, 1), (1, 16), (1, 200), (3, 7)])
    pages = -(-sum(prompts) // (len(prompts) * PAGE_TOKENS))
    restoring = shape.focus == "restore"
    return PolicyCodes(
        placement=int(choose.pick([Placement.RING, Placement.LOAD_AWARE] if restoring else PLAIN_PLACEMENTS)),
        routing=int(choose.pick([Routing.HOLDER, Routing.LOAD_AWARE] if restoring else PLAIN_ROUTINGS)),
        k=k,
        token_weight=token_weight,
        request_weight=request_weight,
        theta=choose.pick([-1, 0, choose.integer(1, 50), choose.integer(1, 5000), INFINITE]),
        tau_tokens=choose.pick([0, PAGE_TOKENS, choose.integer(1, 200), INFINITE]),
        guard=choose.pick([False, False, True]),
        budget_pages=choose.pick(
            [*([] if restoring else [0]), 1, 2, max(0, pages - 1), pages, pages + 1, shape.pool_pages]
            + [UNLIMITED_PAGES] * 4
        ),
    )


def _thresholds(choose: Chooser) -> list[int]:
    """Acceptance thresholds: never, always, or between, the same or changing from pass to pass."""
    always = 2**64 - 1
    length = choose.pick([1, 2, 5])
    kind = choose.pick(["never", "always", "between", "mixed"])
    if kind == "never":
        return [0] * length
    if kind == "always":
        return [always] * length
    if kind == "between":
        return [choose.integer(0, always) for _ in range(length)]
    return [choose.pick([0, always, always // 2]) for _ in range(length)]


def _expected_tokens(acceptance: float, drafts: int) -> float:
    """Tokens of one verified sequence: the bonus token and every draft up to the first rejection."""
    return sum(acceptance**j for j in range(drafts + 1))
