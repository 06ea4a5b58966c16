"""Checkpoint traffic: what was sent, and where all of it is."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy.measures.exact import seconds
from lumen_policy.replay.contract import ReplayInput, ReplayOutput

__all__ = ["Traffic", "traffic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Tokens of KV on their way to holders; sent = arrived + refused + lost, arrived = evicted + released + held.

    Attributes:
        sent_bytes: of the tokens sent.
        sent_tokens: by the servers.
        arrived_tokens: stored by a holder.
        refused_tokens: arrived without room.
        lost_tokens: under way when a worker failed or their copy went.
        evicted_tokens, evictions: of copies that made room for others, and their number.
        released_tokens: of copies that ended with their request, their restore or their holder.
        held_tokens: at the end of the replay.
        egress_wait_s, ingress_wait_s: the longest backlog: how long a transfer waited for the link of its server, of
            its holder.
    """

    sent_bytes: int
    sent_tokens: int
    arrived_tokens: int
    refused_tokens: int
    lost_tokens: int
    evicted_tokens: int
    evictions: int
    released_tokens: int
    held_tokens: int
    egress_wait_s: float
    ingress_wait_s: float


def traffic(inp: ReplayInput, out: ReplayOutput) -> Traffic:
    """The traffic's figures from the replay's counters."""
    counters = out.counters
    sent, arrived = counters["sent_tokens"], counters["arrived_tokens"]
    evicted, released = counters["evicted_tokens"], counters["released_tokens"]
    return Traffic(
        sent_bytes=sent * inp.costs.page_bytes // PAGE_TOKENS,
        sent_tokens=sent,
        arrived_tokens=arrived,
        refused_tokens=counters["refused_tokens"],
        lost_tokens=counters["lost_tokens"],
        evicted_tokens=evicted,
        evictions=counters["evictions"],
        released_tokens=released,
        held_tokens=arrived - evicted - released,
        egress_wait_s=seconds(counters["egress_wait_ps"]),
        ingress_wait_s=seconds(counters["ingress_wait_ps"]),
    )
