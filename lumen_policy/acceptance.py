"""How often a drafted token is accepted: the curve, and its tables for a replay."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lumen_policy.errors import InputError

__all__ = ["MAX_SCALE_PASSES", "Acceptance", "AcceptanceCurve", "PositionRates"]

MAX_SCALE_PASSES = 3000
"""Keeps the tables below about 60,000 rows."""

_DIGITS = Context(prec=50)
_SETTLED = Decimal("1e-9")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceCurve:
    """a(s) = final - (final - start)·exp(-s/scale), s = drafted passes of the request in this episode.

    Attributes:
        start, final: acceptance of one drafted token, in [0, 1].
        scale_passes: s₀ ≥ 0; 0 means ``final`` from the first pass.

    The tables come from decimal arithmetic of 50 digits, so they are the same on every machine; their last
    entry is ``final`` itself and stands for every later pass.
    """

    start: float
    final: float
    scale_passes: float

    def __post_init__(self) -> None:
        for field, value in (("acceptance_start", self.start), ("acceptance_final", self.final)):
            if not 0 <= value <= 1:
                raise InputError(f"{field}: {value!r} is not a probability from 0 to 1")
        if not 0 <= self.scale_passes <= MAX_SCALE_PASSES:
            raise InputError(
                f"acceptance_scale_passes: {self.scale_passes!r} is not a number from 0 to {MAX_SCALE_PASSES}"
            )

    def rates(self) -> tuple[Decimal, ...]:
        """a(0), a(1), … up to where it is within 1e-9 of ``final``, then ``final``."""
        return _rates(self.start, self.final, self.scale_passes)

    def thresholds(self) -> npt.NDArray[np.uint64]:
        """Shape (S, 1): floor(a·2⁶⁴), at most 2⁶⁴ - 1; a draft is accepted if its 64-bit draw is below."""
        return np.array([[_threshold(rate)] for rate in self.rates()], dtype=np.uint64)

    def expected_tokens(self, k: int) -> npt.NDArray[np.float64]:
        """Shape (S, k + 1): Σ_{j=0..k'} a(s)^j, tokens expected of a pass with k' drafts, bonus included.

        Source: LUMEN (arXiv 2606.17787) Eq. 3; Leviathan et al. (arXiv 2211.17192) Eq. 1.
        """
        return _expected(self.start, self.final, self.scale_passes, k)

    def describe(self) -> dict[str, Any]:
        """For results."""
        return {"start": self.start, "final": self.final, "scale_passes": self.scale_passes}


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRates:
    """Acceptance by the position of a drafted token in its pass, the same for every pass.

    Attributes:
        rates: of the first, second, … position if all before it were accepted; the last for all later ones.
    """

    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        for value in self.rates:
            if not 0 <= value <= 1:
                raise InputError(f"acceptance_rates: {value!r} is not a probability from 0 to 1")
        if not self.rates:
            raise InputError("acceptance_rates: holds no rate")

    def thresholds(self) -> npt.NDArray[np.uint64]:
        """Shape (1, J): as of ``AcceptanceCurve``."""
        return np.array([[_threshold(Decimal(str(rate))) for rate in self.rates]], dtype=np.uint64)

    def expected_tokens(self, k: int) -> npt.NDArray[np.float64]:
        """Shape (1, k + 1): Σ_{j=0..k'} Π_{i≤j} a_i, tokens expected of a pass with k' drafts, bonus included."""
        total, product = Decimal(1), Decimal(1)
        row = [float(total)]
        for position in range(k):
            rate = Decimal(str(self.rates[min(position, len(self.rates) - 1)]))
            product = _DIGITS.multiply(product, rate)
            total = _DIGITS.add(total, product)
            row.append(float(total))
        return np.array([row], dtype=np.float64)

    def describe(self) -> dict[str, Any]:
        """For results."""
        return {"rates": list(self.rates)}


Acceptance = AcceptanceCurve | PositionRates


def _threshold(rate: Decimal) -> int:
    """floor(rate · 2⁶⁴), at most 2⁶⁴ - 1."""
    return min(int((rate * (1 << 64)).to_integral_value(rounding=ROUND_FLOOR)), 2**64 - 1)


@lru_cache(maxsize=64)
def _rates(start: float, final: float, scale_passes: float) -> tuple[Decimal, ...]:
    first, last, scale = Decimal(str(start)), Decimal(str(final)), Decimal(str(scale_passes))
    rates: list[Decimal] = []
    if scale > 0 and first != last:
        while True:
            passes = _DIGITS.divide(Decimal(len(rates)), scale)
            rest = _DIGITS.multiply(last - first, _DIGITS.exp(-passes))
            if abs(rest) < _SETTLED:
                break
            rates.append(_DIGITS.subtract(last, rest))
    return (*rates, last)


@lru_cache(maxsize=64)
def _expected(start: float, final: float, scale_passes: float, k: int) -> npt.NDArray[np.float64]:
    rows = []
    for rate in _rates(start, final, scale_passes):
        total, power = Decimal(0), Decimal(1)
        row = []
        for _ in range(k + 1):
            total = _DIGITS.add(total, power)
            row.append(float(total))
            power = _DIGITS.multiply(power, rate)
        rows.append(row)
    table = np.array(rows, dtype=np.float64)
    table.flags.writeable = False
    return table
