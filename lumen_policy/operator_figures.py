"""What an operator asks of a recovery policy: targets as pass or fail, minutes lost a month."""

from __future__ import annotations

from typing import Any

__all__ = ["MONTH_H", "availability_section", "recovery_share", "targets_section"]

MONTH_H = 720
"""Hours of a month of 30 days."""
_TARGETS = {
    "coverage": (">", 0.9),
    "holder_balance": ("<", 1.5),
    "load_balance": ("<", 1.5),
    "acceptance": (">", 0.4),
    "recovery_share": ("<", 0.5),
}
"""Source: LUMEN (arXiv 2606.17787) for coverage, balance and acceptance; recovery below half of
stop_and_restart's is this project's."""


def targets_section(
    *,
    coverage: float | None,
    holder_balance: float | None,
    load_balance: float | None,
    acceptance: float | None,
) -> dict[str, Any]:
    """Each figure with its target and whether it is met; null where the figure is not defined."""
    values = {
        "coverage": coverage,
        "holder_balance": holder_balance,
        "load_balance": load_balance,
        "acceptance": acceptance,
    }
    return {name: _judged(name, value) for name, value in values.items()}


def recovery_share(recovery_time_s: float | None, baseline_s: float | None) -> dict[str, Any]:
    """Recovery time as a share of stop_and_restart's; null where either is censored or the baseline's is 0."""
    share = None
    if recovery_time_s is not None and baseline_s:
        share = recovery_time_s / baseline_s
    return _judged("recovery_share", share)


def _judged(name: str, value: float | None) -> dict[str, Any]:
    relation, bound = _TARGETS[name]
    met = None if value is None else (value > bound if relation == ">" else value < bound)
    return {"value": value, "target": f"{relation} {bound:g}", "met": met}


def availability_section(
    *, mtbf_hours: float, workers: int, victims: float, unserved_s: float | None, worker_down_s: float | None
) -> dict[str, Any]:
    """Minutes lost a month when every worker crashes once per MTBF, ``victims`` of them together.

    crashes a month = 720 h · workers / (MTBF · victims); each costs what the replayed one cost.

    Args:
        mtbf_hours: of one worker, > 0.
        workers: of the cluster.
        victims: workers of a crash.
        unserved_s: of a crash: requests that missed an objective they meet without the crash / arrival rate.
        worker_down_s: of a crash: Σ over its workers of crash to rejoin.
    """
    crashes = MONTH_H * workers / (mtbf_hours * victims)
    minutes = None if unserved_s is None else crashes * unserved_s / 60
    return {
        "mtbf_hours": mtbf_hours,
        "crashes_per_month": crashes,
        "unserved_s_per_crash": unserved_s,
        "unserved_minutes_per_month": minutes,
        "availability": None if minutes is None else max(0.0, 1 - minutes / (60 * MONTH_H)),
        "worker_down_minutes_per_month": None if worker_down_s is None else crashes * worker_down_s / 60,
    }
