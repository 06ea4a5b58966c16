"""The objective: excess E2E of a policy over scenarios, replayed by persistent processes.

Each process owns fixed scenarios, builds them and their fault-free runs once and answers with exact integers,
so the number of processes changes no result.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import numpy as np

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy.errors import InputError, ReplayError
from lumen_policy.measures.impact import ExcessE2E, excess_e2e
from lumen_policy.measures.load import mean_load
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.replay.contract import PS_PER_S, IntArray, Interruption, ReplayInput, ReplayOutput
from lumen_policy.tune.scenario import Scenario, ScenarioPlan

__all__ = ["Baseline", "Evaluator", "Objective", "Observation", "ScenarioScore"]

_OBSERVED_PS = 30 * PS_PER_S
_OBSERVE_EVERY_PS = PS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioScore:
    """What one policy cost in one scenario.

    Attributes:
        scenario: its number.
        excess: over the fault-free run.
        cpu_s: CPU seconds of the faulty replay.
    """

    scenario: int
    excess: ExcessE2E
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The fault-free run of one scenario: its time-mean load and what it took.

    Attributes:
        scenario: its number.
        held_tokens, queue_requests: per worker, time means.
        requests: of the scenario.
        cpu_s: CPU seconds of the replay.
    """

    scenario: int
    held_tokens: Fraction
    queue_requests: Fraction
    requests: int
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a policy met in the 30 s after a crash.

    Attributes:
        scenario: its number.
        held_tokens, queue_requests: shape (n,), of each live worker at each second of [x, x + 30 s].
        saved_tokens: shape (m,), whole-page tokens of each interrupted running request's complete copy, ≥ 16.
        cpu_s: CPU seconds of the replay.
    """

    scenario: int
    held_tokens: IntArray
    queue_requests: IntArray
    saved_tokens: IntArray
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Excess E2E with its two parts weighted: ttft · Σ ΔTTFT + decode · Σ Δdecode.

    Attributes:
        ttft, decode: weights, exact.
    """

    ttft: Fraction = Fraction(1)
    decode: Fraction = Fraction(1)

    @classmethod
    def of(cls, *, ttft_weight: float, decode_weight: float) -> Objective:
        """From weights as people write them (0.1 is a tenth)."""
        return cls(ttft=Fraction(repr(ttft_weight)), decode=Fraction(repr(decode_weight)))

    def picoseconds(self, excess: ExcessE2E) -> int:
        """Request-picoseconds of one scenario, half to even."""
        return round(self.ttft * excess.ttft_ps + self.decode * excess.decode_ps)


class _Runner:
    """The scenarios of one process, each with its fault-free run."""

    def __init__(self, plan: ScenarioPlan) -> None:
        self._plan = plan
        self._scenarios: dict[int, Scenario] = {}
        self._fault_free: dict[int, ReplayOutput] = {}

    def baseline(self, number: int, policy: RecoveryPolicy) -> Baseline:
        """Build a scenario and run it without its crash; checkpoints cost no time, so any policy will do."""
        plan = self._plan
        scenario = plan.build(number)
        inputs = plan.cluster.replay_input(scenario.trace, faults=(), policy=policy, scenario=number)
        inputs = replace(inputs, snapshot_ps=np.zeros(0, np.int64))
        output, cpu_s = _replay(inputs)
        load = mean_load(inputs, output)
        self._scenarios[number] = scenario
        self._fault_free[number] = output
        return Baseline(
            scenario=number,
            held_tokens=load.held_tokens,
            queue_requests=load.queue_requests,
            requests=len(scenario.trace),
            cpu_s=cpu_s,
        )

    def score(self, number: int, policy: RecoveryPolicy) -> ScenarioScore:
        """Replay a policy in a scenario."""
        inputs = replace(self._inputs(number, policy), snapshot_ps=np.zeros(0, np.int64))
        output, cpu_s = _replay(inputs)
        excess = excess_e2e(inputs, output, self._fault_free[number], self._plan.cluster.horizon_ps)
        return ScenarioScore(scenario=number, excess=excess, cpu_s=cpu_s)

    def observe(self, number: int, policy: RecoveryPolicy) -> Observation:
        """Replay a policy in a scenario and note loads and saved tokens after the crash."""
        inputs = self._inputs(number, policy)
        crash_ps = self._plan.warmup_ps
        instants = np.arange(crash_ps, crash_ps + _OBSERVED_PS + 1, _OBSERVE_EVERY_PS, dtype=np.int64)
        inputs = replace(inputs, snapshot_ps=instants)
        output, cpu_s = _replay(inputs)
        live = output.snapshot_live == 1
        running = output.interruption_class == Interruption.RUNNING
        rows = output.interruption_request[running]
        existing = inputs.prompt_tokens[rows] + output.interruption_delivered[running] - 1
        saved = existing // PAGE_TOKENS * PAGE_TOKENS
        started = output.interruption_delivered[running] > 0
        return Observation(
            scenario=number,
            held_tokens=output.snapshot_held_tokens[live],
            queue_requests=output.snapshot_queue[live],
            saved_tokens=saved[started & (saved > 0)],
            cpu_s=cpu_s,
        )

    def _inputs(self, number: int, policy: RecoveryPolicy) -> ReplayInput:
        scenario = self._scenarios[number]
        cluster = self._plan.cluster
        faults = cluster.with_false_alarms(scenario.faults, span_ps=scenario.trace.span_ps, scenario=number)
        return cluster.replay_input(scenario.trace, faults=faults, policy=policy, scenario=number)


def _replay(inputs: ReplayInput) -> tuple[ReplayOutput, float]:
    from lumen_policy.replay.engine import replay_timed

    return replay_timed(inputs)


class Evaluator:
    """Policies in, per-scenario figures out; in this process or spread over several.

    Use as a context manager. Every call answers in the order of the scenario numbers it was given.
    """

    def __init__(self, plan: ScenarioPlan, numbers: Sequence[int], *, jobs: int) -> None:
        """Start the processes.

        Args:
            plan: of the scenarios.
            numbers: every scenario that will be asked for; dealt out in turn.
            jobs: processes, ≥ 1; 1 runs in this process. More than scenarios are not started.
        """
        if jobs < 1:
            raise InputError(f"jobs: {jobs} is not a whole number ≥ 1")
        self._owner = {number: index % jobs for index, number in enumerate(numbers)}
        self._local = _Runner(plan) if min(jobs, len(numbers)) <= 1 else None
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        if self._local is None:
            from lumen_policy.replay.engine import prepare

            prepare()  # compiled once, in this process, lest every new one does
            context = multiprocessing.get_context("spawn")
            with _ctrl_c_ignored():
                for _ in range(min(jobs, len(numbers))):
                    here, there = context.Pipe()
                    process = context.Process(target=_serve, args=(there, plan), daemon=True)
                    process.start()
                    there.close()
                    self._pipes.append(here)
                    self._processes.append(process)

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(at_once=kind is not None)

    def baselines(self, numbers: Sequence[int], policy: RecoveryPolicy) -> list[Baseline]:
        """Fault-free runs; must come before `scores` and `observations` of the same scenarios."""
        return self._ask("baseline", numbers, policy)

    def scores(self, numbers: Sequence[int], policy: RecoveryPolicy) -> list[ScenarioScore]:
        """A policy's score in each scenario."""
        return self._ask("score", numbers, policy)

    def observations(self, numbers: Sequence[int], policy: RecoveryPolicy) -> list[Observation]:
        """What a policy meets after the crash of each scenario."""
        return self._ask("observe", numbers, policy)

    def close(self, *, at_once: bool = False) -> None:
        """End the processes; ``at_once`` does not wait for what they are doing."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            if at_once:
                process.terminate()
            else:
                pipe.send(None)
            pipe.close()
        for process in self._processes:
            process.join()
        self._pipes, self._processes = [], []

    def _ask(self, what: str, numbers: Sequence[int], policy: RecoveryPolicy) -> list[Any]:
        if self._local is not None:
            return [getattr(self._local, what)(number, policy) for number in numbers]
        asked = []
        for index, pipe in enumerate(self._pipes):
            mine = [number for number in numbers if self._owner[number] == index]
            if mine:
                pipe.send((what, mine, policy))
                asked.append((pipe, mine))
        answers: dict[int, Any] = {}
        failure: BaseException | None = None
        for pipe, mine in asked:
            try:
                answer = pipe.recv()
            except EOFError:
                raise ReplayError("a replay process ended without an answer (out of memory?)") from None
            if isinstance(answer, BaseException):
                failure = failure or answer
            else:
                answers.update(zip(mine, answer, strict=True))
        if failure is not None:
            raise failure
        return [answers[number] for number in numbers]


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Processes started in here inherit it: Ctrl-C is the parent's business from their first instant."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(pipe: Connection, plan: ScenarioPlan) -> None:
    """A process: answers until it is told to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    runner = _Runner(plan)
    while (message := pipe.recv()) is not None:
        what, numbers, policy = message
        answer: Any
        try:
            answer = [getattr(runner, what)(number, policy) for number in numbers]
        except (InputError, ReplayError) as error:
            answer = error
        pipe.send(answer)
