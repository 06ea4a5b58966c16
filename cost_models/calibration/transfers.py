"""Links of the measured machine: host memory to device and back, and weights from storage."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cost_models.calibration.device import Device
from cost_models.calibration.microbenchmarks import Point
from cost_models.model_spec import ModelSpec
from cost_models.serving_costs import PAGE_TOKENS

__all__ = ["TransferBench"]

_CHUNK_BYTES = 16 * 2**20


class TransferBench:
    """Measures copies of whole KV pages and reads of a weight file.

    On a CPU "device" memory is host memory, so the copies are memory copies.
    """

    def __init__(
        self, device: Device, model: ModelSpec, tensor_parallel: int, folder: Path, *, quick: bool
    ) -> None:
        """Nothing is allocated yet.

        Args:
            device: where.
            model, tensor_parallel: page size of one GPU.
            folder: where the weight file is written, and removed again.
            quick: smaller files, fewer repetitions.
        """
        self._device, self._folder = device, folder
        token_bytes = model.kv_bytes_per_token * model.kv_copies(tensor_parallel)
        self._page_bytes = PAGE_TOKENS * token_bytes // tensor_parallel
        self._repetitions = 5 if quick else 15
        on_gpu = device.name == "cuda"
        self._largest_bytes = 2**30 if on_gpu else 2**23
        self._file_bytes = (2**29 if quick else 2**32) if on_gpu else 2**23

    def points(self) -> list[Point]:
        """From one page to 1 GB, then the weight file."""
        sizes = []
        pages = 1
        while pages * self._page_bytes <= self._largest_bytes:
            sizes.append(pages * self._page_bytes)
            pages *= 2
        kinds = ("host_to_device", "host_to_device_pages", "device_to_host", "device_to_host_pages")
        points = [Point(kind=kind, counts={"bytes": size}) for kind in kinds for size in sizes]
        return [*points, Point(kind="storage_read", counts={"bytes": self._file_bytes})]

    def seconds(self, point: Point) -> tuple[str, float]:
        """(kind as it was measured, seconds): a storage read without a cold cache is a warm one."""
        if point.kind == "storage_read":
            return self._storage(point.counts["bytes"])
        return point.kind, self._copy(point.kind, point.counts["bytes"])

    def _copy(self, kind: str, size: int) -> float:
        torch = self._device.torch
        host = torch.randint(0, 256, (size,), dtype=torch.uint8)
        if self._device.name == "cuda":
            host = host.pin_memory()
        device = torch.randint(0, 256, (size,), dtype=torch.uint8, device=self._device.name)
        source, target = (host, device) if kind.startswith("host") else (device, host)
        pieces = [(source, target)]
        if kind.endswith("pages"):
            # neighbours in the checkpoint are strangers in the pool
            count = size // self._page_bytes
            order = torch.randperm(count).tolist()
            into = target.view(count, self._page_bytes)
            pieces = [(page, into[order[i]]) for i, page in enumerate(source.view(count, self._page_bytes))]

        def run() -> None:
            for page, place in pieces:
                place.copy_(page, non_blocking=True)

        runs: list[Callable[[], Any]] = [run]
        return self._device.seconds(runs, self._repetitions, graph=False)

    def _storage(self, size: int) -> tuple[str, float]:
        path = self._folder / ".lumen-tune-weights.safetensors"
        try:
            _write_safetensors(path, size)
            times, cold = [], True
            buffer = bytearray(_CHUNK_BYTES)
            for _ in range(3):
                cold = _drop_cache(path) and cold
                started = time.perf_counter()
                with path.open("rb", buffering=0) as file:
                    while file.readinto(buffer):
                        pass
                times.append(time.perf_counter() - started)
        finally:
            path.unlink(missing_ok=True)
        return ("storage_read" if cold else "storage_read_warm"), statistics.median(times)


def _write_safetensors(path: Path, size: int) -> None:
    """A file of one tensor of random bytes: 8 bytes of header length, the header, the data."""
    described = {"weight": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    header = json.dumps(described).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        left = size
        while left > 0:
            left -= file.write(os.urandom(min(left, _CHUNK_BYTES)))
        file.flush()
        os.fsync(file.fileno())


def _drop_cache(path: Path) -> bool:
    """Take the file out of the page cache; False where the system cannot, or its pages stay."""
    if not hasattr(os, "posix_fadvise"):
        return False
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.fstat(file.fileno()).st_size
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
            start = ctypes.c_char.from_buffer(mapped)
            resident = (ctypes.c_ubyte * (-(-size // mmap.PAGESIZE)))()
            failed = ctypes.CDLL(None).mincore(
                ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), resident
            )
            del start
    return not failed and sum(page & 1 for page in resident) < len(resident) / 10
