"""Figures that describe a trace: span, rate, burstiness, lengths, prefix reuse."""

from __future__ import annotations

import math
from collections import OrderedDict
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lumen_policy.trace.table import PS_PER_S, IntArray, PrefixBlocks

__all__ = [
    "LENGTH_QUANTILES",
    "arrival_figures",
    "correlation",
    "length_figures",
    "nearest_rank",
    "prefix_figures",
]

WINDOW_S = 10
LENGTH_QUANTILES = (0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99)


def nearest_rank(values: IntArray, quantiles: tuple[float, ...]) -> list[int]:
    """Nearest-rank quantiles: the value at index q·(n − 1) of the sorted values, rounded half up."""
    ordered = np.sort(values)
    return [int(ordered[int(q * (len(ordered) - 1) + 0.5)]) for q in quantiles]


def arrival_figures(arrival_ps: IntArray) -> dict[str, Any]:
    """Span, rate and burstiness of sorted arrivals.

    Windows of 10 s start at the first arrival; the last, partial one is left out. CVs use the sample
    standard deviation and are None where there are too few values.
    """
    span_ps = int(arrival_ps[-1] - arrival_ps[0])
    gaps = np.diff(arrival_ps) / PS_PER_S
    window_ps = WINDOW_S * PS_PER_S
    whole = span_ps // window_ps
    index = (arrival_ps - arrival_ps[0]) // window_ps
    # A trace of months would make millions of windows: only the occupied ones are listed.
    _, occupied = np.unique(index[index < whole], return_counts=True)
    return {
        "span_s": span_ps / PS_PER_S,
        "rate_per_s": len(arrival_ps) / (span_ps / PS_PER_S) if span_ps else None,
        "window_s": WINDOW_S,
        "window_count_cv": _window_cv(occupied, whole),
        "window_count_max": int(occupied.max()) if len(occupied) else None,
        "window_empty_share": 1.0 - len(occupied) / whole if whole else None,
        "gap_cv": _cv(gaps),
        "gap_max_s": float(gaps.max()) if len(gaps) else None,
    }


def length_figures(tokens: IntArray) -> dict[str, Any]:
    """Mean, extremes, nearest-rank quantiles and a histogram of token counts.

    ``histogram_log2[i]`` counts values in 2^i … 2^(i+1) − 1; zeros are in none.
    """
    keys = (f"p{round(q * 100)}" for q in LENGTH_QUANTILES)
    figures: dict[str, Any] = dict(zip(keys, nearest_rank(tokens, LENGTH_QUANTILES), strict=True))
    figures.update(
        mean=float(tokens.mean()),
        min=int(tokens.min()),
        max=int(tokens.max()),
        share_over_8192=float((tokens > 8192).mean()),
        share_over_32768=float((tokens > 32768).mean()),
        histogram_log2=np.bincount(np.frexp(tokens[tokens > 0])[1] - 1, minlength=1).tolist(),
    )
    return figures


def correlation(a: IntArray, b: IntArray) -> dict[str, float | None]:
    """Pearson's and Spearman's (mean ranks) coefficients; None where a column does not vary."""
    return {"pearson": _pearson(a, b), "spearman": _pearson(_ranks(a), _ranks(b))}


def equal_rows(*columns: IntArray) -> int:
    """How many rows repeat an earlier row in every column."""
    order = np.lexsort(columns)
    same = np.ones(max(0, len(order) - 1), bool)
    for column in columns:
        same &= np.diff(column[order]) == 0
    return int(same.sum())


def prefix_figures(prefix: PrefixBlocks, cache_blocks: int | None = None) -> dict[str, Any]:
    """How many prompt blocks a shared prefix cache would have held already, the requests replayed in order.

    A request reuses its leading blocks up to the first one not in the cache; then all its blocks are used
    and stored. The cache of N blocks evicts the least recently used block.

    Args:
        prefix: hash ids.
        cache_blocks: size of a second, limited cache.
    """
    total = len(prefix.ids)
    reused = _reused(prefix, None)
    figures: dict[str, Any] = {
        "block_tokens": prefix.block_tokens,
        "blocks": total,
        "distinct_blocks": len(np.unique(prefix.ids)),
        "reuse_unlimited": reused / total if total else 0.0,
        "cache_blocks": cache_blocks,
        "reuse_limited": None,
    }
    if cache_blocks is not None:
        figures["reuse_limited"] = _reused(prefix, cache_blocks) / total if total else 0.0
    return figures


def _reused(prefix: PrefixBlocks, capacity: int | None) -> int:
    cache: OrderedDict[int, None] = OrderedDict()
    ids = prefix.ids.tolist()
    offsets = prefix.offsets.tolist()
    reused = 0
    for first, after in pairwise(offsets):
        leading = True
        for block in ids[first:after]:
            if block in cache:
                reused += leading
                cache.move_to_end(block)
            else:
                leading = False
                cache[block] = None
                if capacity is not None and len(cache) > capacity:
                    cache.popitem(last=False)
    return reused


def _window_cv(occupied: IntArray, windows: int) -> float | None:
    if windows < 2 or not len(occupied):
        return None
    mean = float(occupied.sum()) / windows
    squares = float(((occupied - mean) ** 2).sum()) + (windows - len(occupied)) * mean**2
    return math.sqrt(squares / (windows - 1)) / mean


def _cv(values: npt.NDArray[np.float64]) -> float | None:
    if len(values) < 2 or not values.mean():
        return None
    return float(values.std(ddof=1) / values.mean())


def _pearson(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float | None:
    x, y = a - a.mean(), b - b.mean()
    scale = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    return float(x @ y) / scale if scale else None


def _ranks(values: IntArray) -> npt.NDArray[np.float64]:
    """Ranks from 1, ties share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[inverse]
