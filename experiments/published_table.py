"""Does the operating point that was read out of LUMEN's Table 1 give its figures?

    python experiments/published_table.py [TRACE] [--runs N] [--single-victim] [--quick]

Llama-3-70B on four A100 a worker, an iteration of 28.6 ms + 0.177 ms a token beside the KV reads and attention of
the cost model, 1,024-token chunks, 256 slots, 3 requests/s a worker: Poisson arrivals over 280 s, lengths drawn
from the trace's rows. One worker in four crashes at 30 to 50 % of the run and is back after 25 s, 1 s of them
undetected. No drafts. Figures are means over the runs; TTFT over all requests of a run, an interrupted
request's counted from its arrival to its next token.

TRACE defaults to the Azure 2023 conversation trace where it lies beside the checkout, else to the built-in
trace.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from cost_models.reload_paths import ReloadPart, ReloadParts, ReloadPath, ReloadPhase
from lumen_policy.faults import Fault
from lumen_policy.paired import Pairing
from lumen_policy.policies.fixed_checkpointing import fixed_checkpointing
from lumen_policy.policies.stop_and_restart import stop_and_restart
from lumen_policy.replay.contract import PS_PER_S, ReplayInput, ReplayOutput
from lumen_policy.settings import settings_from
from lumen_policy.trace.table import Accounting, Trace
from lumen_policy.workload import BUILT_IN, Workload, prepare

SPAN_S, RATE_PER_S, RELOAD_S, DETECTION_S = 280, 3.0, 25, 1
ITERATION_PS, TOKEN_PS = 28_600_000_000, 177_000_000
COLUMNS = (
    "TTFT fault-free s",
    "TPOT fault-free ms",
    "TTFT uninterrupted s",
    "TTFT interrupted s",
    "TTFT all s",
    "interrupted %",
    "TPOT ms",
    "E2E/output ms",
)

_ROOT = Path(__file__).resolve().parent.parent
AZURE = _ROOT.parent / "shared" / "traces" / "azure2023" / "AzureLLMInferenceTrace_conv.csv"


def workload(trace: str, workers: int, *, wait: bool = False) -> Workload:
    """The cluster with the published iteration times and reload."""
    settings = settings_from(
        {
            "trace": trace,
            "model": "llama-3-70b",
            "hardware": "a100-80g",
            "tp": 4,
            "draft": "none",
            "chunk_tokens": 1024,
            "max_batch": 256,
            "workers": workers,
            "detection_s": DETECTION_S,
            "interrupted": "wait" if wait else "reroute",
        }
    )
    made = prepare(settings, [])
    costs = made.cluster.costs
    tokens = np.arange(len(costs.target.token_ps), dtype=np.int64)
    target = replace(
        costs.target,
        token_ps=np.where(tokens > 0, ITERATION_PS + TOKEN_PS * tokens, 0),
        lm_head_ps=np.zeros_like(costs.target.lm_head_ps),
    )
    part = ReloadPart(
        name="reload",
        phase=ReloadPhase.LOAD,
        seconds=Fraction(RELOAD_S - DETECTION_S),
        source="chosen: 25 s from crash to rejoin",
    )
    columns = made.cluster.fault_columns
    reload = replace(columns.reload, hardware=ReloadParts(path=ReloadPath.STORAGE, parts=(part,)))
    cluster = replace(
        made.cluster,
        costs=replace(costs, target=target),
        fault_columns=replace(columns, reload=reload),
    )
    return replace(made, cluster=cluster)


def run(made: Workload, seed: int, victims: int) -> Iterator[tuple[str, list[float]]]:
    """One run of each policy: (name, figures in the order of ``COLUMNS``)."""
    workers = made.cluster.workers
    rng = np.random.default_rng([seed, workers])
    count = round(SPAN_S * RATE_PER_S * workers)
    arrival = np.cumsum(rng.exponential(1 / (RATE_PER_S * workers), count))
    rows = rng.integers(0, len(made.base), count)
    trace = Trace(
        arrival_ps=((arrival - arrival[0]) * PS_PER_S).astype(np.int64),
        prompt_tokens=made.base.prompt_tokens[rows],
        output_tokens=made.base.output_tokens[rows],
        source=made.base.source,
        format="synthetic",
        accounting=Accounting(read=count, kept=count),
    )
    at_ps = round((0.3 + 0.2 * rng.random()) * SPAN_S * PS_PER_S)
    crashed = sorted(rng.choice(workers, victims, replace=False).tolist())
    pairing = Pairing(made.cluster, trace, [Fault(time_ps=at_ps, worker=worker) for worker in crashed])
    for policy in (stop_and_restart(), fixed_checkpointing()):
        paired = pairing.run(policy)
        yield policy.name, _figures(paired.faulty.inputs, paired.faulty.output, paired.fault_free.output)


def _figures(inp: ReplayInput, out: ReplayOutput, calm: ReplayOutput) -> list[float]:
    several = inp.output_tokens > 1
    next_token = out.first_ps.copy()
    answered = out.interruption_next_ps >= 0
    next_token[out.interruption_request[answered]] = out.interruption_next_ps[answered]
    ttft = (next_token - inp.arrival_ps) / PS_PER_S
    hit = out.interruptions > 0

    def tpot_ms(of: ReplayOutput) -> float:
        spans = (of.last_ps - of.first_ps)[several] / (inp.output_tokens[several] - 1)
        return float(spans.mean()) / PS_PER_S * 1e3

    return [
        float((calm.first_ps - inp.arrival_ps).mean()) / PS_PER_S,
        tpot_ms(calm),
        float(ttft[~hit].mean()),
        float(ttft[hit].mean()),
        float(ttft.mean()),
        100 * float(hit.mean()),
        tpot_ms(out),
        float(((out.last_ps - inp.arrival_ps) / inp.output_tokens).mean()) / PS_PER_S * 1e3,
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment and print its table as CSV."""
    parser = argparse.ArgumentParser(description="The operating point behind LUMEN's Table 1.")
    parser.add_argument("trace", nargs="?", default=str(AZURE) if AZURE.exists() else BUILT_IN)
    parser.add_argument("--runs", type=int, default=None)
    parser.add_argument("--single-victim", action="store_true", help="one worker crashes, not one in four")
    parser.add_argument("--wait", action="store_true", help="interrupted requests wait for their own worker")
    parser.add_argument("--quick", action="store_true", help="four workers, one run")
    given = parser.parse_args(arguments)
    runs = given.runs or (1 if given.quick else 12)
    print("workers", "policy", *COLUMNS, sep=",")
    for workers in (4,) if given.quick else (4, 8, 16, 64):
        made = workload(given.trace, workers, wait=given.wait)
        gathered: dict[str, list[list[float]]] = {}
        for seed in range(runs):
            victims = 1 if given.single_victim else workers // 4
            for name, figures in run(made, seed, victims):
                gathered.setdefault(name, []).append(figures)
        for name, table in gathered.items():
            print(workers, name, *(f"{figure:.2f}" for figure in np.mean(table, axis=0)), sep=",")
    return 0


if __name__ == "__main__":
    sys.exit(main())
