"""The ways a worker comes back after its crash was detected, each a sum of named parts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from cost_models.errors import CostModelError
from cost_models.hardware import HardwareProfile
from cost_models.iteration import to_ps
from cost_models.model_load import host_to_device_s, storage_read_s
from cost_models.model_spec import ModelSpec
from cost_models.sourced import Sourced, SourcedCurve

__all__ = ["MEMORY_PATHS", "ReloadPart", "ReloadParts", "ReloadPath", "ReloadPhase", "reload_parts"]

_MAX_RELOAD_PS = 2**60


class ReloadPath(StrEnum):
    """Where a restarted worker's weights and engine come from."""

    STORAGE = "storage"
    """A new process reads the weights from storage and initialises its engine."""
    WEIGHT_CACHE = "weight_cache"
    """A new process finds the weights in host memory (page cache or weight cache); engine init as ever."""
    SNAPSHOT = "snapshot"
    """A snapshot of the initialised process is restored from shared storage."""
    STANDBY = "standby"
    """A parked engine on the same GPUs, whose weights another process kept in GPU memory, takes over."""


MEMORY_PATHS = frozenset({ReloadPath.WEIGHT_CACHE, ReloadPath.STANDBY})
"""Paths that need the worker's memory to survive the crash."""


class ReloadPhase(StrEnum):
    """Which stretch of the reload a part belongs to; a draft helps during ``LOAD`` alone."""

    RESTART = "restart"
    DRAFT_LOAD = "draft_load"
    DRAFT_INIT = "draft_init"
    LOAD = "load"
    INIT = "init"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadPart:
    """One part of a reload.

    Attributes:
        name: as printed.
        phase: which stretch it belongs to.
        seconds: exact.
        source: kind and origin of the figure behind it.
    """

    name: str
    phase: ReloadPhase
    seconds: Fraction
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadParts:
    """A worker's way back from detection to rejoin.

    Attributes:
        path: the one taken.
        parts: in the order in which they happen, of phases that do not go back.
    """

    path: ReloadPath
    parts: tuple[ReloadPart, ...]

    def seconds(self, *phases: ReloadPhase) -> Fraction:
        """Sum of the parts of these phases; of all without any."""
        return sum((part.seconds for part in self.parts if not phases or part.phase in phases), Fraction(0))

    @property
    def restart_ps(self) -> int:
        """From detection, or a repair after it, to the start of a load."""
        return to_ps(self.seconds(ReloadPhase.RESTART))

    @property
    def draft_ps(self) -> int:
        """Draft load + draft init, each rounded once; 0 without a draft or where none is loaded."""
        return to_ps(self.seconds(ReloadPhase.DRAFT_LOAD)) + to_ps(self.seconds(ReloadPhase.DRAFT_INIT))

    @property
    def load_ps(self) -> int:
        """Load of the full weights."""
        return to_ps(self.seconds(ReloadPhase.LOAD))

    @property
    def init_ps(self) -> int:
        """What follows the load: engine init, the rest of a snapshot, or the switch to the standby."""
        return to_ps(self.seconds(ReloadPhase.INIT))


def reload_parts(
    *,
    model: ModelSpec,
    draft: ModelSpec | None,
    hardware: HardwareProfile,
    tensor_parallel: int,
    path: ReloadPath | str,
    host_memory_survives: bool,
) -> ReloadParts:
    """The parts of a reload; a repair, or a spare taking over, is the caller's to add before them.

    storage: process restart · [draft: storage read + copy, init] · storage read + copy · engine init.
    weight_cache: the same without the storage reads.
    snapshot: [draft: its snapshot] · weight bytes / snapshot_bytes_per_s · snapshot_base.
    standby: standby_switch; no draft is loaded, since there is nothing to bridge.

    Args:
        model: the served model.
        draft: the draft that helps while the model loads, or None.
        hardware: the profile of the GPUs.
        tensor_parallel: GPUs of the worker.
        path: which way, a ``ReloadPath`` or its name.
        host_memory_survives: whether the worker's node and GPUs kept their memory: true after a crash, hang or
            stop of the process alone, false after one of a GPU or node.

    Raises:
        CostModelError: unknown path, a path that needs memory that is gone, TP that does not fit, or a reload too
            long for 64-bit picoseconds.

    Valid for: snapshots of one GPU (published for those alone; more GPUs restore over one shared storage).
    Ignores: overlap of reading, copying and init; memory that a standby or a cache takes.
    """
    model.check_tensor_parallel(tensor_parallel)
    if draft is not None:
        draft.check_tensor_parallel(tensor_parallel)
    taken = _possible(path, host_memory_survives)
    parts: list[ReloadPart] = []
    if taken is ReloadPath.STANDBY:
        switch = hardware.standby_switch_s
        parts.append(_part("switch to the standby", ReloadPhase.INIT, switch.exact(), _origin(switch)))
    elif taken is ReloadPath.SNAPSHOT:
        if draft is not None:
            parts += _snapshot(draft, hardware, "draft ", ReloadPhase.DRAFT_LOAD, ReloadPhase.DRAFT_INIT)
        parts += _snapshot(model, hardware, "", ReloadPhase.LOAD, ReloadPhase.INIT)
    else:
        restart = hardware.process_restart_s
        parts.append(_part("process restart", ReloadPhase.RESTART, restart.exact(), _origin(restart)))
        cold = taken is ReloadPath.STORAGE
        for loaded, prefix, load, init, init_s in (
            (draft, "draft ", ReloadPhase.DRAFT_LOAD, ReloadPhase.DRAFT_INIT, hardware.draft_init_s),
            (model, "", ReloadPhase.LOAD, ReloadPhase.INIT, hardware.engine_init_s),
        ):
            if loaded is not None:
                parts += _weights(loaded, hardware, tensor_parallel, prefix, load, cold=cold)
                parts.append(_part(f"{prefix}engine init", init, init_s.exact(), _origin(init_s)))
    found = ReloadParts(path=taken, parts=tuple(parts))
    if to_ps(found.seconds()) >= _MAX_RELOAD_PS:
        raise CostModelError(
            f"reload path {taken.value} would take {float(found.seconds()):.3g} s, allowed: "
            f"< {_MAX_RELOAD_PS / 1e12:.3g} s; are the bandwidths in byte/s?"
        )
    return found


def _possible(name: ReloadPath | str, memory_survives: bool) -> ReloadPath:
    try:
        path = ReloadPath(name)
    except ValueError:
        raise CostModelError(f"reload path is {str(name)!r}, allowed: {', '.join(ReloadPath)}") from None
    if not memory_survives and path in MEMORY_PATHS:
        allowed = ", ".join(other for other in ReloadPath if other not in MEMORY_PATHS)
        raise CostModelError(
            f"reload path is {path.value!r}, which needs memory that a crash of GPU or node clears, "
            f"allowed after one: {allowed}"
        )
    return path


def _weights(
    model: ModelSpec,
    hardware: HardwareProfile,
    tensor_parallel: int,
    prefix: str,
    phase: ReloadPhase,
    *,
    cold: bool,
) -> list[ReloadPart]:
    parts = []
    if cold:
        read = storage_read_s(model, hardware)
        parts.append(_part(f"{prefix}storage to host", phase, read, _origin(hardware.storage_bytes_per_s)))
    copy = host_to_device_s(model, hardware, tensor_parallel)
    parts.append(_part(f"{prefix}host to device", phase, copy, _origin(hardware.host_link)))
    return parts


def _snapshot(
    model: ModelSpec, hardware: HardwareProfile, prefix: str, load: ReloadPhase, init: ReloadPhase
) -> list[ReloadPart]:
    memory = model.weight_bytes / hardware.snapshot_bytes_per_s.exact()
    base = hardware.snapshot_base_s
    return [
        _part(f"{prefix}snapshot memory", load, memory, _origin(hardware.snapshot_bytes_per_s)),
        _part(f"{prefix}snapshot process", init, base.exact(), _origin(base)),
    ]


def _part(name: str, phase: ReloadPhase, seconds: Fraction, source: str) -> ReloadPart:
    return ReloadPart(name=name, phase=phase, seconds=seconds, source=source)


def _origin(figure: Sourced | SourcedCurve) -> str:
    return f"{figure.kind}: {figure.source}"
