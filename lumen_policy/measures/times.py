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
    finished = out.status == Status.FINISHED
    index = np.flatnonzero(finished | (out.status == Status.PENDING))
    arrival, first, last = inp.arrival_ps, out.first_ps, out.last_ps
    if index.size < finished.size:
        arrival, first, last, finished = arrival[index], first[index], last[index], finished[index]
    return RequestTimes(
        index=index,
        arrival_ps=arrival,
        first_ps=_known(first, out.end_ps),
        last_ps=_known(last, out.end_ps),
        finished=finished,
    )


def _known(times_ps: IntArray, end_ps: int) -> IntArray:
    """``times_ps`` with the end for NONE; a copy only if there is one."""
    missing = times_ps == NONE
    return np.where(missing, end_ps, times_ps) if missing.any() else times_ps


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
