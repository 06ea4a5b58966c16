"""How long a crash goes unnoticed: fixed, or health checks that a silent worker misses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lumen_policy.clock import seconds_to_ps
from lumen_policy.errors import InputError
from lumen_policy.replay.draws import DETECTION, draw

__all__ = ["Detection", "FixedDetection", "HangDetection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedDetection:
    """Every crash is believed after the same delay."""

    delay_s: float

    @property
    def longest_ps(self) -> int:
        """The longest delay."""
        return seconds_to_ps("detection_s", self.delay_s)

    def delays_ps(self, crashes: int, seed: int) -> npt.NDArray[np.int64]:
        """Delay of each crash, shape (crashes,), picoseconds."""
        return np.full(crashes, self.longest_ps, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class HangDetection:
    """Health checks: U(0, interval) + (misses - 1)·interval + timeout.

    Attributes:
        interval_s: time between checks; the phase of a crash in it is drawn.
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

    @property
    def longest_ps(self) -> int:
        """The longest delay."""
        interval_ps = seconds_to_ps("hang_interval_s", self.interval_s)
        return interval_ps * self.misses + seconds_to_ps("hang_timeout_s", self.timeout_s)

    def delays_ps(self, crashes: int, seed: int) -> npt.NDArray[np.int64]:
        """Delay of each crash, shape (crashes,), picoseconds; the phase keyed by (seed, crash index)."""
        interval_ps = seconds_to_ps("hang_interval_s", self.interval_s)
        base_ps = self.longest_ps - interval_ps
        phases = [(draw(seed, DETECTION, index, 0) * interval_ps) >> 64 for index in range(crashes)]
        return np.array([base_ps + phase for phase in phases], dtype=np.int64)


Detection = FixedDetection | HangDetection
