"""Reading traces: the Azure file, a million rows, ten million rows."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.line import Line, median

__all__ = ["lines", "one_read"]

_ROOT = Path(__file__).resolve().parents[1]
_AZURE = _ROOT.parent / "shared/traces/azure2023/AzureLLMInferenceTrace_conv.csv"


def lines() -> Iterator[Line]:
    """CPU seconds of all threads of one read; the largest file in a process of its own."""
    from lumen_policy.trace.read import read_trace
    from lumen_policy.trace.synthetic import built_in_trace
    from lumen_policy.trace.write import write_trace

    def cpu_ms(path: Path) -> float:
        started = time.process_time()
        read_trace(path)
        return 1e3 * (time.process_time() - started)

    with tempfile.TemporaryDirectory() as folder:
        if _AZURE.exists():
            yield Line(
                name="reading the Azure conversation trace, CPU",
                value=median(lambda: cpu_ms(_AZURE), 5),
                target=60,
                unit="ms",
            )
        million = Path(folder) / "million.csv"
        write_trace(built_in_trace(requests=1_000_000), million, "csv")
        yield Line(
            name="reading 1,000,000 rows of CSV, CPU",
            value=median(lambda: cpu_ms(million), 3) / 1e3,
            target=1,
            unit="s",
        )
        large = Path(folder) / "large.csv"
        header, *rows = million.read_text().splitlines(keepends=True)
        span_s = 181_000
        with large.open("w") as file:
            file.write(header)
            for copy in range(10):
                for row in rows:
                    seconds, rest = row.split(",", 1)
                    file.write(f"{float(seconds) + copy * span_s:.6f},{rest}")
        done = subprocess.run(
            [sys.executable, "-c", f"from bench.traces import one_read; one_read({str(large)!r})"],
            capture_output=True,
            text=True,
            check=True,
            cwd=_ROOT,
        )
        found = json.loads(done.stdout)
        yield Line(
            name="reading 10,000,000 rows of CSV, peak memory", value=found["read_mb"], target=1500, unit="MB"
        )
        yield Line(
            name="  and replaying them (16 workers, fault-free), peak memory",
            value=found["replay_mb"],
            target=4000,
            unit="MB",
        )
        yield Line(name="  kernel CPU of that replay", value=found["replay_cpu_s"], target=None, unit="s")


def one_read(path: str) -> None:
    """One process: read a trace, replay it without a fault; prints JSON."""
    from lumen_policy.cluster import resolve_cluster
    from lumen_policy.policies.stop_and_restart import stop_and_restart
    from lumen_policy.replay.engine import replay_timed
    from lumen_policy.settings import Settings
    from lumen_policy.trace.read import read_trace
    from lumen_policy.workload import longest_tokens

    trace = read_trace(path)
    read_mb = _peak_mb()
    cluster = resolve_cluster(Settings(workers=16), longest_tokens=longest_tokens(trace), notices=[])
    output, cpu_s = replay_timed(cluster.replay_input(trace, faults=(), policy=stop_and_restart()))
    assert (output.status == 1).all()
    print(json.dumps({"read_mb": read_mb, "replay_mb": _peak_mb(), "replay_cpu_s": cpu_s}))


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 1024)
