"""Arrival processes for sources that have lengths but no times."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lumen_policy.errors import InputError
from lumen_policy.trace.table import MAX_SPAN_PS, PS_PER_S, IntArray

__all__ = ["FAMILIES", "ArrivalProcess", "unit_gaps", "weibull_shape"]

FloatArray = npt.NDArray[np.float64]

FAMILIES = ("poisson", "gamma", "weibull", "uniform", "at_once")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalProcess:
    """A renewal process.

    Attributes:
        family: poisson · gamma · weibull · uniform (equal gaps) · at_once (all at time 0).
        rate_per_s: requests per second.
        cv: coefficient of variation of the gaps (gamma and weibull).
        seed: key of the gaps.
    """

    family: str
    rate_per_s: float = 1.0
    cv: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise InputError(f"arrivals {self.family!r}: allowed are {', '.join(FAMILIES)}")
        for name in ("rate_per_s", "cv"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InputError(f"arrivals: {name} must be a positive finite number, not {value}")
        if not 0.1 <= self.cv <= 50:
            raise InputError(f"arrivals: cv must be 0.1 … 50, not {self.cv}")

    @classmethod
    def parse(cls, text: str, seed: int = 0) -> ArrivalProcess:
        """``poisson:RATE``, ``gamma:RATE:CV``, ``weibull:RATE:CV``, ``uniform:RATE`` or ``at_once``."""
        family, *numbers = text.split(":")
        expected = {"gamma": 2, "weibull": 2, "at_once": 0}.get(family, 1)
        try:
            values = [float(number) for number in numbers]
        except ValueError:
            values = []
        if family not in FAMILIES or len(values) != expected or len(numbers) != expected:
            raise InputError(
                f"arrivals {text!r}: expected poisson:RATE, gamma:RATE:CV, weibull:RATE:CV, uniform:RATE "
                "or at_once"
            )
        return cls(family=family, seed=seed, **dict(zip(("rate_per_s", "cv"), values, strict=False)))

    def describe(self) -> str:
        """One phrase for the accounting's notes."""
        if self.family == "at_once":
            return "arrivals generated: all at time 0"
        cv = f", gap CV {self.cv:g}" if self.family in ("gamma", "weibull") else ""
        return f"arrivals generated: {self.family} at {self.rate_per_s:g}/s{cv}, seed {self.seed}"

    def generate(self, count: int) -> IntArray:
        """Arrival times, int64 picoseconds, shape (count,), first 0."""
        arrival = np.zeros(count, np.int64)
        if self.family == "at_once" or count < 2:
            return arrival
        if (count - 1) / self.rate_per_s > MAX_SPAN_PS / PS_PER_S:
            raise InputError(f"arrivals: {count} requests at {self.rate_per_s:g}/s span more than 90 days")
        rng = np.random.Generator(np.random.PCG64(self.seed))
        shape = {"gamma": 1.0 / self.cv**2, "weibull": weibull_shape(self.cv)}.get(self.family, 1.0)
        gaps = unit_gaps(rng, self.family, shape, count - 1)
        gaps *= PS_PER_S / self.rate_per_s
        if float(gaps.sum()) > 2.0**62:
            raise InputError("arrivals: the gaps drawn span more than 90 days")
        arrival[1:] = np.cumsum(np.rint(gaps).astype(np.int64))
        return arrival


def unit_gaps(rng: np.random.Generator, family: str, shape: float, count: int) -> FloatArray:
    """Gaps of mean 1, float64, shape (count,): of a Gamma or Weibull law of that shape, exponential, or all
    equal.
    """
    if family == "gamma":
        return rng.standard_gamma(shape, count) / shape
    if family == "weibull":
        return rng.weibull(shape, count) / math.gamma(1.0 + 1.0 / shape)
    if family == "uniform":
        return np.ones(count)
    return rng.standard_exponential(count)


def weibull_shape(cv: float) -> float:
    """Shape of the Weibull law with that coefficient of variation: Γ(1 + 2/k)/Γ(1 + 1/k)² = 1 + cv², by
    bisection.
    """
    low, high = 0.1, 20.0
    for _ in range(80):
        shape = 0.5 * (low + high)
        square = math.exp(math.lgamma(1.0 + 2.0 / shape) - 2.0 * math.lgamma(1.0 + 1.0 / shape)) - 1.0
        low, high = (shape, high) if square > cv**2 else (low, shape)
    return 0.5 * (low + high)
