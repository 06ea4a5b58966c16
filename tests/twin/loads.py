"""Loads of workers: as they are, and as the gateway sees them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lumen_policy.replay.contract import ReplayInput

from .request import Request
from .worker import Worker

__all__ = ["Loads"]


@dataclass
class Report:
    """A worker's last load report and what the gateway has seen since."""

    held_tokens: int
    free_pages: int
    kv_tokens: int
    routed_since: int = 0
    finished_since: int = 0


@dataclass
class SlowStart:
    """A rejoin, and the mean queue of the others then."""

    rejoin_ps: int
    mean_queue: int


class Loads:
    """Counted from scratch whenever somebody asks."""

    def __init__(self, inputs: ReplayInput, workers: list[Worker], requests: list[Request]) -> None:
        self.inputs = inputs
        self.rules = inputs.rules
        self.workers = workers
        self.requests = requests
        self.reports = [Report(0, inputs.policy.budget_pages, 0) for _ in workers]
        self.slow_starts: dict[Worker, SlowStart] = {}

    # As they are.

    def live(self) -> list[int]:
        return [int(worker.believed_live) for worker in self.workers]

    def queue(self) -> list[int]:
        servers = Counter(request.unfinished_at for request in self.requests)
        return [servers[worker] for worker in self.workers]

    def held_tokens(self) -> list[int]:
        return [worker.holds.held_tokens for worker in self.workers]

    def free_pages(self) -> list[int]:
        return [worker.holds.free_pages for worker in self.workers]

    def kv_tokens(self) -> list[int]:
        return [
            sum(request.context for request in self.requests if request.unfinished_at is worker)
            for worker in self.workers
        ]

    # As the gateway sees them when it decides about a request.

    def seen_queue(self, now: int) -> list[int]:
        return [
            queue + self._slow_start(worker, now)
            for worker, queue in zip(self.workers, self.queue(), strict=True)
        ]

    def seen_held_tokens(self) -> list[int]:
        if self.rules.load_report_ps == 0:
            return self.held_tokens()
        return [report.held_tokens for report in self.reports]

    def seen_free_pages(self) -> list[int]:
        if self.rules.load_report_ps == 0:
            return self.free_pages()
        return [report.free_pages for report in self.reports]

    def seen_kv_tokens(self) -> list[int]:
        if self.rules.load_report_ps == 0:
            return self.kv_tokens()
        return [report.kv_tokens + report.routed_since - report.finished_since for report in self.reports]

    # Reports.

    def report(self, worker: Worker) -> None:
        """What the worker's books say becomes known."""
        at = worker.index
        self.reports[at] = Report(self.held_tokens()[at], self.free_pages()[at], self.kv_tokens()[at])

    def report_all(self) -> None:
        for worker in self.workers:
            if worker.up:
                self.report(worker)

    def routed(self, request: Request) -> None:
        assert request.server is not None
        self.reports[request.server.index].routed_since += request.context

    def finished(self, request: Request) -> None:
        assert request.server is not None
        self.reports[request.server.index].finished_since += request.prompt + request.output

    # Slow start.

    def rejoined(self, workers: list[Worker], now: int) -> None:
        """All of one instant are marked as live: each gets its share of the load as a handicap."""
        queue = self.queue()
        for worker in workers:
            others = [
                queue[other.index] for other in self.workers if other.believed_live and other is not worker
            ]
            mean = sum(others) // len(others) if others else 0
            self.slow_starts[worker] = SlowStart(now, mean)

    def _slow_start(self, worker: Worker, now: int) -> int:
        length = self.rules.slow_start_ps
        start = self.slow_starts.get(worker)
        if start is None or now >= start.rejoin_ps + length or length < 2**20:
            return 0
        left = (start.rejoin_ps + length - now) // 2**20
        return start.mean_queue * left // (length // 2**20)
