"""The replay: from instant to instant, every kind of event in its order."""

from __future__ import annotations

from collections import Counter

from lumen_policy.decide.assist import choose_target
from lumen_policy.replay.contract import NONE, ReplayInput, ReplayOutput, Status

from .assist import Assist
from .boundary import start_iteration
from .checkpoint import Copy
from .checks import check
from .gateway import Gateway
from .log import GapLog, InterruptionLog, Outage
from .report import Snapshot, report
from .request import Request, Stage, pages_of
from .worker import Iteration, Reload, Worker, WorkerState

__all__ = ["replay"]


def replay(inputs: ReplayInput) -> ReplayOutput:
    """Replay one iteration at a time, as docs/semantics.md says."""
    simulation = Simulation(inputs)
    simulation.run()
    return report(simulation)


class Simulation:
    """The cluster and its clock."""

    def __init__(self, inputs: ReplayInput) -> None:
        self.inputs = inputs
        self.costs = inputs.costs
        self.now = 0
        self.end_ps = 0
        self.counters: Counter[str] = Counter()
        self.workers = [Worker(index, inputs) for index in range(inputs.workers)]
        self.requests = [
            Request(index, int(arrival), int(prompt), int(output))
            for index, (arrival, prompt, output) in enumerate(
                zip(inputs.arrival_ps, inputs.prompt_tokens, inputs.output_tokens, strict=True)
            )
        ]
        self.interruptions = InterruptionLog()
        self.gateway = Gateway(inputs, self.workers, self.requests, self.interruptions, self.counters)
        self.gaps = GapLog()
        self.outages: list[Outage] = []
        self.assists: list[Assist] = []
        self.transfers: list[Request] = []
        self.snapshots: list[Snapshot] = []
        self.coverage: list[tuple[int, int]] = []  # existing and saved tokens of each crash instant
        self.held_integral = 0
        self.held_before = 0
        self.next_arrival = 0
        self.next_crash = 0

    # The clock.

    def run(self) -> None:
        while True:
            events = self._pending_ps()
            snapshots = [int(ps) for ps in self.inputs.snapshot_ps[len(self.snapshots) :]]
            if not events and not snapshots:
                break
            now = min(events + snapshots)
            assert now >= self.now
            self.now = now
            if now in events:
                self.end_ps = now
            self._instant()
        assert all(request.status is not Status.PENDING for request in self.requests)

    def _pending_ps(self) -> list[int]:
        """The instants of everything that is to come."""
        pending = [request.arrival_ps for request in self.requests[self.next_arrival :][:1]]
        pending += [int(ps) for ps in self.inputs.crash_ps[self.next_crash :][:1]]
        for worker in self.workers:
            if worker.iteration is not None:
                pending.append(worker.iteration.end_ps)
            pending += [request.restore_end_ps for request in worker.admitted(Stage.RESTORING)]
            if worker.detection_ps != NONE:
                pending.append(worker.detection_ps)
            if worker.reload is not None:
                reload = worker.reload
                stages = reload.draft_ready_ps, reload.assist_end_ps, reload.rejoin_ps
                pending += [ps for ps in stages if ps != NONE]
        return pending

    def _instant(self) -> None:
        self._end_iterations()
        self._move_kv()
        self._crash()
        self._detect()
        self._rejoin()
        self._draft_ready()
        self._assist_end()
        self._snapshot()
        self._arrive()
        self._start_iterations()
        held = sum(self.gateway.held_tokens())
        self.held_integral -= (held - self.held_before) * self.now
        self.held_before = held
        check(self)

    # (0) Iteration ends.

    def _end_iterations(self) -> None:
        for worker in self.workers:
            iteration = worker.iteration
            if iteration is not None and iteration.end_ps == self.now:
                worker.iteration = None
                worker.awake = True
                self._end_iteration(worker, iteration)

    def _end_iteration(self, worker: Worker, iteration: Iteration) -> None:
        decoded = len(iteration.plain)
        for request in iteration.plain:
            self._deliver(worker, request, 1)
        for request in iteration.verified:
            assert iteration.assist is not None
            accepted = iteration.assist.accept(request, iteration.drafts)
            delivered = min(accepted + 1, request.output - request.delivered)
            decoded += delivered
            self.counters["drafted_tokens"] += iteration.drafts
            self.counters["accepted_tokens"] += accepted
            self.counters["verified_sequences"] += 1
            self.counters["verified_tokens"] += delivered
            self._deliver(worker, request, delivered)
        for chunk in iteration.chunks:
            request = chunk.request
            end = chunk.start + chunk.tokens
            last = chunk.is_last
            request.recomputed += max(0, min(end, request.most_kv) - chunk.start)
            request.prefilled = end
            request.note_kv()
            self.counters["prefill_tokens"] += chunk.tokens
            if last:
                request.stage = Stage.DECODE
                self._deliver(worker, request, 1)
        self.counters["iterations"] += 1
        self.counters["decode_tokens"] += decoded
        if iteration.verified:
            self.counters["assisted_passes"] += 1
            self.counters["assisted_ps"] += iteration.end_ps - iteration.start_ps
            self.counters["draft_busy_ps"] += iteration.draft_ps
        elif iteration.assist is not None and iteration.plain:
            self.counters["plain_assisted_passes"] += 1
            self.counters["vetoed_passes"] += iteration.vetoed

    def _deliver(self, worker: Worker, request: Request, tokens: int) -> None:
        """`tokens` tokens of a request exist now; it leaves with its last."""
        assert request in worker.batch
        assert request.stage is Stage.DECODE
        assert 1 <= tokens <= request.output - request.delivered
        if request.delivered_ps:
            self.gaps.step(self.now, self.now - request.delivered_ps[-1])
        request.delivered_ps += [self.now] * tokens
        request.note_kv()
        self.interruptions.token(request, self.now)
        if request.delivered < request.output:
            assert request.pages >= pages_of(request.existing_kv)
            self.transfers.append(request)
            return
        worker.batch.remove(request)
        for assist in self.assists:
            assist.forget(request)
        request.leave_worker(Stage.DONE)
        request.status = Status.FINISHED
        if request.copy is not None:
            request.copy.holder.store.release(request.copy)
            request.copy = None

    # (1) Transfers and restores.

    def _move_kv(self) -> None:
        arriving = [
            (request.copy.holder.index, request.index, request.copy)
            for request in self.transfers
            if request.copy is not None
        ]
        self.transfers.clear()
        for _, _, copy in sorted(arriving, key=lambda move: move[:2]):
            copy.holder.store.receive(copy, copy.request.existing_kv)
        for worker in self.workers:
            restored = [r for r in worker.admitted(Stage.RESTORING) if r.restore_end_ps == self.now]
            for request in sorted(restored, key=lambda request: request.index):
                self._end_restore(request)

    def _end_restore(self, request: Request) -> None:
        copy = request.old_copy
        assert copy is not None
        assert request.server is copy.holder
        saved = copy.saved
        copy.holder.store.release(copy)
        copy.holder.awake = True
        request.old_copy = None
        request.restore_end_ps = NONE
        request.restored += saved
        self.counters["restores"] += 1
        self.counters["restored_bytes_tokens"] += saved
        if request.context - saved == 1:
            request.stage = Stage.DECODE
        else:
            request.stage = Stage.PREFILL
            request.prefilled = saved
        request.note_kv()

    # (2) Crashes.

    def _crash(self) -> None:
        crash_ps = self.inputs.crash_ps
        lost: list[tuple[int, Copy | None]] = []  # existing KV and copy of each admitted request
        crashed = False
        while self.next_crash < len(crash_ps) and crash_ps[self.next_crash] == self.now:
            crashed = True
            worker = self.workers[int(self.inputs.crash_worker[self.next_crash])]
            delay = int(self.inputs.detection_ps[self.next_crash])
            self.next_crash += 1
            if worker.state is WorkerState.UP:
                lost += [(request.existing_kv, request.copy) for request in worker.batch]
                worker.crash(self.now)
                worker.detection_ps = self.now + delay
                self.outages.append(Outage(worker.index, self.now))
                self._end_help(worker)
            elif worker.state is WorkerState.RELOADING:
                self._end_help(worker)
                self._start_reload(worker)
        if crashed:
            existing = sum(tokens for tokens, _ in lost)
            self.coverage.append((existing, sum(self._restorable(*pair) for pair in lost)))

    def _end_help(self, worker: Worker) -> None:
        """The help ends with its drafter or its target."""
        self.assists = [a for a in self.assists if worker not in (a.drafter, a.target)]

    @staticmethod
    def _restorable(existing: int, copy: Copy | None) -> int:
        return min(existing, copy.saved) if copy is not None and copy.holder.up else 0

    # (3) to (6) Detection and reload.

    def _detect(self) -> None:
        dead = [worker for worker in self.workers if worker.detection_ps == self.now]
        for worker in dead:
            worker.detection_ps = NONE
            self._outage(worker).detection_ps = self.now
            self._start_reload(worker)
        if dead:
            self.gateway.interrupt(dead, self.now)

    def _start_reload(self, worker: Worker) -> None:
        costs = self.costs
        begin = self.now + costs.restart_ps
        if self.inputs.policy.k == 0 or costs.draft is None:
            worker.reload = Reload(NONE, NONE, begin + costs.full_load_ps + costs.engine_init_ps)
        else:
            ready = begin + costs.draft_load_ps + costs.draft_init_ps
            loaded = ready + costs.full_load_ps
            worker.reload = Reload(ready, loaded, loaded + costs.engine_init_ps)
        outage = self._outage(worker)
        outage.draft_ready_ps = outage.assist_target = outage.assist_end_ps = NONE

    def _outage(self, worker: Worker) -> Outage:
        return [outage for outage in self.outages if outage.worker == worker.index][-1]

    def _rejoin(self) -> None:
        back = [worker for worker in self.workers if worker.reload and worker.reload.rejoin_ps == self.now]
        for worker in back:
            assert worker.reload is not None
            worker.reload.rejoin_ps = NONE
            worker.rejoin()
            self._outage(worker).rejoin_ps = self.now
        if back:
            self.gateway.flush(self.now)

    def _draft_ready(self) -> None:
        for worker in self.workers:
            if worker.reload is None or worker.reload.draft_ready_ps != self.now:
                continue
            worker.reload.draft_ready_ps = NONE
            outage = self._outage(worker)
            outage.draft_ready_ps = self.now
            targets = [assist.target for assist in self.assists]
            outage.assist_target = choose_target(
                self.gateway.live(),
                [int(candidate in targets) for candidate in self.workers],
                self.gateway.held_tokens(),
                self.gateway.queue(),
                self.inputs.policy.token_weight,
                self.inputs.policy.request_weight,
            )
            if outage.assist_target != NONE and self.workers[outage.assist_target].up:
                target = self.workers[outage.assist_target]
                self.assists.append(Assist(self.inputs, worker, target, self.now, self.counters))

    def _assist_end(self) -> None:
        for worker in self.workers:
            if worker.reload is not None and worker.reload.assist_end_ps == self.now:
                worker.reload.assist_end_ps = NONE
                self._outage(worker).assist_end_ps = self.now
                self.assists = [assist for assist in self.assists if assist.drafter is not worker]

    # (7) Snapshots.

    def _snapshot(self) -> None:
        if self.now in self.inputs.snapshot_ps:
            running = [request for worker in self.workers if worker.up for request in worker.batch]
            self.snapshots.append(
                Snapshot(
                    queue=self.gateway.queue(),
                    held_tokens=self.gateway.held_tokens(),
                    live=[int(worker.up) for worker in self.workers],
                    existing_tokens=sum(request.existing_kv for request in running),
                    saved_tokens=sum(
                        self._restorable(request.existing_kv, request.copy) for request in running
                    ),
                )
            )

    # (8) Arrivals.

    def _arrive(self) -> None:
        while (
            self.next_arrival < len(self.requests) and self.requests[self.next_arrival].arrival_ps == self.now
        ):
            request = self.requests[self.next_arrival]
            self.next_arrival += 1
            if pages_of(request.prompt + request.output) > self.costs.pool_pages:
                request.status = Status.REFUSED_TOO_LONG
                request.stage = Stage.DONE
            else:
                self.gateway.send(request, self.now)

    # (9) Admission and start.

    def _start_iterations(self) -> None:
        for worker in self.workers:
            if worker.awake and worker.iteration is None:
                helping = [assist for assist in self.assists if assist.target is worker]
                assert len(helping) <= 1
                start_iteration(self.inputs, worker, helping[0] if helping else None, self.now)
