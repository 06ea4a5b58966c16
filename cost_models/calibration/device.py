"""The device that is measured: torch, its clock, and what a timing's origin says."""

from __future__ import annotations

import datetime
import platform
import re
import statistics
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from cost_models.errors import CostModelError

__all__ = ["Device", "open_device"]

_WARM_UP = 3


class Device:
    """A CUDA device or the CPU.

    Attributes:
        torch: the module; imported by ``open_device`` alone.
        name: ``cuda`` or ``cpu``.
        description: device, driver, library and date, as a profile's source.
        cache_bytes: last-level cache; inputs rotate over more than this.
        memory_bytes: memory of a GPU, None on a CPU.
    """

    def __init__(self, torch: Any, name: str) -> None:
        self.torch = torch
        self.name = name
        date = datetime.date.today().isoformat()
        if name == "cuda":
            properties = torch.cuda.get_device_properties(0)
            self.cache_bytes = int(getattr(properties, "L2_cache_size", 0)) or 64 * 2**20
            self.memory_bytes: int | None = int(properties.total_memory)
            self.description = (
                f"{properties.name}, driver {_driver()}, CUDA {torch.version.cuda}, "
                f"torch {torch.__version__}, {date}"
            )
        else:
            self.cache_bytes = 0
            self.memory_bytes = None
            threads = torch.get_num_threads()
            cpu = f"CPU {platform.machine()}, {threads} threads"
            self.description = f"{cpu}, torch {torch.__version__}, {date}"

    def random(self, *shape: int, dtype: Any) -> Any:
        """Normal numbers of deviation 0.02: never zeros, which compress and save power."""
        return self.torch.randn(*shape, dtype=dtype, device=self.name) * 0.02

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether an error says that memory is full."""
        if isinstance(error, (MemoryError, self.torch.OutOfMemoryError)):
            return True
        return isinstance(error, RuntimeError) and "alloc" in str(error).lower()

    def free(self) -> None:
        """Give cached memory back."""
        if self.name == "cuda":
            self.torch.cuda.empty_cache()

    def seconds(self, runs: Sequence[Callable[[], object]], repetitions: int, *, graph: bool) -> float:
        """Median time of one run.

        Args:
            runs: the same work on different inputs, taken in turn.
            repetitions: timed rounds over all runs.
            graph: on CUDA, capture the round as a graph, so that launches cost what they cost an engine.
        """
        if self.name == "cpu":
            return self._on_cpu(runs, repetitions)
        return self._on_cuda(runs, repetitions, graph=graph)

    def _on_cpu(self, runs: Sequence[Callable[[], object]], repetitions: int) -> float:
        runs[0]()
        times = []
        for _ in range(repetitions):
            for run in runs:
                started = time.perf_counter()
                run()
                times.append(time.perf_counter() - started)
        return statistics.median(times)

    def _on_cuda(self, runs: Sequence[Callable[[], object]], repetitions: int, *, graph: bool) -> float:
        cuda = self.torch.cuda

        def round_() -> None:
            for run in runs:
                run()

        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            for _ in range(_WARM_UP):
                round_()
        cuda.current_stream().wait_stream(stream)
        timed: Callable[[], object] = round_
        if graph:
            captured = cuda.CUDAGraph()
            with cuda.graph(captured):
                round_()
            timed = captured.replay
            timed()
        cuda.synchronize()
        times = []
        for _ in range(repetitions):
            begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            begin.record()
            timed()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3 / len(runs))
        return float(statistics.median(times))


def _driver() -> str:
    try:
        found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", Path("/proc/driver/nvidia/version").read_text())
    except OSError:
        return "unknown"
    return "unknown" if found is None else found.group()


def open_device(name: str) -> Device:
    """The device by name.

    Raises:
        CostModelError: torch is not installed, or there is no CUDA device.
    """
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise CostModelError(
            "torch is not installed, measuring needs it: pip install 'lumen-policy[calibrate]'"
        ) from error
    if name == "cuda" and not torch.cuda.is_available():
        raise CostModelError("no CUDA device here (torch.cuda.is_available() is false), or use --device cpu")
    torch.manual_seed(0)
    return Device(torch, name)
