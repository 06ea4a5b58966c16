"""Crash scenarios, as the tuner validates on, replayed under several policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from lumen_policy.comparison import Contender
from lumen_policy.errors import InputError
from lumen_policy.faults import Scope
from lumen_policy.measures.impact import ExcessE2E, excess_e2e
from lumen_policy.measures.placebo import Placebo
from lumen_policy.measures.summary import ReplaySummary
from lumen_policy.measures.times import number_in_system, request_times
from lumen_policy.measures.windows import excess_by_window
from lumen_policy.paired import PairedRun, Pairing
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.result import unserved_s, worker_down_s
from lumen_policy.settings import key_of
from lumen_policy.tune.scenario import VALIDATION, Scenario, ScenarioPlan, plan_scenarios
from lumen_policy.workload import Workload

__all__ = ["ScenarioRuns", "Scored", "checked_count", "run_scenarios", "scenario_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One policy on one scenario.

    Attributes:
        excess, summary: over the window H.
        by_window_ps: as in ``measures.windows``.
        unserved_s, worker_down_s: as in ``lumen_policy.result``.
    """

    excess: ExcessE2E
    by_window_ps: tuple[int, ...]
    summary: ReplaySummary
    unserved_s: float | None
    worker_down_s: float | None

    def weighted_ps(self, ttft_weight: float, decode_weight: float) -> int:
        """Excess E2E in request-picoseconds, rounded after weighting."""
        return round(ttft_weight * self.excess.ttft_ps) + round(decode_weight * self.excess.decode_ps)


@dataclass(slots=True, kw_only=True)
class ScenarioRuns:
    """The same scenarios under every policy.

    Attributes:
        contenders: whose runs these are.
        scored: label → shape (scenarios,).
        excess_ps: label → shape (scenarios,), weighted excess E2E.
        in_system: shape (scenarios,), requests in the system at the crash, in the fault-free run.
        placebos: shape (scenarios,), of the last contender; empty unless asked for.
        legs_cpu_s: CPU seconds by label, of the fault-free legs and of the placebos.
    """

    contenders: tuple[Contender, ...]
    scored: dict[str, list[Scored]]
    excess_ps: dict[str, list[int]]
    in_system: list[int] = field(default_factory=list)
    placebos: list[Placebo] = field(default_factory=list)
    legs_cpu_s: dict[str, float]

    @property
    def count(self) -> int:
        """Scenarios run."""
        return len(self.in_system)


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
        victim_choice=settings.victim_choice,
        victim_scope=cast("Scope", settings.victim_scope),
    )


def run_scenarios(
    plan: ScenarioPlan, contenders: Sequence[Contender], count: int, *, placebo: bool
) -> ScenarioRuns:
    """Replays the validation scenarios; policies of equal content share their runs.

    Args:
        plan: of the scenarios.
        contenders: distinct labels.
        count: scenarios.
        placebo: also replay each scenario once more without crashes on jittered arrivals.
    """
    labels = [contender.label for contender in contenders]
    runs = ScenarioRuns(
        contenders=tuple(contenders),
        scored={label: [] for label in labels},
        excess_ps={label: [] for label in labels},
        legs_cpu_s=dict.fromkeys([*labels, "fault_free"], 0.0),
    )
    for index in range(count):
        _run(runs, plan, plan.build(plan.number(VALIDATION, index)), placebo=placebo)
    return runs


def _run(runs: ScenarioRuns, plan: ScenarioPlan, scenario: Scenario, *, placebo: bool) -> None:
    stated = plan.cluster.settings
    pairing = Pairing(plan.cluster, scenario.trace, scenario.faults, scenario=scenario.number)
    seen: dict[RecoveryPolicy, Scored] = {}
    run: PairedRun | None = None
    for contender in runs.contenders:
        content = replace(contender.policy, name="")
        if content not in seen:
            run = pairing.run(contender.policy)
            seen[content] = _score(pairing, run)
            runs.legs_cpu_s[contender.label] += run.faulty.cpu_s
        scored = seen[content]
        runs.scored[contender.label].append(scored)
        runs.excess_ps[contender.label].append(scored.weighted_ps(stated.ttft_weight, stated.decode_weight))
    assert run is not None
    runs.legs_cpu_s["fault_free"] += pairing.fault_free_cpu_s
    fault_free = request_times(run.fault_free.inputs, run.fault_free.output)
    at_ps = np.array([scenario.faults[0].time_ps], dtype=np.int64)
    runs.in_system.append(int(number_in_system(fault_free, at_ps)[0]))
    if placebo:
        shaken = pairing.placebo(run)
        runs.placebos.append(shaken.measured)
        runs.legs_cpu_s["placebo"] = runs.legs_cpu_s.get("placebo", 0.0) + shaken.cpu_s


def _score(pairing: Pairing, run: PairedRun) -> Scored:
    horizon_ps = pairing.cluster.horizon_ps
    legs = run.faulty.inputs, run.faulty.output, run.fault_free.output
    summary = pairing.summary(run)
    return Scored(
        excess=excess_e2e(*legs, horizon_ps),
        by_window_ps=excess_by_window(*legs, horizon_ps),
        summary=summary,
        unserved_s=unserved_s(summary, pairing),
        worker_down_s=worker_down_s(run.faulty.output, pairing),
    )
