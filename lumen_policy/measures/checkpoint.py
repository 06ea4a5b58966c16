"""Checkpoints: how much KV they cover and how evenly they lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lumen_policy.replay.contract import ReplayInput, ReplayOutput

__all__ = ["Checkpoint", "checkpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Coverage and balance; None where the quotient has no denominator.

    Attributes:
        coverage: saved / existing KV tokens of the requests on the crashed workers, summed over the crash
            instants; None without a crash or where nothing ran there.
        coverage_time_mean: mean over the fault-free run's snapshots with existing KV of saved / existing.
        holder_balance: mean over snapshots of max / mean over live workers of the held tokens; None when no
            snapshot has held tokens.
        load_balance: the same of L; None when L is 0 throughout.
    """

    coverage: float | None
    coverage_time_mean: float | None
    holder_balance: float | None
    load_balance: float | None


def checkpoint(inp: ReplayInput, out: ReplayOutput, fault_free: ReplayOutput) -> Checkpoint:
    """Coverage at the crashes and over time, balance over time.

    Args:
        inp: of ``out``.
        out: the run whose crashes and balance are meant.
        fault_free: its fault-free run (``out`` itself if that is one).
    """
    held = out.snapshot_held_tokens.astype(np.float64)
    policy = inp.policy
    load = policy.token_weight * held + policy.request_weight * out.snapshot_queue.astype(np.float64)
    live = out.snapshot_live == 1
    existing = fault_free.snapshot_existing_tokens
    some = existing > 0
    return Checkpoint(
        coverage=_ratio(int(out.crash_saved_tokens.sum()), int(out.crash_existing_tokens.sum())),
        coverage_time_mean=_mean(fault_free.snapshot_saved_tokens[some] / existing[some]),
        holder_balance=_balance(held, live),
        load_balance=_balance(load, live),
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _mean(values: npt.NDArray[np.float64]) -> float | None:
    return float(values.mean()) if values.size else None


def _balance(values: npt.NDArray[np.float64], live: npt.NDArray[np.bool_]) -> float | None:
    """Mean over snapshots of max / mean over live workers; snapshots without anything on a live worker are
    left out.

    Args:
        values, live: shape (g, W).
    """
    on_live = np.where(live, values, 0.0)
    total = on_live.sum(axis=1)
    some = total > 0
    return _mean(on_live[some].max(axis=1) * live[some].sum(axis=1) / total[some])
