"""Policies side by side over the same crashes or the same scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median_low
from typing import Any

import msgspec

from lumen_policy.document import SCHEMA_VERSION
from lumen_policy.errors import InputError
from lumen_policy.measures.exact import seconds
from lumen_policy.measures.impact import ExcessE2E, excess_e2e
from lumen_policy.measures.summary import ReplaySummary
from lumen_policy.paired import Pairing
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.policy_choice import LUMEN, choose_policy
from lumen_policy.result import cluster_section, measured_sections, policy_section
from lumen_policy.settings import Settings, key_of
from lumen_policy.tune.scenario import VALIDATION, ScenarioPlan, plan_scenarios
from lumen_policy.tune.validation import CONFIDENCE, bootstrap_interval, compare
from lumen_policy.workload import Workload

__all__ = [
    "Contender",
    "checked_count",
    "choose_contenders",
    "compare_crashes",
    "compare_scenarios",
    "scenario_plan",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A policy under the name or path it was asked for."""

    label: str
    policy: RecoveryPolicy


def choose_contenders(
    names: Sequence[str], settings: Settings, pairing: Pairing, notices: list[str]
) -> tuple[Contender, ...]:
    """The policies to compare; parameters in the settings are for ``lumen``.

    Raises:
        InputError: a policy asked for twice, or parameters without ``lumen`` among the policies.
    """
    for position, name in enumerate(names):
        if name in names[:position]:
            raise InputError(f"policy: {name} is given twice")
    strict = LUMEN not in names
    return tuple(
        Contender(label=name, policy=choose_policy(name, settings, pairing, notices, strict=strict))
        for name in names
    )


def compare_crashes(workload: Workload, pairing: Pairing, contenders: Sequence[Contender]) -> dict[str, Any]:
    """One timeline under every policy: all measures of each."""
    entries = []
    legs: dict[str, float] = {}
    for contender in contenders:
        run = pairing.run(contender.policy)
        legs[contender.label] = run.faulty.cpu_s
        entries.append(
            {
                "label": contender.label,
                "policy": policy_section(contender.policy),
                **measured_sections(pairing.summary(run), run, pairing),
            }
        )
    legs["fault_free"] = pairing.fault_free_cpu_s
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster": cluster_section(pairing),
        "trace": workload.describe(),
        "policies": entries,
        "cost": {"legs_cpu_s": legs},
    }


def checked_count(count: object) -> int:
    """A number of scenarios: whole and ≥ 2, since one has no interval."""
    checked: int = key_of("scenarios").checked(count)
    if checked < 2:
        raise InputError(f"scenarios: {checked} is not a whole number ≥ 2, which an interval needs")
    return checked


def scenario_plan(workload: Workload) -> ScenarioPlan:
    """The scenarios of a workload: those of a tuning run at the same load, else at the rate of its trace.

    Raises:
        InputError: the trace is too short for its scenarios.
    """
    settings = workload.cluster.settings
    rate_per_s = workload.trace.rate_per_s
    if workload.capacity is not None and settings.load is not None:
        rate_per_s = settings.load * workload.cluster.workers * workload.capacity.worker_requests_per_s
    return plan_scenarios(
        workload.cluster,
        workload.base,
        rate_per_s=rate_per_s,
        warmup_s=settings.warmup_s,
        victims=settings.victims,
    )


def compare_scenarios(
    workload: Workload, plan: ScenarioPlan, contenders: Sequence[Contender], count: int
) -> dict[str, Any]:
    """Crash scenarios as the tuner validates on, under every policy, with paired intervals.

    Args:
        workload: cluster and trace.
        plan: of its scenarios; the validation ones are run.
        contenders: the last one is judged against each of the others.
        count: scenarios, ≥ 2.
    """
    cluster, settings = workload.cluster, workload.cluster.settings
    results: dict[str, list[_Scored]] = {contender.label: [] for contender in contenders}
    legs: dict[str, float] = dict.fromkeys([*results, "fault_free"], 0.0)
    for index in range(checked_count(count)):
        scenario = plan.build(plan.number(VALIDATION, index))
        pairing = Pairing(cluster, scenario.trace, scenario.crashes, scenario=scenario.number)
        for contender in contenders:
            scored, cpu_s = _score(pairing, contender.policy)
            results[contender.label].append(scored)
            legs[contender.label] += cpu_s
        legs["fault_free"] += pairing.fault_free_cpu_s
    excess_ps = {
        label: [scored.weighted_ps(settings.ttft_weight, settings.decode_weight) for scored in row]
        for label, row in results.items()
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster": cluster.describe(),
        "trace": workload.describe(),
        "scenarios": {
            "count": count,
            "warmup_s": settings.warmup_s,
            "victims": settings.victims,
            "rate_per_s": plan.rate_per_s,
            "confidence": CONFIDENCE,
        },
        "policies": [
            {
                "label": contender.label,
                "policy": policy_section(contender.policy),
                "excess_e2e_request_s": msgspec.to_builtins(
                    bootstrap_interval(excess_ps[contender.label], seed=settings.seed)
                ),
                **_averages(results[contender.label]),
            }
            for contender in contenders
        ],
        "differences": _differences(contenders, excess_ps, settings.seed),
        "cost": {"legs_cpu_s": legs},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    excess: ExcessE2E
    summary: ReplaySummary

    def weighted_ps(self, ttft_weight: float, decode_weight: float) -> int:
        """Excess E2E in request-picoseconds, rounded after weighting."""
        return round(ttft_weight * self.excess.ttft_ps) + round(decode_weight * self.excess.decode_ps)


def _score(pairing: Pairing, policy: RecoveryPolicy) -> tuple[_Scored, float]:
    run = pairing.run(policy)
    excess = excess_e2e(
        run.faulty.inputs, run.faulty.output, run.fault_free.output, pairing.cluster.horizon_ps
    )
    return _Scored(excess=excess, summary=pairing.summary(run)), run.faulty.cpu_s


def _averages(scored: Sequence[_Scored]) -> dict[str, Any]:
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
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _differences(
    contenders: Sequence[Contender], excess_ps: dict[str, list[int]], seed: int
) -> list[dict[str, Any]]:
    """What the last policy saves against each of the others."""
    judged = contenders[-1].label
    return [
        {
            "policy": judged,
            "against": comparison.against,
            "saves_request_s": msgspec.to_builtins(comparison.saves),
            "verdict": comparison.verdict,
        }
        for comparison in compare(judged, excess_ps, seed=seed)
    ]
