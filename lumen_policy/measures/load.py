"""The time-mean load of a fault-free run, from which the default θ is set."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lumen_policy.measures.exact import exact_sum
from lumen_policy.replay.contract import NONE, ReplayInput, ReplayOutput

__all__ = ["MeanLoad", "mean_load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanLoad:
    """Exact time means per worker over [first arrival, last event].

    Attributes:
        held_tokens: checkpoint tokens held for others, H.
        queue_requests: requests routed and not finished, Q.
    """

    held_tokens: Fraction
    queue_requests: Fraction


def mean_load(inp: ReplayInput, fault_free: ReplayOutput) -> MeanLoad:
    """(1/W) · 1/(T − a₀) · ∫ Σ_w H_w dt and the same of Q, so that mean L = token_weight · H +
    request_weight · Q.

    Args:
        inp: of the fault-free run.
        fault_free: the run. T is its last event, a₀ its first arrival.

    Returns:
        Both 0 for a run that takes no time.
    """
    end_ps = int(fault_free.end_ps)
    worker_ps = inp.workers * (end_ps - int(inp.arrival_ps[0]))
    if worker_ps == 0:
        return MeanLoad(held_tokens=Fraction(0), queue_requests=Fraction(0))
    held = fault_free.held_end * end_ps + fault_free.held_integral
    rows = np.flatnonzero(fault_free.dispatch_ps != NONE)
    last = fault_free.last_ps[rows]
    queued = exact_sum(np.where(last == NONE, end_ps, last) - fault_free.dispatch_ps[rows])
    return MeanLoad(held_tokens=Fraction(held, worker_ps), queue_requests=Fraction(queued, worker_ps))
