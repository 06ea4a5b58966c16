"""How a worker comes back: the reload of a process alone, and that of its hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cost_models.hardware import HardwareProfile
from cost_models.model_spec import ModelSpec
from cost_models.reload_paths import ReloadParts, reload_parts
from lumen_policy.clock import seconds_to_ps
from lumen_policy.faults import LONGEST_S, Fault
from lumen_policy.replay.contract import PS_PER_S
from lumen_policy.settings import Settings

__all__ = ["ReloadTimes", "reload_times"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadTimes:
    """The two ways back.

    Attributes:
        process: parts from detection to rejoin where host memory survives.
        hardware: the same after a crash of a GPU or node, without repair or spare.
        repair_ps: until the hardware works again, of a fault that does not state it.
        spare_ps: until a spare has taken over; None without spares.
    """

    process: ReloadParts
    hardware: ReloadParts
    repair_ps: int
    spare_ps: int | None

    def parts(self, fault: Fault) -> ReloadParts:
        """The parts of a fault's reload; those of a process where there is none to do."""
        return self.hardware if fault.scope in ("gpu", "node") else self.process

    def before_ps(self, fault: Fault) -> int:
        """From detection to the process restart: the repair or the spare, whichever is sooner.

        0 for a process, which needs no repair, for what loses nothing, and for a drain, whose work comes before
        its reload.
        """
        if fault.scope not in ("gpu", "node") or fault.kind == "drain":
            return 0
        stated = fault.duration_ps if fault.kind == "crash" else None
        repair_ps = self.repair_ps if stated is None else stated
        return repair_ps if self.spare_ps is None else min(repair_ps, self.spare_ps)

    @property
    def longest_ps(self) -> int:
        """The longest way from detection to rejoin with the draft, of faults that state no repair."""
        hardware = self.before_ps(Fault(time_ps=0, worker=0))
        return max(hardware + _total_ps(self.hardware), _total_ps(self.process))

    def describe(self) -> dict[str, Any]:
        """For results: each way by its parts, seconds, with their sources."""
        return {
            "process": _describe(self.process),
            "hardware": {
                **_describe(self.hardware),
                "repair_s": self.repair_ps / PS_PER_S,
                "spare_s": None if self.spare_ps is None else self.spare_ps / PS_PER_S,
            },
        }


def _describe(parts: ReloadParts) -> dict[str, Any]:
    return {
        "path": parts.path.value,
        "restart_s": parts.restart_ps / PS_PER_S,
        "draft_s": parts.draft_ps / PS_PER_S,
        "load_s": parts.load_ps / PS_PER_S,
        "init_s": parts.init_ps / PS_PER_S,
        "parts": [
            {
                "name": part.name,
                "phase": part.phase.value,
                "seconds": float(part.seconds),
                "source": part.source,
            }
            for part in parts.parts
        ],
    }


def _total_ps(parts: ReloadParts) -> int:
    return parts.restart_ps + parts.draft_ps + parts.load_ps + parts.init_ps


def reload_times(
    settings: Settings, model: ModelSpec, draft: ModelSpec | None, hardware: HardwareProfile
) -> ReloadTimes:
    """The ways back that the settings state.

    Raises:
        CostModelError: a path that needs memory which a crash of hardware clears.
    """

    def parts(path: str, host_memory_survives: bool) -> ReloadParts:
        return reload_parts(
            model=model,
            draft=draft,
            hardware=hardware,
            tensor_parallel=settings.tp,
            path=path,
            host_memory_survives=host_memory_survives,
        )

    return ReloadTimes(
        process=parts(settings.reload_path, True),
        hardware=parts(settings.hardware_reload_path, False),
        repair_ps=seconds_to_ps("repair_s", min(settings.repair_s, LONGEST_S)),
        spare_ps=None if settings.spare_s is None else seconds_to_ps("spare_s", settings.spare_s),
    )
