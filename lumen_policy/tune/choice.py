"""Which of the tried policies is chosen, from tuning scenarios alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lumen_policy.measures.exact import seconds
from lumen_policy.tune.encoding import Cube, Point
from lumen_policy.tune.search import Trial

__all__ = ["Choice", "choose", "paired_error_s"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen trial and why.

    Attributes:
        trial: chosen.
        best: the trial of best surrogate mean.
        surrogate_mean_s: of the chosen and of the best trial, request-seconds.
        noise_s: standard error of the paired difference between the two.
        within_noise: numbers of the trials that could have been chosen.
    """

    trial: Trial
    best: Trial
    surrogate_mean_s: tuple[float, float]
    noise_s: float
    within_noise: tuple[int, ...]


def choose(
    trials: Sequence[Trial], surrogate_mean_s: Sequence[float] | None, cube: Cube, default: Point
) -> Choice:
    """Best surrogate mean over tried policies; of those within the noise of it the one nearest the default.

    A policy is within the noise if its surrogate mean exceeds the best one by no more than one standard error
    of the paired difference of their scores over the tuning scenarios (the one-standard-error rule; Breiman,
    Friedman, Olshen & Stone, "Classification and Regression Trees", 1984). Ties in distance go to the smaller
    surrogate mean, then to the earlier trial.

    Args:
        trials: ≥ 1; repeated decisions count once, at their first trial.
        surrogate_mean_s: of each trial's point; None before the surrogate's first fit: the scores themselves.
        cube: measures the distance.
        default: point of the default policy.
    """
    means = surrogate_mean_s or [trial.mean_request_s for trial in trials]
    rated = [(mean, trial) for mean, trial in zip(means, trials, strict=True) if trial.same_as is None]
    best_mean, best = min(rated, key=lambda entry: (entry[0], entry[1].number))
    close = [
        (cube.distance(trial.point, default), mean, trial.number, trial)
        for mean, trial in rated
        if mean - best_mean <= paired_error_s(trial, best)
    ]
    _, mean, _, chosen = min(close, key=lambda entry: entry[:3])
    return Choice(
        trial=chosen,
        best=best,
        surrogate_mean_s=(mean, best_mean),
        noise_s=paired_error_s(chosen, best),
        within_noise=tuple(entry[2] for entry in close),
    )


def paired_error_s(a: Trial, b: Trial) -> float:
    """Standard error of the mean paired difference of two trials over scenarios; 0 with one scenario."""
    differences = [x - y for x, y in zip(a.request_ps, b.request_ps, strict=True)]
    n = len(differences)
    if n < 2:
        return 0.0
    total = sum(differences)
    squares = sum(d * d for d in differences) * n - total * total
    # variance of the mean = squares / (n · n · (n - 1)), an exact integer quotient until here
    return float(seconds(1, n) * (squares / (n - 1)) ** 0.5)
