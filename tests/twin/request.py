"""A request and what has happened to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from lumen_policy.replay.contract import NONE, PAGE_TOKENS, Interruption, Status

if TYPE_CHECKING:
    from .checkpoint import Copy
    from .worker import Worker

__all__ = ["Request", "Stage", "pages_of"]


def pages_of(tokens: int) -> int:
    """Pages that hold so many tokens."""
    return -(-tokens // PAGE_TOKENS)


class Stage(Enum):
    """Where a request is in its life."""

    AWAY = auto()  # not on a worker: not arrived, at the gateway, waiting for its worker, or lost with it
    QUEUED = auto()
    RESTORING = auto()
    PREFILL = auto()
    DECODE = auto()
    DONE = auto()


@dataclass(eq=False)
class Request:
    """State of one request; `server` is the worker it was last routed to."""

    index: int
    arrival_ps: int
    prompt: int
    output: int
    status: Status = Status.PENDING
    stage: Stage = Stage.AWAY
    server: Worker | None = None
    waits_for: Worker | None = None  # its own worker, that is to come back
    delivered: int = 0  # d
    seen_ps: list[int] = field(default_factory=list)  # one entry per token that the user has
    pages: int = 0
    prefilled: int = 0  # KV tokens present while in prefill
    most_kv: int = 0  # the most KV tokens it ever had
    restore_end_ps: int = NONE
    copies: list[Copy | None] = field(default_factory=lambda: [None, None])  # what its server writes
    old_copy: Copy | None = None  # the checkpoint it is restored from
    place_at_crash: Interruption = Interruption.RUNNING
    open_interruption: int = NONE  # row of the log that waits for its next token
    must_recover: bool = False  # interrupted and not dispatched again yet
    front_ps: int = NONE  # when it was put at the front of a queue
    last_server: int = NONE
    last_holder: int = NONE
    dispatch_ps: int = NONE
    interruptions: int = 0
    preemptions: int = 0
    restored: int = 0
    recomputed: int = 0

    @property
    def context(self) -> int:
        """Prompt + delivered tokens: what a prefill computes and what a decode reads."""
        return self.prompt + self.delivered

    @property
    def existing_kv(self) -> int:
        """KV tokens on its worker now."""
        if self.stage is Stage.PREFILL:
            return self.prefilled
        if self.stage is Stage.DECODE:
            return self.context - 1
        return 0

    @property
    def unfinished_at(self) -> Worker | None:
        """The worker whose Q counts it."""
        return self.server if self.stage is not Stage.DONE else None

    @property
    def all_copies(self) -> list[Copy]:
        """First, second and old copy, as far as there are such."""
        return [copy for copy in (*self.copies, self.old_copy) if copy is not None]

    def forget(self, copy: Copy) -> None:
        """The request has this copy no more."""
        assert copy in self.all_copies
        self.copies = [None if other is copy else other for other in self.copies]
        if self.old_copy is copy:
            self.old_copy = None

    def note_kv(self) -> None:
        self.most_kv = max(self.most_kv, self.existing_kv)

    def leave_worker(self, stage: Stage) -> None:
        """Give up pages and KV."""
        self.stage = stage
        self.pages = 0
        self.prefilled = 0
        self.restore_end_ps = NONE
