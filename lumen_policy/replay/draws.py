"""Counter-based random draws: each is a hash of what it is for, so no draw ever moves another."""

from __future__ import annotations

__all__ = ["ACCEPTANCE", "DETECTION", "RESTORE", "ROUTER", "SCENARIO", "draw"]

ACCEPTANCE = 1
"""Draft acceptance: (request, output index of the drafted token, 0-based)."""
ROUTER = 2
"""Power of two choices: (request, 0 or 1)."""
DETECTION = 3
"""Phase of the health check in `hang` detection: (crash index, 0)."""
SCENARIO = 4
"""Scenario construction: (scenario, position)."""
RESTORE = 5
"""Whether a restore fails: (request, its interruptions so far)."""

_MASK = (1 << 64) - 1


def _mix(z: int) -> int:
    z = (z + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def draw(seed: int, purpose: int, a: int, b: int) -> int:
    """A uniform 64-bit integer: mix(mix(mix(seed ^ purpose) ^ a) ^ b) with the splitmix64 finaliser.

    Args:
        seed: uint64 key of the replay.
        purpose: one of this module's constants.
        a, b: non-negative counters that say what the draw is for.

    Source: Steele, Lea & Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
    """
    return _mix(_mix(_mix(seed ^ purpose) ^ a) ^ b)
