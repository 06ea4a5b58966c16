"""How long a worker takes to come back: process, weights, engine."""

from __future__ import annotations

from fractions import Fraction

from cost_models.hardware import HardwareProfile
from cost_models.model_spec import ModelSpec

__all__ = ["host_to_device_s", "storage_read_s", "weight_load_s"]


def storage_read_s(model: ModelSpec, hardware: HardwareProfile) -> Fraction:
    """weight bytes / storage_bytes_per_s: the worker reads each weight once."""
    return model.weight_bytes / hardware.storage_bytes_per_s.exact()


def host_to_device_s(model: ModelSpec, hardware: HardwareProfile, tensor_parallel: int) -> Fraction:
    """host_link(resident weight bytes / TP): one transfer a GPU, all links at once."""
    return hardware.host_link.seconds(Fraction(model.resident_weight_bytes(tensor_parallel), tensor_parallel))


def weight_load_s(model: ModelSpec, hardware: HardwareProfile, tensor_parallel: int) -> Fraction:
    """Storage read, then copy to the devices: the two are not overlapped.

    Ignores: page cache; a loader that overlaps reading and copying needs a higher storage_bytes_per_s.
    """
    return storage_read_s(model, hardware) + host_to_device_s(model, hardware, tensor_parallel)
