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
from lumen_policy.replay.contract import NONE, Placement, ReplayInput, Router, Routing
from lumen_policy.replay.draws import ROUTER, draw

from .log import InterruptionLog
from .request import Request, Stage, pages_of
from .worker import Worker

__all__ = ["Gateway"]


class Gateway:
    """Routes requests, chooses holders and keeps the waiting line of a dead cluster."""

    def __init__(
        self,
        inputs: ReplayInput,
        workers: list[Worker],
        requests: list[Request],
        log: InterruptionLog,
        counters: Counter[str],
    ) -> None:
        self.inputs = inputs
        self.policy = inputs.policy
        self.workers = workers
        self.requests = requests
        self.log = log
        self.counters = counters
        self.waiting: list[Request] = []
        self.last_round_robin = NONE

    # Loads, counted from scratch.

    def live(self) -> list[int]:
        return [int(worker.believed_live) for worker in self.workers]

    def queue(self) -> list[int]:
        servers = Counter(request.unfinished_at for request in self.requests)
        return [servers[worker] for worker in self.workers]

    def held_tokens(self) -> list[int]:
        return [worker.store.held_tokens for worker in self.workers]

    def kv_tokens(self) -> list[int]:
        return [
            sum(request.context for request in self.requests if request.unfinished_at is worker)
            for worker in self.workers
        ]

    # Routing.

    def send(self, request: Request, now: int) -> None:
        """Route a new or interrupted request, or let it wait where no worker is believed live."""
        if not any(self.live()):
            self.waiting.append(request)
            self.counters["gateway_waited"] += 1
            return
        if request.must_recover:
            server, restores = self._route_interrupted(request)
        else:
            server, restores = self._route_arrival(request), False
        self._dispatch(request, self.workers[server], restores, now)

    def flush(self, now: int) -> None:
        """Workers rejoined: send those who waited, in order."""
        waiting, self.waiting = self.waiting, []
        for request in waiting:
            self.send(request, now)

    def _route_arrival(self, request: Request) -> int:
        live = self.live()
        match self.inputs.router:
            case Router.JSQ:
                return shortest_queue(live, self.queue())
            case Router.ROUND_ROBIN:
                self.last_round_robin = round_robin(live, self.last_round_robin)
                return self.last_round_robin
            case Router.POWER_OF_TWO:
                first, second = (
                    draw(self.inputs.seed, ROUTER, request.index, which) >> 32 for which in (0, 1)
                )
                return power_of_two(live, self.queue(), first, second)
            case Router.LEAST_KV:
                return least_kv(live, self.kv_tokens())
        raise AssertionError(f"no router {self.inputs.router}")

    def _route_interrupted(self, request: Request) -> tuple[int, bool]:
        """The new server, and whether the request is restored there."""
        live, queue, held = self.live(), self.queue(), self.held_tokens()
        weights = self.policy.token_weight, self.policy.request_weight
        holder = request.copy.holder.index if request.copy else NONE
        holder_live = live[holder] if request.copy else 0
        saved = request.copy.saved if request.copy else 0
        match self.policy.routing:
            case Routing.SHORTEST_QUEUE:
                return shortest_queue(live, queue), False
            case Routing.HOLDER:
                if holder_live and saved > 0:
                    return holder, True
                return shortest_queue(live, queue), False
            case Routing.LOAD_AWARE:
                load = kv_load(weights[0], held[holder], weights[1], queue[holder]) if request.copy else 0
                if prefer_holder(holder_live, load, saved, self.policy.theta, self.policy.tau_tokens):
                    return holder, True
                return least_loaded(live, held, queue, *weights), False
        raise AssertionError(f"no routing {self.policy.routing}")

    def _dispatch(self, request: Request, server: Worker, restores: bool, now: int) -> None:
        assert server.believed_live
        request.server = server
        request.last_server = server.index
        if request.dispatch_ps == NONE:
            request.dispatch_ps = now
        self.counters["peak_queue"] = max(self.counters["peak_queue"], *self.queue())
        if request.must_recover:
            self.log.redispatch(request, now, restores)
            request.must_recover = False
        assert request.old_copy is None
        if restores:
            request.old_copy = request.copy
        elif request.copy is not None:
            request.copy.holder.store.release(request.copy)
        request.copy = None
        self._choose_holder(request, server)
        server.enqueue(request)
        if not server.up:
            self.counters["sent_after_crash"] += 1

    def _choose_holder(self, request: Request, server: Worker) -> None:
        match self.policy.placement:
            case Placement.OFF:
                return
            case Placement.RING:
                holder = next_on_ring(server.index, self.live())
            case Placement.LOAD_AWARE:
                holder = choose_holder(
                    server.index,
                    pages_of(request.context),
                    self.live(),
                    [worker.store.free_pages for worker in self.workers],
                    self.held_tokens(),
                    self.queue(),
                    self.policy.token_weight,
                    self.policy.request_weight,
                )
            case _:
                raise AssertionError(f"no placement {self.policy.placement}")
        if holder != NONE:
            request.copy = self.workers[holder].store.open(self.workers[holder], request)
            request.last_holder = holder

    # Crashes, once known.

    def interrupt(self, dead: list[Worker], now: int) -> None:
        """Workers are detected as dead: all marked first, then their requests handled in order of arrival."""
        for worker in dead:
            worker.mark_detected()
        for request in self.requests:
            if request.copy is not None and request.copy.holder in dead:
                request.copy = None
        interrupted = [request for request in self.requests if request.unfinished_at in dead]
        for request in interrupted:
            assert request.server is not None
            self.log.interrupt(request, request.server.crashed_ps)
            request.old_copy = None  # it lay on the dead worker
            request.server = None
            request.leave_worker(Stage.AWAY)
            request.must_recover = True
        for request in interrupted:
            self.send(request, now)
