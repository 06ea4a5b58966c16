"""Stages (5) and (6): reloading workers choose whom they draft for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lumen_policy.decide.assist import choose_target
from lumen_policy.replay.contract import NONE

from .assist import Assist
from .log import Outage
from .worker import Reload, Worker

if TYPE_CHECKING:
    from .simulation import Simulation

__all__ = ["Help"]


class Help:
    """The helps under way."""

    def __init__(self, run: Simulation) -> None:
        self.run = run
        self.assists: list[Assist] = []

    @property
    def pending_ps(self) -> list[int]:
        pending = []
        for worker in self.run.workers:
            if worker.reload is not None:
                reload = worker.reload
                pending += [reload.draft_ready_ps, reload.assist_end_ps, reload.retarget_ps]
        return [ps for ps in pending if ps != NONE]

    def of(self, target: Worker) -> Assist | None:
        helping = [assist for assist in self.assists if assist.target is target]
        assert len(helping) <= 1
        return helping[0] if helping else None

    def by(self, drafter: Worker) -> Assist | None:
        helping = [assist for assist in self.assists if assist.drafter is drafter]
        assert len(helping) <= 1
        return helping[0] if helping else None

    def end_for(self, worker: Worker) -> None:
        """The help ends with its drafter or its target."""
        self.assists = [a for a in self.assists if worker not in (a.drafter, a.target)]

    def end_by(self, drafter: Worker) -> None:
        """The drafter helps no more."""
        self.assists = [assist for assist in self.assists if assist.drafter is not drafter]

    def draft_ready(self) -> None:
        for worker, reload, outage in self._reloading():
            if reload.draft_ready_ps == self.run.now:
                reload.draft_ready_ps = NONE
                outage.draft_ready_ps = self.run.now
                outage.assist_target = self._choose(worker)
                if outage.assist_target != NONE:
                    self._begin(worker, self.run.workers[outage.assist_target])
                self._next_retarget(reload)

    def retarget(self) -> None:
        for worker, reload, outage in self._reloading():
            if reload.retarget_ps == self.run.now:
                self._next_retarget(reload)
                current = self.by(worker)
                choice = self._choose(worker)
                if choice == NONE or (current is not None and current.target.index == choice):
                    continue
                self.end_by(worker)
                self.run.counters["retargets"] += current is not None
                outage.assist_target = choice
                self._begin(worker, self.run.workers[choice])

    def end(self) -> None:
        for worker, reload, outage in self._reloading():
            if reload.assist_end_ps == self.run.now:
                reload.assist_end_ps = reload.retarget_ps = NONE
                outage.assist_end_ps = self.run.now
                self.end_by(worker)

    def _reloading(self) -> list[tuple[Worker, Reload, Outage]]:
        return [
            (worker, worker.reload, worker.outage)
            for worker in self.run.workers
            if worker.reload is not None and worker.outage is not None
        ]

    def _next_retarget(self, reload: Reload) -> None:
        every = self.run.inputs.rules.retarget_ps
        following = self.run.now + every
        reload.retarget_ps = following if every > 0 and following < reload.assist_end_ps else NONE

    def _choose(self, drafter: Worker) -> int:
        """Its own target counts as free."""
        taken = [assist.target for assist in self.assists if assist.drafter is not drafter]
        return choose_target(
            self.run.loads.live(),
            [int(worker in taken) for worker in self.run.workers],
            self.run.loads.held_tokens(),
            self.run.loads.queue(),
            self.run.inputs.policy.token_weight,
            self.run.inputs.policy.request_weight,
        )

    def _begin(self, drafter: Worker, target: Worker) -> None:
        if target.up:
            self.assists.append(Assist(self.run.inputs, drafter, target, self.run.now, self.run.counters))
