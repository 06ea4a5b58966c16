"""Replays with every kind of fault and every recovery rule switched on, and a thousand faults."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.line import Line, median

if TYPE_CHECKING:
    from lumen_policy.faults import Fault
    from lumen_policy.workload import Workload

__all__ = ["lines", "thousand_faults"]

_AZURE = Path(__file__).resolve().parents[2] / "shared/traces/azure2023/AzureLLMInferenceTrace_conv.csv"
_RUNS = 5
_FAULTS = (
    "crash@300:2,5:scope=node",
    "crash@330:3:scope=process",
    "slow@500:1:factor=1.34,duration_s=600",
    "hang@700:4",
    "unreachable@900:0:duration_s=30",
    "drain@1200:6:duration_s=60",
    "drain@1500:7:mode=migrate",
    "crash@1501:0",
)
_KEYS: dict[str, Any] = {
    "detection": "refused",
    "false_alarms_per_hour": 0.5,
    "repair_s": 120,
    "reload_path": "weight_cache",
    "rack_workers": 2,
    "load_report_interval_s": 1,
    "slow_start_s": 30,
    "requeue": "front",
    "eviction": "lru",
    "stream_from": "prefill",
    "anti_affinity": True,
    "second_replica": True,
    "re_replicate": True,
    "remote_restore": True,
    "restore_failure_share": 0.05,
    "links": "fifo",
    "assist_retarget_s": 5,
    "ping_pong": True,
    "guard": False,
}
"""What can be on together; requests go on after their tokens and are rerouted, as by default."""


def lines() -> Iterator[Line]:
    """Everything on at load 0.7 on 8 and 64 workers against the fault-free replay, then a thousand faults."""
    from lumen_policy.policies.stop_and_restart import stop_and_restart
    from lumen_policy.policy_choice import default_lumen
    from lumen_policy.replay.engine import replay_timed
    from lumen_policy.settings import settings_from
    from lumen_policy.workload import prepare

    source = str(_AZURE) if _AZURE.exists() else "built-in"
    for workers in (8, 64):
        base = {"trace": source, "load": 0.7, "workers": workers}
        calm_workload = prepare(settings_from(base), [])
        calm = calm_workload.cluster.replay_input(calm_workload.trace, faults=(), policy=stop_and_restart())
        workload = prepare(settings_from(base | _KEYS), [])
        pairing = _pairing(workload)
        policy = default_lumen(workload.cluster.settings, pairing)
        everything = workload.cluster.replay_input(workload.trace, faults=pairing.faults, policy=policy)
        calm_s = median(lambda inputs=calm: replay_timed(inputs)[1], _RUNS)
        all_s = median(lambda inputs=everything: replay_timed(inputs)[1], 1)
        yield Line(
            name=f"every fault and rule on, {workers} workers, load 0.7, against fault-free",
            value=all_s / calm_s,
            target=3,
            unit="x",
            note=f"{len(pairing.faults)} faults, {all_s * 1e3:.0f} ms",
        )
    yield from _thousand_lines()


def _pairing(workload: Workload) -> Any:
    from lumen_policy.faults import parse_faults
    from lumen_policy.paired import Pairing

    return Pairing(workload.cluster, workload.trace, parse_faults(_FAULTS))


def _thousand_lines() -> Iterator[Line]:
    done = subprocess.run(
        [sys.executable, "-c", "from bench.faults import thousand_faults; thousand_faults()"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parents[1],
    )
    found = json.loads(done.stdout)
    yield Line(
        name="1,000,000 requests with 1,000 faults, 8 workers, load 0.7, CPU",
        value=found["cpu_s"],
        target=5,
        unit="s",
        note=f"{found['requests']:,} requests, {found['faults']:,} faults",
    )


def thousand_faults() -> None:
    """One process: the generator's trace at load 0.7, faults of every kind in turn; prints JSON."""
    from lumen_policy.policies.lumen import lumen
    from lumen_policy.replay.engine import replay_timed
    from lumen_policy.settings import Settings
    from lumen_policy.workload import prepare

    base = prepare(Settings(load=0.7, limit=2000), [])
    copies = base.trace.rate_per_s / base.base.rate_per_s
    workload = prepare(Settings(load=0.7, limit=round(1_000_000 / copies)), [])
    faults = _every_kind(workload.trace.span_ps, 1000)
    inputs = workload.cluster.replay_input(
        workload.trace, faults=faults, policy=lumen(alpha="0.0117", theta="60")
    )
    _, cpu_s = replay_timed(inputs)
    print(json.dumps({"requests": workload.trace.count, "faults": len(faults), "cpu_s": cpu_s}))


def _every_kind(span_ps: int, count: int) -> list[Fault]:
    from lumen_policy.faults import Fault

    short = 20 * 10**12
    made: list[Fault] = []
    for index in range(count):
        time_ps, worker = span_ps * (index + 1) // (count + 2), index * 3 % 8
        where = {"time_ps": time_ps, "worker": worker}
        made.append(
            (
                Fault(**where),
                Fault(**where, scope="process"),
                Fault(**where, kind="slow", factor_ppm=1_340_000, duration_ps=short),
                Fault(**where, kind="hang"),
                Fault(**where, kind="unreachable", duration_ps=short),
                Fault(**where, kind="drain"),
                Fault(**where, kind="drain", mode="migrate"),
                Fault(**where, kind="false_alarm", duration_ps=short),
            )[index % 8]
        )
    return made
