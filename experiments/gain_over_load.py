"""What each recovery policy, and tuning LUMEN, is worth from light to heavy load.

    python experiments/gain_over_load.py [TRACE] [--out FILE.csv] [--jobs N] [--seed N] [--quick]

For each load the default cluster is tuned on its own crash scenarios and every policy is replayed on
validation scenarios that had no part in it. A row is one policy at one load: excess E2E a crash over the
fault-free run in request-seconds with its 95 % bootstrap interval, its TTFT and decode parts, what the tuned
policy saves against it, and the parameters it ran with. Intervals are over scenarios and
conditional on the trace.

TRACE defaults to the Azure 2023 conversation trace where it lies beside the checkout, else to the built-in
trace.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lumen_policy.measures.exact import seconds
from lumen_policy.settings import settings_from
from lumen_policy.tune.study import TuneResult, prepare_study, tune
from lumen_policy.workload import BUILT_IN

LOADS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SETUP: dict[str, Any] = {"trials": 40, "scenarios": 8, "validation_scenarios": 16}
QUICK_LOADS = (0.5, 0.9)
QUICK_SETUP: dict[str, Any] = {
    "workers": 3,
    "horizon_s": 60,
    "warmup_s": 20,
    "trials": 7,
    "scenarios": 2,
    "validation_scenarios": 3,
}

_ROOT = Path(__file__).resolve().parent.parent
AZURE = _ROOT.parent / "shared" / "traces" / "azure2023" / "AzureLLMInferenceTrace_conv.csv"
RESULTS = Path(__file__).resolve().parent / "results" / "gain_over_load.csv"


def rows(
    trace: str, loads: Sequence[float], setup: dict[str, Any], *, seed: int, jobs: int
) -> Iterator[dict[str, Any]]:
    """One row a policy and load.

    Args:
        trace: file or ``built-in``.
        loads: shares of the cluster's capacity.
        setup: keys of a set-up beside trace, load and seed.
        seed: of every draw.
        jobs: processes; changes no figure.
    """
    for load in loads:
        notices: list[str] = []
        study = prepare_study(settings_from({**setup, "trace": trace, "load": load, "seed": seed}), notices)
        result = tune(study, jobs=jobs, random_search=False)
        if result.interrupted:
            raise KeyboardInterrupt
        yield from _rows(result, load)


def _rows(result: TuneResult, load: float) -> Iterator[dict[str, Any]]:
    assert result.validation is not None
    validation = result.validation
    saves = {entry.against: entry for entry in validation.comparisons}
    for name, policy in validation.policies.items():
        scores, excess, saved = validation.scores[name], validation.excess[name], saves.get(name)
        yield {
            "load": load,
            "arrivals_per_s": round(result.study.plan.rate_per_s, 3),
            "policy": name,
            "excess_request_s": _figure(excess.mean_s),
            "excess_low_request_s": _figure(excess.low_s),
            "excess_high_request_s": _figure(excess.high_s),
            "ttft_part_request_s": _figure(seconds(sum(s.excess.ttft_ps for s in scores), len(scores))),
            "decode_part_request_s": _figure(seconds(sum(s.excess.decode_ps for s in scores), len(scores))),
            "tuned_saves_request_s": "" if saved is None else _figure(saved.saves.mean_s),
            "tuned_saves_low_request_s": "" if saved is None else _figure(saved.saves.low_s),
            "tuned_saves_high_request_s": "" if saved is None else _figure(saved.saves.high_s),
            "tuned_is": "" if saved is None else saved.verdict,
            "alpha_per_page": policy.alpha,
            "theta_load": policy.theta,
            "tau_tokens": policy.tau,
            "k": policy.k,
        }


def _figure(value: float) -> float:
    return round(value, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment and write its table."""
    parser = argparse.ArgumentParser(description="What policies and tuning are worth over the load.")
    parser.add_argument("trace", nargs="?", default=str(AZURE) if AZURE.exists() else BUILT_IN)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="three workers, two loads, few trials")
    given = parser.parse_args(arguments)
    loads, setup = (QUICK_LOADS, QUICK_SETUP) if given.quick else (LOADS, SETUP)
    started = time.perf_counter()
    table = []
    for row in rows(given.trace, loads, setup, seed=given.seed, jobs=given.jobs):
        table.append(row)
        print(
            f"load {row['load']:<5} {row['policy']:<20} {row['excess_request_s']:>9,.1f} request-s  "
            f"{row['tuned_is']}",
            file=sys.stderr,
        )
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    took_s = time.perf_counter() - started
    print(
        f"{Path(given.trace).name}: {len(table)} rows in {took_s:.0f} s, written to {given.out}",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
