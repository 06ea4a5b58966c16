"""Copies of requests' KV at their holders: other workers, or the store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from lumen_policy.replay.contract import NONE, PAGE_TOKENS, EvictionOrder

from .request import pages_of

if TYPE_CHECKING:
    from .links import Parcel
    from .request import Request
    from .worker import Worker

__all__ = ["Copy", "Holder"]


@dataclass(eq=False)
class Copy:
    """A request's checkpoint at a holder."""

    holder: Holder
    request: Request
    opened_ps: int
    arrived: int = 0
    last_arrival_ps: int = NONE
    under_way: Parcel | None = None
    released: bool = False

    def release(self) -> None:
        """Its request needs it no more; closed books show it when they open."""
        self.request.forget(self)
        self.released = True
        if self.under_way is not None:
            self.under_way.lose()
        if not self.holder.closed:
            self.holder.strike_off(self)


class Holder:
    """The books of one holder; those of a worker are closed from its failure to its detection or return."""

    def __init__(
        self, index: int, worker: Worker | None, budget_pages: int, eviction: int, counters: Counter[str]
    ) -> None:
        self.index = index
        self.worker = worker  # none: the store
        self.budget_pages = budget_pages
        self.eviction = eviction
        self.counters = counters
        self.copies: list[Copy] = []
        self.closed = False
        self.loses = False  # what it held is gone in truth and will be when the books open

    @property
    def alive(self) -> bool:
        return self.worker is None or self.worker.up

    @property
    def held_tokens(self) -> int:
        return sum(copy.arrived for copy in self.copies)

    @property
    def used_pages(self) -> int:
        return sum(pages_of(copy.arrived) for copy in self.copies)

    @property
    def free_pages(self) -> int:
        return self.budget_pages - self.used_pages

    def room(self, copy: Copy) -> int:
        """Tokens the copy could have with the free pages."""
        return PAGE_TOKENS * (pages_of(copy.arrived) + self.free_pages)

    def open(self, request: Request, now: int) -> Copy:
        copy = Copy(self, request, now)
        self.copies.append(copy)
        return copy

    def strike_off(self, copy: Copy) -> None:
        assert not self.closed
        self.copies.remove(copy)
        self.counters["released_tokens"] += copy.arrived

    def lose_all(self) -> list[Request]:
        """Everything held is gone; the requests that had it as their first or second copy."""
        assert not self.closed
        losers = []
        for copy in list(self.copies):
            if copy in copy.request.copies:
                losers.append(copy.request)
            copy.release()
        return losers

    def open_books(self) -> list[Request]:
        """The gateway learns what is left; the requests that lost their first or second copy."""
        self.closed = False
        for copy in [copy for copy in self.copies if copy.released]:
            self.strike_off(copy)
        losers = self.lose_all() if self.loses else []
        self.loses = False
        return losers

    def receive(self, copy: Copy, up_to: int, now: int) -> int:
        """A transfer arrives: the copy grows as far as pages go; the tokens by which it grew."""
        assert self.alive
        assert not self.closed
        assert copy in self.copies
        while self.room(copy) < up_to:
            victim = self._victim(copy, up_to, now)
            if victim is None:
                break
            self._evict(victim)
        before = copy.arrived
        copy.arrived = max(before, min(up_to, self.room(copy)))
        copy.last_arrival_ps = now
        assert self.used_pages <= self.budget_pages
        return copy.arrived - before

    def _victim(self, newcomer: Copy, up_to: int, now: int) -> Copy | None:
        """The copy that goes first by the order, if any may go."""
        others = [
            copy
            for copy in self.copies
            if copy is not newcomer and copy.arrived > 0 and copy in copy.request.copies
        ]

        def weight(copy: Copy, tokens: int) -> Fraction:
            return Fraction(tokens, 1 + (now - copy.opened_ps) // 2**30)

        def by_request(copy: Copy) -> tuple[int, int]:
            return copy.request.index, copy.request.copies.index(copy)

        match self.eviction:
            case EvictionOrder.REFUSE:
                return None
            case EvictionOrder.LEAST_RECENT:
                ranked = [(Fraction(copy.last_arrival_ps), by_request(copy), copy) for copy in others]
            case EvictionOrder.SHORTEST:
                ranked = [
                    (Fraction(copy.arrived), by_request(copy), copy)
                    for copy in others
                    if copy.arrived < up_to
                ]
            case EvictionOrder.WEIGHTED:
                ranked = [
                    (weight(copy, copy.arrived), by_request(copy), copy)
                    for copy in others
                    if weight(copy, copy.arrived) < weight(newcomer, up_to)
                ]
            case _:
                raise AssertionError(f"no eviction order {self.eviction}")
        return min(ranked, key=lambda entry: entry[:2])[2] if ranked else None

    def _evict(self, copy: Copy) -> None:
        self.counters["evictions"] += 1
        self.counters["evicted_tokens"] += copy.arrived
        copy.request.forget(copy)
        if copy.under_way is not None:
            copy.under_way.lose()
        self.copies.remove(copy)
