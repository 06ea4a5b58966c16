"""Stages (2) to (4): workers fail, stop, are noticed and come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lumen_policy.replay.contract import NONE, PAGE_TOKENS, FaultKind

from .faults import Fault, read_faults
from .log import Outage
from .request import Request
from .worker import Reload, Worker, WorkerState

if TYPE_CHECKING:
    from .simulation import Simulation

__all__ = ["Outages"]


class Outages:
    """What faults do to workers."""

    def __init__(self, run: Simulation) -> None:
        self.run = run
        self.faults = read_faults(run.inputs.faults)
        self.log: list[Outage] = []
        self.coverage: list[tuple[int, int]] = []  # existing and saved tokens of each instant of faults

    @property
    def pending_ps(self) -> list[int]:
        pending = [fault.ps for fault in self.faults[:1]]
        for worker in self.run.workers:
            pending += [ps for ps in (worker.detection_ps, worker.return_ps) if ps != NONE]
            if worker.reload is not None and worker.reload.rejoin_ps != NONE:
                pending.append(worker.reload.rejoin_ps)
        return pending

    # (2) Faults and stops.

    def strike(self) -> None:
        now = self.run.now
        due = [fault for fault in self.faults if fault.ps == now]
        self.faults = [fault for fault in self.faults if fault.ps > now]
        lost: list[tuple[int, Request]] = []  # existing KV of each admitted request of a worker that failed
        migrating: list[Worker] = []
        for fault in due:
            worker = self.run.workers[fault.worker]
            running = [(request.existing_kv, request) for request in worker.batch]
            match fault.kind:
                case FaultKind.CRASH:
                    if self._crash(worker, fault):
                        lost += running
                case FaultKind.HANG | FaultKind.UNREACHABLE:
                    if self._fall_silent(worker, fault):
                        lost += running
                case FaultKind.SLOW:
                    worker.slow = fault
                case FaultKind.DRAIN:
                    self._drain(worker, fault)
                case FaultKind.MIGRATE:
                    if self._drain(worker, fault):
                        migrating.append(worker)
        if due:
            existing = sum(tokens for tokens, _ in lost)
            self.coverage.append((existing, sum(restorable(*pair) for pair in lost)))
        if migrating:
            self._migrate(migrating)
        for worker in self.run.workers:
            if worker.up and worker.draining is not None and self.run.loads.queue()[worker.index] == 0:
                self._stop(worker)

    def _go_dark(self, worker: Worker) -> None:
        """Nobody hears from the worker any more."""
        self.run.network.cut(worker)
        worker.nic_free_ps = 0
        self.run.restores.fail_from(worker.holds)
        self.run.help.end_for(worker)

    def _new_outage(self, worker: Worker, fault: Fault) -> Outage:
        outage = Outage(worker.index, fault.kind, fault.ps)
        self.log.append(outage)
        worker.outage = outage
        worker.fault = fault
        return outage

    def _crash(self, worker: Worker, fault: Fault) -> bool:
        """Whether the worker was up, or silent and alive in truth."""
        now = self.run.now
        holds = worker.holds
        was_serving = worker.state in (WorkerState.UP, WorkerState.SILENT)
        if was_serving:
            detection = now + fault.delay_ps
            if worker.up:
                worker.note_places()
                self._new_outage(worker, fault).stop_ps = now
            else:
                detection = min(detection, worker.noticed_ps)
                worker.fault = fault
            worker.state = WorkerState.CRASHED
            worker.detection_ps, worker.return_ps = detection, NONE
            worker.drop_batch()
            holds.closed = True
            self._go_dark(worker)
            holds.loses = not fault.keeps_copies
        elif worker.state is WorkerState.CRASHED:
            holds.loses = holds.loses or not fault.keeps_copies
        else:
            self.run.help.end_by(worker)
            worker.state = WorkerState.RELOADING
            worker.return_ps = NONE
            self._start_reload(worker, fault, now)
            if not fault.keeps_copies:
                if holds.closed:
                    assert worker.refuses
                    holds.loses = True
                else:
                    holds.lose_all()
        return was_serving

    def _fall_silent(self, worker: Worker, fault: Fault) -> bool:
        if not worker.up:
            self.run.counters["ignored_faults"] += 1
            return False
        now = self.run.now
        worker.note_places()
        self._new_outage(worker, fault).stop_ps = now
        worker.state = WorkerState.SILENT
        worker.holds.closed = True
        self._go_dark(worker)
        worker.awake = False
        worker.noticed_ps = now + fault.delay_ps
        if fault.back_before_detection:
            worker.return_ps = fault.end_ps
        else:
            worker.detection_ps = worker.noticed_ps
        return True

    def _drain(self, worker: Worker, fault: Fault) -> bool:
        """Whether the worker begins to drain or migrate."""
        if not worker.up or (worker.draining is not None and fault.kind == FaultKind.DRAIN):
            self.run.counters["ignored_faults"] += 1
            return False
        outage = self._new_outage(worker, fault)
        outage.detection_ps = self.run.now
        worker.draining, worker.drain_outage = fault, outage
        return True

    def _migrate(self, workers: list[Worker]) -> None:
        """All are marked: their requests leave together."""
        for worker in workers:
            worker.note_places()
        interrupted = self.run.gateway.take_from(workers, self.run.now)
        self.run.counters["migrated"] += len(interrupted)
        for request in interrupted:
            self.run.gateway.send(request, self.run.now)

    def _stop(self, worker: Worker) -> None:
        assert worker.draining is not None
        assert worker.drain_outage is not None
        assert not worker.batch
        assert not worker.queue
        now = self.run.now
        worker.fault, worker.outage = worker.draining, worker.drain_outage
        worker.draining = worker.drain_outage = None
        worker.state = WorkerState.RELOADING
        worker.awake = False
        worker.outage.stop_ps = now
        self._go_dark(worker)
        worker.holds.lose_all()
        self.run.loads.report(worker)
        self._start_reload(worker, worker.fault, now + worker.fault.length_ps)

    def _start_reload(self, worker: Worker, fault: Fault, since: int) -> None:
        begin = since + fault.restart_ps
        if self.run.inputs.policy.k == 0 or self.run.costs.draft is None:
            worker.reload = Reload(NONE, NONE, begin + fault.load_ps + fault.init_ps)
        else:
            ready = begin + fault.draft_ps
            loaded = ready + fault.load_ps
            worker.reload = Reload(ready, loaded, loaded + fault.init_ps)
        assert worker.outage is not None
        worker.outage.draft_ready_ps = NONE
        worker.outage.assist_target = NONE
        worker.outage.assist_end_ps = NONE

    # (3) Detections.

    def detect(self) -> None:
        now = self.run.now
        dead = [worker for worker in self.run.workers if worker.detection_ps == now]
        if not dead:
            return
        gateway = self.run.gateway
        owners = {request: request.server for request in self.run.requests}
        interrupted = gateway.take_from(dead, now)
        losers = [loser for worker in dead for loser in self._mark(worker)]
        gateway.re_replicate(losers, now)
        for request in interrupted:
            if self.run.inputs.rules.wait:
                request.waits_for = owners[request]
            else:
                gateway.send(request, now)

    def _mark(self, worker: Worker) -> list[Request]:
        """The worker is detected; the requests that lost a copy there."""
        now = self.run.now
        fault, outage = worker.fault, worker.outage
        assert fault is not None
        assert outage is not None
        worker.detection_ps = NONE
        outage.detection_ps = now
        was_draining = worker.draining is not None
        worker.draining = worker.drain_outage = None
        if worker.state is WorkerState.SILENT and fault.kind == FaultKind.UNREACHABLE:
            worker.state = WorkerState.AWAY
            worker.return_ps = max(now, fault.end_ps)
            return self.run.gateway.believe_dead(worker)
        refusals = 0
        if worker.state is WorkerState.CRASHED:
            refusals = 0 if was_draining else fault.refusals
        else:
            worker.holds.loses = not fault.keeps_copies
        worker.state = WorkerState.RELOADING
        self._start_reload(worker, fault, now)
        if refusals > 0:
            worker.refusals_left = refusals
            self.run.loads.report(worker)
            return []
        return self.run.gateway.believe_dead(worker)

    # (4) Rejoins and returns.

    def come_back(self) -> None:
        now = self.run.now
        back = [
            worker
            for worker in self.run.workers
            if worker.return_ps == now or (worker.reload and worker.reload.rejoin_ps == now)
        ]
        losers: list[Request] = []
        rejoined = []
        for worker in back:
            assert worker.outage is not None
            assert worker.fault is not None
            worker.outage.rejoin_ps = now
            if worker.return_ps == NONE:
                rejoined.append(worker)
            if worker.state is WorkerState.SILENT:
                worker.resume(worker.fault.length_ps)
                assert not worker.holds.loses
                worker.holds.open_books()
            else:
                if worker.refuses:
                    losers += self.run.gateway.believe_dead(worker)
                self.run.help.end_for(worker)
                self.run.help.end_by(worker)
                worker.come_up()
                self.run.network.idle(worker)
                self.run.loads.report(worker)
            worker.return_ps = NONE
            if worker.reload is not None:
                worker.reload.rejoin_ps = NONE
        self.run.loads.rejoined(rejoined, now)
        self.run.gateway.re_replicate(losers, now)
        for worker in back:
            self.run.gateway.send_home(worker, now)
        if back:
            self.run.gateway.flush(now)


def restorable(existing: int, request: Request) -> int:
    """Existing tokens that a holder alive in truth could restore."""
    saved = [
        PAGE_TOKENS * (copy.arrived // PAGE_TOKENS)
        for copy in request.copies
        if copy is not None and copy.holder.alive
    ]
    return min(existing, max(saved, default=0))
