"""What a schedule of faults looks like: counts, rates, repairs, bursts, lemons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from lumen_policy.errors import InputError
from lumen_policy.fault_schedule.schedule import DAY_S, FaultSchedule, ScheduledFault
from lumen_policy.faults import KINDS, SCOPES

__all__ = ["BURST_S", "schedule_figures"]

BURST_S = 120.0
"""Faults that start within this of the one before belong to one burst (Ford et al., OSDI 2010)."""
_PERCENTS = (10, 50, 90)
_WORST = 20


def schedule_figures(
    schedule: FaultSchedule, *, watched: int | None = None, days: float | None = None
) -> dict[str, Any]:
    """Counts and rates of a schedule.

    Args:
        schedule: the faults.
        watched: nodes or workers that were watched; a schedule names only those that failed, so without it no
            rate is given.
        days: length of the watch; default from the first to the last start.

    Raises:
        InputError: fewer watched than failed.
    """
    faults = schedule.faults
    hits = Counter(fault.target for fault in faults)
    if watched is not None and watched < len(hits):
        raise InputError(f"--nodes {watched}: the schedule names {len(hits)} that failed")
    length_days = (faults[-1].time_s - faults[0].time_s) / DAY_S if days is None else days
    rate = None
    if watched is not None and length_days > 0:
        rate = 1000 * len(faults) / (watched * length_days)
    bursts = _bursts(faults)
    worst = sorted(hits.values(), reverse=True)
    kinds = Counter((fault.kind, fault.scope) for fault in faults)
    return {
        "source": schedule.source,
        "format": schedule.format,
        "faults": len(faults),
        "kinds": _kinds(kinds),
        "on": "nodes" if schedule.on_nodes else "workers",
        "hit": len(hits),
        "watched": watched,
        "first_s": faults[0].time_s,
        "last_s": faults[-1].time_s,
        "watched_days": length_days,
        "faults_per_1000_node_days": rate,
        "mtbf_hours": None if rate is None else 24_000 / rate,
        "repair_h": _repairs(faults),
        "zero_length": sum(fault.duration_s == 0 for fault in faults),
        "unended": sum(fault.duration_s == math.inf for fault in faults),
        "overlapping": _overlapping(faults),
        "burst_s": BURST_S,
        "bursts": len(bursts),
        "largest_burst": max((len({fault.target for fault in burst}) for burst in bursts), default=0),
        "burst_share": sum(len(burst) for burst in bursts) / len(faults),
        "repeated_share": sum(count for count in worst if count > 1) / len(faults),
        "worst_20_share": sum(worst[:_WORST]) / len(faults),
    }


def _kinds(kinds: Counter[tuple[Any, Any]]) -> dict[str, int]:
    named = {
        kind: sum(kinds[(kind, scope)] for scope in (*SCOPES, None)) for kind in KINDS if kind != "crash"
    }
    crashes = {f"crash of scope {scope}": kinds[("crash", scope)] for scope in SCOPES}
    return {name: count for name, count in (crashes | named).items() if count}


def _repairs(faults: Sequence[ScheduledFault]) -> dict[str, float | None]:
    """Nearest-rank quantiles of the stated, ended durations, hours."""
    known = sorted(
        fault.duration_s / 3600
        for fault in faults
        if fault.duration_s is not None and math.isfinite(fault.duration_s)
    )
    if not known:
        return dict.fromkeys(("mean", *(f"p{percent}" for percent in _PERCENTS), "max"))
    quantiles = {f"p{percent}": known[-(-len(known) * percent // 100) - 1] for percent in _PERCENTS}
    return {"mean": math.fsum(known) / len(known), **quantiles, "max": known[-1]}


def _overlapping(faults: Sequence[ScheduledFault]) -> int:
    """Faults that start while the same node or worker is still faulty."""
    until: dict[tuple[int, str], float] = {}
    count = 0
    for fault in faults:
        count += fault.time_s < until.get(fault.target, 0.0)
        until[fault.target] = max(fault.end_s, until.get(fault.target, 0.0))
    return count


def _bursts(faults: Sequence[ScheduledFault]) -> list[list[ScheduledFault]]:
    """Runs of faults, each start within ``BURST_S`` of the one before, that hit two nodes or more."""
    runs: list[list[ScheduledFault]] = []
    for fault in faults:
        # starts given in days carry rounding: a microsecond of slack
        if runs and fault.time_s - runs[-1][-1].time_s <= BURST_S + 1e-6:
            runs[-1].append(fault)
        else:
            runs.append([fault])
    return [run for run in runs if len({fault.target for fault in run}) > 1]
