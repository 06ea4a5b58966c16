"""Whether the ranking of policies hangs on the length of the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lumen_policy.measures.exact import seconds
from lumen_policy.measures.impact import excess_e2e
from lumen_policy.replay.contract import ReplayInput, ReplayOutput

__all__ = ["WindowRanking", "excess_by_window", "rank_by_window", "window_choices_ps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRanking:
    """The order of policies by excess E2E, for three lengths of the window.

    Attributes:
        windows_s: H/2, 3H/4 and H.
        orders: per window, labels by ascending total excess; equal ones in the order given.
        robust: every pair of policies stands in the same relation (<, = or >) for all three.
    """

    windows_s: tuple[float, ...]
    orders: tuple[tuple[str, ...], ...]
    robust: bool


def window_choices_ps(horizon_ps: int) -> tuple[int, ...]:
    """H/2, 3H/4 and H: no longer than H, beyond which a scenario's trace ends."""
    return (horizon_ps // 2, horizon_ps * 3 // 4, horizon_ps)


def excess_by_window(
    inp: ReplayInput, faulty: ReplayOutput, fault_free: ReplayOutput, horizon_ps: int
) -> tuple[int, ...]:
    """Excess E2E in request-picoseconds for each of ``window_choices_ps``."""
    return tuple(
        excess_e2e(inp, faulty, fault_free, window_ps).e2e_ps for window_ps in window_choices_ps(horizon_ps)
    )


def rank_by_window(totals_ps: Mapping[str, Sequence[int]], horizon_ps: int) -> WindowRanking:
    """Rank policies for each window.

    Args:
        totals_ps: label → excess E2E for each window, summed over whatever is compared.
        horizon_ps: H.
    """
    labels = list(totals_ps)
    windows = window_choices_ps(horizon_ps)
    orders = []
    for at in range(len(windows)):
        ascending = sorted((totals_ps[label][at], place) for place, label in enumerate(labels))
        orders.append(tuple(labels[place] for _, place in ascending))
    relations = {
        tuple(
            (totals_ps[a][at] > totals_ps[b][at]) - (totals_ps[a][at] < totals_ps[b][at])
            for a in labels
            for b in labels
        )
        for at in range(len(windows))
    }
    return WindowRanking(
        windows_s=tuple(seconds(window) for window in windows),
        orders=tuple(orders),
        robust=len(relations) == 1,
    )
