"""The twin against laws, on random inputs."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings

from cost_models.serving_costs import IterationCosts, ServingCosts, TransferCosts
from lumen_policy.replay.contract import (
    FULL_SPEED_PPM,
    NONE,
    EvictionOrder,
    FaultKind,
    FaultTable,
    Interruption,
    Placement,
    RecoveryRules,
    ReplayInput,
    ReplayOutput,
    Routing,
    Status,
)

from .compare import KERNEL_ONLY, compare, gap_counts
from .simulation import replay
from .strategies import INFINITE, random_input, replay_inputs

PARTS = ServingCosts | IterationCosts | TransferCosts | FaultTable | RecoveryRules
T = TypeVar(
    "T",
    ReplayInput,
    ReplayOutput,
    ServingCosts,
    IterationCosts,
    TransferCosts,
    FaultTable,
    RecoveryRules,
)


class TestLaws:
    @given(replay_inputs())
    @settings(max_examples=60)
    def test_conservation(self, inputs: ReplayInput) -> None:
        """INV-36: nothing is lost, and at no instant do pages, budgets, places and copies disagree."""
        check_conservation(inputs, replay(inputs))

    @pytest.mark.parametrize("seed", range(40))
    def test_time_scales(self, seed: int) -> None:
        """Costs and instants times four: times times four, nothing else (a power of two keeps floats)."""
        inputs = scalable(random_input(seed))
        once, four_times = replay(inputs), replay(scaled(inputs, 4))
        assert compare(scaled(once, 4), four_times) == []

    @pytest.mark.parametrize("seed", range(40))
    def test_scaled_weights_change_nothing(self, seed: int) -> None:
        inputs = random_input(seed)
        old = inputs.policy
        theta = old.theta if old.theta in (-1, INFINITE) else 7 * old.theta
        weights = {
            "token_weight": 7 * old.token_weight,
            "request_weight": 7 * old.request_weight,
            "theta": theta,
        }
        assert compare(replay(inputs), replay(replace(inputs, policy=replace(old, **weights)))) == []

    @pytest.mark.parametrize("seed", range(40))
    def test_no_budget_and_no_drafts_is_stop_and_restart(self, seed: int) -> None:
        inputs = random_input(seed)
        bare = replace(inputs.policy, k=0, budget_pages=0, request_weight=inputs.policy.request_weight + 1)
        aware = replace(bare, placement=Placement.LOAD_AWARE, routing=Routing.LOAD_AWARE)
        stop = replace(bare, placement=Placement.OFF, routing=Routing.SHORTEST_QUEUE)
        refused_copies = (
            "holder",
            "counters[sent",
            "counters[refused_t",
            "counters[lost",
            "counters[egress",
            "counters[ingress",
        )
        differences = compare(replay(replace(inputs, policy=aware)), replay(replace(inputs, policy=stop)))
        assert [line for line in differences if not line.startswith(refused_copies)] == []
        if inputs.rules.eviction == EvictionOrder.REFUSE:
            assert differences == []

    def test_random_inputs_reach_everything(self) -> None:
        reached = set()
        for seed in range(250):
            output = replay(random_input(seed))
            reached |= {name for name, value in output.counters.items() if value}
            for name in ("preemptions", "interruptions", "restored_tokens", "recomputed_tokens"):
                if getattr(output, name).any():
                    reached.add(name)
            reached |= {Status(code).name for code in output.status}
            reached |= {Interruption(code).name for code in output.interruption_class}
            if output.counters["restores"] < output.interruption_restored.sum():
                reached.add("dropped restores")
        assert reached >= set(output.counters) - KERNEL_ONLY
        assert reached >= {"preemptions", "interruptions", "restored_tokens", "recomputed_tokens"}
        assert reached >= {"FINISHED", "REFUSED_TOO_LONG", "RUNNING", "QUEUED", "SENT_AFTER_CRASH"}
        assert "dropped restores" in reached


def check_conservation(inputs: ReplayInput, output: ReplayOutput) -> None:
    """Nothing is lost or counted twice."""
    counters = output.counters
    finished = output.status == Status.FINISHED
    assert np.all(finished | (output.status == Status.REFUSED_TOO_LONG))
    assert np.all(output.first_ps[~finished] == NONE)
    assert np.all(inputs.arrival_ps[finished] <= output.dispatch_ps[finished])
    assert np.all(output.dispatch_ps[finished] < output.first_ps[finished])
    assert np.all(output.first_ps[finished] <= output.last_ps[finished])
    # A request's gaps span first to last token; each decode step has one.
    spans = (output.last_ps - output.first_ps)[finished].sum()
    assert sum(gap * count for (_, gap), count in gap_counts(output).items()) == spans
    # With drafts a step brings several tokens, of which some may be unseen.
    steps = (inputs.output_tokens - 1)[finished].sum()
    saved_steps = counters["verified_tokens"] - counters["verified_sequences"]
    assert steps - saved_steps <= gap_counts(output).total() <= steps
    if counters["regenerated_tokens"] == 0 or saved_steps == 0:
        assert gap_counts(output).total() == steps - saved_steps
    assert counters["verified_sequences"] <= counters["verified_tokens"]
    assert counters["verified_tokens"] <= counters["verified_sequences"] + counters["accepted_tokens"]
    assert counters["accepted_tokens"] <= counters["drafted_tokens"]
    # Prefill computes every prompt once, and again only what was lost.
    new_tokens = inputs.prompt_tokens[finished].sum()
    assert counters["prefill_tokens"] >= new_tokens
    assert counters["prefill_tokens"] >= output.recomputed_tokens.sum()
    if not output.preemptions.any() and not output.interruptions.any():
        assert counters["prefill_tokens"] == new_tokens
        assert output.recomputed_tokens.sum() == 0
    assert output.restored_tokens.sum() == counters["restored_bytes_tokens"]
    assert np.array_equal(
        np.bincount(output.interruption_request, minlength=len(finished)), output.interruptions
    )
    taken = output.interruption_next_ps != NONE
    assert np.all(output.interruption_redispatch_ps[taken] < output.interruption_next_ps[taken])
    assert np.all(output.interruption_crash_ps <= output.interruption_redispatch_ps)
    into_the_void = (output.interruption_class == Interruption.SENT_AFTER_CRASH).sum()
    assert into_the_void <= counters["sent_after_crash"]
    if np.all(inputs.faults.kind == FaultKind.CRASH):
        assert into_the_void == counters["sent_after_crash"]
    # Every copy is gone at the end.
    assert output.held_end == 0
    assert output.held_integral >= 0
    assert np.all(output.crash_saved_tokens <= output.crash_existing_tokens)
    assert np.all(output.snapshot_saved_tokens <= output.snapshot_existing_tokens)
    check_outages(output)
    # Every token sent went somewhere.
    sent, arrived = counters["sent_tokens"], counters["arrived_tokens"]
    assert sent == arrived + counters["refused_tokens"] + counters["lost_tokens"]
    assert arrived == counters["evicted_tokens"] + counters["released_tokens"] + output.held_end
    assert (counters["evictions"] == 0) == (counters["evicted_tokens"] == 0)


def check_outages(output: ReplayOutput) -> None:
    """Start, stop and detection, rejoin in this order.

    A worker that was back undetected was silent; one that never stopped was overtaken by another fault as it drained.
    """
    detected = output.outage_detection_ps != NONE
    silent = np.isin(output.outage_kind, [FaultKind.HANG, FaultKind.UNREACHABLE])
    assert np.all(detected | silent)
    assert np.all(output.outage_kind != FaultKind.SLOW)
    stopped = output.outage_stop_ps != NONE
    assert np.all(stopped | (output.outage_kind == FaultKind.DRAIN))
    assert np.all((output.outage_crash_ps <= output.outage_stop_ps)[stopped])
    assert np.all((output.outage_crash_ps <= output.outage_detection_ps)[detected])
    assert np.all((output.outage_detection_ps <= output.outage_rejoin_ps)[detected & stopped])
    assert np.all((output.outage_stop_ps <= output.outage_rejoin_ps)[stopped])
    assert np.all((output.outage_rejoin_ps != NONE) == stopped)


def scalable(inputs: ReplayInput) -> ReplayInput:
    """Without what time does not scale: rounded slow coefficients, the grains of slow starts and ages."""
    faults, rules = inputs.faults, replace(inputs.rules, slow_start_ps=0)
    if rules.eviction == EvictionOrder.WEIGHTED:
        rules = replace(rules, eviction=int(EvictionOrder.SHORTEST))
    whole = -(-faults.factor_ppm // FULL_SPEED_PPM) * FULL_SPEED_PPM
    return replace(inputs, faults=replace(faults, factor_ppm=whole), rules=rules)


def scaled(record: T, factor: int) -> T:
    """The record with every time (and time integral) multiplied; NONE stays."""
    changes: dict[str, object] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, PARTS):
            changes[field.name] = scaled(value, factor)
        elif field.name == "counters":
            changes["counters"] = {
                name: factor * count if name.endswith("_ps") else count for name, count in value.items()
            }
        elif field.name == "held_integral":
            changes[field.name] = factor * value
        elif field.name == "ps" or field.name.endswith("_ps"):
            changes[field.name] = (
                np.where(value == NONE, NONE, factor * value)
                if isinstance(value, np.ndarray)
                else factor * value
            )
    return replace(record, **changes)
