"""Mean and nearest-rank quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from lumen_policy.measures.exact import chunks, exact_sum, seconds
from lumen_policy.measures.times import RequestTimes
from lumen_policy.replay.contract import NONE, PS_PER_S, IntArray, ReplayInput, ReplayOutput

__all__ = [
    "EMPTY",
    "PERCENTS",
    "Distribution",
    "distribution_of_ps",
    "distribution_of_s",
    "e2e_per_output",
    "nearest_rank",
    "tpot",
    "ttft_ps",
]

FloatArray = npt.NDArray[np.float64]

PERCENTS = (50, 90, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Mean and quantiles of a set of durations in seconds; all None for an empty set."""

    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None


EMPTY = Distribution(mean=None, p50=None, p90=None, p99=None)


def nearest_rank(size: int, percent: int) -> int:
    """Rank (from 1) of a quantile: ceil(percent · size / 100); a quantile is always a value of the set."""
    return -(-size * percent // 100)


def distribution_of_ps(values_ps: IntArray) -> Distribution:
    """Exact mean and quantiles of integer picoseconds, each rounded once to seconds.

    Args:
        values_ps: shape (n,).
    """
    if values_ps.size == 0:
        return EMPTY
    quantiles = _order_statistics(values_ps)
    return Distribution(
        mean=seconds(exact_sum(values_ps), values_ps.size),
        p50=seconds(int(quantiles[0])),
        p90=seconds(int(quantiles[1])),
        p99=seconds(int(quantiles[2])),
    )


def distribution_of_s(values_s: FloatArray) -> Distribution:
    """Mean (correctly rounded sum) and quantiles of seconds.

    Args:
        values_s: shape (n,), finite.
    """
    if values_s.size == 0:
        return EMPTY
    quantiles = _order_statistics(values_s)
    total = math.fsum(chain.from_iterable(values_s[part].tolist() for part in chunks(values_s.size)))
    return Distribution(
        mean=total / values_s.size,
        p50=float(quantiles[0]),
        p90=float(quantiles[1]),
        p99=float(quantiles[2]),
    )


def tpot(times: RequestTimes, output_tokens: IntArray) -> FloatArray:
    """TPOT in seconds, (l − f) / (output − 1), of the finished requests with at least two output tokens.

    Args:
        times: of one replay, or a selection of its requests.
        output_tokens: shape (n',), of the same requests.

    Returns:
        Shape (n'',), in arrival order.
    """
    rows = times.finished & (output_tokens > 1)
    span = (times.last_ps[rows] - times.first_ps[rows]).astype(np.float64)
    return span / ((output_tokens[rows] - 1).astype(np.float64) * PS_PER_S)


def e2e_per_output(times: RequestTimes, output_tokens: IntArray) -> FloatArray:
    """(l − a) / output in seconds of the finished requests; arguments as ``tpot``."""
    rows = times.finished
    span = (times.last_ps[rows] - times.arrival_ps[rows]).astype(np.float64)
    return span / (output_tokens[rows].astype(np.float64) * PS_PER_S)


def ttft_ps(inp: ReplayInput, out: ReplayOutput) -> IntArray:
    """f − a of every request that delivered a token, shape (n',)."""
    rows = out.first_ps != NONE
    delivered: IntArray = out.first_ps[rows] - inp.arrival_ps[rows]
    return delivered


def _order_statistics(values: npt.NDArray[Any]) -> list[float | int]:
    ranks = [nearest_rank(values.size, percent) - 1 for percent in PERCENTS]
    found: list[float | int] = np.partition(values, ranks)[ranks].tolist()
    return found
