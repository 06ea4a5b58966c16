"""Copies of requests' KV held by other workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lumen_policy.replay.contract import PAGE_TOKENS

from .request import pages_of

if TYPE_CHECKING:
    from .request import Request
    from .worker import Worker

__all__ = ["CheckpointStore", "Copy"]


@dataclass(eq=False)
class Copy:
    """A request's checkpoint at a holder."""

    holder: Worker
    request: Request
    arrived: int = 0

    @property
    def saved(self) -> int:
        """Whole-page tokens that a restore brings."""
        return PAGE_TOKENS * (self.arrived // PAGE_TOKENS)


class CheckpointStore:
    """The copies at one worker, as the gateway believes them: frozen from its crash to its detection."""

    def __init__(self, budget_pages: int) -> None:
        self.budget_pages = budget_pages
        self.copies: list[Copy] = []
        self.frozen = False

    @property
    def held_tokens(self) -> int:
        return sum(copy.arrived for copy in self.copies)

    @property
    def used_pages(self) -> int:
        return sum(pages_of(copy.arrived) for copy in self.copies)

    @property
    def free_pages(self) -> int:
        return self.budget_pages - self.used_pages

    def open(self, holder: Worker, request: Request) -> Copy:
        copy = Copy(holder, request)
        self.copies.append(copy)
        return copy

    def receive(self, copy: Copy, existing_kv: int) -> None:
        """A transfer arrives: the copy grows as far as the budget goes."""
        if self.frozen:
            return
        assert copy in self.copies
        room = PAGE_TOKENS * (pages_of(copy.arrived) + self.free_pages)
        copy.arrived = max(copy.arrived, min(existing_kv, room))
        assert self.used_pages <= self.budget_pages

    def release(self, copy: Copy) -> None:
        if not self.frozen:
            self.copies.remove(copy)

    def clear(self) -> None:
        self.copies.clear()
        self.frozen = False
