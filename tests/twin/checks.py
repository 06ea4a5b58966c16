"""What must hold at the end of every instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .request import Request, Stage
from .worker import Worker

if TYPE_CHECKING:
    from .simulation import Simulation

__all__ = ["check"]


def check(run: Simulation) -> None:
    """Pages, budgets, places and copies agree with one another."""
    in_system = [request for request in run.requests[: run.next_arrival] if request.stage is not Stage.DONE]
    for worker in run.workers:
        _check_worker(run, worker)
        if worker.up:
            on_worker = worker.batch + worker.queue
            assert len(set(on_worker)) == len(on_worker)
            assert set(on_worker) == {request for request in in_system if request.server is worker}
    for request in in_system:
        assert request.delivered < request.output
        assert request.server is not None or request in run.gateway.waiting
        _check_copies(request)


def _check_worker(run: Simulation, worker: Worker) -> None:
    assert sum(request.pages for request in worker.batch) + worker.free_pages == run.costs.pool_pages
    assert worker.free_pages >= 0
    assert len(worker.batch) <= run.inputs.max_batch
    assert worker.store.used_pages <= run.inputs.policy.budget_pages
    if not worker.up:
        assert not worker.batch
        assert worker.iteration is None
    if not worker.believed_live:
        assert not worker.store.copies
        assert not worker.queue
    if worker.up and worker.iteration is None:
        assert worker.batch or not worker.queue
        assert all(request.stage is Stage.RESTORING for request in worker.batch)
    if not worker.store.frozen:
        for copy in worker.store.copies:
            assert copy in (copy.request.copy, copy.request.old_copy)


def _check_copies(request: Request) -> None:
    for copy in (request.copy, request.old_copy):
        if copy is not None and not copy.holder.store.frozen:
            assert copy in copy.holder.store.copies
            assert copy.arrived < request.context
    if request.old_copy is not None:
        assert request.old_copy.holder is request.server
