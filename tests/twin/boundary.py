"""What happens at an iteration boundary of a worker."""

from __future__ import annotations

from lumen_policy.replay.contract import ReplayInput, Scheduler

from .assist import Assist, draft_duration_ps
from .request import Request, Stage, pages_of
from .worker import Iteration, Worker

__all__ = ["start_iteration"]


def start_iteration(inputs: ReplayInput, worker: Worker, assist: Assist | None, now: int) -> None:
    """Admit, decide the pass, take pages, cut prefill chunks and start; idle if there is nothing to run."""
    assert worker.up
    assert worker.iteration is None
    worker.awake = False
    worker.admit(now)
    iteration = Iteration()
    if inputs.scheduler == Scheduler.MIXED or not worker.admitted(Stage.PREFILL):
        iteration.plain = worker.admitted(Stage.DECODE)
        if assist is not None:
            assist.plan(iteration, now)
        _take_pages(worker, iteration, assist)
    if not iteration.verified:
        iteration.drafts = 0
    iteration.chunks = worker.chunks(max(0, inputs.token_budget - iteration.decode_rows))
    if iteration.sequences or iteration.chunks:
        _set_times(inputs, iteration, now)
        worker.iteration = iteration
    else:
        assert all(request.stage is Stage.RESTORING for request in worker.batch)


def _pages_needed(iteration: Iteration, request: Request) -> int:
    """Pages of a decoding sequence in all, for this pass."""
    if request in iteration.verified:
        return pages_of(min(request.context + iteration.drafts, request.prompt + request.output - 1))
    return pages_of(request.context)


def _take_pages(worker: Worker, iteration: Iteration, assist: Assist | None) -> None:
    def missing() -> int:
        return sum(
            max(0, _pages_needed(iteration, request) - request.pages)
            for request in iteration.plain + iteration.verified
        )

    while missing() > worker.free_pages:
        last = worker.batch[-1]
        iteration.drop(last)
        if assist is not None:
            assist.forget(last)
        _preempt(worker, last)
    for request in iteration.plain + iteration.verified:
        request.pages = max(request.pages, _pages_needed(iteration, request))
    assert worker.free_pages >= 0


def _preempt(worker: Worker, request: Request) -> None:
    worker.batch.remove(request)
    worker.queue.insert(0, request)
    request.preemptions += 1
    request.leave_worker(Stage.QUEUED)
    if request.old_copy is not None:
        request.old_copy.holder.store.release(request.old_copy)
        request.old_copy = None


def _set_times(inputs: ReplayInput, iteration: Iteration, now: int) -> None:
    chunk_tokens = sum(chunk.tokens for chunk in iteration.chunks)
    last_chunks = sum(chunk.is_last for chunk in iteration.chunks)
    duration = inputs.costs.target.duration_ps(
        iteration.decode_rows + chunk_tokens,
        iteration.decode_rows + last_chunks,
        sum(chunk.pairs for chunk in iteration.chunks),
        iteration.context_tokens(inputs.costs.verify_context_ppm),
        iteration.sequences,
    )
    verify_ps = duration
    if iteration.verified:
        iteration.draft_ps = draft_duration_ps(inputs, iteration.verified, iteration.drafts)
        duration += iteration.draft_ps + inputs.costs.draft_round_trip_ps
    assert iteration.draft_ps + verify_ps <= duration
    iteration.start_ps = now
    iteration.end_ps = now + duration
