"""How gateway and workers dealt with the faults: counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy.replay.contract import ReplayInput, ReplayOutput

__all__ = ["Handling", "handling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """Counts over a whole replay.

    Attributes:
        ignored_faults: that found their worker down already.
        refused_sends: requests sent to a dead worker that refused them; each was sent on at once.
        sent_into_void: requests sent to a silent or dead worker before its detection.
        gateway_waited: requests that found no worker to go to and waited at the gateway.
        migrated: requests that a drain sent on.
        restores: completed ones; ``remote_restores`` of them came over the network.
        failed_restores: that brought nothing at their end.
        partial_restores: requests that got back fewer whole pages than their restores could have brought: of
            prompt + delivered - 1 tokens at each interruption from which they were sent to restore.
        regenerated_tokens: decoded again, unseen.
        preemptions: for want of pages.
        peak_queue: the most requests routed to one worker and not finished.
    """

    ignored_faults: int
    refused_sends: int
    sent_into_void: int
    gateway_waited: int
    migrated: int
    restores: int
    remote_restores: int
    failed_restores: int
    partial_restores: int
    regenerated_tokens: int
    preemptions: int
    peak_queue: int


def handling(inp: ReplayInput, out: ReplayOutput) -> Handling:
    """The counts, from counters and the interruption log."""
    counters = out.counters
    return Handling(
        ignored_faults=counters["ignored_faults"],
        refused_sends=counters["refused_sends"],
        sent_into_void=counters["sent_after_crash"],
        gateway_waited=counters["gateway_waited"],
        migrated=counters["migrated"],
        restores=counters["restores"],
        remote_restores=counters["remote_restores"],
        failed_restores=counters["failed_restores"],
        partial_restores=_partial_restores(inp, out),
        regenerated_tokens=counters["regenerated_tokens"],
        preemptions=int(out.preemptions.sum(dtype=np.int64)),
        peak_queue=counters["peak_queue"],
    )


def _partial_restores(inp: ReplayInput, out: ReplayOutput) -> int:
    sent = out.interruption_restored == 1
    request = out.interruption_request[sent]
    delivered = out.interruption_delivered[sent] * (0 if inp.rules.regenerate else 1)
    existing = inp.prompt_tokens[request] + delivered - 1
    possible = np.zeros(inp.arrival_ps.size, dtype=np.int64)
    np.add.at(possible, request, existing // PAGE_TOKENS * PAGE_TOKENS)
    restored = out.restored_tokens
    return int(np.count_nonzero((restored > 0) & (restored < possible)))
