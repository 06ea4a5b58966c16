"""What the chosen policy is worth on scenarios that had no part in choosing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lumen_policy.measures.exact import seconds
from lumen_policy.trace.keyed import keyed

__all__ = [
    "CONFIDENCE",
    "RESAMPLES",
    "Comparison",
    "Interval",
    "Verdict",
    "bootstrap_interval",
    "compare",
    "verdict",
]

BOOTSTRAP = 73
"""Purpose of the draws of bootstrap samples: (0, resample · scenarios + position)."""
CONFIDENCE = 0.95
RESAMPLES = 10_000

Verdict = Literal["better", "worse", "no difference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over scenarios with its bootstrap interval, request-seconds."""

    mean_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a policy saves against another: paired differences over scenarios, other - this.

    Attributes:
        against: the other policy's name.
        saves: per crash; positive where this policy is better.
        verdict: ``no difference`` where the interval holds zero.
    """

    against: str
    saves: Interval
    verdict: Verdict


def bootstrap_interval(request_ps: Sequence[int], *, seed: int) -> Interval:
    """95 % percentile interval of the mean, by resampling scenarios 10,000 times.

    It speaks about other scenarios drawn from the same trace in the same way, not about other traces, loads
    or clusters. Sums are exact integers; the draws are keyed, and the same for every policy.

    Args:
        request_ps: shape (scenarios,), one figure per scenario.
        seed: of the draws.

    Source: Efron & Tibshirani, "An Introduction to the Bootstrap" (1993), ch. 13.
    """
    values = np.asarray(request_ps, np.int64)
    n = len(values)
    high_bits = keyed(seed, BOOTSTRAP, 0, RESAMPLES * n) >> np.uint64(32)
    picks = (high_bits * np.uint64(n)) >> np.uint64(32)
    sums = np.sort(values[picks.astype(np.int64)].reshape(RESAMPLES, n).sum(axis=1))
    tail = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Interval(
        mean_s=seconds(sum(request_ps), n),
        low_s=seconds(int(sums[tail]), n),
        high_s=seconds(int(sums[RESAMPLES - 1 - tail]), n),
    )


def compare(this: str, request_ps: Mapping[str, Sequence[int]], *, seed: int) -> list[Comparison]:
    """One policy against all others.

    Args:
        this: name of the policy judged.
        request_ps: name → shape (scenarios,), excess E2E of the same scenarios in the same order.
        seed: of the bootstrap.
    """
    own = request_ps[this]
    comparisons = []
    for name, other in request_ps.items():
        if name != this:
            saves = bootstrap_interval([b - a for a, b in zip(own, other, strict=True)], seed=seed)
            comparisons.append(Comparison(against=name, saves=saves, verdict=verdict(saves)))
    return comparisons


def verdict(saves: Interval) -> Verdict:
    """Better or worse where the interval lies on one side of zero."""
    if saves.low_s > 0:
        return "better"
    return "worse" if saves.high_s < 0 else "no difference"
