"""The gateway: where requests and their checkpoints go, by what it believes."""

from __future__ import annotations

from collections import Counter

from lumen_policy.decide.placement import choose_holder, kv_load, next_on_ring
from lumen_policy.decide.routing import (
    least_kv,
    least_loaded,
    power_of_two,
    prefer_holder,
    round_robin,
    shortest_queue,
)
from lumen_policy.replay.contract import (
    NONE,
    EvictionOrder,
    Placement,
    ReplayInput,
    Router,
    Routing,
)
from lumen_policy.replay.draws import ROUTER, draw

from .checkpoint import Copy, Holder
from .loads import Loads
from .log import InterruptionLog
from .request import Request, Stage, pages_of
from .restores import Restores
from .worker import Worker

__all__ = ["Gateway"]


class Gateway:
    """Routes requests, chooses holders and keeps the waiting line of a dead cluster."""

    def __init__(
        self,
        inputs: ReplayInput,
        workers: list[Worker],
        store: Holder,
        requests: list[Request],
        loads: Loads,
        restores: Restores,
        log: InterruptionLog,
        counters: Counter[str],
    ) -> None:
        self.inputs = inputs
        self.policy = inputs.policy
        self.rules = inputs.rules
        self.weights = inputs.policy.token_weight, inputs.policy.request_weight
        self.workers = workers
        self.store = store
        self.requests = requests
        self.loads = loads
        self.restores = restores
        self.log = log
        self.counters = counters
        self.waiting: list[Request] = []
        self.last_round_robin = NONE

    # Routing.

    def send(self, request: Request, now: int) -> None:
        """Route a new or interrupted request, or let it wait where no worker takes it."""
        refused_by: list[Worker] = []
        while True:
            live = [int(worker.believed_live and worker not in refused_by) for worker in self.workers]
            if not any(live):
                self.waiting.append(request)
                self.counters["gateway_waited"] += 1
                return
            source = None
            if request.must_recover:
                index, source = self._route_interrupted(request, live, now)
            else:
                index = self._route_arrival(request, live, now)
            server = self.workers[index]
            assert live[index]
            if not server.refuses:
                self._dispatch(request, server, source, now)
                return
            self.counters["refused_sends"] += 1
            refused_by.append(server)
            server.refusals_left -= 1
            if server.refusals_left == 0:
                self.re_replicate(self.believe_dead(server), now)

    def flush(self, now: int) -> None:
        """Workers are back: send those who waited, in order."""
        waiting, self.waiting = self.waiting, []
        for request in waiting:
            self.send(request, now)

    def send_home(self, worker: Worker, now: int) -> None:
        """The worker is back: its requests that waited for it."""
        for request in self.requests:
            if request.waits_for is worker:
                request.waits_for = None
                candidate = self._candidate(request, self.loads.live())
                everywhere = self.policy.routing == Routing.ANYWHERE or self.rules.remote_restore
                if candidate is not None and candidate.holder.worker is not worker and not everywhere:
                    candidate = None
                self._dispatch(request, worker, candidate, now)

    def _route_arrival(self, request: Request, live: list[int], now: int) -> int:
        match self.inputs.router:
            case Router.JSQ:
                return shortest_queue(live, self.loads.seen_queue(now))
            case Router.ROUND_ROBIN:
                self.last_round_robin = round_robin(live, self.last_round_robin)
                return self.last_round_robin
            case Router.POWER_OF_TWO:
                first, second = (
                    draw(self.inputs.seed, ROUTER, request.index, which) >> 32 for which in (0, 1)
                )
                return power_of_two(live, self.loads.seen_queue(now), first, second)
            case Router.LEAST_KV:
                return least_kv(live, self.loads.seen_kv_tokens())
        raise AssertionError(f"no router {self.inputs.router}")

    def _candidate(self, request: Request, live: list[int]) -> Copy | None:
        """The copy that would bring most, among holders believed live; none if it would bring nothing."""
        assert request.old_copy is None
        best = None
        for copy in request.all_copies:
            reachable = copy.holder is self.store or live[copy.holder.index]
            if reachable and self.restores.saved(copy) > (self.restores.saved(best) if best else 0):
                best = copy
        return best

    def _route_interrupted(self, request: Request, live: list[int], now: int) -> tuple[int, Copy | None]:
        """The new server, and the copy from which the request is restored there."""
        queue, held = self.loads.seen_queue(now), self.loads.seen_held_tokens()
        candidate = self._candidate(request, live)
        home = candidate.holder.worker if candidate else None
        match self.policy.routing:
            case Routing.SHORTEST_QUEUE:
                return shortest_queue(live, queue), None
            case Routing.HOLDER:
                if home is not None:
                    return home.index, candidate
                return shortest_queue(live, queue), None
            case Routing.LOAD_AWARE:
                if home is not None and candidate is not None:
                    load = kv_load(self.weights[0], held[home.index], self.weights[1], queue[home.index])
                    saved = self.restores.saved(candidate)
                    if prefer_holder(1, load, saved, self.policy.theta, self.policy.tau_tokens):
                        return home.index, candidate
                server = least_loaded(live, held, queue, *self.weights)
                return server, candidate if self.rules.remote_restore else None
            case Routing.ANYWHERE:
                return shortest_queue(live, queue), candidate
        raise AssertionError(f"no routing {self.policy.routing}")

    def _dispatch(self, request: Request, server: Worker, source: Copy | None, now: int) -> None:
        assert server.believed_live
        assert not server.refuses
        assert request.old_copy is None
        assert request.waits_for is None
        request.server = server
        request.last_server = server.index
        if request.dispatch_ps == NONE:
            request.dispatch_ps = now
        self.counters["peak_queue"] = max(self.counters["peak_queue"], *self.loads.queue())
        self.loads.routed(request)
        interrupted = request.must_recover
        if interrupted:
            self.log.redispatch(request, now, source is not None)
            request.must_recover = False
        for copy in request.all_copies:
            if copy is not source:
                copy.release()
        if source is not None:
            request.copies = [None, None]
            request.old_copy = source
            if not source.holder.alive and source.holder.worker is not server:
                self.restores.fail(request)
        self._choose_missing(request, now)
        server.enqueue(request, interrupted and self.rules.front, now)
        if not server.up:
            self.counters["sent_after_crash"] += 1

    # Holders.

    def _choose_missing(self, request: Request, now: int) -> None:
        """A first copy, and a second where there are to be two."""
        server = request.server
        assert server is not None
        if self.policy.placement == Placement.OFF:
            return
        if request.copies[0] is None:
            avoided = [server] if self.rules.anti_affinity else []
            holder = self._choose_holder(request, server, avoided, now)
            if holder is None:
                return
            request.copies[0] = holder.open(request, now)
            request.last_holder = holder.index
        if self.rules.second_replica and self.policy.placement != Placement.STORE and not request.copies[1]:
            first_copy = request.copies[0]
            assert first_copy is not None
            first = first_copy.holder.worker
            assert first is not None
            avoided = [first, server] if self.rules.anti_affinity else [first]
            holder = self._choose_holder(request, server, avoided, now)
            if holder is not None:
                request.copies[1] = holder.open(request, now)

    def _choose_holder(
        self, request: Request, server: Worker, avoided: list[Worker], now: int
    ) -> Holder | None:
        """A holder outside the failure domains of the workers to be avoided."""
        if self.policy.placement == Placement.STORE:
            return self.store
        domains = [self._domain(worker) for worker in avoided]
        live = [int(worker.believed_live and self._domain(worker) not in domains) for worker in self.workers]
        if self.policy.placement == Placement.RING:
            chosen = next_on_ring(server.index, live)
        else:
            assert self.policy.placement == Placement.LOAD_AWARE
            evicts = self.rules.eviction != EvictionOrder.REFUSE
            chosen = choose_holder(
                server.index,
                0 if evicts else pages_of(request.context),
                live,
                [0 for _ in self.workers] if evicts else self.loads.seen_free_pages(),
                self.loads.seen_held_tokens(),
                self.loads.seen_queue(now),
                *self.weights,
            )
        return self.workers[chosen].holds if chosen != NONE else None

    def _domain(self, worker: Worker) -> int:
        return worker.index if self.rules.domain is None else int(self.rules.domain[worker.index])

    def re_replicate(self, losers: list[Request], now: int) -> None:
        """Requests whose copy went with its holder get a new one."""
        if not self.rules.re_replicate:
            return
        for request in self.requests:
            if request in losers and request.unfinished_at is not None:
                if request.copies[0] is None:
                    request.copies = [request.copies[1], None]
                self._choose_missing(request, now)

    # Workers that are down, once known.

    def believe_dead(self, worker: Worker) -> list[Request]:
        """The books of the worker open; the requests that lost a copy there."""
        worker.refusals_left = 0
        losers = worker.holds.open_books()
        self.loads.report(worker)
        return losers

    def take_from(self, workers: list[Worker], now: int) -> list[Request]:
        """The requests of workers that failed or stop are interrupted, in order of arrival."""
        interrupted = [request for request in self.requests if request.unfinished_at in workers]
        for request in interrupted:
            assert request.server is not None
            assert request.server.outage is not None
            self.log.interrupt(request, request.server.outage.crash_ps)
            request.server = None
            request.leave_worker(Stage.AWAY)
            request.must_recover = True
            if self.rules.regenerate:
                request.delivered = 0
            if request.old_copy is not None:  # its restore never ended
                old_copy = request.old_copy
                for copy in request.all_copies:
                    if copy is not old_copy:
                        assert copy.arrived == 0
                        copy.release()
                request.copies, request.old_copy = [old_copy, None], None
        for worker in workers:
            worker.clear()
        return interrupted
