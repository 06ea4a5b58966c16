"""How long workers did not serve."""

from __future__ import annotations

from lumen_policy.replay.contract import NONE, ReplayOutput

__all__ = ["down_ps", "outages_ps"]


def down_ps(out: ReplayOutput, start_ps: int, end_ps: int) -> int:
    """Worker time without service in [start, end].

    Each outage lasts from its stop to its rejoin; those of one worker are united. One without a rejoin lasts
    beyond the end, one without a stop took no time.
    """
    total, last, covered_ps = 0, NONE, start_ps
    for worker, stop_ps, back_ps in _spans(out):
        if worker != last:
            last, covered_ps = worker, start_ps
        since_ps = max(stop_ps, covered_ps)
        until_ps = end_ps if back_ps == NONE else min(back_ps, end_ps)
        total += max(0, until_ps - since_ps)
        covered_ps = max(covered_ps, until_ps)
    return total


def outages_ps(out: ReplayOutput) -> int | None:
    """Worker time without service, all of it; None without an outage, or where a worker does not come back."""
    spans = _spans(out)
    if not spans or any(back_ps == NONE for _, _, back_ps in spans):
        return None
    return down_ps(out, min(stop_ps for _, stop_ps, _ in spans), max(back_ps for _, _, back_ps in spans))


def _spans(out: ReplayOutput) -> list[tuple[int, int, int]]:
    """(worker, stop, rejoin) of the outages that stopped their worker, by worker and stop."""
    columns = (out.outage_worker.tolist(), out.outage_stop_ps.tolist(), out.outage_rejoin_ps.tolist())
    return sorted(span for span in zip(*columns, strict=True) if span[1] != NONE)
