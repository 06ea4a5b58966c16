"""The engine around the kernel: what it refuses, how its logs grow, how long a replay may be."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from crash_table import Reload, crash_table
from twin import compare
from twin import replay as twin
from twin.strategies import random_input

from cost_models.serving_costs import TransferCosts
from lumen_policy.errors import InputError, ReplayError
from lumen_policy.replay import engine
from lumen_policy.replay.contract import (
    NONE,
    FaultKind,
    Placement,
    RecoveryRules,
    ReplayInput,
    Routing,
    Status,
)
from lumen_policy.replay.engine import replay, replay_timed

from .inputs import RELOAD, ints, joined_faults, linear, make_costs, make_input, make_policy

DAY_PS = 86_400 * 10**12
COSTS = make_costs(linear(1, 64), draft=linear(1, 64))
GOOD = make_input([0, 5, 9], [16, 3, 4], [5, 6, 7], COSTS, workers=2)
CRASH: dict[str, Any] = {"faults": crash_table([20], [0], [5], RELOAD)}


def drafts(k: int, **changes: Any) -> dict[str, Any]:
    return {"policy": make_policy(k=k), **changes}


def test_the_good_input_is_good() -> None:
    """INV-8: what the refusals below start from is replayed."""
    assert (replay(replace(GOOD, **CRASH, **drafts(2))).status == Status.FINISHED).all()


def crashes(times: list[int], workers: list[int], delays: list[int]) -> dict[str, Any]:
    return {"faults": crash_table(times, workers, delays, RELOAD)}


def one_fault(kind: int, **columns: int) -> dict[str, Any]:
    crash = CRASH["faults"]
    changes = {"kind": kind, "length_ps": 5, "factor_ppm": 2_000_000, **columns}
    return {"faults": replace(crash, **{name: ints([value]) for name, value in changes.items()})}


def rules(**changes: Any) -> dict[str, Any]:
    return {"rules": RecoveryRules(**changes)}


def links(**changes: Any) -> dict[str, Any]:
    return {"costs": replace(COSTS, transfers=TransferCosts(**changes))}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrival_ps": ints([]), "prompt_tokens": ints([]), "output_tokens": ints([])}, "no requests"),
        ({"prompt_tokens": ints([1, 2])}, "differ in number"),
        ({"output_tokens": ints([1, 2, 3, 4])}, "differ in number"),
        ({"arrival_ps": ints([-1, 5, 9])}, "non-negative"),
        ({"arrival_ps": ints([0, 9, 5])}, "in order"),
        ({"arrival_ps": ints([0, 5, 90 * DAY_PS + 1])}, "90 days"),
        ({"prompt_tokens": ints([1, 0, 1])}, "at least 1"),
        ({"output_tokens": ints([1, 0, 1])}, "at least 1"),
        ({"prompt_tokens": ints([1, 2**33, 1])}, "tokens or more"),
        ({"output_tokens": ints([1, 2**33, 1])}, "tokens or more"),
        ({"workers": 0}, "workers: 0"),
        ({"workers": 10**6}, "workers: 1000000"),
        ({"max_batch": 0}, "max_batch: 0"),
        ({"max_batch": 10**5}, "max_batch: 100000"),
        ({"token_budget": -1}, "token_budget: -1"),
        ({"token_budget": 65}, "table ends at 64, below 65"),
        ({"max_batch": 80}, "table ends at 64, below 80"),
        ({"costs": replace(COSTS, target=linear(0, 64))}, "at least 1 ps"),
        (
            {
                "policy": make_policy(placement=Placement.RING),
                "costs": replace(COSTS, restore_ps=ints([0])),
            },
            "restore table ends below 21 tokens",
        ),
        ({"costs": replace(COSTS, pool_pages=0)}, "pool_pages: 0"),
        (one_fault(FaultKind.CRASH, restart_ps=9 * 10**18), "restart 9000000000000000000"),
        (one_fault(FaultKind.CRASH, load_ps=-1), "load -1"),
        ({"costs": replace(COSTS, restore_ps=ints([0, -5]))}, "restore_ps = -5"),
        ({"costs": replace(COSTS, target=linear(10**16, 64))}, "more than 3 days"),
        ({"router": 7}, "router: 7"),
        ({"scheduler": -1}, "scheduler: -1"),
        ({"seed": -1}, "seed: -1"),
        ({"seed": 2**64}, "seed: 18446744073709551616"),
        ({"min_prefill_tokens": -1}, "min_prefill_tokens: -1"),
        (crashes([5, 3], [0, 0], [1, 1]), "in order"),
        (crashes([-5], [0], [1]), "from 0 to 90 days"),
        (crashes([5, 5], [0, 0], [1, 1]), "ascend"),
        (crashes([5], [0], [-50]), "delay -50"),
        (crashes([5], [0], [1, 2]), "differ in length"),
        (one_fault(9), "kind 9 is not from 0 to 5"),
        (one_fault(FaultKind.SLOW, factor_ppm=999_999), "factor 999999"),
        (one_fault(FaultKind.UNREACHABLE, length_ps=NONE), "length -1"),
        (one_fault(FaultKind.DRAIN, length_ps=NONE), "length -1"),
        (one_fault(FaultKind.HANG, length_ps=-2), "length -2"),
        (one_fault(FaultKind.CRASH, refusals=-1), "refusals -1"),
        (one_fault(FaultKind.CRASH, load_ps=0, init_ps=0), "load and init 0"),
        (rules(eviction=4), "eviction: 4"),
        (rules(restore_failure=2**64), "restore_failure: 18446744073709551616"),
        (rules(retarget_ps=-1), "retarget_ps: -1"),
        (rules(load_report_ps=-1), "load_report_ps: -1"),
        (rules(domain=ints([0])), "domain: 1 failure domains for 2 workers"),
        (
            {**rules(remote_restore=True), "policy": make_policy(placement=Placement.RING)},
            "restore table ends below",
        ),
        ({"policy": make_policy(placement=Placement.STORE, routing=Routing.HOLDER)}, "store"),
        ({"policy": make_policy(placement=Placement.RING, routing=Routing.ANYWHERE)}, "restore table ends"),
        ({"policy": make_policy(placement=Placement.STORE)}, "restore table ends"),
        (links(egress_token_ps=-1), "egress_token_ps = -1"),
        (links(store_latency_ps=10**13), "store_latency_ps"),
        (links(remote_restore_ps=ints([0, -1])), "restore"),
        (crashes([5], [-1], [1]), "worker -1"),
        ({"snapshot_ps": ints([5, 5])}, "snapshot"),
        ({"policy": replace(make_policy(), budget_pages=-1)}, "budget_pages: -1"),
        ({"policy": replace(make_policy(), token_weight=-1)}, "token_weight: -1"),
        ({"policy": replace(make_policy(), routing=9)}, "routing: 9"),
        (drafts(1, costs=replace(COSTS, draft=None)), "need a draft model"),
        (drafts(1, costs=replace(COSTS, draft=linear(1, 10))), "draft's iteration table ends below 21"),
        (
            drafts(1, costs=replace(COSTS, draft=replace(linear(1, 64), lm_head_ps=ints([0])))),
            "draft's LM head table",
        ),
        (drafts(2, expected_tokens=np.ones((1, 2))), "expected tokens for k = 2"),
        (drafts(2, acceptance_threshold=np.zeros((0, 1), np.uint64)), "expected tokens for k = 2"),
        (crashes([20], [2], [5]), "worker 2 is not from 0 to 1"),
        ({"policy": make_policy(token_weight=2**57)}, "alpha/beta"),
        ({"policy": make_policy(request_weight=2**61)}, "alpha/beta"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_refused_in_words(changes: dict[str, Any], message: str) -> None:
    """INV-8: what the kernel's integers cannot hold is an InputError of one line, never a wrong result."""
    with pytest.raises(InputError, match=message) as refused:
        replay(replace(GOOD, **changes))
    assert "\n" not in str(refused.value)


def test_ninety_days_are_replayed() -> None:
    """INV-8: the last arrival may be at 90 days exactly."""
    inputs = replace(GOOD, arrival_ps=ints([0, 5, 90 * DAY_PS]))
    assert compare(replay(inputs), twin(inputs)) == []


def test_a_replay_ends_before_its_clock_does() -> None:
    """INV-8: beyond 100 days of simulated time the replay fails, before int64 picoseconds end at 106."""
    for days, fails in ((100, False), (101, True)):
        slow = make_costs(replace(linear(0, 4), token_ps=ints([0] + 4 * [DAY_PS])))
        inputs = make_input([0], [1], [days], slow)
        if fails:
            with pytest.raises(ReplayError, match="100 days"):
                replay(inputs)
        else:
            assert replay(inputs).last_ps[0] == days * DAY_PS


def test_a_short_gap_log_is_enlarged(monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-9: a log that grows in mid-replay changes nothing."""
    allocate, enlarged = engine.allocate, engine._enlarged
    growths = []

    def tight(inputs: ReplayInput, gap_capacity: int) -> Any:
        assert gap_capacity > inputs.workers * (2 * inputs.max_batch + 8)
        return allocate(inputs, inputs.workers * (2 * inputs.max_batch + 8))

    def noted(log: Any, extra: int) -> Any:
        growths.append(len(log))
        return enlarged(log, extra)

    roomy = [replay(random_input(seed)) for seed in range(100, 130)]
    assert growths == []
    monkeypatch.setattr(engine, "allocate", tight)
    monkeypatch.setattr(engine, "_enlarged", noted)
    for seed, output in zip(range(100, 130), roomy, strict=True):
        assert compare(replay(random_input(seed)), output) == []
    assert len(growths) > 20


def many_interruptions() -> ReplayInput:
    """Every request is interrupted again and again: 25 crashes of one of two workers, in turn."""
    crashes = 25
    costs = make_costs(linear(1, 512, 10), restore_ps=ints([3] * 40))
    return make_input(
        [0] * 40,
        [20] * 40,
        [300] * 40,
        costs,
        workers=2,
        policy=make_policy(placement=Placement.RING, routing=Routing.HOLDER),
        faults=crash_table(
            [1000 + 300 * crash for crash in range(crashes)],
            [crash % 2 for crash in range(crashes)],
            [7] * crashes,
            Reload(restart_ps=5, draft_ps=0, load_ps=20, init_ps=5),
        ),
    )


def test_a_short_interruption_log_is_enlarged(monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-9: more interruptions than requests are all logged."""
    enlarged = engine._enlarged
    growths = []

    def noted(log: Any, extra: int) -> Any:
        growths.append(len(log))
        return enlarged(log, extra)

    monkeypatch.setattr(engine, "_enlarged", noted)
    inputs = many_interruptions()
    output = replay(inputs)
    assert compare(output, twin(inputs)) == []
    assert len(output.interruption_request) > 10 * len(inputs.arrival_ps)
    assert growths != []


def test_interrupted_twice_at_one_instant() -> None:
    """INV-9: requests migrated to a worker whose crash is detected at that instant are logged twice."""
    costs = make_costs(linear(1, 512, 10))
    crash = crash_table([99], [1], [1], RELOAD)
    migration = crash_table([100], [0], [0], RELOAD)
    migration = replace(migration, kind=ints([FaultKind.MIGRATE]))
    inputs = make_input(
        [0] * 60, [20] * 60, [30] * 60, costs, workers=2, faults=joined_faults(crash, migration)
    )
    expected = twin(inputs)
    assert len(expected.interruption_request) == 30 + 60
    assert compare(replay(inputs), expected) == []


def test_the_input_is_left_alone() -> None:
    """INV-10: a replay writes to none of its input's arrays."""
    for seed in range(100, 110):
        inputs = random_input(seed)
        before = copy.deepcopy(inputs)
        replay(inputs)
        for field in fields(ReplayInput):
            value = getattr(inputs, field.name)
            if isinstance(value, np.ndarray):
                assert np.array_equal(value, getattr(before, field.name)), field.name
        assert np.array_equal(inputs.costs.target.token_ps, before.costs.target.token_ps)


def test_narrow_and_strided_arrays_are_read_as_they_are() -> None:
    """INV-10: int32 columns and views give the same replay as contiguous int64."""
    inputs = random_input(103)
    wide = np.repeat(inputs.arrival_ps, 2)[::2]
    narrow = replace(
        inputs,
        arrival_ps=wide,
        prompt_tokens=inputs.prompt_tokens.astype(np.int32),
        output_tokens=inputs.output_tokens.astype(np.int32),
    )
    assert not wide.flags.c_contiguous
    assert compare(replay(narrow), replay(inputs)) == []


def test_thresholds_are_read_whatever_their_order() -> None:
    """INV-10: tables that lie column by column are the same tables, and need no second compilation."""
    table = np.array([[0, 2**63], [2**64 - 1, 1], [5, 2**62]], dtype=np.uint64)
    expected = 1.0 + np.arange(9).reshape(3, 3)
    inputs = replace(
        GOOD,
        **CRASH,
        **drafts(
            2, acceptance_threshold=np.asfortranarray(table), expected_tokens=np.asfortranarray(expected)
        ),
    )
    assert not inputs.acceptance_threshold.flags.c_contiguous
    state = engine.allocate(inputs, 1000)
    assert state.threshold.flags.c_contiguous
    assert state.expected.flags.c_contiguous
    assert np.array_equal(state.threshold, table)


def test_cpu_seconds_are_of_the_kernel_alone() -> None:
    """INV-10: the timed replay is the replay, with a time."""
    inputs = random_input(103)
    output, cpu_s = replay_timed(inputs)
    assert compare(output, replay(inputs)) == []
    assert 0 <= cpu_s < 5


def test_long_decodes_stay_exact() -> None:
    """INV-8: more than 2³¹ decode steps on one worker, in requests of 9·10⁸ tokens, are counted right."""
    tokens, step_ps = 9 * 10**8, 10**6
    costs = make_costs(linear(0, 64, step_ps), pool_pages=10**9)
    inputs = make_input([0] * 3, [1] * 3, [tokens] * 3, costs, max_batch=1)
    output = replay(inputs)
    assert output.last_ps.tolist() == [tokens * step_ps * n for n in (1, 2, 3)]


def test_a_decode_beyond_the_clock_fails() -> None:
    """INV-8: a leap cannot carry the clock past int64."""
    costs = make_costs(linear(0, 64, 2 * 10**10), pool_pages=10**9)
    with pytest.raises(ReplayError, match="100 days"):
        replay(make_input([0], [1], [9 * 10**8], costs, max_batch=1))
