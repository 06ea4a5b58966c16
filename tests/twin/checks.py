"""What must hold at the end of every instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .request import Request, Stage
from .worker import Worker, WorkerState

if TYPE_CHECKING:
    from .checkpoint import Holder
    from .simulation import Simulation

__all__ = ["check"]


def check(run: Simulation) -> None:
    """Pages, budgets, places, copies and tokens agree with one another."""
    in_system = [request for request in run.requests[: run.next_arrival] if request.stage is not Stage.DONE]
    for worker in run.workers:
        _check_worker(run, worker)
    for holder in run.holders:
        _check_holder(holder)
    for request in in_system:
        assert request.delivered < request.output
        assert _places(run, request) == 1
        _check_copies(request)
    _check_tokens(run)


def _check_worker(run: Simulation, worker: Worker) -> None:
    assert sum(request.pages for request in worker.batch) + worker.free_pages == run.costs.pool_pages
    assert worker.free_pages >= 0
    assert len(worker.batch) <= run.inputs.max_batch
    on_worker = worker.batch + worker.queue + worker.stranded
    assert len(set(on_worker)) == len(on_worker)
    assert set(on_worker) == {request for request in run.requests if request.unfinished_at is worker}
    if worker.state is not WorkerState.CRASHED:
        assert not worker.stranded
    if worker.state not in (WorkerState.UP, WorkerState.SILENT):
        assert not worker.batch
        assert worker.iteration is None
    if worker.state in (WorkerState.RELOADING, WorkerState.AWAY):
        assert not on_worker
    if worker.up and worker.iteration is None:
        assert worker.batch or not worker.queue
        assert all(request.stage is Stage.RESTORING for request in worker.batch)
    if worker.up and worker.draining is None:
        assert worker.believed_live
    if not worker.up:
        assert all(worker not in (assist.target,) for assist in run.help.assists)
        assert not any(parcel.sender is worker for parcel in run.network.under_way)
    silent_or_crashed = worker.state in (WorkerState.SILENT, WorkerState.CRASHED)
    assert worker.holds.closed == (silent_or_crashed or worker.refuses)
    assert silent_or_crashed == (worker.detection_ps != -1 or worker.return_ps != -1) or (
        worker.state is WorkerState.AWAY
    )


def _check_holder(holder: Holder) -> None:
    assert holder.used_pages <= holder.budget_pages
    for copy in holder.copies:
        assert copy.holder is holder
        assert copy.released == (copy not in copy.request.all_copies)
        assert holder.closed or not copy.released


def _places(run: Simulation, request: Request) -> int:
    """At how many places the request is."""
    on_workers = [worker.batch + worker.queue + worker.stranded for worker in run.workers]
    return (
        sum(place.count(request) for place in on_workers)
        + run.gateway.waiting.count(request)
        + (request.waits_for is not None)
    )


def _check_copies(request: Request) -> None:
    for copy in request.all_copies:
        assert copy.request is request
        assert copy in copy.holder.copies
        assert copy.arrived <= max(request.most_kv, request.existing_kv)
        parcel = copy.under_way
        if parcel is not None:
            assert parcel.copy is copy
            assert not parcel.lost
            assert copy.holder.alive
    first, second = request.copies
    if second is not None and first is not None:
        assert first.holder is not second.holder
    if request.old_copy is not None:
        assert request.stage in (Stage.QUEUED, Stage.RESTORING, Stage.AWAY)
        assert all(copy.arrived == 0 for copy in request.copies if copy is not None)


def _check_tokens(run: Simulation) -> None:
    """Sent, arrived and held tokens add up."""
    count = run.counters
    parcels = run.network.under_way
    assert all(parcel.copy.under_way is parcel for parcel in parcels)
    under_way = sum(parcel.tokens for parcel in parcels)
    gone = count["refused_tokens"] + count["lost_tokens"]
    assert count["sent_tokens"] == count["arrived_tokens"] + gone + under_way
    held = sum(holder.held_tokens for holder in run.holders)
    assert count["arrived_tokens"] == count["evicted_tokens"] + count["released_tokens"] + held
