"""Replays made for laws: plain costs, any trace, no faults unless asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from crash_table import Reload, crash_table

from cost_models.serving_costs import IterationCosts, ServingCosts
from lumen_policy.replay.contract import (
    FaultTable,
    Placement,
    PolicyCodes,
    ReplayInput,
    Router,
    Routing,
    Scheduler,
)

__all__ = [
    "INFINITE",
    "RELOAD",
    "calm",
    "crowded_input",
    "draft_as_init",
    "ints",
    "joined_faults",
    "linear",
    "make_costs",
    "make_input",
    "make_policy",
    "some_faults",
]

INFINITE = 2**63 - 1


def ints(values: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """An int64 array."""
    return np.array(values, dtype=np.int64)


def linear(token_ps: int, longest: int, base_ps: int = 0, **changes: int) -> IterationCosts:
    """base + token_ps a token, nothing else unless changed; tables up to ``longest`` tokens."""
    return replace(
        IterationCosts(
            token_ps=base_ps + token_ps * np.arange(longest + 1, dtype=np.int64),
            lm_head_ps=np.zeros(longest + 1, dtype=np.int64),
            prefill_pair_ps=0,
            decode_context_ps=0,
            decode_sequence_ps=0,
        ),
        **changes,
    )


RELOAD = Reload(restart_ps=10, draft_ps=10, load_ps=60, init_ps=30)
"""100 ps without a draft."""


def make_costs(target: IterationCosts, **changes: Any) -> ServingCosts:
    """A worker with room for everything."""
    return replace(
        ServingCosts(
            target=target,
            draft=None,
            verify_context_ppm=10**6,
            draft_round_trip_ps=0,
            restore_ps=ints(np.arange(len(target.token_ps) // 16 + 2)),
            pool_pages=10**6,
            draft_pool_pages=10**6,
            page_bytes=1,
        ),
        **changes,
    )


def make_policy(**changes: Any) -> PolicyCodes:
    """Stop and restart, unless changed."""
    return replace(
        PolicyCodes(
            placement=Placement.OFF,
            routing=Routing.SHORTEST_QUEUE,
            k=0,
            token_weight=1,
            request_weight=16,
            theta=INFINITE,
            tau_tokens=INFINITE,
            guard=False,
            budget_pages=10**6,
        ),
        **changes,
    )


def make_input(
    arrivals: Sequence[int] | npt.NDArray[Any],
    prompts: Sequence[int] | npt.NDArray[Any],
    outputs: Sequence[int] | npt.NDArray[Any],
    costs: ServingCosts,
    **changes: Any,
) -> ReplayInput:
    """One worker, a token budget as wide as the cost tables, no crash."""
    widest = len(costs.target.token_ps) - 1
    return replace(
        ReplayInput(
            arrival_ps=ints(arrivals),
            prompt_tokens=ints(prompts),
            output_tokens=ints(outputs),
            workers=1,
            costs=costs,
            token_budget=widest,
            max_batch=min(64, widest),
            min_prefill_tokens=0,
            scheduler=Scheduler.MIXED,
            router=Router.JSQ,
            faults=FaultTable.none(),
            policy=make_policy(),
            acceptance_threshold=np.zeros((1, 1), dtype=np.uint64),
            expected_tokens=np.ones((1, 65)),
            seed=0,
            snapshot_ps=ints([]),
        ),
        **changes,
    )


def calm(inputs: ReplayInput) -> ReplayInput:
    """The same without faults."""
    return replace(inputs, faults=FaultTable.none())


def some_faults(faults: FaultTable, chosen: npt.NDArray[np.bool_]) -> FaultTable:
    """The chosen faults of a table."""
    return FaultTable(**{column.name: getattr(faults, column.name)[chosen] for column in fields(FaultTable)})


def joined_faults(*tables: FaultTable) -> FaultTable:
    """The faults of all tables, in order."""
    columns = {
        column.name: np.concatenate([getattr(table, column.name) for table in tables])
        for column in fields(FaultTable)
    }
    order = np.lexsort((columns["worker"], columns["kind"], columns["ps"]))
    return FaultTable(**{name: values[order] for name, values in columns.items()})


def draft_as_init(faults: FaultTable) -> FaultTable:
    """Reloads of the same length without a draft: its time counts as engine init."""
    return replace(faults, init_ps=faults.init_ps + faults.draft_ps, draft_ps=0 * faults.draft_ps)


def crowded_input(seed: int) -> ReplayInput:
    """Long prompts in a pool of 100 to 250 pages, so that the watermark of 1 or 2 pages binds."""
    random = np.random.default_rng(seed)
    requests = int(random.integers(6, 25))
    pool_pages = int(random.integers(100, 250))
    workers = int(random.integers(1, 4))
    costs = make_costs(
        linear(int(random.integers(1, 4)), 4096, 50, decode_context_ps=int(random.integers(0, 2))),
        pool_pages=pool_pages,
    )
    inputs = make_input(
        np.sort(random.integers(0, 2000, requests)),
        random.integers(100, 16 * pool_pages // 2, requests),
        random.integers(1, 60, requests),
        costs,
        workers=workers,
        token_budget=int(random.choice([64, 512, 2048])),
        scheduler=int(random.choice(list(Scheduler))),
        policy=make_policy(placement=Placement.RING, routing=Routing.HOLDER),
    )
    if seed % 2:
        return inputs
    crash_ps = int(random.integers(1000, 4000))
    return replace(inputs, faults=crash_table([crash_ps], [0], [20], RELOAD))
