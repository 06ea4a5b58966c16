"""Restores: KV comes back from a copy over the links of both ends."""

from __future__ import annotations

from collections import Counter

from lumen_policy.replay.contract import NONE, PAGE_TOKENS, ReplayInput
from lumen_policy.replay.draws import RESTORE, draw

from .checkpoint import Copy, Holder
from .request import Request, Stage
from .worker import Worker

__all__ = ["Restores"]


class Restores:
    """Starts, ends and failures of restores."""

    def __init__(self, inputs: ReplayInput, requests: list[Request], counters: Counter[str]) -> None:
        self.inputs = inputs
        self.costs = inputs.costs
        self.requests = requests
        self.counters = counters
        self.store_free_ps = 0

    def saved(self, copy: Copy) -> int:
        """Whole-page tokens that a restore from the copy brings."""
        saved = PAGE_TOKENS * (copy.arrived // PAGE_TOKENS)
        if self.inputs.rules.regenerate:
            saved = min(saved, PAGE_TOKENS * ((copy.request.prompt - 1) // PAGE_TOKENS))
        return saved

    def start(self, worker: Worker, request: Request, now: int) -> None:
        """The request was admitted: its restore queues on every link it needs."""
        copy = request.old_copy
        assert copy is not None
        assert request.server is worker
        assert 0 < self.saved(copy) < request.context
        request.stage = Stage.RESTORING
        pages = self.saved(copy) // PAGE_TOKENS
        source = copy.holder.worker
        if source is worker:
            start = max(now, worker.host_free_ps)
            end = start + int(self.costs.restore_ps[pages])
        elif source is not None:
            assert source.up
            start = max(now, worker.host_free_ps, source.nic_free_ps)
            end = start + int(self.costs.transfers.remote_restore_ps[pages])
            source.nic_free_ps = end
        else:
            start = max(now, worker.host_free_ps, self.store_free_ps)
            end = start + int(self.costs.transfers.store_restore_ps[pages])
            self.store_free_ps = end
        worker.host_free_ps = end
        request.restore_end_ps = end

    def end(self, request: Request) -> None:
        """The restore is over, for good or bad."""
        copy, worker = request.old_copy, request.server
        assert copy is not None
        assert worker is not None
        saved = self.saved(copy)
        remote = copy.holder.worker is not worker
        copy.release()
        worker.awake = True
        request.restore_end_ps = NONE
        request.stage = Stage.PREFILL
        failed = (
            draw(self.inputs.seed, RESTORE, request.index, request.interruptions)
            < self.inputs.rules.restore_failure
        )
        if failed:
            self.counters["failed_restores"] += 1
            return
        request.restored += saved
        request.prefilled = saved
        self.counters["restores"] += 1
        self.counters["remote_restores"] += remote
        self.counters["restored_bytes_tokens"] += saved
        if request.context - saved == 1:
            request.stage = Stage.DECODE
        request.note_kv()

    def fail_from(self, source: Holder) -> None:
        """The source fails or stops: restores from it on other workers, running or to come, are off."""
        for request in self.requests:
            copy = request.old_copy
            if copy is not None and copy.holder is source and request.server not in (None, source.worker):
                self.fail(request)

    def fail(self, request: Request) -> None:
        """Nothing will come: the request prefills everything."""
        assert request.old_copy is not None
        assert request.server is not None
        request.old_copy.release()
        if request.stage is Stage.RESTORING:
            request.stage = Stage.PREFILL
            request.restore_end_ps = NONE
            request.server.awake = True
