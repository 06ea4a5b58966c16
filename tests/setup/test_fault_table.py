"""What the recovery keys make of faults: detection, repair, reload and rules, as a replay reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from crash_table import Reload, crash_table

from lumen_policy.cluster import Cluster, resolve_cluster
from lumen_policy.errors import InputError
from lumen_policy.faults import parse_faults
from lumen_policy.paired import Pairing
from lumen_policy.policies.lumen import lumen
from lumen_policy.replay.contract import NONE, FaultKind, FaultTable, RecoveryRules, ReplayInput
from lumen_policy.settings import settings_from
from lumen_policy.trace.synthetic import built_in_trace

S = 10**12
TRACE = built_in_trace(requests=400)
POLICY = lumen(alpha="0.01", theta="9", k=0)


def cluster(**values: object) -> Cluster:
    return resolve_cluster(settings_from(values), longest_tokens=4000, notices=[])


def inputs(*faults: str, **values: object) -> ReplayInput:
    return cluster(**values).replay_input(TRACE, faults=parse_faults(faults), policy=POLICY)


def table(*faults: str, **values: object) -> FaultTable:
    return inputs(*faults, **values).faults


def test_a_crash_is_what_the_contract_calls_one() -> None:
    here = cluster(detection_s=1.5)
    found = here.replay_input(TRACE, faults=parse_faults(["crash@4:2", "crash@2:0"]), policy=POLICY).faults
    way = here.fault_columns.reload.hardware
    reload = Reload(way.restart_ps, way.draft_ps, way.load_ps, way.init_ps)
    plain = crash_table([2 * S, 4 * S], [0, 2], [15 * S // 10] * 2, reload)
    for name in FaultTable.__dataclass_fields__:
        assert getattr(found, name).tolist() == getattr(plain, name).tolist(), name
        assert getattr(found, name).dtype == np.int64


def test_scopes_of_a_crash() -> None:
    """A process keeps the copies and needs no repair; hardware loses them and waits for repair or spare."""
    keys: dict[str, Any] = {"repair_s": 100, "reload_path": "standby", "hardware_reload_path": "snapshot"}
    crashes = ("crash@1:0:scope=process", "crash@2:1", "crash@3:2:scope=node", "crash@4:3:duration_s=7")
    found = table(*crashes, **keys)
    assert found.keeps_copies.tolist() == [1, 0, 0, 0]
    reload = cluster(**keys).fault_columns.reload
    assert reload.process.restart_ps == 0
    assert found.restart_ps.tolist() == [0] + [reload.hardware.restart_ps + at * S for at in (100, 100, 7)]
    assert found.load_ps.tolist() == [reload.process.load_ps] + [reload.hardware.load_ps] * 3
    assert found.init_ps.tolist() == [reload.process.init_ps] + [reload.hardware.init_ps] * 3
    assert reload.process.init_ps != reload.hardware.init_ps
    spared = table(*crashes, spare_s=30, **keys).restart_ps - reload.hardware.restart_ps
    assert spared[1:].tolist() == [30 * S, 30 * S, 7 * S], "whichever is sooner"


def test_other_kinds() -> None:
    found = table(
        "hang@1:0",
        "hang@2:0:duration_s=5,scope=gpu",
        "unreachable@3:0:duration_s=6",
        "slow@4:0:factor=1.5,duration_s=7",
        "drain@5:0:duration_s=8",
        "drain@6:0:mode=migrate,scope=process",
        "false_alarm@7:0:duration_s=9",
        detection_s=2,
        repair_s=50,
        reload_path="weight_cache",
    )
    assert found.kind.tolist() == [
        FaultKind.HANG, FaultKind.HANG, FaultKind.UNREACHABLE, FaultKind.SLOW, FaultKind.DRAIN,
        FaultKind.MIGRATE, FaultKind.UNREACHABLE,
    ]  # fmt: skip
    assert found.length_ps.tolist() == [NONE, 5 * S, 6 * S, 7 * S, 8 * S, 0, 9 * S]
    assert found.delay_ps.tolist() == [2 * S, 2 * S, 2 * S, 0, 0, 0, 0]
    assert found.factor_ppm.tolist() == [10**6] * 3 + [1_500_000] + [10**6] * 3
    assert found.keeps_copies.tolist() == [1, 0, 0, 0, 0, 0, 0]
    reload = cluster(reload_path="weight_cache").fault_columns.reload
    process, hardware = reload.process.load_ps, reload.hardware.load_ps
    assert process < hardware
    assert found.load_ps.tolist() == [process, hardware, process, process, hardware, process, process]
    restart = reload.hardware.restart_ps
    restarts = [restart, restart + 50 * S, *[restart] * 5]
    assert found.restart_ps.tolist() == restarts, "a drain's work is its length, a process needs no repair"


def test_refused_connections_are_those_of_a_node_that_lives() -> None:
    faults = ("crash@1:0", "crash@1:1:scope=node", "crash@1:2:scope=process", "hang@2:0")
    found = table(*faults, detection="refused", breaker_threshold=7)
    assert found.refusals.tolist() == [7, 0, 7, 0]
    assert found.delay_ps[[0, 2]].tolist() == [0, 0]
    assert all(3 * S <= delay < 4 * S for delay in found.delay_ps[[1, 3]])
    checks = table(*faults)
    assert checks.refusals.tolist() == [0] * 4
    assert checks.delay_ps[[1, 3]].tolist() == found.delay_ps[[1, 3]].tolist()


def test_what_need_not_be_noticed_moves_no_detection() -> None:
    crashes = ("crash@5:0", "crash@9:1")
    alone = table(*crashes)
    beside = table("slow@1:0:factor=2,duration_s=1", "drain@2:3", "false_alarm@6:2:duration_s=1", *crashes)
    assert beside.delay_ps[beside.kind == FaultKind.CRASH].tolist() == alone.delay_ps.tolist()
    assert len(set(alone.delay_ps.tolist())) == 2


def test_horizon_covers_the_longest_way_back() -> None:
    base = cluster(detection_s=0, horizon_s="auto")
    longest = base.fault_columns.reload.longest_ps
    assert cluster(detection_s=0, repair_s=1000).horizon_ps == longest + 1180 * S
    assert cluster(detection_s=0, repair_s=1000, spare_s=400).horizon_ps == longest + 580 * S
    fast = cluster(detection_s=0, repair_s=1000, hardware_reload_path="snapshot", draft="none")
    assert fast.horizon_ps < longest + 1180 * S


def test_false_alarms_come_beside_the_faults_and_never_without() -> None:
    """At 60 an hour a worker, 8 workers and the trace's span: Poisson, within four deviations."""
    here = cluster(false_alarms_per_hour=600, false_alarm_s=2)
    pairing = Pairing(here, TRACE, parse_faults(["crash@3:1"]))
    alarms = [fault for fault in pairing.faults if fault.kind == "false_alarm"]
    expected = 8 * 600 / 3600 * TRACE.span_s
    assert abs(len(alarms) - expected) < 4 * expected**0.5
    assert {alarm.worker for alarm in alarms} == set(range(8))
    assert all(0 <= alarm.time_ps <= TRACE.span_ps for alarm in alarms)
    found = here.replay_input(TRACE, faults=pairing.faults, policy=POLICY).faults
    away = found.kind == FaultKind.UNREACHABLE
    assert set(found.length_ps[away].tolist()) == {2 * S}
    assert set(found.delay_ps[away].tolist()) == {0}
    assert len(here.replay_input(TRACE, faults=(), policy=POLICY).faults) == 0
    assert pairing.faults != Pairing(here, TRACE, parse_faults(["crash@3:1"]), scenario=1).faults
    more = cluster(false_alarms_per_hour=600, false_alarm_s=2, workers=9)
    kept = [fault for fault in Pairing(more, TRACE, ()).faults if fault.worker < 8]
    assert kept == alarms, "another worker moves no alarm"
    assert Pairing(cluster(), TRACE, ()).faults == ()
    big = cluster(false_alarms_per_hour=3600, workers=4096)
    with pytest.raises(InputError, match="false_alarms_per_hour"):
        big.with_false_alarms((), span_ps=10**5 * S)


def test_rules_of_the_paper_by_default() -> None:
    assert inputs().rules == RecoveryRules()


@pytest.mark.parametrize(
    ("keys", "rule", "value"),
    [
        ({"eviction": "lru"}, "eviction", 1),
        ({"eviction": "shortest"}, "eviction", 2),
        ({"eviction": "prefix_weighted"}, "eviction", 3),
        ({"stream_from": "prefill"}, "stream_prefill", True),
        ({"second_replica": True}, "second_replica", True),
        ({"anti_affinity": True}, "anti_affinity", True),
        ({"re_replicate": True}, "re_replicate", True),
        ({"remote_restore": True}, "remote_restore", True),
        ({"continuation": "regenerate"}, "regenerate", True),
        ({"interrupted": "wait"}, "wait", True),
        ({"requeue": "front"}, "front", True),
        ({"ping_pong": True}, "ping_pong", True),
        ({"assist_retarget_s": 2.5}, "retarget_ps", 25 * S // 10),
        ({"load_report_interval_s": 0.5}, "load_report_ps", S // 2),
        ({"slow_start_s": 30}, "slow_start_ps", 30 * S),
        ({"restore_failure_share": 0.25}, "restore_failure", 2**62),
        ({"restore_failure_share": 1}, "restore_failure", 2**64 - 1),
    ],
)
def test_each_key_moves_its_rule_alone(keys: dict[str, object], rule: str, value: object) -> None:
    found = inputs(**keys).rules
    assert getattr(found, rule) == value
    for name in RecoveryRules.__dataclass_fields__:
        if name != rule:
            assert getattr(found, name) == getattr(RecoveryRules(), name), name


def test_racks_are_failure_domains() -> None:
    domain = inputs(workers=5, rack_workers=2).rules.domain
    assert domain is not None
    assert domain.tolist() == [0, 0, 1, 1, 2]


def test_budget_as_a_share_of_host_memory() -> None:
    page = cluster().costs.page_bytes
    assert cluster().budget_pages == 20 * 10**9 // page
    assert cluster(checkpoint_budget_share=0.1).budget_pages == 50 * 10**9 // page
    assert cluster(checkpoint_budget_share=0.1, tp=4).budget_bytes == 100 * 10**9
    assert cluster(checkpoint_budget_share=0.5, host_memory_gb_per_gpu=8).budget_bytes == 8 * 10**9


def test_links_take_time_only_when_asked() -> None:
    free, fifo = cluster().costs.transfers, cluster(links="fifo").costs.transfers
    assert (free.egress_token_ps, free.ingress_token_ps, free.store_token_ps) == (0, 0, 0)
    assert min(fifo.egress_token_ps, fifo.ingress_token_ps, fifo.store_token_ps) > 0
    slower = cluster(links="fifo", store_gb_per_s=1, store_latency_s=0.5).costs.transfers
    assert slower.store_token_ps == 262_144 * 1000
    assert slower.store_latency_ps == S // 2
    assert slower.egress_token_ps == fifo.egress_token_ps


def test_acceptance_by_position() -> None:
    rates = inputs(acceptance_rates=["0.75", "0.5"])
    assert rates.acceptance_threshold.tolist() == [[3 * 2**62, 2**63]]
    expected = cluster(acceptance_rates=["0.8", "0.5"]).acceptance.expected_tokens(3)
    assert expected.tolist() == [pytest.approx([1, 1.8, 2.2, 2.4])]


BAD = [
    ({"detection": "fixed"}, "detection: fixed needs detection_s"),
    ({"detection": "hang", "detection_s": 1}, "detection_s: is the delay of detection fixed"),
    ({"detection": "refused", "detection_s": 1}, "not of refused"),
    ({"detection": "telepathy"}, "detection: 'telepathy'"),
    ({"checkpoint_budget_gb": 1, "checkpoint_budget_share": 0.1}, "exclude each other"),
    ({"checkpoint_budget_share": 1.1}, "checkpoint_budget_share: 1.1"),
    ({"breaker_threshold": 0}, "breaker_threshold: 0"),
    ({"rack_workers": 0}, "rack_workers: 0"),
    ({"hardware_reload_path": "standby"}, "hardware_reload_path: 'standby'"),
    ({"eviction": "random"}, "eviction: 'random'"),
    ({"assist_retarget_s": 0}, "assist_retarget_s: 0"),
    ({"restore_failure_share": -0.1}, "restore_failure_share"),
    ({"acceptance_rates": "0.5"}, "acceptance_rates: '0.5' is not a list"),
    ({"acceptance_rates": ["0.5", "1.5"]}, "acceptance_rates: '1.5'"),
    ({"second_replica": 1}, "second_replica: 1"),
]


@pytest.mark.parametrize(("keys", "message"), BAD, ids=[message for _, message in BAD])
def test_what_is_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        settings_from(keys)
    assert message in str(refused.value)
