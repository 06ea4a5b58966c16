"""Figures that cannot be written down without a unit and an origin."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Literal

import msgspec

from cost_models.errors import CostModelError

__all__ = ["Kind", "Sourced", "SourcedByTp", "SourcedCurve", "exact"]

Kind = Literal["measured", "published", "assumed"]
"""Where a figure comes from: measured here, read in a source, or assumed for a stated reason."""


def exact(value: float) -> Fraction:
    """The decimal number as it is written, e.g. 0.1 becomes 1/10 and not the nearest binary fraction."""
    return Fraction(repr(value))


class Sourced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One figure.

    Attributes:
        value: finite number in ``unit``.
        unit: as text, e.g. "byte/s".
        kind: ``measured`` (``source`` names device, driver, library, date, residuals), ``published`` or
            ``assumed``.
        source: the paper, data sheet or measurement, or the reason of an assumption; never empty.
    """

    value: float
    unit: str
    kind: Kind
    source: str

    def __post_init__(self) -> None:
        _check(self.source, [self.value])

    def exact(self) -> Fraction:
        """The value as a rational number."""
        return exact(self.value)


class SourcedByTp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One figure for each tensor-parallel degree.

    Attributes:
        values: degree (as text, JSON has no other keys) to value.
        unit, kind, source: see ``Sourced``.
    """

    values: dict[str, float]
    unit: str
    kind: Kind
    source: str

    def __post_init__(self) -> None:
        if not self.values:
            raise CostModelError("values: empty, at least one tensor-parallel degree is needed")
        for degree in self.values:
            if not degree.isdecimal() or int(degree) < 1:
                raise CostModelError(f'values: key {degree!r} is not a tensor-parallel degree, e.g. "2"')
        _check(self.source, list(self.values.values()))

    def at(self, tensor_parallel: int) -> Fraction:
        """The value at a degree; between the given ones that of the next smaller, below the first."""
        degrees = sorted(int(degree) for degree in self.values)
        chosen = max((d for d in degrees if d <= tensor_parallel), default=degrees[0])
        return exact(self.values[str(chosen)])


class SourcedCurve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bandwidth of a link over the size of a transfer.

    Attributes:
        latency_s: time of an empty transfer, seconds.
        points: (transfer bytes, byte/s over the whole transfer), sizes increasing.
        unit, kind, source: see ``Sourced``; the unit is that of the bandwidth.
    """

    latency_s: float
    points: list[tuple[float, float]]
    unit: str
    kind: Kind
    source: str

    def __post_init__(self) -> None:
        if not self.points:
            raise CostModelError("points: empty, at least one (bytes, byte/s) pair is needed")
        flat = [number for point in self.points for number in point]
        _check(self.source, [*flat, self.latency_s])
        if self.latency_s < 0 or min(flat) <= 0:
            raise CostModelError("points: sizes and bandwidths must be > 0 and latency_s ≥ 0")
        knots = self.knots()
        for (bytes_a, s_a), (bytes_b, s_b) in itertools.pairwise(knots):
            if bytes_b <= bytes_a:
                raise CostModelError("points: transfer sizes must increase")
            if s_b < s_a:
                raise CostModelError(
                    f"points: a transfer of {float(bytes_b):.0f} bytes would take less time than one of "
                    f"{float(bytes_a):.0f} bytes"
                )

    def knots(self) -> list[tuple[Fraction, Fraction]]:
        """(bytes, seconds) of every point, beginning with the empty transfer."""
        pairs = [(exact(size), exact(size) / exact(rate)) for size, rate in self.points]
        return [(Fraction(0), exact(self.latency_s)), *pairs]

    def seconds(self, transfer_bytes: Fraction | int) -> Fraction:
        """Duration of one transfer.

        Linear in bytes between the points, and beyond the last one at the last one's bandwidth.

        Args:
            transfer_bytes: ≥ 0; an empty transfer takes ``latency_s``.
        """
        knots = self.knots()
        size = Fraction(transfer_bytes)
        for (bytes_a, s_a), (bytes_b, s_b) in itertools.pairwise(knots):
            if size <= bytes_b:
                return s_a + (s_b - s_a) * (size - bytes_a) / (bytes_b - bytes_a)
        bytes_last, s_last = knots[-1]
        return s_last + (size - bytes_last) / exact(self.points[-1][1])


def _check(source: str, values: list[float]) -> None:
    if not source.strip():
        raise CostModelError("source: empty, say where the figure comes from")
    for value in values:
        if not math.isfinite(value):
            raise CostModelError(f"value: {value} is not a finite number")
