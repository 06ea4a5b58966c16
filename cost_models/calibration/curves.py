"""Curves over tokens or bytes, fitted with relative, robust errors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression, least_squares

from cost_models.calibrated import StepCurve
from cost_models.sourced import Kind

__all__ = ["fit_smooth_curve", "fit_tile_curve", "non_negative"]

FloatArray = npt.NDArray[np.float64]

_TILE_TOKENS = 64
_WIDE_FROM_TOKENS, _WIDE_TOKENS = 4096, 256
_TOP_SHARE = 0.875
_KNOTS = 14
_ROBUST_SCALE = 0.02


def non_negative(matrix: FloatArray, measured: FloatArray, weight: FloatArray) -> FloatArray:
    """Coefficients ≥ 0 that minimise Σ soft_l1((matrix · x - measured) / weight).

    Args:
        matrix: shape (rows, terms).
        measured: shape (rows,), seconds.
        weight: shape (rows,), what an error is relative to, > 0.

    Returns:
        shape (terms,).
    """
    scaled = matrix / weight[:, None]
    target = measured / weight
    size = np.maximum(np.abs(scaled).max(axis=0), 1e-300)
    unit = scaled / size
    start = np.full(matrix.shape[1], max(float(target.max()), 1e-12) / matrix.shape[1])

    def residual(x: FloatArray) -> FloatArray:
        return np.asarray(unit @ x - target, dtype=np.float64)

    def slope(_: FloatArray) -> FloatArray:
        return np.asarray(unit, dtype=np.float64)

    found = least_squares(
        residual,
        start,
        jac=slope,
        bounds=(0.0, np.inf),
        loss="soft_l1",
        f_scale=_ROBUST_SCALE,
        x_scale="jac",
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
    )
    return np.asarray(found.x / size, dtype=np.float64)


def fit_tile_curve(tokens: FloatArray, seconds: FloatArray, *, kind: Kind, source: str) -> StepCurve:
    """Linear layers over tokens: a level for each tile of 64 tokens, a common slope inside the tiles.

    A matrix product takes whole tiles of rows, so its time steps at multiples of 64 tokens. A tile's level is the
    median of its samples brought to its end by the common slope; levels do not decrease (isotonic regression).
    Up to 64 tokens, where decodes live, each count has its own level; above 4096 a tile is 256 tokens. A tile
    without samples lies on the line between its neighbours. Beyond the last tile each token takes the seconds a
    token of the range's largest eighth, since time per token no longer falls there.

    Args:
        tokens: shape (rows,), ≥ 1.
        seconds: shape (rows,).
    """
    end = _tile_end(tokens)
    order = np.lexsort((tokens, end))
    tokens, seconds, end = tokens[order], seconds[order], end[order]
    inside = (end[1:] == end[:-1]) & (np.diff(tokens) > 0) & (end[1:] > _TILE_TOKENS)
    slopes = np.diff(seconds)[inside] / np.diff(tokens)[inside]
    slope = max(0.0, float(np.median(slopes))) if slopes.size else 0.0
    ends, first = np.unique(end, return_index=True)
    brought = seconds + slope * (end - tokens)
    groups = np.split(brought, first[1:])
    levels = isotonic_regression(
        [float(np.median(group)) for group in groups], weights=[len(group) for group in groups]
    ).x
    points: list[tuple[int, float]] = []
    for tile_end, level in zip(ends, levels, strict=True):
        begin = int(tile_end) - _tile_width(int(tile_end)) + 1
        before = points[-1] if points else None
        step = level - slope * (tile_end - begin)
        if tile_end > _TILE_TOKENS and begin < tile_end and (before is None or begin > before[0]):
            points.append((begin, max(step, 0.0 if before is None else before[1])))
        points.append((int(tile_end), float(level)))
    top = tokens >= _TOP_SHARE * tokens.max()
    beyond_s = float(np.median(seconds[top] / tokens[top]))
    after = points[-1][0] + 1
    points.append((after, max(points[-1][1], after * beyond_s)))
    return _curve(points, beyond_s, "token", kind, source)


def _tile_width(end: int) -> int:
    if end > _WIDE_FROM_TOKENS:
        return _WIDE_TOKENS
    return _TILE_TOKENS


def _tile_end(tokens: FloatArray) -> FloatArray:
    width = np.where(tokens > _WIDE_FROM_TOKENS, _WIDE_TOKENS, _TILE_TOKENS)
    return np.where(tokens <= _TILE_TOKENS, tokens, np.ceil(tokens / width) * width)


def fit_smooth_curve(
    counts: FloatArray, seconds: FloatArray, *, unit: str, kind: Kind, source: str
) -> StepCurve:
    """A non-decreasing piecewise linear curve over at most 14 geometric counts; beyond: slope of its top half.

    Args:
        counts: shape (rows,), ≥ 1.
        seconds: shape (rows,).
        unit: of the counts.
    """
    distinct = np.unique(counts)
    if len(distinct) <= _KNOTS:
        knots = distinct
    else:
        knots = np.unique(np.round(np.geomspace(distinct[0], distinct[-1], _KNOTS)))
    hats = np.stack([np.interp(counts, knots, row) for row in np.eye(len(knots))], axis=1)
    rises = hats @ np.tril(np.ones((len(knots), len(knots))))
    levels = np.cumsum(non_negative(rises, seconds, seconds))
    top = counts >= counts.max() / 2
    line = non_negative(np.stack([np.ones(top.sum()), counts[top]], axis=1), seconds[top], seconds[top])
    points = [(int(knot), float(level)) for knot, level in zip(knots, levels, strict=True)]
    return _curve(points, float(line[1]), unit, kind, source)


def _curve(points: list[tuple[int, float]], beyond_s: float, unit: str, kind: Kind, source: str) -> StepCurve:
    rounded = [(count, float(f"{seconds:.6g}")) for count, seconds in points]
    return StepCurve(points=rounded, beyond_s=float(f"{beyond_s:.6g}"), unit=unit, kind=kind, source=source)
