"""How long weights take: out of storage, and into the GPUs."""

from __future__ import annotations

from fractions import Fraction

from cost_models.hardware import HardwareProfile
from cost_models.model_spec import ModelSpec

__all__ = ["host_to_device_s", "storage_read_s"]


def storage_read_s(model: ModelSpec, hardware: HardwareProfile) -> Fraction:
    """weight bytes / storage_bytes_per_s: the worker reads each weight once."""
    return model.weight_bytes / hardware.storage_bytes_per_s.exact()


def host_to_device_s(model: ModelSpec, hardware: HardwareProfile, tensor_parallel: int) -> Fraction:
    """host_link(resident weight bytes / TP): one transfer a GPU, all links at once."""
    return hardware.host_link.seconds(Fraction(model.resident_weight_bytes(tensor_parallel), tensor_parallel))
