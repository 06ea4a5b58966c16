"""Keyed uniform draws over whole arrays: the bits of `replay.draws.draw`, vectorised.

Only integer operations and IEEE basic operations (+ − × ÷, exact scaling), each in its own numpy call, so
that every
machine gives the same bits: no libm, no fused multiply-add.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["GAP", "LENGTHS", "RATE", "RESAMPLE", "SHIFT", "THIN", "exponential", "keyed", "uniform"]

GAP = 64
"""Inter-arrival gaps of a generated trace: (stream, request)."""
LENGTHS = 65
"""Lengths of a generated trace: (stream, request)."""
RATE = 66
"""Rate profile of a generated trace: (cycle, block)."""
SHIFT = 67
"""Circular shift of a superposed copy: (0, copy)."""
THIN = 68
"""Which requests of the fractional copy stay: (0, request)."""
RESAMPLE = 69
"""Blocks of a bootstrap: (0, block)."""

UIntArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float64]

_LN2 = 0.6931471805599453
_SQRT_HALF = 0.7071067811865476
_U64 = (1 << 64) - 1


def keyed(seed: int, purpose: int, a: int, count: int) -> UIntArray:
    """``draw(seed, purpose, a, b)`` for b = 0 … count − 1.

    Returns:
        uint64, shape (count,).
    """
    prefix = _mix(np.array([(seed ^ purpose) & _U64], np.uint64))
    prefix = _mix(prefix ^ np.uint64(a))
    return _mix(np.arange(count, dtype=np.uint64) ^ prefix)


def uniform(seed: int, purpose: int, a: int, count: int) -> FloatArray:
    """Uniform draws in (0, 1): the upper 52 bits of `keyed`, at the middle of their cell.

    Returns:
        float64, shape (count,).
    """
    z = (keyed(seed, purpose, a, count) >> np.uint64(12)).astype(np.float64)
    z += 0.5
    z *= 2.0**-52
    return z


def exponential(u: FloatArray) -> FloatArray:
    """−ln(u) for u in (0, 1), from basic operations.

    u = m·2^e with m in [√½, √2); ln m = 2·atanh((m − 1)/(m + 1)) by its series (|z| ≤ 0.172, error < 1e-12).
    """
    m, e = np.frexp(u)
    low = m < _SQRT_HALF
    np.multiply(m, 2.0, out=m, where=low)
    e = e - low
    z = m - 1.0
    m += 1.0
    z /= m
    square = z * z
    series = np.full_like(z, 1.0 / 13.0)
    for odd in (11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        series *= square
        series += 1.0 / odd
    series *= z
    series *= -2.0
    series -= e * _LN2
    return series


def _mix(z: UIntArray) -> UIntArray:
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z
