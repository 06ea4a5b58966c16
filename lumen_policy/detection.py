"""How long a fault goes unnoticed: fixed, health checks that a silent worker misses, or refused connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lumen_policy.clock import seconds_to_ps
from lumen_policy.errors import InputError
from lumen_policy.replay.draws import DETECTION, draw

__all__ = ["Detection", "FixedDetection", "HangDetection", "RefusedDetection"]

_LONGEST_PS = 950_400 * 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedDetection:
    """Every fault is believed after the same delay."""

    delay_s: float

    @property
    def longest_ps(self) -> int:
        """The longest delay."""
        return seconds_to_ps("detection_s", self.delay_s)

    def delays_ps(self, faults: int, seed: int) -> npt.NDArray[np.int64]:
        """Delay of each fault, shape (faults,), picoseconds."""
        return np.full(faults, self.longest_ps, dtype=np.int64)

    def describe(self) -> dict[str, Any]:
        """For results."""
        return {"kind": "fixed", "delay_s": self.delay_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class HangDetection:
    """Health checks: U(0, interval) + (misses - 1)·interval + timeout.

    Attributes:
        interval_s: time between checks; the phase of a fault in it is drawn.
        misses: failed checks in a row until the worker is believed dead.
        timeout_s: how long a check waits for an answer.

    Source: fits the times measured on sglang-router 0.3.2, smg 1.13.0 and vllm-router 0.1.17.
    """

    interval_s: float
    misses: int
    timeout_s: float

    def __post_init__(self) -> None:
        if self.misses < 1:
            raise InputError(f"hang_misses: {self.misses} is not ≥ 1")
        if self.longest_ps > _LONGEST_PS:
            raise InputError(
                f"hang_interval_s: {self.misses} checks every {self.interval_s:g} s notice a fault after more than "
                "11 days, the longest detection"
            )

    @property
    def longest_ps(self) -> int:
        """The longest delay."""
        interval_ps = seconds_to_ps("hang_interval_s", self.interval_s)
        return interval_ps * self.misses + seconds_to_ps("hang_timeout_s", self.timeout_s)

    def delays_ps(self, faults: int, seed: int) -> npt.NDArray[np.int64]:
        """Delay of each fault, shape (faults,), picoseconds; the phase keyed by (seed, fault index)."""
        interval_ps = seconds_to_ps("hang_interval_s", self.interval_s)
        base_ps = self.longest_ps - interval_ps
        phases = [(draw(seed, DETECTION, index, 0) * interval_ps) >> 64 for index in range(faults)]
        return np.array([base_ps + phase for phase in phases], dtype=np.int64)

    def describe(self) -> dict[str, Any]:
        """For results."""
        return {
            "kind": "hang",
            "interval_s": self.interval_s,
            "misses": self.misses,
            "timeout_s": self.timeout_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedDetection:
    """The node of a crashed process or GPU refuses connections at once; silent workers miss health checks.

    Attributes:
        breaker_threshold: refused requests until the gateway sends no more.
        silent: of nodes that crash, hangs and workers that cannot be reached, which refuse nothing.
    """

    breaker_threshold: int
    silent: HangDetection

    @property
    def longest_ps(self) -> int:
        """The longest delay, that of a silent worker."""
        return self.silent.longest_ps

    def delays_ps(self, faults: int, seed: int) -> npt.NDArray[np.int64]:
        """Delay of each fault if its worker is silent, shape (faults,), picoseconds."""
        return self.silent.delays_ps(faults, seed)

    def describe(self) -> dict[str, Any]:
        """For results."""
        return {**self.silent.describe(), "kind": "refused", "breaker_threshold": self.breaker_threshold}


Detection = FixedDetection | HangDetection | RefusedDetection
