"""From the recovery keys to the rules that a replay reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from cost_models.serving_costs import PAGE_TOKENS, ServingCosts
from lumen_policy.clock import seconds_to_ps
from lumen_policy.replay.contract import EvictionOrder, RecoveryRules
from lumen_policy.settings import Settings

__all__ = ["describe_rules", "recovery_rules"]

_EVICTION = {
    "refuse": EvictionOrder.REFUSE,
    "lru": EvictionOrder.LEAST_RECENT,
    "shortest": EvictionOrder.SHORTEST,
    "prefix_weighted": EvictionOrder.WEIGHTED,
}


def recovery_rules(settings: Settings) -> RecoveryRules:
    """The rules of a cluster; the same for every policy."""
    rack = settings.rack_workers
    retarget = settings.assist_retarget_s
    return RecoveryRules(
        eviction=int(_EVICTION[settings.eviction]),
        stream_prefill=settings.stream_from == "prefill",
        second_replica=settings.second_replica,
        anti_affinity=settings.anti_affinity,
        re_replicate=settings.re_replicate,
        remote_restore=settings.remote_restore,
        regenerate=settings.continuation == "regenerate",
        wait=settings.interrupted == "wait",
        front=settings.requeue == "front",
        ping_pong=settings.ping_pong,
        retarget_ps=0 if isinstance(retarget, str) else seconds_to_ps("assist_retarget_s", retarget),
        load_report_ps=seconds_to_ps("load_report_interval_s", settings.load_report_interval_s),
        slow_start_ps=seconds_to_ps("slow_start_s", settings.slow_start_s),
        restore_failure=min(int(settings.restore_failure_share * 2**64), 2**64 - 1),
        domain=None if rack == 1 else np.arange(settings.workers, dtype=np.int64) // rack,
    )


def describe_rules(settings: Settings, costs: ServingCosts) -> dict[str, Any]:
    """The rules for results, with what the links make of them."""
    names = (
        "rack_workers",
        "load_report_interval_s",
        "slow_start_s",
        "interrupted",
        "continuation",
        "requeue",
        "eviction",
        "stream_from",
        "anti_affinity",
        "second_replica",
        "re_replicate",
        "remote_restore",
        "restore_failure_share",
        "assist_retarget_s",
        "ping_pong",
    )
    return {
        **{name: getattr(settings, name) for name in names},
        "links": {"kind": settings.links, **_link_rates(costs)},
    }


def _link_rates(costs: ServingCosts) -> dict[str, float | None]:
    """Bandwidths that transfers see, bytes/s; null where links are free."""
    transfers = costs.transfers
    token_bytes = costs.page_bytes // PAGE_TOKENS

    def rate(token_ps: int) -> float | None:
        return token_bytes * 10**12 / token_ps if token_ps else None

    return {
        "egress_bytes_per_s": rate(transfers.egress_token_ps),
        "ingress_bytes_per_s": rate(transfers.ingress_token_ps),
        "store_bytes_per_s": rate(transfers.store_token_ps),
    }
