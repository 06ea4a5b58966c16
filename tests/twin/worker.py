"""A worker: its queue, its batch and the iteration it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from lumen_policy.replay.contract import FULL_SPEED_PPM, NONE, Interruption, ReplayInput

from .request import Request, Stage, pages_of

if TYPE_CHECKING:
    from .assist import Assist
    from .checkpoint import Holder
    from .faults import Fault
    from .log import Outage
    from .restores import Restores

__all__ = ["Chunk", "Iteration", "Reload", "Worker", "WorkerState"]


class WorkerState(Enum):
    UP = auto()
    SILENT = auto()  # hung or unreachable, and the gateway does not know
    CRASHED = auto()  # dead, and the gateway does not know
    RELOADING = auto()  # dead or stopped, and the gateway knows unless it still believes in it
    AWAY = auto()  # unreachable, and the gateway knows


@dataclass
class Reload:
    """Instants of a reload still to come; NONE once passed or where there is no draft."""

    draft_ready_ps: int
    assist_end_ps: int
    rejoin_ps: int
    retarget_ps: int = NONE


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
    ahead: list[Request] | None = None  # ping-pong: the half drafted for the next pass meanwhile
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
        for group in (self.plain, self.verified, self.ahead or []):
            if request in group:
                group.remove(request)


class Worker:
    """One model replica."""

    def __init__(self, index: int, inputs: ReplayInput, holds: Holder) -> None:
        self.index = index
        self.inputs = inputs
        self.state = WorkerState.UP
        self.batch: list[Request] = []  # admitted requests in admission order
        self.queue: list[Request] = []
        self.stranded: list[Request] = []  # the batch that a crash dropped, until its detection
        self.iteration: Iteration | None = None
        self.awake = False  # a boundary is due
        self.host_free_ps = 0
        self.nic_free_ps = 0
        self.holds = holds
        holds.worker = self
        self.draining: Fault | None = None
        self.drain_outage: Outage | None = None
        self.fault: Fault | None = None  # what brought it down
        self.outage: Outage | None = None
        self.noticed_ps = NONE  # when silence is noticed, if it lasts
        self.detection_ps = NONE
        self.return_ps = NONE
        self.refusals_left = 0  # failed sends until the gateway gives up a worker known to refuse
        self.slow: Fault | None = None
        self.reload: Reload | None = None

    @property
    def up(self) -> bool:
        return self.state is WorkerState.UP

    @property
    def refuses(self) -> bool:
        return self.refusals_left > 0

    @property
    def believed_live(self) -> bool:
        if self.draining is not None:
            return False
        if self.refuses:
            assert self.state is WorkerState.RELOADING
            return True
        return self.state in (WorkerState.UP, WorkerState.SILENT, WorkerState.CRASHED)

    @property
    def free_pages(self) -> int:
        return self.inputs.costs.pool_pages - sum(request.pages for request in self.batch)

    def admitted(self, stage: Stage) -> list[Request]:
        return [request for request in self.batch if request.stage is stage]

    def enqueue(self, request: Request, to_front: bool, now: int) -> None:
        """The tail; or the front, behind those put there at the same instant."""
        request.stage = Stage.QUEUED
        if to_front:
            place = 0
            while place < len(self.queue) and self.queue[place].front_ps == now:
                place += 1
            self.queue.insert(place, request)
            request.front_ps = now
        else:
            self.queue.append(request)
        if self.up:
            self.awake = True
        else:
            request.place_at_crash = Interruption.SENT_AFTER_CRASH

    def admit(self, restores: Restores, now: int) -> None:
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
                restores.start(self, request, now)

    def chunks(self, budget: int) -> list[Chunk]:
        """Prefill chunks in admission order from the tokens left."""
        chunks = []
        for request in self.admitted(Stage.PREFILL):
            tokens = min(request.context - request.prefilled, budget)
            if tokens > 0:
                chunks.append(Chunk(request, request.prefilled, tokens))
                budget -= tokens
        return chunks

    def iteration_ps(self, now: int, tokens: int, rows: int, pairs: int, context: int, sequences: int) -> int:
        """One iteration that starts now, longer while the worker is slow."""
        target = self.inputs.costs.target
        if self.slow is None or not self.slow.ps <= now < self.slow.end_ps:
            return target.duration_ps(tokens, rows, pairs, context, sequences)
        factor = self.slow.factor_ppm

        def slowed(coefficient: int) -> int:
            return int(coefficient) * factor // FULL_SPEED_PPM

        return (
            slowed(target.token_ps[tokens])
            + slowed(target.lm_head_ps[rows])
            + slowed(target.prefill_pair_ps) * pairs
            + slowed(target.decode_context_ps) * context
            + slowed(target.decode_sequence_ps) * sequences
        )

    def note_places(self) -> None:
        """It fails or stops: where its requests are now."""
        for request in self.batch:
            request.place_at_crash = Interruption.RUNNING
        for request in self.queue:
            request.place_at_crash = Interruption.QUEUED

    def drop_batch(self) -> None:
        """Whatever runs is lost."""
        self.iteration = None
        self.awake = False
        for request in self.batch:
            request.leave_worker(Stage.AWAY)
        self.stranded += self.batch
        self.batch.clear()

    def clear(self) -> None:
        """Its requests are taken from it."""
        self.drop_batch()
        self.stranded.clear()
        self.queue.clear()

    def come_up(self) -> None:
        """Live, empty, with idle links."""
        assert not self.batch
        assert not self.queue
        assert not self.stranded
        assert self.iteration is None
        self.state = WorkerState.UP
        self.host_free_ps = 0
        self.nic_free_ps = 0

    def resume(self, length_ps: int) -> None:
        """A silent worker goes on: everything due at it comes later."""
        assert self.state is WorkerState.SILENT
        self.state = WorkerState.UP
        self.host_free_ps += length_ps
        for request in self.admitted(Stage.RESTORING):
            request.restore_end_ps += length_ps
        if self.iteration is not None:
            self.iteration.end_ps += length_ps
        else:
            self.awake = True
