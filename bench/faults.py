"""Replays with every kind of fault and every recovery rule switched on, and a thousand faults."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.kernel import side_by_side
from bench.line import Line

if TYPE_CHECKING:
    from lumen_policy.faults import Fault
    from lumen_policy.workload import Workload

__all__ = ["lines", "thousand_faults"]

_AZURE = Path(__file__).resolve().parents[2] / "shared/traces/azure2023/AzureLLMInferenceTrace_conv.csv"
_TWO_CRASHES = ("crash@300:2,5",)
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


_ONE_SWITCH: dict[str, dict[str, Any]] = {
    "eviction = lru": {"eviction": "lru"},
    "links = fifo": {"links": "fifo"},
}
_BEFORE = {"eviction = lru": "161", "links = fifo": "123", "every fault and rule on": "140"}
"""Milliseconds per 19,366 requests with numba and copies one by one, 8 workers."""


def lines() -> Iterator[Line]:
    """One switch and everything on, on 8 and 64 workers, against the fault-free replay; then a thousand faults."""
    from lumen_policy.policies.stop_and_restart import stop_and_restart
    from lumen_policy.policy_choice import default_lumen
    from lumen_policy.settings import settings_from
    from lumen_policy.workload import prepare

    source = str(_AZURE) if _AZURE.exists() else "built-in"
    for workers in (8, 64):
        base = {"trace": source, "load": 0.7, "workers": workers}
        calm_workload = prepare(settings_from(base), [])
        calm = calm_workload.cluster.replay_input(calm_workload.trace, faults=(), policy=stop_and_restart())
        for name, keys in (*_ONE_SWITCH.items(), ("every fault and rule on", _KEYS)):
            workload = prepare(settings_from(base | keys), [])
            pairing = _pairing(workload, _TWO_CRASHES if name in _ONE_SWITCH else _FAULTS)
            policy = default_lumen(workload.cluster.settings, pairing)
            inputs = workload.cluster.replay_input(workload.trace, faults=pairing.faults, policy=policy)
            calm_s, all_s = side_by_side(calm, inputs)
            milliseconds = all_s * 1e3 * 19_366 / workload.trace.count
            yield Line(
                name=f"{name}, {workers} workers, load 0.7, against fault-free",
                value=all_s / calm_s,
                target=(9 if keys is _KEYS else 6) if workers == 8 else None,
                unit="x",
                note=f"{milliseconds:.1f} ms per 19,366"
                + (f"; {_BEFORE[name]} before" if workers == 8 else ""),
            )
    yield from _thousand_lines()
    yield from _ten_million_lines()


def _pairing(workload: Workload, faults: tuple[str, ...]) -> Any:
    from lumen_policy.faults import parse_faults
    from lumen_policy.paired import Pairing

    return Pairing(workload.cluster, workload.trace, parse_faults(faults))


def _in_a_process(call: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", f"from bench.faults import thousand_faults; {call}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parents[1],
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _ten_million_lines() -> Iterator[Line]:
    found = _in_a_process("thousand_faults(10_000_000, 64)")
    note = f"{found['requests']:,} requests, {found['faults']:,} faults"
    yield Line(
        name="10,000,000 requests with 1,000 faults, 64 workers, load 0.7, CPU",
        value=found["cpu_s"],
        target=20,
        unit="s",
        note=note,
    )
    yield Line(name="  peak memory of that process", value=found["peak_mb"], target=3500, unit="MB")


def _thousand_lines() -> Iterator[Line]:
    found = _in_a_process("thousand_faults(1_000_000, 8)")
    yield Line(
        name="1,000,000 requests with 1,000 faults, 8 workers, load 0.7, CPU",
        value=found["cpu_s"],
        target=5,
        unit="s",
        note=f"{found['requests']:,} requests, {found['faults']:,} faults",
    )


def thousand_faults(requests: int, workers: int) -> None:
    """One process: so many requests of the generator at load 0.7, faults of every kind in turn; prints JSON."""
    from lumen_policy.policies.lumen import lumen
    from lumen_policy.replay.engine import replay_timed
    from lumen_policy.settings import Settings
    from lumen_policy.workload import prepare

    base = prepare(Settings(load=0.7, limit=2000, workers=workers), [])
    copies = base.trace.rate_per_s / base.base.rate_per_s
    workload = prepare(Settings(load=0.7, limit=round(requests / copies), workers=workers), [])
    faults = _every_kind(workload.trace.span_ps, 1000, workers)
    inputs = workload.cluster.replay_input(
        workload.trace, faults=faults, policy=lumen(alpha="0.0117", theta="60")
    )
    _, cpu_s = replay_timed(inputs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {"requests": workload.trace.count, "faults": len(faults), "cpu_s": cpu_s}
    print(json.dumps(found | {"peak_mb": peak / (2**20 if sys.platform == "darwin" else 1024)}))


def _every_kind(span_ps: int, count: int, workers: int) -> list[Fault]:
    from lumen_policy.faults import Fault

    short = 20 * 10**12
    made: list[Fault] = []
    for index in range(count):
        time_ps, worker = span_ps * (index + 1) // (count + 2), index * 3 % workers
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
