"""Which workers crash when: the fault timeline of a replay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from lumen_policy.clock import seconds_to_ps
from lumen_policy.errors import InputError
from lumen_policy.replay.contract import PS_PER_S

__all__ = ["Crash", "check_crashes", "parse_crashes"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Crash:
    """One worker lost at one instant, with everything in its GPUs and its checkpoint memory.

    Attributes:
        time_ps: from the trace's first arrival.
        worker: 0-based.
    """

    time_ps: int
    worker: int

    @property
    def time_s(self) -> float:
        """The instant in seconds."""
        return self.time_ps / PS_PER_S


def parse_crashes(texts: Iterable[str]) -> tuple[Crash, ...]:
    """``TIME:WORKERS`` texts as one timeline, ordered by time and worker.

    Args:
        texts: e.g. ``300:2,5`` (workers 2 and 5 at 300 s); several texts form one timeline.

    Raises:
        InputError: not of that form, a negative or non-finite time, the same worker twice at one instant.
    """
    crashes: list[Crash] = []
    for text in texts:
        time_text, separator, workers_text = text.partition(":")
        if not separator or not time_text.strip() or not workers_text.strip():
            raise InputError(f"crash: {text!r} is not TIME:WORKERS, e.g. 300:2,5")
        time_ps = seconds_to_ps(f"crash {text!r}", time_text)
        for worker_text in workers_text.split(","):
            if not worker_text.strip().isdecimal():
                raise InputError(f"crash: {worker_text!r} in {text!r} is not a worker number ≥ 0")
            crashes.append(Crash(time_ps=time_ps, worker=int(worker_text)))
    crashes.sort()
    for before, after in pairwise(crashes):
        if before == after:
            raise InputError(f"crash: worker {after.worker} crashes twice at {after.time_s:g} s")
    return tuple(crashes)


def check_crashes(crashes: tuple[Crash, ...], *, workers: int, span_ps: int) -> None:
    """Refuses crashes of workers that do not exist and crashes after the last arrival."""
    for crash in crashes:
        if crash.worker >= workers:
            raise InputError(
                f"crash: worker {crash.worker} does not exist, the {workers} workers are 0 to {workers - 1}"
            )
        if crash.time_ps > span_ps:
            raise InputError(
                f"crash: {crash.time_s:g} s is after the end of the trace, whose last arrival is at "
                f"{span_ps / PS_PER_S:g} s"
            )
