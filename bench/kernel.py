"""The replay kernel: CPU milliseconds per 19,366 requests, and a million requests in one process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median as median_of
from typing import TYPE_CHECKING

from bench.line import Line, median

if TYPE_CHECKING:
    from lumen_policy.faults import Fault
    from lumen_policy.policies.spec import RecoveryPolicy
    from lumen_policy.replay.contract import ReplayInput
    from lumen_policy.workload import Workload

__all__ = ["lines", "million", "side_by_side"]

_AZURE = Path(__file__).resolve().parents[2] / "shared/traces/azure2023/AzureLLMInferenceTrace_conv.csv"
_PER = 19_366
_RUNS = 5


def lines() -> Iterator[Line]:
    """Replays at load 0.7 on 8 and 64 workers, then a million requests."""
    from lumen_policy.policies.stop_and_restart import stop_and_restart
    from lumen_policy.settings import Settings
    from lumen_policy.workload import prepare

    source = str(_AZURE) if _AZURE.exists() else "built-in"
    note = "Azure conversation trace" if _AZURE.exists() else "built-in trace (the Azure trace is not here)"
    for workers in (8, 64):
        workload = prepare(Settings(trace=source, load=0.7, workers=workers), [])
        crashes, policy = _crashes_and_lumen(workload)
        scale = 1e3 * _PER / workload.trace.count
        calm = workload.cluster.replay_input(workload.trace, faults=(), policy=stop_and_restart())
        faulty = workload.cluster.replay_input(workload.trace, faults=crashes, policy=policy)
        yield Line(
            name=f"fault-free replay, {workers} workers, load 0.7, CPU per 19,366 requests",
            value=median(lambda inputs=calm: _cpu_s(inputs), _RUNS) * scale,
            target=6.5 if workers == 8 else 9,
            unit="ms",
            note=f"{note}; {'5.4–8.5' if workers == 8 else '8–13'} with numba",
        )
        calm_s, faulty_s = side_by_side(calm, faulty)
        yield Line(
            name=f"LUMEN with two crashes, {workers} workers, against fault-free",
            value=faulty_s / calm_s,
            target=2.6 if workers == 8 else 3,
            unit="x",
            note=f"{faulty_s * scale:.1f} ms; {'19–29' if workers == 8 else '37–45'} ms with numba",
        )
    yield from _million_lines()


def _crashes_and_lumen(workload: Workload) -> tuple[tuple[Fault, ...], RecoveryPolicy]:
    from lumen_policy.faults import Fault
    from lumen_policy.paired import Pairing
    from lumen_policy.policy_choice import default_lumen

    crashes = tuple(Fault(time_ps=300 * 10**12, worker=worker) for worker in (2, 5))
    pairing = Pairing(workload.cluster, workload.trace, crashes)
    return crashes, default_lumen(workload.cluster.settings, pairing)


def side_by_side(*replays: ReplayInput) -> list[float]:
    """Median CPU seconds of several replays, taken in turn."""
    rounds = [[_cpu_s(inputs) for inputs in replays] for _ in range(_RUNS + 1)]
    return [median_of(column) for column in zip(*rounds[1:], strict=True)]


def _cpu_s(inputs: ReplayInput) -> float:
    from lumen_policy.replay.engine import replay_timed

    return replay_timed(inputs)[1]


def _million_lines() -> Iterator[Line]:
    def run(requests: int) -> dict[str, float]:
        done = subprocess.run(
            [sys.executable, "-c", f"from bench.kernel import million; million({requests})"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).resolve().parents[1],
        )
        return json.loads(done.stdout)

    small, large = run(20_000), run(1_000_000)
    yield Line(
        name="1,000,000 requests with crashes, 8 workers, load 0.7, CPU",
        value=large["cpu_s"],
        target=1.2,
        unit="s",
        note="1.2–2.0 s with numba",
    )
    yield Line(
        name="  peak memory of that process",
        value=large["peak_mb"],
        target=420,
        unit="MB",
        note="542 MB with numba",
    )
    yield Line(
        name="  time per request, 1,000,000 against 20,000",
        value=(large["cpu_s"] / large["requests"]) / (small["cpu_s"] / small["requests"]),
        target=1.5,
        unit="x",
    )


def million(requests: int) -> None:
    """One process: the generator's trace of that many requests at load 0.7, LUMEN with crashes; prints JSON."""
    from lumen_policy.faults import Fault
    from lumen_policy.policies.lumen import lumen
    from lumen_policy.replay.engine import replay_timed
    from lumen_policy.settings import Settings
    from lumen_policy.workload import prepare

    base = prepare(Settings(load=0.7, limit=2000), [])
    copies = base.trace.rate_per_s / base.base.rate_per_s
    workload = prepare(Settings(load=0.7, limit=round(requests / copies)), [])
    span_ps = workload.trace.span_ps
    crashes = tuple(
        Fault(time_ps=int(span_ps * share), worker=worker) for share in (0.2, 0.5, 0.8) for worker in (2, 5)
    )
    inputs = workload.cluster.replay_input(
        workload.trace, faults=crashes, policy=lumen(alpha="0.0117", theta="60")
    )
    times = []
    for _ in range(3 if requests < 100_000 else 1):
        _, cpu_s = replay_timed(inputs)
        times.append(cpu_s)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        json.dumps(
            {
                "requests": workload.trace.count,
                "cpu_s": min(times),
                "peak_mb": peak / (2**20 if sys.platform == "darwin" else 1024),
            }
        )
    )
