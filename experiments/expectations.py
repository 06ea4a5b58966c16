"""What earlier studies expect of LUMEN's mechanisms and parameters, measured on crash scenarios.

    python experiments/expectations.py [TRACE] [--out FILE.csv] [--scenarios N] [--seed N] [--quick]

Three regimes of the default cluster with a draft of constant acceptance 0.7: batch slots bind (32 a worker) at
80 % and at 95 % of that cluster's capacity, and tokens bind (256 slots) at 80 %. In each, LUMEN with its
default parameters and k = 2 is the reference; every row changes one thing. A fourth regime repeats the second
with a draft that is loaded in no time, so that the assist does not delay the rejoin; a fifth repeats the third with
restores that take 25 times as long. Figures are means over
scenarios: excess E2E a crash with what it adds to the reference's (paired, 95 % bootstrap interval, conditional
on the trace), TTFT of the affected requests, and the interrupted requests' next token counted from the crash.

TRACE defaults to the Azure 2023 conversation trace where it lies beside the checkout, else to the built-in
trace.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from statistics import fmean
from typing import Any

from cost_models.reload_paths import ReloadPhase
from lumen_policy.ablation import ablation_contenders
from lumen_policy.cluster import Cluster
from lumen_policy.comparison import Contender
from lumen_policy.paired import Pairing
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.policies.weights import decimal_text
from lumen_policy.policy_choice import choose_policy
from lumen_policy.scenario_runs import ScenarioRuns, run_scenarios, scenario_plan
from lumen_policy.settings import settings_from
from lumen_policy.tune.validation import bootstrap_interval
from lumen_policy.workload import BUILT_IN, prepare

FREE_DRAFT = "slots bind hard, draft for free"
SLOW_RESTORE = "tokens bind, restores 25 times slower"
REGIMES: dict[str, dict[str, Any]] = {
    "slots bind": {"max_batch": 32, "load": 0.8},
    "slots bind hard": {"max_batch": 32, "load": 0.95},
    "tokens bind": {"load": 0.8},
    FREE_DRAFT: {"max_batch": 32, "load": 0.95},
    SLOW_RESTORE: {"load": 0.8},
}
SETUP: dict[str, Any] = {"acceptance_start": 0.7, "acceptance_final": 0.7}
QUICK_SETUP: dict[str, Any] = {"workers": 3, "horizon_s": 60, "warmup_s": 20}
SCENARIOS, QUICK_SCENARIOS = 16, 2

_ROOT = Path(__file__).resolve().parent.parent
AZURE = _ROOT.parent / "shared" / "traces" / "azure2023" / "AzureLLMInferenceTrace_conv.csv"
RESULTS = Path(__file__).resolve().parent / "results" / "expectations.csv"


def variants(full: RecoveryPolicy) -> Iterator[Contender]:
    """The reference with one parameter changed; θ is twice the mean load by default."""
    changes: dict[str, dict[str, Any]] = {f"k {k}": {"k": k} for k in (0, 1, 3, 4)}
    changes |= {"guard off": {"guard": False}}
    for share in ("0", "0.25", "4"):
        changes[f"alpha x {share}"] = {"alpha": _times(full.alpha, share)}
    for share, name in (("0.25", "0.5"), ("0.5", "1")):
        changes[f"theta {name} x mean L"] = {"theta": _times(full.theta, share)}
    changes |= {"theta inf": {"theta": "inf"}, "theta never": {"theta": "never"}}
    changes |= {f"tau {tau}": {"tau": tau} for tau in (0, 1024, "inf")}
    changes["theta never, tau 1024"] = {"theta": "never", "tau": 1024}
    changes["theta never, tau inf"] = {"theta": "never", "tau": "inf"}
    for share, label in (("0.25", "0.5"), ("0.5", "1"), ("1", "2")):
        changes[f"theta {label} x mean L, tau inf"] = {"theta": _times(full.theta, share), "tau": "inf"}
    for name, change in changes.items():
        yield Contender(label=name, policy=replace(full, name=name, **change))


def _without_draft_load(cluster: Cluster) -> Cluster:
    columns = cluster.fault_columns
    parts = tuple(
        part
        for part in columns.reload.hardware.parts
        if part.phase not in (ReloadPhase.DRAFT_LOAD, ReloadPhase.DRAFT_INIT)
    )
    reload = replace(columns.reload, hardware=replace(columns.reload.hardware, parts=parts))
    return replace(cluster, fault_columns=replace(columns, reload=reload))


def _times(number: str, factor: str) -> str:
    return decimal_text(Decimal(number) * Decimal(factor))


def rows(trace: str, setup: dict[str, Any], scenarios: int) -> Iterator[dict[str, Any]]:
    """One row a policy and regime.

    Args:
        trace: file or ``built-in``.
        setup: keys of a set-up beside trace and regime.
        scenarios: ≥ 2.
    """
    for regime, keys in REGIMES.items():
        settings = settings_from({**setup, **keys, "trace": trace})
        notices: list[str] = []
        workload = prepare(settings, notices)
        if regime == FREE_DRAFT:
            workload = replace(workload, cluster=_without_draft_load(workload.cluster))
        if regime == SLOW_RESTORE:
            costs = workload.cluster.costs
            transfers = replace(
                costs.transfers,
                remote_restore_ps=costs.transfers.remote_restore_ps * 25,
                store_restore_ps=costs.transfers.store_restore_ps * 25,
            )
            slower = replace(costs, restore_ps=costs.restore_ps * 25, transfers=transfers)
            workload = replace(workload, cluster=replace(workload.cluster, costs=slower))
        pairing = Pairing(workload.cluster, workload.trace, ())
        full = choose_policy("lumen", settings, pairing, notices)
        contenders = (*variants(full), *ablation_contenders(full, notices))
        runs = run_scenarios(scenario_plan(workload), contenders, scenarios, placebo=False)
        for contender in contenders:
            yield {"regime": regime, **_row(runs, contender.label, contenders[-1].label, settings.seed)}


def _row(runs: ScenarioRuns, label: str, reference: str, seed: int) -> dict[str, Any]:
    own, base = runs.excess_ps[label], runs.excess_ps[reference]
    mean = bootstrap_interval(own, seed=seed).mean_s
    adds = bootstrap_interval([a - b for a, b in zip(own, base, strict=True)], seed=seed)
    scored = runs.scored[label]
    impacts = [one.summary.impact for one in scored if one.summary.impact is not None]
    return {
        "policy": label,
        "excess_request_s": round(mean, 1),
        "adds_request_s": round(adds.mean_s, 1),
        "adds_low_request_s": round(adds.low_s, 1),
        "adds_high_request_s": round(adds.high_s, 1),
        "affected_ttft_s": _mean([impact.ttft_s.mean for impact in impacts]),
        "next_token_from_crash_s": _mean(
            [one.summary.interrupted.replay_ttft_from_crash_s.mean for one in scored]
        ),
        "next_token_from_redispatch_s": _mean(
            [one.summary.interrupted.replay_ttft_from_redispatch_s.mean for one in scored]
        ),
        "vetoed": _mean([one.summary.assist.vetoed for one in scored]),
        "tokens_per_pass": _mean([one.summary.assist.tokens_per_pass for one in scored]),
        "binding": max(
            (impact.binding.resource or "none" for impact in impacts),
            key=[impact.binding.resource or "none" for impact in impacts].count,
        ),
    }


def _mean(values: Sequence[float | None]) -> float | str:
    known = [value for value in values if value is not None]
    return round(fmean(known), 4) if known else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment and write its table."""
    parser = argparse.ArgumentParser(description="Expectations of LUMEN's mechanisms and parameters.")
    parser.add_argument("trace", nargs="?", default=str(AZURE) if AZURE.exists() else BUILT_IN)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--scenarios", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="three workers, two scenarios")
    given = parser.parse_args(arguments)
    scenarios = given.scenarios or (QUICK_SCENARIOS if given.quick else SCENARIOS)
    setup = {**SETUP, **(QUICK_SETUP if given.quick else {}), "seed": given.seed}
    started = time.perf_counter()
    table = []
    for row in rows(given.trace, setup, scenarios):
        table.append(row)
        print(
            f"{row['regime']:<31} {row['policy']:<30} {row['excess_request_s']:>10,.1f} request-s "
            f"{row['adds_request_s']:>+10,.1f} ({row['adds_low_request_s']:+,.1f} … "
            f"{row['adds_high_request_s']:+,.1f})  TTFT {row['affected_ttft_s']} s  next token "
            f"{row['next_token_from_crash_s']} s  vetoed {row['vetoed']}",
            file=sys.stderr,
        )
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    print(
        f"{Path(given.trace).name}: {len(table)} rows in {time.perf_counter() - started:.0f} s, written to "
        f"{given.out}",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
