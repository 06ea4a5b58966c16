"""Searches over the cube behind one small interface: ask for a point, tell its objective."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from lumen_policy.replay.draws import draw
from lumen_policy.tune.encoding import Point

__all__ = ["RandomSearch", "Search", "SurrogateSearch"]

_FILL = 70
"""Purpose of the draws that fill the cube before the surrogate starts: (axis, 0)."""
_RANDOM = 71
"""Purpose of the draws of a random search: (trial, axis)."""


class Search(Protocol):
    """What the tuner needs of a search."""

    def ask(self) -> Point:
        """The next point to try."""

    def explore(self) -> Point:
        """A point that owes nothing to what was told, for when `ask` has nothing new."""

    def tell(self, point: Point, value: float) -> None:
        """The objective (smaller is better) of a point."""


class SurrogateSearch:
    """A Gaussian process over the cube: told points first, then a low-discrepancy fill, then the surrogate.

    scikit-optimize's ask/tell with expected improvement. A non-finite value is told as the worst finite one
    so far (skopt refuses it). Linear algebra runs on one thread, so that one machine gives the same points
    whatever its settings.
    """

    def __init__(self, *, told_first: int, fill: int, k_max: int, seed: int) -> None:
        """Set up the search.

        Args:
            told_first: points that will be told before the first is asked for.
            fill: points of the additive golden-ratio sequence asked before the surrogate starts.
            k_max: largest k; 0 leaves k out of the search.
            seed: of the fill's offset and of the surrogate.
        """
        started = time.process_time()
        from skopt import Optimizer
        from skopt.space import Integer, Real

        dimensions: list[Any] = [
            Real(0.0, 1.0, name=name) for name in ("kv_share", "theta_level", "tau_level")
        ]
        if k_max > 0:
            dimensions.append(Integer(0, k_max, name="k"))
        self._k_max = k_max
        self._seed = seed
        self._fill = _filling(fill, k_max, seed)
        self._explored = fill
        self._filled = 0
        self._values: list[float] = []
        self._optimizer: Any = Optimizer(
            dimensions,
            base_estimator="GP",
            n_initial_points=max(1, told_first + fill),
            acq_func="EI",
            acq_optimizer="lbfgs",
            random_state=draw(seed, _FILL, 99, 0) >> 32,
            acq_optimizer_kwargs={"n_jobs": 1},
        )
        self.cpu_s = time.process_time() - started

    def ask(self) -> Point:
        """The next point to try."""
        if self._filled < len(self._fill):
            self._filled += 1
            return self._fill[self._filled - 1]
        with self._counted():
            return self._point(self._optimizer.ask())

    def explore(self) -> Point:
        """The next point of the fill, had it been longer."""
        self._explored += 1
        return _filling(self._explored, self._k_max, self._seed)[-1]

    def tell(self, point: Point, value: float) -> None:
        """The objective of a point, asked for or not."""
        finite = [v for v in self._values if math.isfinite(v)]
        self._values.append(value)
        if not math.isfinite(value):
            value = max(finite, default=0.0)
        with self._counted():
            self._optimizer.tell(self._row(point), float(value))

    def surrogate_mean(self, points: Sequence[Point]) -> list[float] | None:
        """The surrogate's mean at points, or None before the first fit.

        Args:
            points: shape (n,).
        """
        if not self._optimizer.models:
            return None
        with self._counted():
            rows = self._optimizer.space.transform([self._row(point) for point in points])
            return [float(v) for v in self._optimizer.models[-1].predict(rows)]

    def _row(self, point: Point) -> list[float | int]:
        reals: list[float | int] = [float(x) for x in point[:3]]
        return [*reals, int(point[3])] if self._k_max > 0 else reals

    def _point(self, row: Sequence[Any]) -> Point:
        x0, x1, x2 = (min(max(float(x), 0.0), 1.0) for x in row[:3])
        return (x0, x1, x2, int(row[3]) if self._k_max > 0 else 0)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count CPU seconds, keep BLAS on one thread and skopt's and sklearn's advice off stderr."""
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        started = time.process_time()
        with warnings.catch_warnings(), threadpool_limits(limits=1):
            warnings.simplefilter("ignore")
            yield
        self.cpu_s += time.process_time() - started


class RandomSearch:
    """Uniform points of the cube, each drawn by its own counter."""

    def __init__(self, *, k_max: int, seed: int) -> None:
        self._k_max = k_max
        self._seed = seed
        self._asked = 0

    def ask(self) -> Point:
        """The next point."""
        u = [draw(self._seed, _RANDOM, self._asked, axis) for axis in range(4)]
        self._asked += 1
        return (_unit(u[0]), _unit(u[1]), _unit(u[2]), (u[3] >> 32) * (self._k_max + 1) >> 32)

    def explore(self) -> Point:
        """The next point: all are explorations."""
        return self.ask()

    def tell(self, point: Point, value: float) -> None:
        """Nothing is learnt from it."""


def _filling(count: int, k_max: int, seed: int) -> list[Point]:
    """Points of the four-dimensional golden-ratio sequence, offset by seed.

    Source: M. Roberts, "The unreasonable effectiveness of quasirandom sequences" (2018): steps φ₄⁻¹ … φ₄⁻⁴
    with φ₄⁵ = φ₄ + 1.
    """
    ratio = 1.1673039782614187
    offsets = [_unit(draw(seed, _FILL, axis, 0)) for axis in range(4)]
    points = []
    for i in range(1, count + 1):
        x = [(offsets[axis] + i / ratio ** (axis + 1)) % 1.0 for axis in range(4)]
        points.append((x[0], x[1], x[2], min(int(x[3] * (k_max + 1)), k_max)))
    return points


def _unit(bits: int) -> float:
    return float(np.float64(bits >> 11) * 2.0**-53)
