"""Checkpoint traffic: the servers' egress links and the holders' ingress links, first in, first out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lumen_policy.replay.contract import EvictionOrder, ReplayInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .checkpoint import Copy, Holder
    from .request import Request
    from .worker import Worker

__all__ = ["Network", "Parcel"]


@dataclass(eq=False)
class Parcel:
    """What one transfer brings to one copy."""

    sender: Worker
    copy: Copy
    tokens: int
    up_to: int
    counters: Counter[str]
    lost: bool = False

    def lose(self) -> None:
        assert self.copy.under_way is self
        self.copy.under_way = None
        self.lost = True
        self.counters["lost_tokens"] += self.tokens


@dataclass(eq=False)
class OnLink:
    """Parcels that share a link until an instant: a server's transfer, or its part for one holder."""

    sender: Worker
    until_ps: int
    parcels: list[Parcel]

    @property
    def left(self) -> list[Parcel]:
        return [parcel for parcel in self.parcels if not parcel.lost]


class Network:
    """All links between servers and holders."""

    def __init__(self, inputs: ReplayInput, holders: list[Holder], counters: Counter[str]) -> None:
        self.costs = inputs.costs.transfers
        self.evicts = inputs.rules.eviction != EvictionOrder.REFUSE
        self.holders = holders
        self.counters = counters
        self.egress: list[OnLink] = []
        self.ingress: list[OnLink] = []
        self.egress_free_ps = [0] * inputs.workers
        self.ingress_free_ps = [0] * len(holders)

    @property
    def pending_ps(self) -> list[int]:
        return [load.until_ps for load in self.egress + self.ingress if load.left]

    @property
    def under_way(self) -> list[Parcel]:
        return [parcel for load in self.egress + self.ingress for parcel in load.left]

    def send(self, server: Worker, requests: Iterable[Request], now: int) -> None:
        """The iteration of a server ended: its copies send what they lack, as one transfer."""
        parcels = [
            parcel
            for request in requests
            for copy in request.copies
            if copy is not None
            for parcel in self._parcel(server, copy)
        ]
        if not parcels:
            return
        tokens = sum(parcel.tokens for parcel in parcels)
        free = self.egress_free_ps[server.index]
        self._note_wait("egress_wait_ps", free - now)
        leave = max(now, free) + self.costs.egress_latency_ps + tokens * self.costs.egress_token_ps
        self.egress_free_ps[server.index] = leave
        self.egress.append(OnLink(server, leave, parcels))
        self.counters["sent_tokens"] += tokens

    def _parcel(self, server: Worker, copy: Copy) -> list[Parcel]:
        holder = copy.holder
        if not holder.alive or copy.under_way is not None:
            return []
        up_to = copy.request.existing_kv
        if holder.worker is not None and not self.evicts:
            up_to = min(up_to, holder.room(copy))
        if up_to <= copy.arrived:
            return []
        copy.under_way = Parcel(server, copy, up_to - copy.arrived, up_to, self.counters)
        return [copy.under_way]

    def leave(self, now: int) -> None:
        """Transfers leave their servers and queue, by holder, at the ingress links."""
        leaving = [load for load in self.egress if load.until_ps == now]
        self.egress = [load for load in self.egress if load.until_ps > now]
        for load in sorted(leaving, key=lambda load: load.sender.index):
            for holder in self.holders:
                parcels = [parcel for parcel in load.left if parcel.copy.holder is holder]
                if parcels:
                    self._queue(load.sender, holder, parcels, now)

    def _queue(self, sender: Worker, holder: Holder, parcels: list[Parcel], now: int) -> None:
        assert holder.alive
        tokens = sum(parcel.tokens for parcel in parcels)
        if holder.worker is None:
            cost = self.costs.store_latency_ps + tokens * self.costs.store_token_ps
        else:
            cost = tokens * self.costs.ingress_token_ps
        free = self.ingress_free_ps[holder.index]
        self._note_wait("ingress_wait_ps", free - now)
        self.ingress_free_ps[holder.index] = max(now, free) + cost
        self.ingress.append(OnLink(sender, self.ingress_free_ps[holder.index], parcels))

    def arrive(self, now: int) -> None:
        """Parcels arrive, by holder, request and copy."""
        parcels = [parcel for load in self.ingress if load.until_ps == now for parcel in load.left]
        self.ingress = [load for load in self.ingress if load.until_ps > now]
        for parcel in sorted(parcels, key=_arrival_order):
            if parcel.lost:  # its copy was evicted by one before
                continue
            copy = parcel.copy
            copy.under_way = None
            grown = copy.holder.receive(copy, parcel.up_to, now)
            assert 0 <= grown <= parcel.tokens
            self.counters["arrived_tokens"] += grown
            self.counters["refused_tokens"] += parcel.tokens - grown

    def cut(self, worker: Worker) -> None:
        """The worker fails or stops: what is under way from or to it is lost."""
        for parcel in self.under_way:
            if parcel.sender is worker or parcel.copy.holder.worker is worker:
                parcel.lose()
        self.idle(worker)

    def idle(self, worker: Worker) -> None:
        """The worker's links have nothing to do."""
        self.egress_free_ps[worker.index] = 0
        self.ingress_free_ps[worker.index] = 0

    def _note_wait(self, name: str, wait_ps: int) -> None:
        self.counters[name] = max(self.counters[name], wait_ps, 0)


def _arrival_order(parcel: Parcel) -> tuple[int, int, int]:
    request = parcel.copy.request
    return parcel.copy.holder.index, request.index, request.copies.index(parcel.copy)
