"""Policies over the same crash scenarios: means, paired intervals, strata by load, noise floor."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median_low
from typing import Any

import msgspec

from lumen_policy.comparison import BASELINE, Contender
from lumen_policy.document import SCHEMA_VERSION
from lumen_policy.measures.binding import RESOURCES
from lumen_policy.measures.exact import seconds
from lumen_policy.measures.placebo import JITTER_PS
from lumen_policy.measures.windows import rank_by_window
from lumen_policy.operator_figures import availability_section, recovery_share, targets_section
from lumen_policy.result import policy_section
from lumen_policy.scenario_runs import ScenarioRuns, Scored, run_scenarios
from lumen_policy.tune.scenario import ScenarioPlan
from lumen_policy.tune.validation import CONFIDENCE, bootstrap_interval, compare
from lumen_policy.workload import Workload

__all__ = ["compare_scenarios", "scenario_sections"]

_STRATA = ("low", "middle", "high")
_LEAST_IN_STRATUM = 2


def compare_scenarios(
    workload: Workload,
    plan: ScenarioPlan,
    contenders: Sequence[Contender],
    count: int,
    *,
    placebo: bool = False,
) -> dict[str, Any]:
    """Crash scenarios under every policy, with paired intervals.

    Args:
        workload: cluster and trace.
        plan: of its scenarios; the validation ones are run.
        contenders: the last one is judged against each of the others.
        count: scenarios, ≥ 2.
        placebo: also measure the noise floor, with one more replay a scenario.
    """
    runs = run_scenarios(plan, contenders, count, placebo=placebo)
    return {
        **scenario_sections(workload, plan, runs),
        "differences": _differences(contenders[-1].label, runs.excess_ps, plan.cluster.settings.seed),
    }


def scenario_sections(workload: Workload, plan: ScenarioPlan, runs: ScenarioRuns) -> dict[str, Any]:
    """What a document on scenarios holds whatever they are compared for."""
    settings = plan.cluster.settings
    averages = {label: _averages(row) for label, row in runs.scored.items()}
    baseline = [averages[one.label] for one in runs.contenders if one.policy.name == BASELINE]
    baseline_s = baseline[0]["median_recovery_time_s"] if baseline else None
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster": plan.cluster.describe(),
        "trace": workload.describe(),
        "scenarios": {
            "count": runs.count,
            "warmup_s": settings.warmup_s,
            "victims": settings.victims,
            "victim_choice": settings.victim_choice,
            "victim_scope": settings.victim_scope,
            "rate_per_s": plan.rate_per_s,
            "confidence": CONFIDENCE,
        },
        "policies": [
            {
                "label": contender.label,
                "policy": policy_section(contender.policy),
                "excess_e2e_request_s": msgspec.to_builtins(
                    bootstrap_interval(runs.excess_ps[contender.label], seed=settings.seed)
                ),
                **averages[contender.label],
                "recovery_share": recovery_share(
                    averages[contender.label]["median_recovery_time_s"], baseline_s
                ),
                "availability": _availability(runs.scored[contender.label], plan),
            }
            for contender in runs.contenders
        ],
        "windows": msgspec.to_builtins(
            rank_by_window(
                {
                    label: [sum(column) for column in zip(*(one.by_window_ps for one in row), strict=True)]
                    for label, row in runs.scored.items()
                },
                plan.cluster.horizon_ps,
            )
        ),
        "strata": _strata(runs, settings.seed),
        "placebo": _placebo(runs, settings.seed) if runs.placebos else None,
        "cost": {"legs_cpu_s": runs.legs_cpu_s},
    }


def _averages(scored: Sequence[Scored]) -> dict[str, Any]:
    """Means over scenarios; the recovery time as a median, with the censored ones last."""
    impacts = [one.summary.impact for one in scored if one.summary.impact is not None]
    recoveries = sorted(
        float("inf") if impact.recovery_time_s is None else impact.recovery_time_s for impact in impacts
    )
    middle = median_low(recoveries)
    affected = sum(impact.affected for impact in impacts)
    return {
        "affected": affected,
        "excess_e2e_per_affected_s": seconds(sum(one.excess.e2e_ps for one in scored), affected)
        if affected
        else None,
        "interrupted": sum(one.summary.interrupted.count for one in scored),
        "replay_ttft_from_crash_s": _mean(
            [one.summary.interrupted.replay_ttft_from_crash_s.mean for one in scored]
        ),
        "impact_ttft_s": _mean([impact.ttft_s.mean for impact in impacts]),
        "impact_tpot_s": _mean([impact.tpot_s.mean for impact in impacts]),
        "median_recovery_time_s": None if middle == float("inf") else middle,
        "censored": sum(impact.censored for impact in impacts),
        "no_impact": sum(impact.no_impact for impact in impacts),
        "binding": {name: sum(impact.binding.resource == name for impact in impacts) for name in RESOURCES},
        "preemptions": _mean([float(one.summary.handling.preemptions) for one in scored]),
        "refused_sends": _mean([float(one.summary.handling.refused_sends) for one in scored]),
        "evictions": _mean([float(one.summary.traffic.evictions) for one in scored]),
        "egress_wait_s": max(one.summary.traffic.egress_wait_s for one in scored),
        "ingress_wait_s": max(one.summary.traffic.ingress_wait_s for one in scored),
        "operator": targets_section(
            coverage=_mean([one.summary.checkpoint.coverage for one in scored]),
            holder_balance=_mean([one.summary.checkpoint.holder_balance for one in scored]),
            load_balance=_mean([one.summary.checkpoint.load_balance for one in scored]),
            acceptance=_mean([one.summary.assist.acceptance for one in scored]),
        ),
    }


def _availability(scored: Sequence[Scored], plan: ScenarioPlan) -> dict[str, Any] | None:
    mtbf_hours = plan.cluster.settings.mtbf_hours
    if mtbf_hours is None:
        return None
    return availability_section(
        mtbf_hours=mtbf_hours,
        workers=plan.cluster.workers,
        victims=plan.victims,
        unserved_s=_mean([one.unserved_s for one in scored]),
        worker_down_s=_mean([one.worker_down_s for one in scored]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _differences(judged: str, excess_ps: dict[str, list[int]], seed: int) -> list[dict[str, Any]]:
    """What a policy saves against each of the others."""
    return [
        {
            "policy": judged,
            "against": comparison.against,
            "saves_request_s": msgspec.to_builtins(comparison.saves),
            "verdict": comparison.verdict,
        }
        for comparison in compare(judged, excess_ps, seed=seed)
    ]


def _strata(runs: ScenarioRuns, seed: int) -> list[dict[str, Any]]:
    """The scenarios in up to three groups of equal size by the number in the system at the crash; none where
    a group would be smaller than two.
    """
    groups = min(len(_STRATA), runs.count // _LEAST_IN_STRATUM)
    if groups < 2:
        return []
    names = _STRATA if groups == len(_STRATA) else (_STRATA[0], _STRATA[-1])
    ranked = sorted(range(runs.count), key=lambda index: (runs.in_system[index], index))
    strata = []
    for number, name in enumerate(names):
        members = sorted(ranked[number * runs.count // groups : (number + 1) * runs.count // groups])
        excess_ps = {label: [row[index] for index in members] for label, row in runs.excess_ps.items()}
        numbers = [runs.in_system[index] for index in members]
        strata.append(
            {
                "load": name,
                "scenarios": len(members),
                "in_system_least": min(numbers),
                "in_system_most": max(numbers),
                "policies": [
                    {
                        "label": label,
                        "excess_e2e_request_s": msgspec.to_builtins(bootstrap_interval(row, seed=seed)),
                    }
                    for label, row in excess_ps.items()
                ],
                "differences": _differences(runs.contenders[-1].label, excess_ps, seed),
            }
        )
    return strata


def _placebo(runs: ScenarioRuns, seed: int) -> dict[str, Any]:
    """The noise floor: what the measures say of the same scenarios without their crashes."""
    row = [one.excess_ps for one in runs.placebos]
    excess = bootstrap_interval(row, seed=seed)
    recoveries = [one.recovery_time_s for one in runs.placebos]
    return {
        "excess_e2e_request_s": msgspec.to_builtins(excess),
        "jitter_s": seconds(JITTER_PS),
        "scenarios": len(row),
        "largest_request_s": seconds(max(abs(value) for value in row)),
        "zero": excess.low_s <= 0 <= excess.high_s,
        "affected": sum(one.affected for one in runs.placebos),
        "out_of_band": sum(not one.no_impact for one in runs.placebos),
        "longest_recovery_time_s": None if None in recoveries else max(one or 0.0 for one in recoveries),
    }
