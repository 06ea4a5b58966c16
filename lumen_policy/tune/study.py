"""A tuning run from set-up to verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol, cast

import numpy as np

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy.capacity import Capacity, capacity
from lumen_policy.cluster import NO_RULES, Cluster, resolve_cluster
from lumen_policy.errors import InputError
from lumen_policy.faults import Scope
from lumen_policy.policies.fixed_checkpointing import fixed_checkpointing
from lumen_policy.policies.lumen import DEFAULT_K, default_alpha, default_theta, lumen
from lumen_policy.policies.spec import NEVER, RecoveryPolicy
from lumen_policy.policies.stop_and_restart import stop_and_restart
from lumen_policy.policy_choice import mean_request_pages
from lumen_policy.settings import Settings
from lumen_policy.trace.table import Trace
from lumen_policy.tune.choice import Choice, choose
from lumen_policy.tune.encoding import K_MAX, Cube, Reference
from lumen_policy.tune.objective import Baseline, Evaluator, Objective, ScenarioScore
from lumen_policy.tune.optimizer import RandomSearch, Search, SurrogateSearch
from lumen_policy.tune.scenario import TUNING, VALIDATION, ScenarioPlan, plan_scenarios
from lumen_policy.tune.search import Named, Trial, run_search
from lumen_policy.tune.validation import Comparison, Interval, bootstrap_interval, compare
from lumen_policy.workload import base_trace, longest_tokens

__all__ = [
    "DEFAULT_LOAD",
    "LUMEN_DEFAULT",
    "LUMEN_TUNED",
    "RANDOM_SEARCH",
    "Progress",
    "Study",
    "TuneResult",
    "Validation",
    "default_policy",
    "prepare_study",
    "tune",
]

DEFAULT_LOAD = 0.7
LUMEN_DEFAULT = "lumen default"
LUMEN_TUNED = "lumen tuned"
RANDOM_SEARCH = "random search"


class Progress(Protocol):
    """Told how far a run is."""

    def stage(self, text: str) -> None:
        """A new part begins."""

    def trial(self, trial: Trial, best: Trial, total: int) -> None:
        """A trial of the current part is done; `best` is the best so far by its own score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What a tuning run works on.

    Attributes:
        settings: as stated, `load` resolved.
        cluster, base, capacity: resolved set-up, trace at its own rate, saturated throughput of a worker.
        plan: of the scenarios.
        tuning, validation: scenario numbers.
        k_max: largest k searched: 0 without a draft model, without the assist, or with one worker.
        objective: weights of the two parts of excess E2E.
    """

    settings: Settings
    cluster: Cluster
    base: Trace
    capacity: Capacity
    plan: ScenarioPlan
    tuning: tuple[int, ...]
    validation: tuple[int, ...]
    k_max: int
    objective: Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Every policy on the validation scenarios.

    Attributes:
        policies: name → policy, in the order of the table.
        scores: name → shape (scenarios,).
        excess: name → mean with interval.
        comparisons: of the tuned policy with every other.
    """

    policies: Mapping[str, RecoveryPolicy]
    scores: Mapping[str, tuple[ScenarioScore, ...]]
    excess: Mapping[str, Interval]
    comparisons: tuple[Comparison, ...]


@dataclass(slots=True, kw_only=True)
class TuneResult:
    """What a run found; of an interrupted run, what it had found by then.

    Attributes:
        study: what it worked on.
        baselines: fault-free runs, tuning scenarios first.
        default: LUMEN's default policy.
        cube: the search space; None if interrupted before it was scaled.
        trials: of the surrogate search.
        random_trials: of the random search; empty without one.
        choice: None before the first trial.
        validation: None if interrupted before.
        interrupted: by Ctrl-C.
        cpu_s: CPU seconds by part; of replays that of the kernel alone.
        wall_s: of the whole run.
        jobs: processes.
    """

    study: Study
    baselines: tuple[Baseline, ...] = ()
    default: RecoveryPolicy | None = None
    cube: Cube | None = None
    trials: list[Trial] = field(default_factory=list)
    random_trials: list[Trial] = field(default_factory=list)
    choice: Choice | None = None
    validation: Validation | None = None
    interrupted: bool = False
    cpu_s: dict[str, float] = field(default_factory=dict)
    wall_s: float = 0.0
    jobs: int = 1


def prepare_study(settings: Settings, notices: list[str]) -> Study:
    """Resolve cluster, trace, load and scenarios.

    Args:
        settings: checked keys; `load` defaults to 0.7.
        notices: gets one line for each value that had to be inferred.

    Raises:
        InputError: keys that a search sets itself, a trace too short for its scenarios, …
    """
    _refuse_searched(settings)
    settings = settings if settings.load is not None else replace(settings, load=DEFAULT_LOAD)
    base = base_trace(settings)
    cluster = resolve_cluster(settings, longest_tokens=longest_tokens(base), notices=notices)
    found = capacity(cluster, base)
    plan = plan_scenarios(
        cluster,
        base,
        rate_per_s=(settings.load or DEFAULT_LOAD) * cluster.workers * found.worker_requests_per_s,
        warmup_s=settings.warmup_s,
        victims=settings.victims,
        victim_choice=settings.victim_choice,
        victim_scope=cast("Scope", settings.victim_scope),
    )
    k_max = K_MAX
    if cluster.draft is None or not settings.assist:
        k_max = 0
    elif cluster.workers == 1:
        notices.append("one worker: nobody to assist, so k = 0 throughout")
        k_max = 0
    return Study(
        settings=settings,
        cluster=cluster,
        base=base,
        capacity=found,
        plan=plan,
        tuning=tuple(plan.number(TUNING, i) for i in range(settings.scenarios)),
        validation=tuple(plan.number(VALIDATION, i) for i in range(settings.validation_scenarios)),
        k_max=k_max,
        objective=Objective.of(ttft_weight=settings.ttft_weight, decode_weight=settings.decode_weight),
    )


def tune(
    study: Study, *, jobs: int = 1, random_search: bool = True, progress: Progress | None = None
) -> TuneResult:
    """Search, choose, validate.

    Ctrl-C (KeyboardInterrupt) ends the run early with what it has; the choice is then made from those trials.

    Args:
        study: from `prepare_study`.
        jobs: processes; changes no figure.
        random_search: also try as many random points, as a yardstick.
        progress: told how far it is.
    """
    started = time.perf_counter()
    result = TuneResult(study=study, jobs=jobs)
    result.cpu_s = dict.fromkeys(
        ("capacity", "fault_free", "reference", "trials", "random_search", "validation", "optimizer"), 0.0
    )
    result.cpu_s["capacity"] = study.capacity.cpu_s
    search: SurrogateSearch | None = None
    report: Progress = progress or _Silent()
    try:
        with Evaluator(study.plan, (*study.tuning, *study.validation), jobs=jobs) as evaluator:
            report.stage("fault-free runs")
            _prepare_search(result, evaluator)
            assert result.default is not None
            assert result.cube is not None
            named = _named(result.cube, result.default, study.settings.trials)
            search = SurrogateSearch(
                told_first=len(named),
                fill=min(study.settings.trials - len(named), study.settings.trials // 6),
                k_max=study.k_max,
                seed=study.settings.seed,
            )
            report.stage("tuning")
            _run(result, evaluator, search, named, result.trials, "trials", report)
            result.choice = _choose(result, search)
            if random_search:
                report.stage("random search")
                blind = RandomSearch(k_max=study.k_max, seed=study.settings.seed)
                _run(result, evaluator, blind, (), result.random_trials, "random_search", report)
            report.stage("validation")
            result.validation = _validate(result, evaluator)
    except KeyboardInterrupt:
        result.interrupted = True
        if result.choice is None and result.trials:
            result.choice = _choose(result, search)
    if search is not None:
        result.cpu_s["optimizer"] = search.cpu_s
    result.wall_s = time.perf_counter() - started
    return result


def default_policy(study: Study, baselines: Sequence[Baseline]) -> RecoveryPolicy:
    """LUMEN's defaults for a study: α from the trace, θ = 2 × mean fault-free L over the tuning scenarios.

    Args:
        study: for trace, draft and guard.
        baselines: fault-free runs of the tuning scenarios under the default α.
    """
    alpha = default_alpha(mean_request_pages(study.base))
    held = sum((b.held_tokens for b in baselines), Fraction(0)) / len(baselines)
    queued = sum((b.queue_requests for b in baselines), Fraction(0)) / len(baselines)
    return _probe(study, alpha, default_theta(Fraction(alpha) * held / PAGE_TOKENS + queued))


def _probe(study: Study, alpha: str, theta: str) -> RecoveryPolicy:
    return lumen(
        name=LUMEN_DEFAULT,
        alpha=alpha,
        theta=theta,
        k=min(DEFAULT_K, study.k_max),
        guard=study.settings.guard,
    )


def _prepare_search(result: TuneResult, evaluator: Evaluator) -> None:
    """Fault-free runs, the default policy, and the reference distributions that scale the cube."""
    study = result.study
    probe = _probe(study, default_alpha(mean_request_pages(study.base)), NEVER)
    result.baselines = tuple(evaluator.baselines((*study.tuning, *study.validation), probe))
    result.cpu_s["fault_free"] = sum(baseline.cpu_s for baseline in result.baselines)
    result.default = default_policy(study, result.baselines[: len(study.tuning)])
    seen = evaluator.observations(study.tuning, result.default)
    result.cpu_s["reference"] = sum(observation.cpu_s for observation in seen)
    reference = Reference.of(
        np.concatenate([observation.held_tokens for observation in seen]),
        np.concatenate([observation.queue_requests for observation in seen]),
        np.concatenate([observation.saved_tokens for observation in seen]),
        default_ratio=float(result.default.alpha),
    )
    result.cube = Cube(reference=reference, k_max=study.k_max, guard=study.settings.guard)


def _named(cube: Cube, default: RecoveryPolicy, trials: int) -> list[Named]:
    named = [Named(origin="default", point=cube.encode(default), policy=default)]
    for origin, point in cube.corners(default).items():
        named.append(Named(origin=origin, point=point, policy=cube.decode(point)))
    return named[:trials]


def _run(
    result: TuneResult,
    evaluator: Evaluator,
    search: Search,
    named: Sequence[Named],
    trials: list[Trial],
    part: str,
    report: Progress,
) -> None:
    """One search over the tuning scenarios; `trials` grows as it goes."""
    study = result.study
    assert result.cube is not None
    total = study.settings.trials
    score = _scorer(result, evaluator, part)
    for trial in run_search(search, result.cube, score, trials=total, named=named):
        trials.append(trial)
        report.trial(trial, min(trials, key=lambda t: (t.mean_request_s, t.number)), total)


def _scorer(result: TuneResult, evaluator: Evaluator, part: str) -> Callable[[RecoveryPolicy], list[int]]:
    def score(policy: RecoveryPolicy) -> list[int]:
        scores = evaluator.scores(result.study.tuning, policy)
        result.cpu_s[part] += sum(entry.cpu_s for entry in scores)
        return [result.study.objective.picoseconds(entry.excess) for entry in scores]

    return score


def _choose(result: TuneResult, search: SurrogateSearch | None) -> Choice:
    assert result.cube is not None
    assert result.default is not None
    means = search.surrogate_mean([trial.point for trial in result.trials]) if search else None
    return choose(result.trials, means, result.cube, result.cube.encode(result.default))


def _validate(result: TuneResult, evaluator: Evaluator) -> Validation:
    """All policies of the table on the validation scenarios; none of it feeds back into the choice."""
    assert result.choice is not None
    assert result.default is not None
    study = result.study
    policies = {
        "stop_and_restart": stop_and_restart(),
        "fixed_checkpointing": fixed_checkpointing(),
        LUMEN_DEFAULT: result.default,
        LUMEN_TUNED: replace(result.choice.trial.policy, name=LUMEN_TUNED),
    }
    if result.random_trials:
        best = min(result.random_trials, key=lambda trial: (trial.mean_request_s, trial.number))
        policies[RANDOM_SEARCH] = replace(best.policy, name=RANDOM_SEARCH)
    scores = {}
    for name, policy in policies.items():
        scores[name] = tuple(evaluator.scores(study.validation, policy))
        result.cpu_s["validation"] += sum(score.cpu_s for score in scores[name])
    request_ps = {
        name: [study.objective.picoseconds(score.excess) for score in entries]
        for name, entries in scores.items()
    }
    seed = study.settings.seed
    return Validation(
        policies=policies,
        scores=scores,
        excess={name: bootstrap_interval(values, seed=seed) for name, values in request_ps.items()},
        comparisons=tuple(compare(LUMEN_TUNED, request_ps, seed=seed)),
    )


def _refuse_searched(settings: Settings) -> None:
    """Keys whose values a search sets itself."""
    for name in ("alpha", "beta", "theta", "tau", "k"):
        if getattr(settings, name) is not None:
            raise InputError(f"{name}: tune searches it; leave it out")
    for name in ("placement", "routing"):
        if not getattr(settings, name):
            raise InputError(f"{name}: tune needs lumen's load-aware {name}; leave it on")
    if settings.policy != "lumen":
        raise InputError(f"policy: tune searches lumen's parameters, {settings.policy!r} has none")
    for name in ("crash", "fault", "faults"):
        if getattr(settings, name):
            raise InputError(f"{name}: tune draws its own crashes; leave it out (victims, warmup_s)")
    if settings.rate_scale is not None:
        raise InputError("rate_scale: tune reaches its load by superposing copies; use load")
    if settings.own_rules != NO_RULES:
        raise InputError("own_rules: a policy file cannot carry rules of your own; use replay or compare")


class _Silent:
    def stage(self, text: str) -> None:
        pass

    def trial(self, trial: Trial, best: Trial, total: int) -> None:
        pass
