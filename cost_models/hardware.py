"""A worker's hardware as a versioned JSON file: every value with its unit and origin."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import msgspec

from cost_models.calibrated import Calibration
from cost_models.errors import CostModelError
from cost_models.model_spec import ModelSpec
from cost_models.recovery_figures import (
    NIC_BYTES_PER_S,
    NIC_LATENCY_S,
    NICS_PER_GPU,
    SNAPSHOT_BASE_S,
    SNAPSHOT_BYTES_PER_S,
    STANDBY_SWITCH_S,
    STORE_BYTES_PER_S,
    STORE_LATENCY_S,
)
from cost_models.sourced import Sourced, SourcedByTp, SourcedCurve

__all__ = [
    "BUILT_IN_PROFILES",
    "PROFILE_SCHEMA_VERSION",
    "HardwareProfile",
    "decode_hardware",
    "load_hardware",
]

PROFILE_SCHEMA_VERSION = 3
"""Written by this release; versions 1 and 2, which lack the fields of ``_FIRST_VERSION``, are read as well."""

_READABLE_VERSIONS = (1, 2, 3)
_FIRST_VERSION = {
    "calibrations": 2,
    "residual_scale": 2,
    "device_to_host": 3,
    "snapshot_base_s": 3,
    "snapshot_bytes_per_s": 3,
    "standby_switch_s": 3,
    "nics_per_gpu": 3,
    "nic_latency_s": 3,
    "nic_bytes_per_s": 3,
    "store_latency_s": 3,
    "store_bytes_per_s": 3,
}
"""Optional field to the version that brought it."""

BUILT_IN_PROFILES = ("a100-80g", "h100-sxm", "h200-sxm")
"""The profiles that can be named without a file."""

_MAX_BYTES_PER_S = 1e14
_MAX_FLOP_PER_S = 1e18
_MAX_BYTES = 1e15
_MAX_SECONDS = 1e5

# Unit of each field and its range: allowed are values > lowest (≥ where zero is sensible) and ≤ highest.
_RATE = ("byte/s", _MAX_BYTES_PER_S, False)
_TIME = ("s", _MAX_SECONDS, True)
_SHARE = ("1", 1.0, False)
_SIZE = ("byte", _MAX_BYTES, False)
_FIELD_RULES: dict[str, tuple[str, float, bool]] = {
    "hbm_bytes": _SIZE,
    "hbm_bytes_per_s": _RATE,
    "peak_flop_per_s": ("FLOP/s", _MAX_FLOP_PER_S, False),
    "linear_mfu": _SHARE,
    "large_step_tokens": ("token", 1e9, False),
    "large_step_mfu": _SHARE,
    "attention_mfu": _SHARE,
    "weight_hbm_share": _SHARE,
    "kv_hbm_share": _SHARE,
    "iteration_overhead_s": _TIME,
    "layer_overhead_s": _TIME,
    "row_overhead_s": _TIME,
    "sequence_overhead_s": _TIME,
    "draft_step_overhead_s": _TIME,
    "verify_context_ratio": ("1", 100.0, False),
    "memory_share": _SHARE,
    "activation_reserve_bytes": ("byte", _MAX_BYTES, True),
    "all_reduce_latency_s": _TIME,
    "all_reduce_bytes_per_s": _RATE,
    "host_link": _RATE,
    "draft_round_trip_s": _TIME,
    "storage_bytes_per_s": _RATE,
    "process_restart_s": _TIME,
    "engine_init_s": _TIME,
    "draft_init_s": _TIME,
    "residual_scale": ("1", 100.0, False),
    "device_to_host": _RATE,
    "snapshot_base_s": _TIME,
    "snapshot_bytes_per_s": _RATE,
    "standby_switch_s": _TIME,
    "nics_per_gpu": ("1", 100.0, False),
    "nic_latency_s": _TIME,
    "nic_bytes_per_s": _RATE,
    "store_latency_s": _TIME,
    "store_bytes_per_s": _RATE,
}


class HardwareProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of GPU, its node, and the engine's habits on it. Peak and efficiency stand apart.

    A rate that a cost uses is peak × efficiency, e.g. ``peak_flop_per_s · linear_mfu``. Where a calibration
    holds for the model's shape and TP, its terms are the iteration's costs and win over those products;
    memory, links and reload always come from the figures here.

    Attributes:
        schema_version: 1, 2 (with calibrations, residual_scale) or 3 (with the fields after them).
        name, description: as printed.
        hbm_bytes: memory of one GPU.
        hbm_bytes_per_s: peak memory bandwidth of one GPU.
        peak_flop_per_s: peak dense 16-bit matrix rate of one GPU.
        linear_mfu: reached share of that peak in linear layers, by TP.
        large_step_tokens: tokens of an iteration up to which linear_mfu holds.
        large_step_mfu: reached share for the tokens beyond them, by TP.
        attention_mfu: reached share of the peak in prefill attention.
        weight_hbm_share: reached share of the memory bandwidth when weights are read, by TP.
        kv_hbm_share: the same when decode attention reads the KV cache.
        iteration_overhead_s: host time of an iteration of the served model.
        layer_overhead_s: launch time that is not hidden, per layer and iteration, by TP.
        row_overhead_s: host time per sampled row: input preparation, sampling, output processing.
        sequence_overhead_s: host time per decoding sequence: scheduling.
        draft_step_overhead_s: takes the place of the three host times in the draft's iterations.
        verify_context_ratio: c_v, KV reads of a verify pass relative to a plain decode.
        memory_share: part of the memory an engine may fill.
        activation_reserve_bytes: activations, graphs and communication buffers of one GPU.
        all_reduce_latency_s: of one all-reduce of no bytes, by TP.
        all_reduce_bytes_per_s: tensor bytes per second of one all-reduce, by TP.
        host_link: host to device, one GPU.
        draft_round_trip_s: token ids between drafter and target, both ways, per drafted pass.
        storage_bytes_per_s: weights from storage into host memory, whole worker.
        process_restart_s: from detection to a process that begins to load.
        engine_init_s: profiling, warm-up and graph capture of the served model.
        draft_init_s: the same of the draft.
        calibrations: measured iterations, at most one for a model's shape and TP.
        residual_scale: factor on every iteration of the served model, from a server's own log; None = 1.
        device_to_host: device to host, one GPU; None = as host_link.
        snapshot_base_s: process snapshot: what restoring one takes beside its bytes.
        snapshot_bytes_per_s: weights out of a process snapshot, whole worker.
        standby_switch_s: a standby engine takes over.
        nics_per_gpu: network interfaces for each GPU of the worker.
        nic_latency_s: of one transfer over the network.
        nic_bytes_per_s: of one network interface, one way.
        store_latency_s: of one transfer into or out of the checkpoint store.
        store_bytes_per_s: of the store, one way, shared by all workers.

    A profile without one of the last eight gets the value of ``cost_models.recovery_figures``.
    """

    schema_version: int
    name: str
    description: str
    hbm_bytes: Sourced
    hbm_bytes_per_s: Sourced
    peak_flop_per_s: Sourced
    linear_mfu: SourcedByTp
    large_step_tokens: Sourced
    large_step_mfu: SourcedByTp
    attention_mfu: Sourced
    weight_hbm_share: SourcedByTp
    kv_hbm_share: Sourced
    iteration_overhead_s: Sourced
    layer_overhead_s: SourcedByTp
    row_overhead_s: Sourced
    sequence_overhead_s: Sourced
    draft_step_overhead_s: Sourced
    verify_context_ratio: Sourced
    memory_share: Sourced
    activation_reserve_bytes: Sourced
    all_reduce_latency_s: SourcedByTp
    all_reduce_bytes_per_s: SourcedByTp
    host_link: SourcedCurve
    draft_round_trip_s: Sourced
    storage_bytes_per_s: Sourced
    process_restart_s: Sourced
    engine_init_s: Sourced
    draft_init_s: Sourced
    calibrations: tuple[Calibration, ...] = ()
    residual_scale: Sourced | None = None
    device_to_host: SourcedCurve | None = None
    snapshot_base_s: Sourced = SNAPSHOT_BASE_S
    snapshot_bytes_per_s: Sourced = SNAPSHOT_BYTES_PER_S
    standby_switch_s: Sourced = STANDBY_SWITCH_S
    nics_per_gpu: Sourced = NICS_PER_GPU
    nic_latency_s: Sourced = NIC_LATENCY_S
    nic_bytes_per_s: Sourced = NIC_BYTES_PER_S
    store_latency_s: Sourced = STORE_LATENCY_S
    store_bytes_per_s: Sourced = STORE_BYTES_PER_S

    def calibration(self, model: ModelSpec, tensor_parallel: int) -> Calibration | None:
        """The calibration that holds for a model at a TP, or None."""
        return next((c for c in self.calibrations if c.holds_for(model, tensor_parallel)), None)

    def unused_calibrations(self, model: ModelSpec, tensor_parallel: int) -> str | None:
        """A line that says so where there are calibrations and none holds for a model at a TP, else None."""
        if not self.calibrations or self.calibration(model, tensor_parallel) is not None:
            return None
        held = ", ".join(f"{item.model} at TP {item.tensor_parallel}" for item in self.calibrations)
        return (
            f"profile {self.name} is calibrated for {held}, not for {model.name} at TP {tensor_parallel}: "
            f"peak and efficiency are used"
        )

    def __post_init__(self) -> None:
        held = [(c.shape, c.tensor_parallel) for c in self.calibrations]
        for position, calibration in enumerate(self.calibrations):
            if held.index(held[position]) < position:
                raise CostModelError(
                    f"calibrations: two for {calibration.model} at TP {calibration.tensor_parallel}, "
                    f"allowed: one"
                )
        for link in ("host_link", "device_to_host"):
            curve: SourcedCurve | None = getattr(self, link)
            if curve is not None and curve.latency_s > _MAX_SECONDS:
                raise CostModelError(
                    f"{link}: latency_s is {curve.latency_s:g}, allowed: ≤ {_MAX_SECONDS:g} s"
                )
        for field, (unit, highest, zero_allowed) in _FIELD_RULES.items():
            figure = getattr(self, field)
            if figure is None:
                continue
            if figure.unit != unit:
                raise CostModelError(f"{field}: unit is {figure.unit!r}, allowed: {unit!r}")
            for value in _values(figure):
                if value < 0 or value > highest or (value == 0 and not zero_allowed):
                    bound = "≥ 0" if zero_allowed else "> 0"
                    raise CostModelError(
                        f"{field}: value is {value:g} {unit}, allowed: {bound} and ≤ {highest:g} {unit}"
                    )


def _values(figure: Sourced | SourcedByTp | SourcedCurve) -> list[float]:
    if isinstance(figure, Sourced):
        return [figure.value]
    if isinstance(figure, SourcedByTp):
        return list(figure.values.values())
    return [rate for _, rate in figure.points]


class _Version(msgspec.Struct):
    schema_version: int


def load_hardware(name_or_path: str) -> HardwareProfile:
    """A shipped profile by name, or a profile from a JSON file.

    Args:
        name_or_path: one of ``BUILT_IN_PROFILES``, or a path that exists or ends in ``.json``.

    Raises:
        CostModelError: unknown name, unreadable file, another schema version, unknown or missing key, or a
            value out of range.
    """
    if name_or_path in BUILT_IN_PROFILES:
        text = resources.files("cost_models").joinpath(f"profiles/{name_or_path}.json").read_bytes()
        return decode_hardware(text, name_or_path)
    path = Path(name_or_path)
    if path.suffix != ".json" and not path.is_file():
        known = ", ".join(BUILT_IN_PROFILES)
        raise CostModelError(
            f"unknown hardware profile {name_or_path!r}, known: {known}, or a path to a .json file"
        )
    try:
        text = path.read_bytes()
    except OSError as error:
        raise CostModelError(f"{path}: cannot be read: {error.strerror}") from error
    return decode_hardware(text, str(path))


def decode_hardware(text: bytes, origin: str) -> HardwareProfile:
    """A profile from JSON text; ``origin`` names it in errors."""
    try:
        version = msgspec.json.decode(text, type=_Version).schema_version
        if version not in _READABLE_VERSIONS:
            readable = ", ".join(str(known) for known in _READABLE_VERSIONS)
            raise CostModelError(f"schema_version is {version}, this release reads {readable}")
        given = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        for field, first in _FIRST_VERSION.items():
            if version < first and field in given:
                raise CostModelError(f"{field} needs schema_version {first}, this file has {version}")
        return msgspec.json.decode(text, type=HardwareProfile)
    except (msgspec.DecodeError, UnicodeDecodeError, CostModelError) as error:
        raise CostModelError(f"hardware profile {origin}: {error}") from error
