"""Which of LUMEN's mechanisms is worth what: all subsets of the three beside the three baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import msgspec

from lumen_policy.comparison import Contender
from lumen_policy.errors import InputError
from lumen_policy.policies.fixed_checkpointing import fixed_checkpointing
from lumen_policy.policies.remote_store import remote_store
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.policies.stop_and_restart import stop_and_restart
from lumen_policy.scenario_comparison import scenario_sections
from lumen_policy.scenario_runs import run_scenarios
from lumen_policy.tune.scenario import ScenarioPlan
from lumen_policy.tune.validation import Interval, Verdict, bootstrap_interval, compare, verdict
from lumen_policy.workload import Workload

__all__ = ["BASELINES", "MECHANISMS", "ablate", "ablation_contenders"]

MECHANISMS = ("placement", "routing", "assist")
BASELINES = ("stop_and_restart", "fixed_checkpointing", "remote_store")
_SUBSETS = tuple(
    frozenset(subset) for size in range(len(MECHANISMS) + 1) for subset in combinations(MECHANISMS, size)
)
_ALL = frozenset(MECHANISMS)


def ablation_contenders(full: RecoveryPolicy, notices: list[str]) -> tuple[Contender, ...]:
    """The baselines and the eight subsets, the whole policy last; its parameters stay in every subset.

    Args:
        full: LUMEN, or an exported policy, with load-aware placement and routing.
        notices: gets a line where the policy drafts nothing.

    Raises:
        InputError: a policy that lacks placement or routing.
    """
    for mechanism in ("placement", "routing"):
        if getattr(full, mechanism) != "load_aware":
            raise InputError(
                f"policy: {full.name} has no load-aware {mechanism}; an ablation needs a policy with all its "
                "mechanisms and switches them itself"
            )
    if full.k == 0:
        notices.append("k = 0: nothing is drafted, so the rows with assist equal those without")
    baselines = (stop_and_restart(), fixed_checkpointing(), remote_store())
    return (
        *(Contender(label=policy.name, policy=policy) for policy in baselines),
        *(Contender(label=_label(subset), policy=_subset(full, subset)) for subset in _SUBSETS),
    )


def ablate(
    workload: Workload, plan: ScenarioPlan, contenders: Sequence[Contender], count: int
) -> dict[str, Any]:
    """The subsets and baselines over the same scenarios, with paired intervals and the placebo beside them.

    Args:
        workload: cluster and trace.
        plan: of the scenarios; the validation ones are run.
        contenders: from ``ablation_contenders``.
        count: scenarios, ≥ 2.
    """
    runs = run_scenarios(plan, contenders, count, placebo=True)
    seed = plan.cluster.settings.seed
    against = [
        {
            "policy": _label(subset),
            "against": comparison.against,
            "saves_request_s": msgspec.to_builtins(comparison.saves),
            "verdict": comparison.verdict,
        }
        for subset in _SUBSETS
        for comparison in compare(
            _label(subset),
            {label: runs.excess_ps[label] for label in (_label(subset), *BASELINES)},
            seed=seed,
        )
    ]
    worth = [_worth(mechanism, runs.excess_ps, seed) for mechanism in MECHANISMS]
    return {
        **scenario_sections(workload, plan, runs),
        "against": against,
        "mechanisms": worth,
        "words": _words(runs.excess_ps, seed, worth),
    }


def _label(subset: frozenset[str]) -> str:
    return " + ".join(mechanism for mechanism in MECHANISMS if mechanism in subset) or "none"


def _subset(full: RecoveryPolicy, subset: frozenset[str]) -> RecoveryPolicy:
    return replace(
        full,
        name=_label(subset),
        placement=full.placement if "placement" in subset else "ring",
        routing=full.routing if "routing" in subset else "holder",
        k=full.k if "assist" in subset else 0,
    )


def _worth(mechanism: str, excess_ps: Mapping[str, Sequence[int]], seed: int) -> dict[str, Any]:
    """What a mechanism saves on average over the four subsets of the other two (its main effect)."""
    without = [subset for subset in _SUBSETS if mechanism not in subset]
    pairs = [(excess_ps[_label(subset)], excess_ps[_label(subset | {mechanism})]) for subset in without]
    saved = [
        round(sum(off[scenario] - on[scenario] for off, on in pairs) / len(pairs))
        for scenario in range(len(pairs[0][0]))
    ]
    saves = bootstrap_interval(saved, seed=seed)
    return {
        "mechanism": mechanism,
        "saves_request_s": msgspec.to_builtins(saves),
        "verdict": verdict(saves),
    }


def _words(
    excess_ps: Mapping[str, Sequence[int]], seed: int, worth: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Sentences: the whole against the baselines and its best subset, then each mechanism."""
    whole = _label(_ALL)
    means = {label: sum(row) for label, row in excess_ps.items()}
    best = min((_label(subset) for subset in _SUBSETS), key=lambda label: means[label])
    others = [*BASELINES] if best == whole else [*BASELINES, best]
    rows = {label: excess_ps[label] for label in (whole, *others)}
    lines = []
    for comparison in compare(whole, rows, seed=seed):
        other = comparison.against
        if other == best and other not in BASELINES:
            other = f"its best subset ({best})"
        lines.append(f"all three against {other}: {_outcome(comparison.saves, comparison.verdict)}")
    if best == whole:
        lines.append("no subset has a lower mean than all three together")
    for entry in worth:
        saves = msgspec.convert(entry["saves_request_s"], Interval)
        lines.append(
            f"{entry['mechanism']}, averaged over the subsets of the others: "
            f"{_outcome(saves, entry['verdict'])}"
        )
    return lines


def _outcome(saves: Interval, judged: Verdict) -> str:
    low, high = f"{saves.low_s:,.1f}", f"{saves.high_s:,.1f}"
    if judged == "better":
        return f"wins, it saves {saves.mean_s:,.1f} request-seconds a crash ({low} … {high})"
    if judged == "worse":
        return (
            f"loses, it costs {-saves.mean_s:,.1f} request-seconds a crash "
            f"({-saves.high_s:,.1f} … {-saves.low_s:,.1f})"
        )
    return f"no difference, it saves {saves.mean_s:,.1f} request-seconds a crash ({low} … {high})"
