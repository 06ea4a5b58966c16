"""LUMEN against both baselines on its two testbeds, with one set of knobs.

    python experiments/published_percentages.py [TRACE] [--scenarios N] [--quick]

Qwen3-32B on four workers and Qwen3-14B on eight, default parameters with k = 2 and k = 0, a draft of constant
acceptance 0.7, three loads. CSV: LUMEN's change in % against stop-and-restart and fixed checkpointing in mean TTFT of
the affected requests, mean E2E per output token, and the mean time from the crash to an interrupted request's next
token.
Published (arXiv 2606.17787): −44.4/−7.1, −15.9/−7.0 and −50.0/−34.9 on four workers; −29.6/−15.9, −7.1/−4.2 and
−64.1/−63.9 on eight.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from lumen_policy.comparison import Contender
from lumen_policy.paired import Pairing
from lumen_policy.policies.fixed_checkpointing import fixed_checkpointing
from lumen_policy.policies.stop_and_restart import stop_and_restart
from lumen_policy.policy_choice import choose_policy
from lumen_policy.scenario_runs import ScenarioRuns, run_scenarios, scenario_plan
from lumen_policy.settings import settings_from
from lumen_policy.workload import BUILT_IN, prepare

TESTBEDS: tuple[dict[str, Any], ...] = (
    {"workers": 4, "model": "qwen3-32b", "tp": 2},
    {"workers": 8, "model": "qwen3-14b", "tp": 1},
)
LOADS = (0.5, 0.8, 0.95)
SETUP: dict[str, Any] = {"acceptance_start": 0.7, "acceptance_final": 0.7}
QUICK_SETUP: dict[str, Any] = {"horizon_s": 60, "warmup_s": 20}
COLUMNS = ("TTFT", "E2E/output", "next token from crash")

_ROOT = Path(__file__).resolve().parent.parent
AZURE = _ROOT.parent / "shared" / "traces" / "azure2023" / "AzureLLMInferenceTrace_conv.csv"


def figures(runs: ScenarioRuns, label: str) -> tuple[float, ...]:
    """Means over scenarios, in the order of ``COLUMNS``, seconds."""
    summaries = [one.summary for one in runs.scored[label]]
    ttft = [s.impact.ttft_s.mean for s in summaries if s.impact and s.impact.ttft_s.mean is not None]
    per_output = [s.e2e_per_output_s.mean for s in summaries if s.e2e_per_output_s.mean is not None]
    waits = [s.interrupted.replay_ttft_from_crash_s.mean for s in summaries]
    return fmean(ttft), fmean(per_output), fmean(wait for wait in waits if wait is not None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment and print its table as CSV."""
    parser = argparse.ArgumentParser(description="LUMEN's published percentages with one set of knobs.")
    parser.add_argument("trace", nargs="?", default=str(AZURE) if AZURE.exists() else BUILT_IN)
    parser.add_argument("--scenarios", type=int, default=16)
    parser.add_argument("--quick", action="store_true", help="one load, two short scenarios")
    given = parser.parse_args(arguments)
    heads = [f"{name} vs {base} %" for name in COLUMNS for base in ("stop-and-restart", "fixed")]
    print("workers", "load", "k", *heads, sep=",")
    for testbed in TESTBEDS:
        for load in LOADS[1:2] if given.quick else LOADS:
            quick = QUICK_SETUP if given.quick else {}
            settings = settings_from({**SETUP, **testbed, **quick, "load": load, "trace": given.trace})
            notices: list[str] = []
            workload = prepare(settings, notices)
            pairing = Pairing(workload.cluster, workload.trace, ())
            full = choose_policy("lumen", settings, pairing, notices)
            contenders = [
                Contender(label="restart", policy=stop_and_restart()),
                Contender(label="fixed", policy=fixed_checkpointing()),
                Contender(label="2", policy=full),
                Contender(label="0", policy=replace(full, k=0, name="lumen without assist")),
            ]
            scenarios = 2 if given.quick else given.scenarios
            runs = run_scenarios(scenario_plan(workload), contenders, scenarios, placebo=False)
            bases = [figures(runs, label) for label in ("restart", "fixed")]
            for k in ("2", "0"):
                own = figures(runs, k)
                changes = [100 * (own[i] / base[i] - 1) for i in range(len(COLUMNS)) for base in bases]
                print(testbed["workers"], load, k, *(f"{change:.1f}" for change in changes), sep=",")
    return 0


if __name__ == "__main__":
    sys.exit(main())
