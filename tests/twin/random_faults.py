"""Random faults, links and recovery rules on top of a plain replay, at instants that collide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
from crash_table import Reload

from cost_models.serving_costs import TransferCosts
from lumen_policy.replay.contract import (
    FULL_SPEED_PPM,
    NONE,
    EvictionOrder,
    FaultKind,
    FaultTable,
    Placement,
    RecoveryRules,
    ReplayInput,
    Routing,
)

from .chooser import Chooser

__all__ = ["with_faults", "with_links", "with_rules"]

INFINITE = 2**63 - 1
SLOW_START_GRAIN = 2**20
SHARE_OF_SPAN = 2000
SILENT = (FaultKind.HANG, FaultKind.UNREACHABLE)


def _array(values: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


@dataclass(frozen=True)
class Fault:
    """A row of the table."""

    ps: int
    worker: int
    kind: int
    delay_ps: int
    length_ps: int
    factor_ppm: int
    keeps_copies: int
    refusals: int
    restart_ps: int
    draft_ps: int
    load_ps: int
    init_ps: int

    def instants(self) -> list[int]:
        """When something follows from it, were it alone: detection, return, steps of the reload."""
        detected = self.ps + self.delay_ps
        reload = [self.restart_ps, self.draft_ps, self.load_ps, self.init_ps]
        found = [self.ps, detected, *(detected + int(step) for step in np.cumsum(reload))]
        if self.length_ps != NONE:
            found.append(self.ps + self.length_ps)
        return found


def with_faults(
    choose: Chooser, plain: ReplayInput, reload: Reload, unit: int, busy: list[int]
) -> ReplayInput:
    """Faults of every kind instead of crashes, and snapshots where they act."""
    faults: dict[tuple[int, int, int], Fault] = {}
    for _ in range(choose.pick([1, 2, 2, 3, 4, 6, 9])):
        fault = _fault(choose, plain, reload, unit, busy, list(faults.values()))
        faults.setdefault((fault.ps, fault.kind, fault.worker), fault)
    if choose.integer(0, 7) == 0:  # the whole cluster at once
        fault = choose.pick(list(faults.values()))
        for worker in range(plain.workers):
            faults.setdefault((fault.ps, fault.kind, worker), replace(fault, worker=worker))
    rows = [faults[key] for key in sorted(faults)]
    instants = [ps for fault in rows for ps in fault.instants()]
    more = {choose.pick(instants) for _ in range(choose.integer(0, 3))}
    return replace(
        plain,
        faults=FaultTable(
            **{column.name: _array([getattr(row, column.name) for row in rows]) for column in fields(Fault)}
        ),
        snapshot_ps=_array(sorted(more | set(plain.snapshot_ps.tolist()))),
    )


def _fault(
    choose: Chooser, plain: ReplayInput, reload: Reload, unit: int, busy: list[int], before: list[Fault]
) -> Fault:
    near = choose.pick(before) if before else None
    at = choose.pick(
        [
            choose.pick(busy[: len(busy) // 2 + 1]),
            choose.pick(busy),
            choose.pick(busy) + unit,
            max(0, choose.pick(busy) - unit),
            *([choose.pick(near.instants()), choose.pick(near.instants())] if near else []),
            *([max(0, choose.pick(near.instants()) + unit * choose.integer(-1, 1))] if near else []),
        ]
    )
    other = choose.integer(0, plain.workers - 1)
    kind = choose.pick([FaultKind.CRASH, FaultKind.CRASH, *FaultKind])
    delay = choose.pick(
        [
            0,
            unit,
            unit * choose.integer(0, 20),
            unit * choose.integer(0, 200),
            max(0, choose.pick(busy) - at),
            max(0, choose.pick(near.instants()) - at) if near else 0,
        ]
    )
    crash = kind == FaultKind.CRASH
    refusals = choose.pick([0, 0, 0, 1, 2, 3]) if crash else 0
    usual = choose.integer(0, 1)
    load, init = choose.pick([(0, 1), (1, 0), (choose.integer(0, 400), choose.integer(1, 60))])
    return Fault(
        ps=at,
        worker=choose.pick([other, other, near.worker]) if near else other,
        kind=int(kind),
        delay_ps=choose.pick([0, 0, delay]) if refusals else delay,
        length_ps=0 if crash else _length(choose, kind, unit, at, delay, busy),
        factor_ppm=choose.pick([1_500_000, 2_000_000, FULL_SPEED_PPM + 1, 9_000_000])
        if kind == FaultKind.SLOW
        else FULL_SPEED_PPM,
        keeps_copies=choose.integer(0, 1) if kind in (FaultKind.CRASH, FaultKind.HANG) else 0,
        refusals=refusals,
        restart_ps=reload.restart_ps if usual else unit * choose.pick([0, 0, 1, choose.integer(0, 60)]),
        draft_ps=reload.draft_ps if usual else unit * choose.pick([0, 1, choose.integer(0, 20)]),
        load_ps=reload.load_ps if usual else unit * load,
        init_ps=reload.init_ps if usual else unit * init,
    )


def _length(choose: Chooser, kind: int, unit: int, at: int, delay: int, busy: list[int]) -> int:
    """Silent workers are often back just before, at or after their detection, or at a busy instant."""
    anywhere = [0, unit, unit * choose.integer(0, 200), max(0, choose.pick(busy) - at)]
    if kind in SILENT:
        anywhere += [delay, max(0, delay - unit), delay + unit, delay // 2 // unit * unit]
    if kind == FaultKind.HANG:
        anywhere += [NONE, NONE]
    return choose.pick(anywhere)


def with_links(choose: Chooser, plain: ReplayInput, unit: int) -> ReplayInput:
    """Links that cost time, and policies that send more over them."""
    pages = plain.costs.pool_pages
    scale = choose.pick([0, 1, unit, unit, 12 * unit])  # free, tiny, about an iteration a token, backing up

    def cost(options: Sequence[int]) -> int:
        return scale * choose.pick(options)

    def table(latencies: Sequence[int], per_page: Sequence[int]) -> npt.NDArray[np.int64]:
        latency, each = unit * choose.pick(latencies), unit * choose.pick(per_page)
        return _array([0] + [latency + each * page for page in range(1, pages + 1)])

    transfers = TransferCosts(
        egress_latency_ps=cost([0, 0, 1, 5, 40]),
        egress_token_ps=cost([0, 1, 1, 2]),
        ingress_token_ps=cost([0, 1, 1, 2]),
        store_latency_ps=cost([0, 0, 1, 30]),
        store_token_ps=cost([0, 1, 2]),
        remote_restore_ps=table([0, 2, 15], [0, 1, 6]),
        store_restore_ps=table([0, 3, 40], [0, 1, 9]),
    )
    placement = choose.pick([*Placement, Placement.LOAD_AWARE])
    routing = choose.pick([*Routing, Routing.LOAD_AWARE])
    if placement == Placement.STORE and routing in (Routing.HOLDER, Routing.LOAD_AWARE):
        routing = Routing.ANYWHERE
    theta = choose.pick([plain.policy.theta, -1])
    remote = choose.integer(0, 2) == 0  # most interrupted requests restore over the network
    if remote:
        placement, routing, theta = (
            choose.pick([Placement.RING, Placement.LOAD_AWARE]),
            Routing.LOAD_AWARE,
            -1,
        )
    policy = replace(
        plain.policy,
        placement=int(placement),
        routing=int(routing),
        theta=theta,
        tau_tokens=INFINITE if remote else plain.policy.tau_tokens,
        budget_pages=max(2, plain.policy.budget_pages) if remote else plain.policy.budget_pages,
    )
    rules = replace(
        plain.rules,
        stream_prefill=_maybe(choose),
        second_replica=_maybe(choose),
        remote_restore=remote or choose.integer(0, 1) == 1,
        restore_failure=choose.pick([0, 0, 2**63, 2**64 - 1]),
    )
    return replace(plain, costs=replace(plain.costs, transfers=transfers), policy=policy, rules=rules)


def _maybe(choose: Chooser) -> bool:
    return choose.integer(0, 2) == 0


def with_rules(choose: Chooser, plain: ReplayInput, unit: int, end_ps: int) -> ReplayInput:
    """Every rule of recovery now and then, and acceptance that depends on the place of a draft in its pass."""
    least = -(-end_ps // SHARE_OF_SPAN // unit) * unit or unit

    def interval() -> int:
        return max(least, unit * choose.pick([1, 3, 7, choose.integer(1, 100)]))

    order = choose.pick([EvictionOrder.REFUSE, *EvictionOrder])
    grains = SLOW_START_GRAIN * choose.pick([1, 3]), unit * choose.integer(1, 300)
    rules = RecoveryRules(
        eviction=int(order),
        stream_prefill=plain.rules.stream_prefill or _maybe(choose),
        second_replica=plain.rules.second_replica or _maybe(choose),
        anti_affinity=_maybe(choose),
        re_replicate=_maybe(choose),
        remote_restore=plain.rules.remote_restore or _maybe(choose),
        regenerate=_maybe(choose),
        wait=_maybe(choose),
        front=_maybe(choose),
        ping_pong=plain.policy.k > 0 and choose.integer(0, 2) > 0,
        retarget_ps=choose.pick([0, interval()]),
        load_report_ps=choose.pick([0, 0, interval()]),
        slow_start_ps=choose.pick([0, max(grains), grains[0]]),
        restore_failure=choose.pick([0, 0, 2**63, 2**64 - 1]),
        domain=_domain(choose, plain.workers),
    )
    pages = choose.integer(1, 6)
    tight = order != EvictionOrder.REFUSE and choose.integer(0, 2) > 0
    return _with_tables(
        _with_positions(choose, plain),
        rules,
        budget_pages=pages if tight else plain.policy.budget_pages,
    )


def _domain(choose: Chooser, workers: int) -> npt.NDArray[np.int64] | None:
    """None, each worker its own, pairs, even and odd, or all one."""
    size, domains = choose.pick([(1, 0), (1, workers), (2, workers), (1, 2), (1, 1)])
    return np.arange(workers) // size % domains if domains else None


def _with_tables(plain: ReplayInput, rules: RecoveryRules, budget_pages: int) -> ReplayInput:
    """The rules, with tables of the restores that they allow."""
    transfers = plain.costs.transfers
    if not len(transfers.remote_restore_ps):
        transfers = replace(
            transfers,
            remote_restore_ps=2 * plain.costs.restore_ps,
            store_restore_ps=3 * plain.costs.restore_ps,
        )
    return replace(
        plain,
        rules=rules,
        costs=replace(plain.costs, transfers=transfers),
        policy=replace(plain.policy, budget_pages=budget_pages),
    )


def _with_positions(choose: Chooser, plain: ReplayInput) -> ReplayInput:
    """One to three columns of acceptance, and what a pass is then expected to bring."""
    always = 2**64 - 1
    columns = [plain.acceptance_threshold[:, 0].tolist()]
    for _ in range(choose.integer(0, 2)):
        columns.append([choose.pick([old, 0, always, old // 2]) for old in columns[-1]])
    thresholds = np.ascontiguousarray(np.array(columns, dtype=np.uint64).T)
    expected = [
        [1.0 + sum(_accepted(row, drafts) for drafts in range(1, k + 1)) for k in range(plain.policy.k + 1)]
        for row in thresholds.tolist()
    ]
    return replace(plain, acceptance_threshold=thresholds, expected_tokens=np.array(expected))


def _accepted(row: list[int], drafts: int) -> float:
    """The chance that this many drafts of a pass are accepted."""
    share = 1.0
    for position in range(drafts):
        share *= row[min(position, len(row) - 1)] / 2**64
    return share
