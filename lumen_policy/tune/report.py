"""What a tuning run writes: result document, trials, policy file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy import __version__
from lumen_policy.cluster import NO_DRAFT
from lumen_policy.digests import content_digest
from lumen_policy.document import SCHEMA_VERSION, encode_document
from lumen_policy.measures.exact import seconds
from lumen_policy.policy_file.document import (
    API_VERSION,
    Evidence,
    Excess,
    Gain,
    Metadata,
    PolicyDocument,
    ReferenceSummary,
    Validity,
    document_bytes,
    spec_of,
)
from lumen_policy.policy_file.load import lengths_of, reload_s
from lumen_policy.result import manifest, policy_section
from lumen_policy.tune.encoding import Reference
from lumen_policy.tune.objective import ScenarioScore
from lumen_policy.tune.output import POLICY, RESULT, TRIALS
from lumen_policy.tune.search import Trial
from lumen_policy.tune.study import LUMEN_DEFAULT, LUMEN_TUNED, TuneResult
from lumen_policy.tune.validation import CONFIDENCE, RESAMPLES, Comparison
from lumen_policy.workload import Workload

__all__ = ["policy_document", "result_document", "run_files", "verdict_lines"]

KIND = "tune"


def run_files(result: TuneResult, argv: Sequence[str]) -> dict[str, bytes | None]:
    """The run's files by name, in the order they should be written; None where there is nothing to write."""
    policy = policy_document(result)
    trials = [*_trial_rows("surrogate", result.trials), *_trial_rows("random", result.random_trials)]
    encoder = msgspec.json.Encoder(order="sorted", decimal_format="number")
    return {
        TRIALS: b"".join(encoder.encode(row) + b"\n" for row in trials),
        POLICY: None if policy is None else document_bytes(policy),
        RESULT: encode_document(result_document(result, argv)),
    }


def result_document(result: TuneResult, argv: Sequence[str]) -> dict[str, Any]:
    """Everything about a run, versioned; only `cost` differs between two runs of one set-up.

    Args:
        result: of `tune`.
        argv: the arguments that change figures.
    """
    study = result.study
    workload = Workload(cluster=study.cluster, trace=study.base, base=study.base, capacity=study.capacity)
    settings = study.settings
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "interrupted": result.interrupted,
        "manifest": manifest(workload, argv),
        "search": {
            "objective": "excess_e2e_request_s",
            "trials": settings.trials,
            "random_search": bool(result.random_trials),
            "scenarios": settings.scenarios,
            "validation_scenarios": settings.validation_scenarios,
            "warmup_s": settings.warmup_s,
            "horizon_s": study.cluster.measures.horizon_s,
            "victims": settings.victims,
            "victim_choice": settings.victim_choice,
            "load": settings.load,
            "rate_per_s": study.plan.rate_per_s,
            "segment_s": seconds(study.plan.segment_ps),
            "k_max": study.k_max,
            "requests_per_scenario": [baseline.requests for baseline in result.baselines],
        },
        "reference": None if result.cube is None else _reference_section(result.cube.reference),
        "trials": {
            "done": len(result.trials),
            "replayed": sum(trial.same_as is None for trial in result.trials),
            "random_done": len(result.random_trials),
        },
        "default": None if result.default is None else policy_section(result.default),
        "choice": _choice_section(result),
        "validation": _validation_section(result),
        "verdict": verdict_lines(result),
        "cost": _cost_section(result),
    }


def policy_document(result: TuneResult) -> PolicyDocument | None:
    """The chosen policy with its evidence; None before the first trial."""
    if result.choice is None or result.cube is None:
        return None
    study, cluster = result.study, result.study.cluster
    policy = replace(result.choice.trial.policy, name=LUMEN_TUNED)
    description = cluster.describe()
    costs_digest = content_digest(cluster.hardware)
    validated = result.validation
    return PolicyDocument(
        api_version=API_VERSION,
        kind="RecoveryPolicy",
        metadata=Metadata(
            name=policy.name,
            model=cluster.model.name,
            kv_bytes_per_token=cluster.model.kv_bytes_per_token,
            page_tokens=PAGE_TOKENS,
            draft_model=NO_DRAFT if cluster.draft is None else cluster.draft.name,
            hardware=cluster.hardware.name,
            gpus_per_worker=study.settings.tp,
            trace=study.base.source,
            trace_digest=study.base.digest(),
            profile_digest=costs_digest,
            cluster_digest=content_digest(description),
            seed=study.settings.seed,
            toolkit_version=__version__,
        ),
        spec=spec_of(policy, checkpoint_bytes_per_worker=cluster.budget_bytes),
        evidence=Evidence(
            source="simulated",
            objective="excess_e2e_request_s",
            horizon_s=seconds(cluster.horizon_ps),
            tuning_scenarios=len(study.tuning),
            trials=len(result.trials),
            chosen_trial=result.choice.trial.number,
            tuning_mean_request_s=result.choice.trial.mean_request_s,
            validation_scenarios=0 if validated is None else len(study.validation),
            confidence=CONFIDENCE,
            excess=[]
            if validated is None
            else [
                Excess(
                    policy=name,
                    mean_request_s=interval.mean_s,
                    low_request_s=interval.low_s,
                    high_request_s=interval.high_s,
                )
                for name, interval in validated.excess.items()
            ],
            gains=[] if validated is None else [_gain(entry) for entry in validated.comparisons],
            reference=_reference_summary(result.cube.reference),
        ),
        validity=Validity(
            workers=cluster.workers,
            crashed_workers=study.settings.victims,
            load_of_capacity=study.settings.load or 0.0,
            arrivals_per_s=study.plan.rate_per_s,
            prompt_tokens=lengths_of(study.base.prompt_tokens),
            output_tokens=lengths_of(study.base.output_tokens),
            reload_s=reload_s(cluster),
            reload_with_draft_s=reload_s(cluster, draft=True),
        ),
    )


def verdict_lines(result: TuneResult) -> list[str]:
    """The outcome in words, tuning against the default first."""
    if result.validation is None:
        return ["interrupted before validation: no verdict"]
    order = {LUMEN_DEFAULT: 0}
    comparisons = sorted(result.validation.comparisons, key=lambda entry: order.get(entry.against, 1))
    return [_verdict_line(entry, len(result.study.validation)) for entry in comparisons]


def _verdict_line(entry: Comparison, scenarios: int) -> str:
    saves = entry.saves
    interval = f"{saves.low_s:,.1f} … {saves.high_s:,.1f}"
    if saves.low_s == saves.high_s == 0:
        detail = f"the same result in all {scenarios} validation scenarios"
    elif entry.verdict == "no difference":
        detail = (
            f"it saves {saves.mean_s:,.1f} request-seconds a crash, and the interval {interval} holds zero"
        )
    else:
        word, sign = ("saves", 1) if entry.verdict == "better" else ("costs", -1)
        low, high = sorted((sign * saves.low_s, sign * saves.high_s))
        detail = f"it {word} {sign * saves.mean_s:,.1f} request-seconds a crash ({low:,.1f} … {high:,.1f})"
    return f"tuned against {entry.against}: {entry.verdict}; {detail}"


def _trial_rows(search: str, trials: Sequence[Trial]) -> list[dict[str, Any]]:
    return [
        {
            "search": search,
            "trial": trial.number,
            "origin": trial.origin,
            "point": {
                "kv_share": trial.point[0],
                "theta_level": trial.point[1],
                "tau_level": trial.point[2],
                "k": trial.point[3],
            },
            "policy": policy_section(trial.policy),
            "excess_e2e_request_s": [seconds(value) for value in trial.request_ps],
            "mean_excess_e2e_request_s": trial.mean_request_s,
            "same_as_trial": trial.same_as,
        }
        for trial in trials
    ]


def _choice_section(result: TuneResult) -> dict[str, Any] | None:
    choice = result.choice
    if choice is None:
        return None
    return {
        "trial": choice.trial.number,
        "origin": choice.trial.origin,
        "policy": policy_section(replace(choice.trial.policy, name=LUMEN_TUNED)),
        "mean_excess_e2e_request_s": choice.trial.mean_request_s,
        "surrogate_mean_request_s": choice.surrogate_mean_s[0],
        "best_trial": choice.best.number,
        "best_surrogate_mean_request_s": choice.surrogate_mean_s[1],
        "paired_standard_error_request_s": choice.noise_s,
        "trials_within_noise": list(choice.within_noise),
    }


def _validation_section(result: TuneResult) -> dict[str, Any] | None:
    validated = result.validation
    if validated is None:
        return None
    objective = result.study.objective
    policies = []
    for name, policy in validated.policies.items():
        scores, excess = validated.scores[name], validated.excess[name]
        policies.append(
            {
                "policy": policy_section(policy),
                "excess_e2e_request_s": [seconds(objective.picoseconds(entry.excess)) for entry in scores],
                "mean_request_s": excess.mean_s,
                "low_request_s": excess.low_s,
                "high_request_s": excess.high_s,
                **_parts(scores),
            }
        )
    return {
        "confidence": CONFIDENCE,
        "interval": f"percentile bootstrap over scenarios, {RESAMPLES} resamples, conditional on this trace",
        "policies": policies,
        "gains": [msgspec.to_builtins(_gain(entry)) for entry in validated.comparisons],
    }


def _parts(scores: Sequence[ScenarioScore]) -> dict[str, Any]:
    """TTFT and decode part, and the mean per affected request."""
    n = len(scores)
    affected = sum(score.excess.affected for score in scores)
    total = sum(score.excess.e2e_ps for score in scores)
    return {
        "mean_ttft_part_request_s": seconds(sum(score.excess.ttft_ps for score in scores), n),
        "mean_decode_part_request_s": seconds(sum(score.excess.decode_ps for score in scores), n),
        "mean_affected_requests": affected / n,
        "excess_per_affected_s": seconds(total, affected) if affected else None,
        "unfinished_requests": sum(score.excess.unfinished for score in scores),
    }


def _gain(entry: Comparison) -> Gain:
    return Gain(
        against=entry.against,
        mean_request_s=entry.saves.mean_s,
        low_request_s=entry.saves.low_s,
        high_request_s=entry.saves.high_s,
        verdict=entry.verdict,
    )


def _reference_section(reference: Reference) -> dict[str, Any]:
    return {
        "mean_held_pages": reference.mean_held_pages,
        "mean_queue_requests": reference.mean_queue_requests,
        "default_alpha_per_beta": reference.fallback_ratio,
        "held_pages": list(reference.held_pages),
        "queue_requests": list(reference.queue_requests),
        "saved_tokens": list(reference.saved_tokens),
    }


def _reference_summary(reference: Reference) -> ReferenceSummary:
    levels = [index / 10 for index in range(11)]
    loads = reference.loads(reference.fallback_ratio)
    return ReferenceSummary(
        mean_held_pages=reference.mean_held_pages,
        mean_queue_requests=reference.mean_queue_requests,
        load_deciles=[float(value) for value in np.quantile(loads, levels)],
        saved_tokens_deciles=[float(value) for value in np.quantile(reference.saved(), levels)],
    )


def _cost_section(result: TuneResult) -> dict[str, Any]:
    total = sum(result.cpu_s.values())
    return {
        "jobs": result.jobs,
        "wall_s": result.wall_s,
        "cpu_s": dict(result.cpu_s),
        "optimizer_share_of_cpu": result.cpu_s["optimizer"] / total if total else 0.0,
    }
