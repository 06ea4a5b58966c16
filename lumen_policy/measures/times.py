"""Arrival, first and last token of the requests of one replay, and how many are in the system."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lumen_policy.errors import ReplayError
from lumen_policy.replay.contract import NONE, IntArray, ReplayInput, ReplayOutput, Status

__all__ = ["RequestTimes", "check_pair", "number_in_system", "request_times"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """Named times of the accepted requests, in arrival order.

    An unfinished request has the replay's end in place of what has not happened: the least its time can be.

    Attributes:
        index: shape (n',), row of the trace.
        arrival_ps, first_ps, last_ps: shape (n',): a, f, l.
        finished: shape (n',), bool.
    """

    index: IntArray
    arrival_ps: IntArray
    first_ps: IntArray
    last_ps: IntArray
    finished: npt.NDArray[np.bool_]


def request_times(inp: ReplayInput, out: ReplayOutput) -> RequestTimes:
    """The named times of every request that was not refused."""
    index = np.flatnonzero((out.status == Status.FINISHED) | (out.status == Status.PENDING))
    first, last = out.first_ps[index], out.last_ps[index]
    return RequestTimes(
        index=index,
        arrival_ps=inp.arrival_ps[index],
        first_ps=np.where(first == NONE, out.end_ps, first),
        last_ps=np.where(last == NONE, out.end_ps, last),
        finished=out.status[index] == Status.FINISHED,
    )


def check_pair(faulty: RequestTimes, fault_free: RequestTimes) -> None:
    """Raises ReplayError if two runs are not of the same trace (other requests were accepted)."""
    if not np.array_equal(faulty.index, fault_free.index):
        raise ReplayError("a faulty run was paired with a fault-free run that accepted other requests")


def number_in_system(times: RequestTimes, at_ps: IntArray) -> IntArray:
    """N(t) = requests with a ≤ t and l > t, waiting and running, at the gateway or a worker.

    Args:
        times: of one replay; unfinished requests never leave.
        at_ps: shape (g,), any order.

    Returns:
        Shape (g,).
    """
    left = np.sort(times.last_ps[times.finished])
    arrived = np.searchsorted(times.arrival_ps, at_ps, side="right")
    return arrived - np.searchsorted(left, at_ps, side="right")
