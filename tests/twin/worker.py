"""A worker: its queue, its batch and the iteration it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from lumen_policy.replay.contract import NONE, PAGE_TOKENS, Interruption, ReplayInput

from .checkpoint import CheckpointStore
from .request import Request, Stage, pages_of

if TYPE_CHECKING:
    from .assist import Assist

__all__ = ["Chunk", "Iteration", "Reload", "Worker", "WorkerState"]


class WorkerState(Enum):
    UP = auto()
    CRASHED = auto()  # dead, and the gateway does not know
    RELOADING = auto()  # dead, and the gateway knows


@dataclass
class Reload:
    """Instants of a reload still to come; NONE once passed or where there is no draft."""

    draft_ready_ps: int
    assist_end_ps: int
    rejoin_ps: int


@dataclass
class Chunk:
    """Prefill of `tokens` tokens of a request after the `start` that exist."""

    request: Request
    start: int
    tokens: int

    @property
    def pairs(self) -> int:
        return self.tokens * self.start + self.tokens * (self.tokens + 1) // 2

    @property
    def is_last(self) -> bool:
        return self.start + self.tokens == self.request.context


@dataclass
class Iteration:
    """What runs on a worker between two boundaries."""

    plain: list[Request] = field(default_factory=list)
    verified: list[Request] = field(default_factory=list)
    drafts: int = 0  # drafted tokens per verified sequence
    chunks: list[Chunk] = field(default_factory=list)
    assist: Assist | None = None  # the help the worker had when it began
    vetoed: bool = False
    start_ps: int = NONE
    draft_ps: int = 0
    end_ps: int = NONE

    @property
    def decode_rows(self) -> int:
        return len(self.plain) + len(self.verified) * (self.drafts + 1)

    @property
    def sequences(self) -> int:
        return len(self.plain) + len(self.verified)

    def context_tokens(self, verify_context_ppm: int) -> int:
        """K: tokens read by decode attention, verified sequences weighted by c_v."""
        verified = sum(request.context for request in self.verified)
        return sum(request.context for request in self.plain) + verified * verify_context_ppm // 10**6

    def drop(self, request: Request) -> None:
        """A preempted sequence drops out."""
        if request in self.plain:
            self.plain.remove(request)
        if request in self.verified:
            self.verified.remove(request)


class Worker:
    """One model replica."""

    def __init__(self, index: int, inputs: ReplayInput) -> None:
        self.index = index
        self.inputs = inputs
        self.state = WorkerState.UP
        self.batch: list[Request] = []  # admitted requests in admission order
        self.queue: list[Request] = []
        self.iteration: Iteration | None = None
        self.awake = False  # a boundary is due
        self.link_free_ps = 0
        self.store = CheckpointStore(inputs.policy.budget_pages)
        self.crashed_ps = NONE
        self.detection_ps = NONE
        self.reload: Reload | None = None

    @property
    def up(self) -> bool:
        return self.state is WorkerState.UP

    @property
    def believed_live(self) -> bool:
        return self.state is not WorkerState.RELOADING

    @property
    def free_pages(self) -> int:
        return self.inputs.costs.pool_pages - sum(request.pages for request in self.batch)

    def admitted(self, stage: Stage) -> list[Request]:
        return [request for request in self.batch if request.stage is stage]

    def enqueue(self, request: Request) -> None:
        request.stage = Stage.QUEUED
        self.queue.append(request)
        if self.up:
            self.awake = True
        else:
            request.place_at_crash = Interruption.SENT_AFTER_CRASH

    def admit(self, now: int) -> None:
        """Take requests from the head of the queue while batch and pages allow."""
        while self.queue and len(self.batch) < self.inputs.max_batch:
            request = self.queue[0]
            need = pages_of(request.context)
            watermark = self.inputs.costs.pool_pages // 100 if self.batch else 0
            if need + watermark > self.free_pages:
                return
            self.queue.pop(0)
            self.batch.append(request)
            request.pages = need
            if request.old_copy is None:
                request.stage = Stage.PREFILL
                request.prefilled = 0
            else:
                self._start_restore(request, now)

    def _start_restore(self, request: Request, now: int) -> None:
        assert request.old_copy is not None
        assert request.old_copy.holder is self
        assert 0 < request.old_copy.saved < request.context
        request.stage = Stage.RESTORING
        start = max(now, self.link_free_ps)
        pages = request.old_copy.saved // PAGE_TOKENS
        request.restore_end_ps = start + int(self.inputs.costs.restore_ps[pages])
        self.link_free_ps = request.restore_end_ps

    def chunks(self, budget: int) -> list[Chunk]:
        """Prefill chunks in admission order from the tokens left."""
        chunks = []
        for request in self.admitted(Stage.PREFILL):
            tokens = min(request.context - request.prefilled, budget)
            if tokens > 0:
                chunks.append(Chunk(request, request.prefilled, tokens))
                budget -= tokens
        return chunks

    def crash(self, now: int) -> None:
        self.state = WorkerState.CRASHED
        self.crashed_ps = now
        self.iteration = None
        self.awake = False
        self.store.frozen = True
        for request in self.batch:
            request.place_at_crash = Interruption.RUNNING
            request.leave_worker(Stage.AWAY)
        for request in self.queue:
            request.place_at_crash = Interruption.QUEUED
        self.batch.clear()

    def mark_detected(self) -> None:
        self.state = WorkerState.RELOADING
        self.queue.clear()
        self.store.clear()

    def rejoin(self) -> None:
        assert not self.batch
        assert not self.queue
        assert not self.store.copies
        self.state = WorkerState.UP
        self.link_free_ps = 0
