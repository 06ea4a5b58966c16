"""What happens at an iteration boundary of a worker."""

from __future__ import annotations

from lumen_policy.replay.contract import ReplayInput, Scheduler

from .assist import Assist, pass_times
from .request import Request, Stage, pages_of
from .restores import Restores
from .worker import Iteration, Worker

__all__ = ["start_iteration"]


def start_iteration(
    inputs: ReplayInput, worker: Worker, assist: Assist | None, restores: Restores, now: int
) -> None:
    """Admit, decide the pass, take pages, cut prefill chunks and start; idle if there is nothing to run."""
    assert worker.up
    assert worker.iteration is None
    worker.awake = False
    worker.admit(restores, now)
    iteration = Iteration()
    if inputs.scheduler == Scheduler.MIXED or not worker.admitted(Stage.PREFILL):
        iteration.plain = worker.admitted(Stage.DECODE)
        if assist is not None:
            assist.plan(iteration, now)
        _take_pages(worker, iteration, assist)
        if iteration.ahead is not None and not iteration.verified:  # a plain pass then, of all
            iteration.plain = worker.admitted(Stage.DECODE)
            iteration.ahead = None
            _take_pages(worker, iteration, assist)
    if not iteration.verified:
        iteration.drafts = 0
    iteration.chunks = worker.chunks(max(0, inputs.token_budget - iteration.decode_rows))
    if iteration.sequences or iteration.chunks:
        _set_times(inputs, worker, iteration, assist, now)
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
        request.old_copy.release()


def _set_times(
    inputs: ReplayInput, worker: Worker, iteration: Iteration, assist: Assist | None, now: int
) -> None:
    chunk_tokens = sum(chunk.tokens for chunk in iteration.chunks)
    last_chunks = sum(chunk.is_last for chunk in iteration.chunks)
    verify_ps = worker.iteration_ps(
        now,
        iteration.decode_rows + chunk_tokens,
        iteration.decode_rows + last_chunks,
        sum(chunk.pairs for chunk in iteration.chunks),
        iteration.context_tokens(inputs.costs.verify_context_ppm),
        iteration.sequences,
    )
    duration = verify_ps
    if iteration.verified:
        assert assist is not None
        iteration.draft_ps, duration = pass_times(
            inputs, iteration, verify_ps, primed=assist.primed and iteration.ahead is not None
        )
        assert verify_ps <= duration
        assert iteration.draft_ps + (verify_ps if iteration.ahead is None else 0) <= duration
    if assist is not None:
        assist.started(iteration)
    iteration.start_ps = now
    iteration.end_ps = now + duration
