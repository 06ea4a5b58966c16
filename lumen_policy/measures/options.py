"""The options of the measures, with their defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from lumen_policy.errors import InputError
from lumen_policy.measures.exact import picoseconds
from lumen_policy.replay.contract import FaultTable

__all__ = ["MeasureOptions", "RecoveryOptions", "default_horizon_ps", "longest_reload_ps"]

_SHORTEST_HORIZON_S = 300.0
_AFTER_RELOAD_S = 180.0


def _check(name: str, value: float, *, at_least: float, strict: bool = False) -> None:
    if not math.isfinite(value) or value < at_least or (strict and value == at_least):
        bound = f"{'>' if strict else '≥'} {at_least:g}"
        raise InputError(f"{name}: found {value!r}, allowed is a finite number {bound}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOptions:
    """When a run counts as disturbed and when as recovered.

    Attributes:
        grid_s: distance of the grid points, counted from the first fault.
        window_s: length of the rolling means; a multiple of ``grid_s``.
        min_samples: with fewer samples in either run a grid point counts as in band.
        hold_s: how long the run must stay in band; a multiple of ``grid_s``.
        band_ratio: in band up to this multiple of the fault-free rolling mean …
        ttft_margin_s: … plus this, for TTFT.
        gap_margin_s: … plus this, for token gaps.
        in_system_ratio: requests in the system, in band up to this multiple of the fault-free number …
        in_system_margin_requests: … plus this many.

    Raises:
        InputError: a value out of range, or ``window_s`` or ``hold_s`` not a multiple of ``grid_s``.
    """

    grid_s: float = 1.0
    window_s: float = 60.0
    min_samples: int = 30
    hold_s: float = 60.0
    band_ratio: float = 1.2
    ttft_margin_s: float = 0.1
    gap_margin_s: float = 0.005
    in_system_ratio: float = 1.1
    in_system_margin_requests: float = 2.0

    def __post_init__(self) -> None:
        _check("recovery_grid_s", self.grid_s, at_least=1e-6)
        _check("recovery_window_s", self.window_s, at_least=0, strict=True)
        _check("recovery_min_samples", self.min_samples, at_least=1)
        _check("recovery_hold_s", self.hold_s, at_least=0)
        _check("recovery_band_ratio", self.band_ratio, at_least=1)
        _check("recovery_ttft_margin_s", self.ttft_margin_s, at_least=0)
        _check("recovery_gap_margin_s", self.gap_margin_s, at_least=0)
        _check("in_system_ratio", self.in_system_ratio, at_least=1)
        _check("in_system_margin_requests", self.in_system_margin_requests, at_least=0)
        for name, value in (("recovery_window_s", self.window_s), ("recovery_hold_s", self.hold_s)):
            if picoseconds(value) % picoseconds(self.grid_s):
                raise InputError(f"{name}: found {value!r}, allowed is a multiple of {self.grid_s:g} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """Options of all measures of one replay.

    Attributes:
        horizon_s: H, the length of the window after each fault; None = ``default_horizon_ps``. Give it when
            several replays are compared: it has to be the same for all of them.
        slo_ttft_s: the TTFT a request has to meet; None = no such objective.
        slo_tpot_s: the TPOT a request has to meet (a single output token has none); None = no such objective.
        recovery: the recovery definition.

    Raises:
        InputError: a value that is not a finite number > 0.
    """

    horizon_s: float | None = None
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None
    recovery: RecoveryOptions = field(default_factory=RecoveryOptions)

    def __post_init__(self) -> None:
        for name in ("horizon_s", "slo_ttft_s", "slo_tpot_s"):
            value = getattr(self, name)
            if value is not None:
                _check(name, value, at_least=0, strict=True)
        if self.horizon_s is not None and picoseconds(self.horizon_s) == 0:
            raise InputError(f"horizon_s: found {self.horizon_s!r}, which is less than a picosecond")


def default_horizon_ps(longest_reload_ps: int) -> int:
    """H = max(300 s, longest reload + 180 s).

    Args:
        longest_reload_ps: from a fault to the rejoin, the draft's load and init included.
    """
    return max(picoseconds(_SHORTEST_HORIZON_S), longest_reload_ps + picoseconds(_AFTER_RELOAD_S))


def longest_reload_ps(faults: FaultTable) -> int:
    """The longest reload of a replay's faults, from a fault to the rejoin.

    detection + restart (repair, or a spare) + full load + engine init, with the draft's load and init where the
    cluster has a draft, whatever the policy's k: H depends on the cluster and its faults alone.
    """
    reload_ps = faults.delay_ps + faults.restart_ps + faults.draft_ps + faults.load_ps + faults.init_ps
    return int(reload_ps.max(initial=0))
