"""A hardware profile with measurements put into it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl

from cost_models.calibrated import Calibration
from cost_models.calibration.measured import copy_curve, storage_rate, verify_context_ratio
from cost_models.calibration.samples import of_kind
from cost_models.errors import CostModelError
from cost_models.hardware import PROFILE_SCHEMA_VERSION, HardwareProfile
from cost_models.sourced import Sourced

__all__ = ["measured_profile", "renamed", "with_calibrations", "write_profile"]


def with_calibrations(
    base: HardwareProfile, calibrations: list[Calibration], **figures: object
) -> HardwareProfile:
    """The base profile with calibrations added; one of the same model and TP is replaced.

    Args:
        base: gives everything that was not measured.
        calibrations: fitted models.
        **figures: other fields of the profile that were measured.
    """
    added = {(item.shape, item.tensor_parallel) for item in calibrations}
    kept = [item for item in base.calibrations if (item.shape, item.tensor_parallel) not in added]
    profile: HardwareProfile = msgspec.structs.replace(
        base,
        schema_version=PROFILE_SCHEMA_VERSION,
        calibrations=(*kept, *calibrations),
        **figures,
    )
    return profile


def renamed(profile: HardwareProfile, base: HardwareProfile, path: str) -> HardwareProfile:
    """The profile under its file's name, with what it was made from in its description."""
    changed: HardwareProfile = msgspec.structs.replace(
        profile,
        name=Path(path).stem,
        description=f"calibrated; the rest from {base.name}: {base.description}",
    )
    return changed


def write_profile(profile: HardwareProfile, path: str) -> None:
    """JSON with sorted keys.

    Raises:
        CostModelError: the file cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(profile, order="sorted"), indent=2) + b"\n"
    try:
        Path(path).write_bytes(text)
    except OSError as error:
        raise CostModelError(f"{path}: cannot be written: {error.strerror}") from error


def measured_profile(
    base: HardwareProfile,
    samples: pl.DataFrame,
    calibrations: list[Calibration],
    source: str,
    memory_bytes: int | None,
    notes: list[str],
) -> HardwareProfile:
    """The base profile with everything that samples of one machine tell.

    Args:
        base: gives what was not measured.
        samples: checked rows of the machine.
        calibrations: the served model first.
        source: device, driver, library and date.
        memory_bytes: memory of the GPU, None where there is none.
        notes: gets a line for each figure that stays the base's.
    """
    figures: dict[str, object] = {}
    link = copy_curve(samples, source, "host_to_device_pages")
    if link is not None:
        figures["host_link"] = link
    back = copy_curve(samples, source, "device_to_host_pages")
    if back is not None:
        figures["device_to_host"] = back
    storage = storage_rate(samples, source)
    if storage is not None:
        figures["storage_bytes_per_s"] = storage
    elif len(of_kind(samples, "storage_read_warm")):
        notes.append(f"storage: the page cache could not be dropped, so only warm reads; {base.name}'s kept")
    ratio = verify_context_ratio(samples, calibrations[0], source)
    if ratio is not None:
        figures["verify_context_ratio"] = ratio
    if memory_bytes is not None:
        figures["hbm_bytes"] = Sourced(value=float(memory_bytes), unit="byte", kind="measured", source=source)
    kept = "process restart, engine init" + ("" if storage is not None else ", storage")
    notes.append(f"not measured, from {base.name}: {kept}, network, tensor-parallel communication")
    return with_calibrations(base, calibrations, **figures)
