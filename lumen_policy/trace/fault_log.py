"""Fault logs: who failed when and for how long, inspected like a request trace.

A JSON list of events, two a fault: ``{"node_id", "event_time" (days), "event_type": "fault_start" |
"fault_end", "fault_type": {"Level", "Class", "Desc"}}``. An end is paired with the oldest open start of the
same node and type.

Source: github.com/stepfun-ai/InfiniteHBD-Trace (Apache-2.0); Shou et al., arXiv 2502.03885.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.source import TraceFile

__all__ = ["Fault", "fault_figures", "is_fault_log", "read_fault_log"]


class _Event(msgspec.Struct):
    node_id: str
    event_time: float
    event_type: Literal["fault_start", "fault_end"]
    fault_type: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of one node; repair_days is None where the log does not hold its end."""

    node: str
    start_days: float
    repair_days: float | None


def is_fault_log(file: TraceFile) -> bool:
    """Whether the content looks like a list of fault events."""
    return file.head.lstrip().startswith(b"[") and b'"event_type"' in file.head and b"fault_" in file.head


def read_fault_log(file: TraceFile) -> list[Fault]:
    """Faults in order of their start.

    Raises:
        InputError: not such a list, a time that is not a finite number, or an end without a start.
    """
    try:
        events = msgspec.json.decode(file.all(), type=list[_Event])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file.path}: not a readable fault log: {error}") from error
    open_faults: dict[tuple[str, bytes], deque[int]] = defaultdict(deque)
    starts: list[tuple[str, float]] = []
    repairs: dict[int, float] = {}
    for _, event in sorted(enumerate(events), key=lambda item: (item[1].event_time, item[0])):
        key = (event.node_id, msgspec.json.encode(event.fault_type, order="sorted"))
        if event.event_type == "fault_start":
            open_faults[key].append(len(starts))
            starts.append((event.node_id, event.event_time))
        elif open_faults[key]:
            index = open_faults[key].popleft()
            repairs[index] = event.event_time - starts[index][1]
        else:
            raise InputError(
                f"{file.path}: fault_end of node {event.node_id} on day {event.event_time:g} without a start"
            )
    return [
        Fault(node=node, start_days=start, repair_days=repairs.get(i))
        for i, (node, start) in enumerate(starts)
    ]


def fault_figures(faults: list[Fault], nodes: int | None = None, days: float | None = None) -> dict[str, Any]:
    """Counts, rate and repair times.

    Args:
        faults: from `read_fault_log`.
        nodes: nodes watched; a log names only those that failed, so without it no rate is given.
        days: length of the watch; default from the first to the last start.
    """
    if not faults:
        raise InputError("the fault log holds no fault")
    starts = [fault.start_days for fault in faults]
    watched = days if days is not None else max(starts) - min(starts)
    hit = len({fault.node for fault in faults})
    if nodes is not None and nodes < hit:
        raise InputError(f"--nodes {nodes}: the log names {hit} nodes that failed")
    repairs = (
        np.sort(np.array([fault.repair_days for fault in faults if fault.repair_days is not None])) * 24.0
    )
    rank = (
        {q: repairs[max(0, int(np.ceil(q * len(repairs))) - 1)] for q in (0.5, 0.9)} if len(repairs) else {}
    )
    return {
        "faults": len(faults),
        "unrepaired": len(faults) - len(repairs),
        "nodes_hit": hit,
        "nodes_watched": nodes,
        "watched_days": watched,
        "faults_per_1000_node_days": 1000.0 * len(faults) / (nodes * watched) if nodes and watched else None,
        "zero_length": int((repairs == 0).sum()),
        "repair_h": {
            "mean": float(repairs.mean()) if len(repairs) else None,
            "p50": float(rank[0.5]) if rank else None,
            "p90": float(rank[0.9]) if rank else None,
            "max": float(repairs[-1]) if len(repairs) else None,
        },
    }
