"""The replay: from instant to instant, every kind of event in its order."""

from __future__ import annotations

from collections import Counter

from lumen_policy.replay.contract import NONE, EvictionOrder, ReplayInput, ReplayOutput, Status

from .boundary import start_iteration
from .checkpoint import Holder
from .checks import check
from .gateway import Gateway
from .helping import Help
from .links import Network
from .loads import Loads
from .log import GapLog, InterruptionLog
from .outages import Outages, restorable
from .report import Snapshot, report
from .request import Request, Stage, pages_of
from .restores import Restores
from .worker import Iteration, Worker

__all__ = ["replay"]

UNLIMITED_PAGES = 2**62


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
        self.holders = [
            Holder(index, None, inputs.policy.budget_pages, inputs.rules.eviction, self.counters)
            for index in range(inputs.workers)
        ]
        self.workers = [Worker(index, inputs, holder) for index, holder in enumerate(self.holders)]
        self.store = Holder(inputs.workers, None, UNLIMITED_PAGES, EvictionOrder.REFUSE, self.counters)
        self.holders.append(self.store)
        self.requests = [
            Request(index, int(arrival), int(prompt), int(output))
            for index, (arrival, prompt, output) in enumerate(
                zip(inputs.arrival_ps, inputs.prompt_tokens, inputs.output_tokens, strict=True)
            )
        ]
        self.interruptions = InterruptionLog()
        self.loads = Loads(inputs, self.workers, self.requests)
        self.network = Network(inputs, self.holders, self.counters)
        self.restores = Restores(inputs, self.requests, self.counters)
        self.gateway = Gateway(
            inputs,
            self.workers,
            self.store,
            self.requests,
            self.loads,
            self.restores,
            self.interruptions,
            self.counters,
        )
        self.help = Help(self)
        self.outages = Outages(self)
        self.gaps = GapLog()
        self.sends: dict[Worker, list[Request]] = {}  # whose KV grew in the iteration that ended now
        self.snapshots: list[Snapshot] = []
        self.held_integral = 0
        self.held_before = 0
        self.next_arrival = 0
        self.next_report_ps = 0 if inputs.rules.load_report_ps > 0 else NONE

    # The clock.

    def run(self) -> None:
        while True:
            events = self._pending_ps()
            snapshots = [int(ps) for ps in self.inputs.snapshot_ps[len(self.snapshots) :]]
            if not events and not snapshots:
                break
            now = min(events + snapshots + self.network.pending_ps)
            assert now >= self.now
            self._report_before(now)
            self.now = now
            if now in events:
                self.end_ps = now
            self._instant()
        assert all(request.status is not Status.PENDING for request in self.requests)
        assert not self.network.under_way

    def _pending_ps(self) -> list[int]:
        """The instants of everything that is to come."""
        pending = [request.arrival_ps for request in self.requests[self.next_arrival :][:1]]
        for worker in self.workers:
            if worker.up:
                if worker.iteration is not None:
                    pending.append(worker.iteration.end_ps)
                pending += [request.restore_end_ps for request in worker.admitted(Stage.RESTORING)]
        return pending + self.outages.pending_ps + self.help.pending_ps

    def _report_before(self, now: int) -> None:
        """Load reports between this instant and the next: nothing changes in between, so the last will do."""
        every = self.inputs.rules.load_report_ps
        if every > 0 and self.next_report_ps < now:
            self.loads.report_all()
            self.next_report_ps = -(-now // every) * every

    def _instant(self) -> None:
        self._end_iterations()
        self._move_kv()
        self.outages.strike()
        self.outages.detect()
        self.outages.come_back()
        self.help.draft_ready()
        self.help.retarget()
        self.help.end()
        if self.next_report_ps == self.now:
            self.loads.report_all()
            self.next_report_ps += self.inputs.rules.load_report_ps
        self._snapshot()
        self._arrive()
        self._start_iterations()
        held = sum(self.loads.held_tokens())
        self.held_integral -= (held - self.held_before) * self.now
        self.held_before = held
        check(self)

    # (0) Iteration ends.

    def _end_iterations(self) -> None:
        for worker in self.workers:
            iteration = worker.iteration
            if worker.up and iteration is not None and iteration.end_ps == self.now:
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
            elif self.inputs.rules.stream_prefill:
                self.sends.setdefault(worker, []).append(request)
        self.counters["iterations"] += 1
        self.counters["decode_tokens"] += decoded
        if iteration.verified:
            self.counters["assisted_passes"] += 1
            self.counters["assisted_ps"] += iteration.end_ps - iteration.start_ps
            self.counters["draft_busy_ps"] += iteration.draft_ps
            self.counters["ping_pong_passes"] += iteration.ahead is not None
        elif iteration.assist is not None and iteration.plain:
            self.counters["plain_assisted_passes"] += 1
            self.counters["vetoed_passes"] += iteration.vetoed

    def _deliver(self, worker: Worker, request: Request, tokens: int) -> None:
        """`tokens` tokens of a request exist now; it leaves with its last."""
        assert request in worker.batch
        assert request.stage is Stage.DECODE
        assert 1 <= tokens <= request.output - request.delivered
        request.delivered += tokens
        seen = max(0, request.delivered - len(request.seen_ps))
        self.counters["regenerated_tokens"] += max(0, tokens - seen)
        assert seen <= tokens
        if seen > 0:
            if request.seen_ps:
                self.gaps.step(self.now, self.now - request.seen_ps[-1])
            request.seen_ps += [self.now] * seen
            self.interruptions.token(request, self.now)
        request.note_kv()
        if request.delivered < request.output:
            assert request.pages >= pages_of(request.existing_kv)
            self.sends.setdefault(worker, []).append(request)
            return
        worker.batch.remove(request)
        for assist in self.help.assists:
            assist.forget(request)
        request.leave_worker(Stage.DONE)
        request.status = Status.FINISHED
        self.loads.finished(request)
        assert request.old_copy is None
        for copy in request.all_copies:
            copy.release()

    # (1) Transfers and restores.

    def _move_kv(self) -> None:
        for worker in self.workers:
            self.network.send(worker, self.sends.pop(worker, []), self.now)
        assert not self.sends
        self.network.leave(self.now)
        self.network.arrive(self.now)
        for worker in self.workers:
            if worker.up:
                restored = [r for r in worker.admitted(Stage.RESTORING) if r.restore_end_ps == self.now]
                for request in sorted(restored, key=lambda request: request.index):
                    self.restores.end(request)

    # (7) Snapshots.

    def _snapshot(self) -> None:
        if self.now in self.inputs.snapshot_ps[len(self.snapshots) :]:
            running = [request for worker in self.workers if worker.up for request in worker.batch]
            self.snapshots.append(
                Snapshot(
                    queue=self.loads.queue(),
                    held_tokens=self.loads.held_tokens(),
                    live=[int(worker.up) for worker in self.workers],
                    existing_tokens=sum(request.existing_kv for request in running),
                    saved_tokens=sum(restorable(request.existing_kv, request) for request in running),
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
                start_iteration(self.inputs, worker, self.help.of(worker), self.restores, self.now)
