"""A hardware profile with measurements put into it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cost_models.calibrated import Calibration
from cost_models.errors import CostModelError
from cost_models.hardware import PROFILE_SCHEMA_VERSION, HardwareProfile

__all__ = ["with_calibrations", "write_profile"]


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
