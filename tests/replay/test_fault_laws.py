"""Laws of faults and recovery on random replays: what adds up, what comes before what, what changes nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from twin.compare import compare, gap_counts
from twin.strategies import UNLIMITED_PAGES, random_input
from twin.test_laws import check_conservation, scalable, scaled

from lumen_policy.policies.fixed_checkpointing import fixed_checkpointing
from lumen_policy.policies.stop_and_restart import stop_and_restart
from lumen_policy.replay.contract import (
    FULL_SPEED_PPM,
    NONE,
    EvictionOrder,
    FaultKind,
    FaultTable,
    Placement,
    RecoveryRules,
    ReplayInput,
    ReplayOutput,
    Router,
)
from lumen_policy.replay.engine import replay

from .inputs import calm, joined_faults, linear, make_costs, make_input, some_faults

SEEDS = range(3000, 3400)
FAULTY = 24
FREE = {
    "egress_latency_ps": 0,
    "egress_token_ps": 0,
    "ingress_token_ps": 0,
    "store_latency_ps": 0,
    "store_token_ps": 0,
}
OF_THE_LINKS = (
    *("holder", "snapshot_held", "snapshot_saved", "held_integral"),
    *(f"counters[{name}_tokens" for name in ("sent", "arrived", "refused", "lost", "released", "evicted")),
    *("counters[evictions]", "counters[egress_wait_ps]", "counters[ingress_wait_ps]"),
)


@cache
def configuration(seed: int) -> ReplayInput:
    """``random_input``, drawn once."""
    return random_input(seed)


def is_plain(inputs: ReplayInput) -> bool:
    """Crashes alone, rules of the paper, free links."""
    return (
        inputs.rules == RecoveryRules()
        and not len(inputs.costs.transfers.remote_restore_ps)
        and not np.any(inputs.faults.kind)
        and not np.any(inputs.faults.refusals)
        and not np.any(inputs.faults.keeps_copies)
    )


@cache
def rich_seeds() -> list[int]:
    """Seeds whose replays use more than crashes."""
    return [seed for seed in SEEDS if not is_plain(configuration(seed))][: 3 * FAULTY]


EACH_RICH = pytest.mark.parametrize("number", range(FAULTY))


def rich(number: int, offset: int = 0) -> ReplayInput:
    """The input of a rich seed."""
    return configuration(rich_seeds()[number + offset * FAULTY])


def differences(a: ReplayOutput, b: ReplayOutput, apart_from: tuple[str, ...]) -> list[str]:
    """Where two outputs differ, without what begins with one of ``apart_from``."""
    return [line for line in compare(a, b) if not line.startswith(apart_from)]


def one_fault(kind: FaultKind, ps: int, worker: int, like: FaultTable, **changes: int) -> FaultTable:
    """A fault of its own, its other columns 0 (or a second where a reload must last)."""
    values = dict.fromkeys(FaultTable.__dataclass_fields__, 0) | {
        "ps": ps,
        "worker": worker,
        "kind": int(kind),
        "factor_ppm": FULL_SPEED_PPM,
        "init_ps": 1,
    }
    columns: dict[str, Any] = {
        name: np.array([value], np.int64) for name, value in (values | changes).items()
    }
    return joined_faults(like, FaultTable(**columns))


class TestConservation:
    @pytest.mark.parametrize("number", range(3 * FAULTY))
    def test_requests_tokens_and_copies(self, number: int) -> None:
        """INV-29: Requests, tokens, gaps and copies add up whatever the faults and rules."""
        inputs = rich(number)
        output = replay(inputs)
        check_conservation(inputs, output)
        assert output.counters["ignored_faults"] <= len(inputs.faults)
        assert len(output.outage_worker) <= len(inputs.faults) - output.counters["ignored_faults"]
        assert (output.counters["refused_sends"] == 0) or inputs.faults.refusals.any()
        assert (output.counters["regenerated_tokens"] == 0) or inputs.rules.regenerate
        assert output.counters["migrated"] <= output.interruptions.sum()

    def test_free_links_lose_nothing(self) -> None:
        """INV-29: Without link costs everything arrives at once: nothing waits, and nothing is lost but to evictions.

        A copy that has sent can be evicted in the same instant, for one that arrives before it.
        """
        sent = 0
        for number in range(FAULTY):
            inputs = rich(number)
            transfers = replace(inputs.costs.transfers, **FREE)
            output = replay(replace(inputs, costs=replace(inputs.costs, transfers=transfers)))
            sent += output.counters["sent_tokens"]
            counters = output.counters
            assert counters["egress_wait_ps"] == counters["ingress_wait_ps"] == 0, number
            assert counters["lost_tokens"] == 0 or counters["evictions"] > 0, number
        assert sent > 0

    def test_restores_that_always_fail(self) -> None:
        """INV-29: Nothing is restored; what would have been is counted as failed."""
        failed = 0
        for number in range(3 * FAULTY):
            inputs = rich(number)
            rules = replace(inputs.rules, restore_failure=2**64 - 1)
            output = replay(replace(inputs, rules=rules))
            assert not output.restored_tokens.any()
            assert output.counters["restores"] == output.counters["restored_bytes_tokens"] == 0
            failed += output.counters["failed_restores"]
        assert failed > 0


class TestCausality:
    @EACH_RICH
    def test_a_fault_changes_nothing_before_it(self, number: int) -> None:
        """INV-30: Without the faults from an instant on, everything before it is as with them."""
        inputs = rich(number, 1)
        for ps in np.unique(inputs.faults.ps)[-2:].tolist():
            before = replace(inputs, faults=some_faults(inputs.faults, inputs.faults.ps < ps))
            assert past(inputs, replay(inputs), ps) == past(inputs, replay(before), ps)

    @EACH_RICH
    def test_an_arrival_changes_nothing_before_it(self, number: int) -> None:
        """INV-30: Without the last arrivals, everything before them is as with them."""
        inputs = rich(number, 2)
        ps = int(inputs.arrival_ps[-1])
        n = int(np.searchsorted(inputs.arrival_ps, ps))
        if n == 0:
            inputs = replace(inputs, arrival_ps=np.arange(len(inputs.arrival_ps)) * 100)
            n, ps = len(inputs.arrival_ps) - 1, int(inputs.arrival_ps[-1])
        if n == 0:
            return
        fewer = replace(
            inputs,
            arrival_ps=inputs.arrival_ps[:n],
            prompt_tokens=inputs.prompt_tokens[:n],
            output_tokens=inputs.output_tokens[:n],
        )
        assert past(inputs, replay(inputs), ps) == past(fewer, replay(fewer), ps)


def past(inputs: ReplayInput, output: ReplayOutput, ps: int) -> dict[str, Any]:
    """Everything that had happened before an instant."""

    def before(times: npt.NDArray[np.int64]) -> Any:
        return np.where(times < ps, times, NONE)

    n = int(np.searchsorted(inputs.arrival_ps, ps))
    started = output.interruption_redispatch_ps < ps
    shots = inputs.snapshot_ps < ps
    outages = output.outage_crash_ps < ps
    return {
        "first": before(output.first_ps[:n]).tolist(),
        "last": before(output.last_ps[:n]).tolist(),
        "dispatch": before(output.dispatch_ps[:n]).tolist(),
        "gaps": {key: count for key, count in gap_counts(output).items() if key[0] < ps},
        "interruptions": [
            (int(request), int(crash), int(restored))
            for request, crash, restored in zip(
                output.interruption_request[started],
                output.interruption_crash_ps[started],
                output.interruption_restored[started],
                strict=True,
            )
        ],
        "snapshots": output.snapshot_held_tokens[shots].tolist(),
        "queues": output.snapshot_queue[shots].tolist(),
        "outages": list(zip(output.outage_worker[outages], output.outage_crash_ps[outages], strict=True)),
    }


class TestWhatCoincides:
    @EACH_RICH
    def test_without_copies_every_policy_restarts(self, number: int) -> None:
        """INV-31: With no checkpoint room a policy that would send to the holder, or by L, is stop_and_restart."""
        inputs = rich(number, 1)
        rules = replace(inputs.rules, eviction=int(EvictionOrder.REFUSE))
        bare = replace(inputs, rules=rules, policy=stop_and_restart().codes(budget_pages=0))
        fixed = replace(bare, policy=fixed_checkpointing().codes(budget_pages=0))
        assert not differences(replay(fixed), replay(bare), apart_from=("holder",))

    def test_copies_that_never_arrive_are_none(self) -> None:
        """INV-31: Links so slow that no copy arrives: as stop_and_restart, request for request."""
        tried = 0
        for number in range(3 * FAULTY):
            inputs = rich(number)
            never = replace(inputs.costs.transfers, egress_latency_ps=10**12)
            aware = replace(
                inputs.policy, placement=int(Placement.RING), routing=2, k=0, request_weight=1, token_weight=1
            )
            slow = replace(inputs, policy=aware, costs=replace(inputs.costs, transfers=never))
            output = replay(slow)
            if output.counters["arrived_tokens"] > 0 or output.counters["sent_tokens"] == 0:
                continue
            tried += 1
            bare = replace(slow, policy=stop_and_restart().codes(budget_pages=0))
            assert not differences(output, replay(bare), apart_from=OF_THE_LINKS), number
        assert tried > 10

    @EACH_RICH
    def test_links_never_delay_requests(self, number: int) -> None:
        """INV-32: Without faults, links and rules of recovery change what is held, and no request."""
        inputs = calm(rich(number))
        plain = replace(
            inputs,
            rules=RecoveryRules(load_report_ps=inputs.rules.load_report_ps),
            costs=replace(inputs.costs, transfers=replace(inputs.costs.transfers, **FREE)),
        )
        assert not differences(replay(inputs), replay(plain), apart_from=OF_THE_LINKS)

    @EACH_RICH
    def test_no_domains_is_each_its_own(self, number: int) -> None:
        """INV-32: A worker that stands alone in its domain shares it with none."""
        inputs = rich(number, 1)
        rules = replace(inputs.rules, second_replica=True, anti_affinity=True, domain=None)
        own = replace(rules, domain=np.arange(inputs.workers)[::-1].copy())
        assert compare(replay(replace(inputs, rules=rules)), replay(replace(inputs, rules=own))) == []

    @pytest.mark.parametrize("order", list(EvictionOrder)[1:], ids=lambda order: order.name)
    def test_eviction_without_need(self, order: EvictionOrder) -> None:
        """INV-32: With room for everything no order evicts."""
        for number in range(FAULTY):
            inputs = rich(number, 2)
            roomy = replace(inputs, policy=replace(inputs.policy, budget_pages=UNLIMITED_PAGES))
            plain = replace(roomy, rules=replace(inputs.rules, eviction=int(EvictionOrder.REFUSE)))
            evicting = replace(roomy, rules=replace(inputs.rules, eviction=int(order)))
            assert compare(replay(evicting), replay(plain)) == []


def with_odd_instants_free(inputs: ReplayInput) -> tuple[ReplayInput, list[tuple[int, int]]]:
    """All times doubled, and some odd instants, each with a worker, at which nothing happens."""
    doubled = scaled(scalable(inputs), 2)
    random = np.random.default_rng(inputs.seed)
    end_ps = int(replay(doubled).end_ps)
    chosen = np.unique(random.integers(0, end_ps // 2 + 1, 6)) * 2 + 1
    return doubled, [(int(ps), int(random.integers(inputs.workers))) for ps in chosen]


class TestFaultsThatDoNothing:
    @EACH_RICH
    @pytest.mark.parametrize(
        "kind", [FaultKind.HANG, FaultKind.UNREACHABLE], ids=lambda kind: kind.name.lower()
    )
    def test_a_silence_of_no_length(self, number: int, kind: FaultKind) -> None:
        """INV-33: A worker that is silent for no time, and nothing under way then, goes on as if nothing had been."""
        inputs = rich(number)
        inputs = replace(
            inputs,
            policy=replace(inputs.policy, k=0),
            costs=replace(inputs.costs, transfers=replace(inputs.costs.transfers, **FREE)),
            rules=replace(inputs.rules, remote_restore=False),
        )
        inputs, instants = with_odd_instants_free(inputs)
        faults = inputs.faults
        for ps, worker in instants:
            faults = one_fault(kind, ps, worker, faults, delay_ps=10)
        silent = replay(replace(inputs, faults=faults))
        books = ("outage_", "crash_existing", "crash_saved", "counters[ignored_faults]", "end_ps")
        assert not differences(silent, replay(inputs), apart_from=books)

    @EACH_RICH
    def test_full_speed_is_not_slow(self, number: int) -> None:
        """INV-33: A factor of one changes nothing."""
        inputs, instants = with_odd_instants_free(rich(number, 1))
        others = some_faults(inputs.faults, inputs.faults.kind != FaultKind.SLOW)
        inputs = replace(inputs, faults=others)
        faults = others
        for ps, worker in instants:
            faults = one_fault(FaultKind.SLOW, ps, worker, faults, length_ps=10**6)
        as_before = replay(replace(inputs, faults=faults))
        assert not differences(
            as_before, replay(inputs), apart_from=("crash_existing", "crash_saved", "end_ps")
        )


class TestSlowWorkers:
    @pytest.mark.parametrize("seed", range(10))
    def test_slower_is_never_earlier(self, seed: int) -> None:
        """INV-34: One request at a time on one worker: the larger the factor, the later every request."""
        random = np.random.default_rng(seed)
        n = 30
        inputs = make_input(
            np.cumsum(random.integers(0, 400, n)),
            random.integers(1, 60, n),
            random.integers(1, 9, n),
            make_costs(linear(int(random.integers(1, 5)), 128, 20, decode_context_ps=1)),
            max_batch=1,
            router=int(Router.JSQ),
        )
        start_ps = int(random.integers(0, 2000))
        before = replay(inputs).last_ps
        for factor_ppm in (1_000_001, 1_200_000, 1_500_000, 2_000_000, 7_000_000):
            slow = one_fault(
                FaultKind.SLOW, start_ps, 0, inputs.faults, length_ps=10**9, factor_ppm=factor_ppm
            )
            last_ps = replay(replace(inputs, faults=slow)).last_ps
            assert np.all(last_ps >= before)
            assert factor_ppm < 1_200_000 or last_ps.sum() > before.sum()
            before = last_ps
