"""The kernel equals the plain twin, value for value.

``FUZZ=N`` tries N more random configurations, from seed ``FUZZ_FROM`` (default 1,000,000) on.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
from conftest import shared_path
from hypothesis import given, settings
from twin import compare
from twin import replay as twin
from twin.compare import KERNEL_ONLY
from twin.strategies import random_input, replay_inputs

from lumen_policy.cluster import resolve_cluster
from lumen_policy.faults import parse_crashes
from lumen_policy.policies.fixed_checkpointing import fixed_checkpointing
from lumen_policy.policies.lumen import lumen
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.policies.stop_and_restart import stop_and_restart
from lumen_policy.replay.contract import (
    NONE,
    EvictionOrder,
    FaultKind,
    Interruption,
    Placement,
    RecoveryRules,
    ReplayInput,
    ReplayOutput,
    Router,
    Routing,
    Status,
)
from lumen_policy.replay.engine import replay
from lumen_policy.settings import settings_from
from lumen_policy.trace.read import read_trace
from lumen_policy.trace.synthetic import built_in_trace
from lumen_policy.trace.table import Trace
from lumen_policy.workload import longest_tokens

from .inputs import crowded_input

BLOCKS = [range(start, start + 250) for start in (0, 250, 500)]

POLICIES = [
    stop_and_restart(),
    fixed_checkpointing(),
    lumen(alpha="0.012", theta="30", k=3),
    lumen(alpha="0.012", theta="8", tau=1024, k=2, guard=False),
]


def happened(output: ReplayOutput) -> set[str]:
    """What took place in a replay, by name."""
    facts = {name for name, value in output.counters.items() if value}
    facts |= {
        name
        for name in ("preemptions", "interruptions", "restored_tokens", "recomputed_tokens")
        if getattr(output, name).any()
    }
    facts |= {Status(code).name for code in output.status}
    facts |= {Interruption(code).name for code in output.interruption_class}
    if output.counters["restores"] < output.interruption_restored.sum():
        facts.add("a restore was dropped")
    if (output.interruptions > 1).any():
        facts.add("interrupted twice")
    facts |= {FaultKind(kind).name for kind in output.outage_kind}
    silent = np.isin(output.outage_kind, [FaultKind.HANG, FaultKind.UNREACHABLE])
    if (silent & (output.outage_detection_ps == NONE)).any():
        facts.add("back before its detection")
    if ((output.outage_kind == FaultKind.DRAIN) & (output.outage_stop_ps == NONE)).any():
        facts.add("a drain was overtaken")
    return facts


def asked_for(inputs: ReplayInput) -> set[str]:
    """Faults, rules and mechanisms of an input, by name."""
    rules, faults = inputs.rules, inputs.faults
    names = {field.name for field in fields(RecoveryRules)} - {"eviction", "domain"}
    facts = {name for name in names if getattr(rules, name)}
    facts |= {EvictionOrder(rules.eviction).name, Router(inputs.router).name}
    facts |= {f"to {Placement(inputs.policy.placement).name}", f"by {Routing(inputs.policy.routing).name}"}
    facts |= {f"{FaultKind(kind).name} asked for" for kind in faults.kind}
    if len(set(faults.ps.tolist())) < len(faults):
        facts.add("faults at one instant")
    if faults.keeps_copies.any():
        facts.add("kept copies")
    if rules.domain is not None and len(set(rules.domain.tolist())) < inputs.workers:
        facts.add("shared domains")
    return facts


EVERYTHING = {
    *("leaps", "ordered_syncs", "gateway_waited", "sent_after_crash", "restores"),
    *("assisted_passes", "plain_assisted_passes", "vetoed_passes", "accepted_tokens"),
    *("preemptions", "interruptions", "restored_tokens", "recomputed_tokens"),
    *("FINISHED", "REFUSED_TOO_LONG", "RUNNING", "QUEUED", "SENT_AFTER_CRASH"),
    *("a restore was dropped", "interrupted twice", "back before its detection", "a drain was overtaken"),
    *(kind.name for kind in FaultKind if kind != FaultKind.SLOW),
    *(f"{kind.name} asked for" for kind in FaultKind),
    *("faults at one instant", "kept copies", "shared domains"),
    *(router.name for router in Router),
    *(order.name for order in EvictionOrder),
    *(f"to {placement.name}" for placement in Placement),
    *(f"by {routing.name}" for routing in Routing),
    *(field.name for field in fields(RecoveryRules) if field.name not in ("eviction", "domain")),
    *("refused_sends", "ignored_faults", "migrated", "remote_restores", "failed_restores", "retargets"),
    *("ping_pong_passes", "regenerated_tokens", "evictions", "refused_tokens", "lost_tokens"),
    *("egress_wait_ps", "ingress_wait_ps"),
}
OFTEN = (
    *("leaps", "ordered_syncs", "assisted_passes", "restores", "sent_tokens", "lost_tokens", "refused_sends"),
    *("evictions", "regenerated_tokens", "migrated", "ignored_faults"),
)


@pytest.mark.parametrize("seeds", BLOCKS, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_random_configurations(seeds: range) -> None:
    """INV-1: the kernel equals the twin on seeded configurations, of which each block reaches every mechanism."""
    reached: Counter[str] = Counter()
    different = {}
    for seed in seeds:
        inputs = random_input(seed)
        output = replay(inputs)
        differences = compare(output, twin(inputs))
        if differences:
            different[seed] = differences
        reached.update(happened(output) | asked_for(inputs))
    assert different == {}
    assert EVERYTHING - reached.keys() == set()
    assert {name: reached[name] for name in OFTEN if reached[name] < 5} == {}


@given(replay_inputs())
@settings(max_examples=120)
def test_any_configuration(inputs: ReplayInput) -> None:
    """INV-1: as above with configurations that hypothesis draws, and shrinks where they differ."""
    assert compare(replay(inputs), twin(inputs)) == []


@pytest.mark.skipif("FUZZ" not in os.environ, reason="FUZZ=N tries N more configurations")
def test_more_configurations() -> None:
    """INV-1: as many more as the environment asks for."""
    first = int(os.environ.get("FUZZ_FROM", "1000000"))
    different = {}
    for seed in range(first, first + int(os.environ.get("FUZZ", "0"))):
        inputs = random_input(seed)
        differences = compare(replay(inputs), twin(inputs))
        if differences:
            different[seed] = differences
            print(f"seed {seed}: {differences[0]}")
    assert different == {}


def on_real_costs(trace: Trace, policy: RecoveryPolicy, **changes: object) -> ReplayOutput:
    """Four workers of the default model and hardware with few KV pages, three crashes, two of them at once."""
    keys = {"workers": 4, "detection_s": 2.0, "kv_pages": 600, **changes}
    cluster = resolve_cluster(settings_from(keys), longest_tokens=longest_tokens(trace), notices=[])
    crashes = parse_crashes(["20:1,2", "40:3"])
    inputs = cluster.replay_input(trace, faults=crashes, policy=policy)
    inputs = replace(inputs, snapshot_ps=inputs.snapshot_ps[:20])
    output = replay(inputs)
    assert compare(output, twin(inputs)) == []
    return output


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{policy.k}")
def test_azure_trace(policy: RecoveryPolicy) -> None:
    """INV-1: the head of the Azure conversation trace on real costs."""
    path = shared_path("traces/azure2023/AzureLLMInferenceTrace_conv.csv")
    output = on_real_costs(read_trace(path, limit=300), policy)
    assert output.preemptions.any()
    assert output.interruptions.any()
    assert (output.counters["restores"] > 0) == (policy.placement != "off")


@pytest.mark.parametrize("policy", POLICIES[1::2], ids=lambda policy: f"{policy.name}-{policy.k}")
def test_built_in_trace(policy: RecoveryPolicy) -> None:
    """INV-1: the built-in trace on real costs, prefill alone first, a bounded checkpoint budget."""
    changes = {"scheduler": "prefill_first", "router": "least_kv", "checkpoint_budget_gb": 2.0}
    output = on_real_costs(built_in_trace(requests=300), policy, **changes)
    assert output.counters["leaps"] > output.counters["iterations"] // 2
    assert (output.counters["assisted_passes"] > 0) == (policy.k > 0)


def test_crowded_pools() -> None:
    """INV-1: long prompts in pools that the watermark keeps from filling up."""
    for seed in range(60):
        inputs = crowded_input(seed)
        assert compare(replay(inputs), twin(inputs)) == [], f"seed {seed}"


def test_counters_of_both_are_the_same_names() -> None:
    """INV-1: no counter escapes the comparison."""
    inputs = random_input(0)
    assert replay(inputs).counters.keys() == twin(inputs).counters.keys() > KERNEL_ONLY


@pytest.mark.parametrize("seed", [152, 832, 1397, 11149, 41281, 500077])
def test_seeds_that_once_differed(seed: int) -> None:
    """Partial pages of waiting copies, books closed too late, a help that ended twice, a full log, halves and
    pages, a half that a fault ended."""
    inputs = random_input(seed)
    assert compare(replay(inputs), twin(inputs)) == []
