"""Faults and recovery keys through the command line: each moves what it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lumen_policy.faults import parse_crashes
from lumen_policy.paired import Pairing
from lumen_policy.policies.fixed_checkpointing import fixed_checkpointing
from lumen_policy.settings import settings_from
from lumen_policy.workload import prepare

from .conftest import Run
from .test_replay import SMALL

Document = dict[str, Any]


@pytest.fixture
def replayed(run: Run, tmp_path: Path) -> Any:
    """Replays SMALL with flags, and lesser keys as a file."""

    def command(*flags: str, **keys: object) -> Document:
        lines = [
            f"{name} = {str(value).lower() if isinstance(value, bool) else value}"
            for name, value in keys.items()
        ]
        path = tmp_path / "keys.toml"
        path.write_text("\n".join(lines) + "\n")
        document = run("replay", *SMALL, "--k", "0", *flags, "--config", path, "--json").document
        check(document)
        return document

    return command


def check(document: Document) -> None:
    """What holds of every replay."""
    requests, traffic = document["requests"], document["traffic"]
    assert requests["arrived"] == requests["finished"] == 120
    assert traffic["sent_tokens"] == sum(traffic[f"{fate}_tokens"] for fate in ("arrived", "refused", "lost"))
    assert traffic["arrived_tokens"] == sum(
        traffic[f"{fate}_tokens"] for fate in ("evicted", "released", "held")
    )
    assert traffic["held_tokens"] == 0


def outages(document: Document) -> list[tuple[str, int, Any]]:
    return [
        (outage["kind"], outage["worker"], outage["rejoin_s"]) for outage in document["impact"]["outages"]
    ]


def test_a_process_comes_back_by_its_own_path(replayed: Any) -> None:
    """Repair and spare concern hardware, the reload path of processes concerns processes."""
    gpu, process = ("--fault", "crash@3.5:1"), ("--fault", "crash@3.5:1:scope=process")
    plain = replayed(*gpu)
    [(_, _, back)] = outages(plain)
    assert outages(replayed(*process)) == [("crash", 1, back)]
    assert outages(replayed(*gpu, "--reload-path", "weight_cache")) == [("crash", 1, back)]
    cached = outages(replayed(*process, "--reload-path", "weight_cache"))[0][2]
    assert cached < back
    assert outages(replayed(*process, "--repair-s", "50")) == [("crash", 1, back)]
    assert outages(replayed(*gpu, "--repair-s", "50"))[0][2] == pytest.approx(back + 50)
    assert outages(replayed(*gpu, "--repair-s", "50", "--spare-s", "7"))[0][2] == pytest.approx(back + 7)
    assert outages(replayed("--fault", "crash@3.5:1:duration_s=9"))[0][2] == pytest.approx(back + 9)
    snapshot = replayed(*gpu, "--hardware-reload-path", "snapshot")
    assert outages(snapshot)[0][2] < back
    parts = snapshot["cluster"]["reload"]["hardware"]["parts"]
    assert sum(part["seconds"] for part in parts if not part["name"].startswith("draft")) == pytest.approx(
        outages(snapshot)[0][2] - 4.5
    )
    assert all(part["source"] for part in parts)
    assert plain["traffic"]["lost_tokens"] == 0, "free links lose nothing under way"


def test_refused_connections_lose_no_request_to_the_void(replayed: Any, run: Run) -> None:
    flags = (*SMALL[:-2], "--k", "0", "--fault", "crash@3.5:1", "--json")
    checks = run("replay", *flags).document
    refused = run("replay", *flags, "--detection", "refused").document
    assert checks["handling"]["sent_into_void"] > 0 == refused["handling"]["sent_into_void"]
    assert refused["handling"]["refused_sends"] == 5
    assert refused["interrupted"]["by_class"]["sent_after_crash"] == 0
    assert refused["impact"]["outages"][0]["detection_s"] == 3.5
    node = run("replay", *flags, "--detection", "refused", "--fault", "crash@3.6:2:scope=node").document
    assert [outage["detection_s"] > 6 for outage in node["impact"]["outages"]] == [False, True]


def test_silent_workers(replayed: Any) -> None:
    """A hang of half a second is over before its detection after 1 s: nobody is interrupted."""
    short = replayed("--fault", "hang@3.5:1:duration_s=0.5")
    assert short["interrupted"]["count"] == 0
    assert short["impact"]["excess_e2e_request_s"] > 0
    assert short["impact"]["outages"][0]["detection_s"] is None
    endless = replayed("--fault", "hang@3.5:1")
    assert endless["interrupted"]["count"] > 0
    assert endless["handling"]["sent_into_void"] > 0
    away = replayed("--fault", "unreachable@3.5:1:duration_s=6")
    assert outages(away) == [("unreachable", 1, 9.5)]
    assert away["interrupted"]["count"] > 0


def test_slow_workers_interrupt_nobody(replayed: Any) -> None:
    twice, thrice = (
        replayed("--fault", f"slow@2:1:factor={factor},duration_s=30")["impact"] for factor in (2, 3)
    )
    assert 0 < twice["excess_e2e_request_s"] < thrice["excess_e2e_request_s"]
    assert twice["outages"] == []
    assert twice["parts"]["detect_s"] is None


def test_drains(replayed: Any) -> None:
    finish = replayed("--fault", "drain@3.5:1:duration_s=20")
    migrate = replayed("--fault", "drain@3.5:1:duration_s=20,mode=migrate")
    assert finish["interrupted"]["count"] == finish["handling"]["migrated"] == 0
    assert migrate["interrupted"]["count"] == migrate["handling"]["migrated"] > 0
    assert finish["impact"]["outages"][0]["stop_s"] > migrate["impact"]["outages"][0]["stop_s"] == 3.5
    reload = migrate["cluster"]["reload"]["hardware"]
    expected = 3.5 + 20 + sum(reload[f"{part}_s"] for part in ("restart", "load", "init"))
    assert outages(migrate) == [("migrate", 1, pytest.approx(expected))]


def test_false_alarms_are_faults_of_the_faulty_run_alone(replayed: Any) -> None:
    calm = replayed()
    alarmed = replayed(false_alarms_per_hour=300, false_alarm_s=1.5)
    assert calm["impact"]["outages"] is None
    kinds = {fault["kind"] for fault in alarmed["cluster"]["faults"]}
    assert kinds == {"false_alarm"}
    assert alarmed["interrupted"]["count"] > 0
    for outage in alarmed["impact"]["outages"]:
        assert outage["detection_s"] == outage["start_s"]
        assert outage["rejoin_s"] == pytest.approx(outage["start_s"] + 1.5)
    assert alarmed["checkpoint"]["coverage_time_mean"] == calm["checkpoint"]["coverage_time_mean"]
    assert alarmed["saturation"] == calm["saturation"]
    assert alarmed["availability"] is None


def test_no_run_without_faults_has_a_false_alarm() -> None:
    """The fault-free run and the placebo's: the alarms are in the faulty run alone."""
    settings = settings_from(
        {"limit": 120, "rate_scale": 3, "workers": 3, "false_alarms_per_hour": 300, "detection_s": 1}
    )
    workload = prepare(settings, [])
    pairing = Pairing(workload.cluster, workload.trace, parse_crashes(["3.5:1"]))
    run = pairing.run(fixed_checkpointing())
    assert len(run.faulty.inputs.faults) == len(pairing.faults) > 1
    assert len(run.fault_free.inputs.faults) == 0
    replayed = []
    real = workload.cluster.__class__.replay_input

    def spied(*arguments: Any, **keys: Any) -> Any:
        replayed.append(keys["faults"])
        return real(*arguments, **keys)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload.cluster.__class__, "replay_input", spied)
        pairing.placebo(run)
    assert replayed == [()]


def test_faults_longer_than_the_window_are_said(run: Run) -> None:
    slow = ("replay", *SMALL, "--fault", "slow@1:0:factor=1.5,duration_s=301")
    assert "1 faults last longer than the window H of 300 s" in run(*slow).err
    assert "longer than" not in run(*slow, "--horizon-s", "301").err


CRASH = ("--crash", "3.5:1")


def test_what_happens_to_interrupted_requests(replayed: Any) -> None:
    plain = replayed(*CRASH)
    again = replayed(*CRASH, "--continuation", "regenerate")
    assert plain["handling"]["regenerated_tokens"] == 0 < again["handling"]["regenerated_tokens"]
    waiting = replayed(*CRASH, "--interrupted", "wait")
    back = outages(waiting)[0][2]
    assert waiting["interrupted"]["replay_ttft_from_crash_s"]["p50"] > back - 3.5
    assert plain["interrupted"]["replay_ttft_from_crash_s"]["p50"] < 10
    recompute = ("--theta", "never", "--tau", "inf")
    front = replayed(*CRASH, *recompute, "--requeue", "front")
    tail = replayed(*CRASH, *recompute)
    first, last = (run["interrupted"]["replay_ttft_from_redispatch_s"]["mean"] for run in (front, tail))
    assert first < last


def test_restores_that_fail_or_go_over_the_network(replayed: Any) -> None:
    plain = replayed(*CRASH, "--theta", "inf")
    assert plain["handling"]["restores"] > 0
    assert plain["handling"]["failed_restores"] == plain["handling"]["remote_restores"] == 0
    failed = replayed(*CRASH, "--theta", "inf", restore_failure_share=1)
    assert failed["handling"]["failed_restores"] > 0 == failed["impact"]["restored_bytes"]
    elsewhere = ("--theta", "never", "--tau", "inf")
    assert replayed(*CRASH, *elsewhere)["handling"]["restores"] == 0
    remote = replayed(*CRASH, *elsewhere, remote_restore=True)
    assert remote["handling"]["remote_restores"] > 0


def test_full_checkpoint_memory(replayed: Any) -> None:
    tight = {"checkpoint_budget_gb": 0.5}
    refusing = replayed(*CRASH, **tight)
    assert refusing["traffic"]["evictions"] == 0
    assert refusing["traffic"]["refused_tokens"] >= 0
    for order in ("lru", "shortest", "prefix_weighted"):
        evicting = replayed(*CRASH, "--eviction", order, **tight)
        assert evicting["traffic"]["evictions"] > 0, order
    share = replayed(*CRASH, checkpoint_budget_share=0.001)
    assert share["cluster"]["checkpoint_budget_gb"] == 0.5
    assert share["traffic"] == refusing["traffic"]


def test_links_that_take_time(replayed: Any) -> None:
    free, fifo = replayed(*CRASH), replayed(*CRASH, "--links", "fifo")
    assert free["traffic"]["ingress_wait_s"] == 0 < fifo["traffic"]["ingress_wait_s"]
    assert fifo["checkpoint"]["coverage"] <= free["checkpoint"]["coverage"]
    assert fifo["cluster"]["rules"]["links"]["egress_bytes_per_s"] > 1e9
    early = replayed(*CRASH, "--stream-from", "prefill")
    assert early["checkpoint"]["coverage_time_mean"] > free["checkpoint"]["coverage_time_mean"], (
        "prompts in prefill are covered too"
    )


def test_failure_domains_and_second_copies(replayed: Any) -> None:
    """Workers 0 and 1 are a rack that crashes whole: only copies outside of it survive."""
    rack = ("--workers", "4", "--rack-workers", "2", "--crash", "3.5:0,1")
    together = replayed(*rack)["checkpoint"]["coverage"]
    apart = replayed(*rack, anti_affinity=True)["checkpoint"]["coverage"]
    twice = replayed(*rack, second_replica=True)
    assert together < apart
    assert together < twice["checkpoint"]["coverage"]
    assert twice["traffic"]["sent_tokens"] > 1.4 * replayed(*rack)["traffic"]["sent_tokens"]
    later = ("--workers", "4", "--crash", "3.5:0", "--crash", "6:1")
    once = replayed(*later)["traffic"]["sent_tokens"]
    assert replayed(*later, re_replicate=True)["traffic"]["sent_tokens"] > once


def test_what_the_gateway_knows(replayed: Any) -> None:
    """Old loads move holders, a slow start spares the worker that came back."""
    exact = replayed(*CRASH)
    stale = replayed(*CRASH, "--load-report-interval-s", "5")
    assert stale["checkpoint"]["holder_balance"] != exact["checkpoint"]["holder_balance"] or (
        stale["traffic"] != exact["traffic"]
    )
    soon = ("--fault", "crash@0.5:1:scope=process", "--reload-path", "standby", "--detection-s", "0")
    assert replayed(*soon, "--slow-start-s", "60")["impact"] != replayed(*soon)["impact"]


def test_a_store_is_restored_from_anywhere(run: Run) -> None:
    flags = ("replay", *SMALL, *CRASH, "--policy", "remote_store")
    document = run(*flags, "--json").document
    check(document)
    assert document["handling"]["remote_restores"] == document["handling"]["restores"] > 0
    assert document["checkpoint"]["coverage"] > 0.9
    assert "remote restores" in run(*flags).out


def test_faults_and_handling_are_said(run: Run) -> None:
    out = run(
        "replay", *SMALL, "--k", "0", "--links", "fifo",
        "--fault", "drain@3.5:1:mode=migrate", "--fault", "slow@1:2:factor=1.5,duration_s=2",
    ).out  # fmt: skip
    assert "slow (1.5 times, 2 s) worker 2 at 1 s; drain (node, migrate) worker 1 at 3.5 s" in out
    assert "migrate 3.5 s, stopped 3.5 s" in out
    assert "migrated requests" in out
    assert "longest wait" in out


def test_scenarios_know_scopes(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "short.toml"
    config.write_text("warmup_s = 8\n")
    from .test_compare import SCENARIOS

    flags = ("compare", *SCENARIOS, "--config", config, "--scenarios", "2", "--json", "--k", "0")
    by_scope = {
        scope: run(*flags, "--victim-scope", scope, "--reload-path", "standby").document
        for scope in ("process", "gpu")
    }
    assert by_scope["process"]["scenarios"]["victim_scope"] == "process"
    said = run(*flags[:-3], "--k", "0", "--victim-scope", "node").out
    assert "workers crash of scope node after 8 s" in said
    means = {
        scope: document["policies"][-1]["excess_e2e_request_s"]["mean_s"]
        for scope, document in by_scope.items()
    }
    assert means["process"] < means["gpu"]
