"""Interrupted requests and how long each waited for its next token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lumen_policy.measures.distributions import Distribution, distribution_of_ps
from lumen_policy.replay.contract import NONE, Interruption, ReplayInput, ReplayOutput

__all__ = ["Interrupted", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """Interrupted requests of a run.

    The replay TTFTs have one sample per interruption that a token followed before any further interruption.

    Attributes:
        count: requests interrupted at least once.
        interruptions: all interruptions.
        by_class: interruptions by where the request was when its worker crashed: running, queued,
            sent_after_crash.
        without_next_token: interruptions no token followed before the next interruption.
        replay_ttft_from_arrival_s: next token − a.
        replay_ttft_from_crash_s: next token − x.
        replay_ttft_from_redispatch_s: next token − y.
    """

    count: int
    interruptions: int
    by_class: dict[str, int]
    without_next_token: int
    replay_ttft_from_arrival_s: Distribution
    replay_ttft_from_crash_s: Distribution
    replay_ttft_from_redispatch_s: Distribution


def interrupted(inp: ReplayInput, out: ReplayOutput) -> Interrupted:
    """Counts and replay TTFTs from the interruption log."""
    answered = np.flatnonzero(out.interruption_next_ps != NONE)
    next_ps = out.interruption_next_ps[answered]
    arrival_ps = inp.arrival_ps[out.interruption_request[answered]]
    return Interrupted(
        count=int(np.count_nonzero(out.interruptions)),
        interruptions=out.interruption_request.size,
        by_class={
            kind.name.lower(): int(np.count_nonzero(out.interruption_class == kind)) for kind in Interruption
        },
        without_next_token=out.interruption_request.size - answered.size,
        replay_ttft_from_arrival_s=distribution_of_ps(next_ps - arrival_ps),
        replay_ttft_from_crash_s=distribution_of_ps(next_ps - out.interruption_crash_ps[answered]),
        replay_ttft_from_redispatch_s=distribution_of_ps(next_ps - out.interruption_redispatch_ps[answered]),
    )
