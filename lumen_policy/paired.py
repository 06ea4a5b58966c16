"""Paired replays: the same trace and draws with and without the faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lumen_policy.cluster import Cluster
from lumen_policy.faults import Fault, check_faults
from lumen_policy.measures.placebo import JITTER_PS, Placebo, placebo, rebased
from lumen_policy.measures.summary import ReplaySummary, summarise
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.replay.contract import ReplayInput, ReplayOutput
from lumen_policy.trace.jitter import jitter
from lumen_policy.trace.table import Trace

__all__ = ["Leg", "PairedRun", "Pairing", "PlaceboRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One replay.

    Attributes:
        inputs, output: what went in and what came out.
        cpu_s: CPU seconds of the kernel alone.
    """

    inputs: ReplayInput
    output: ReplayOutput
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRun:
    """A policy's run with the faults and its fault-free run; without a fault both are the same leg."""

    policy: RecoveryPolicy
    faulty: Leg
    fault_free: Leg


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceboRun:
    """The noise floor of the measures, and the CPU seconds it added."""

    measured: Placebo
    cpu_s: float


class Pairing:
    """Replays of one trace, one timeline and one scenario key under any number of policies.

    A fault-free leg depends on a policy only through where it puts checkpoints, so it is kept and shared by
    all policies that agree in that.
    """

    def __init__(self, cluster: Cluster, trace: Trace, faults: Sequence[Fault], *, scenario: int = 0) -> None:
        """
        Args:
            cluster: the resolved set-up.
            trace: the requests.
            faults: the timeline; may be empty. The false alarms of the set-up are added.
            scenario: keys the draws together with the seed.

        Raises:
            InputError: a fault of a worker that does not exist, or after the last arrival.
        """
        check_faults(faults, workers=cluster.workers, span_ps=trace.span_ps)
        self.cluster = cluster
        self.trace = trace
        self.faults = cluster.with_false_alarms(faults, span_ps=trace.span_ps, scenario=scenario)
        self.scenario = scenario
        self._fault_free: dict[tuple[int, ...], Leg] = {}
        self._shaken: dict[tuple[int, ...], Leg] = {}

    def fault_free(self, policy: RecoveryPolicy) -> Leg:
        """The run without faults; θ, τ, k and guard are irrelevant to it."""
        key = self._placement(policy)
        if key not in self._fault_free:
            self._fault_free[key] = self._leg(policy, self.trace, ())
        return self._fault_free[key]

    def run(self, policy: RecoveryPolicy) -> PairedRun:
        """The policy's paired replays.

        Raises:
            InputError: faults or policy do not fit the cluster.
        """
        fault_free = self.fault_free(policy)
        faulty = self._leg(policy, self.trace, self.faults) if self.faults else fault_free
        return PairedRun(policy=policy, faulty=faulty, fault_free=fault_free)

    def summary(self, run: PairedRun) -> ReplaySummary:
        """All measures of a paired run."""
        return summarise(run.faulty.inputs, run.faulty.output, run.fault_free.output, self.cluster.measures)

    def placebo(self, run: PairedRun) -> PlaceboRun:
        """The measures of a run without faults on jittered arrivals, as if it had this timeline.

        One more replay, shared as fault-free legs are: it costs what such a leg costs.

        Args:
            run: of a timeline with at least one fault.
        """
        shaken = jitter(self.trace, JITTER_PS, self.cluster.scenario_key(self.scenario))
        key = self._placement(run.policy)
        known = key in self._shaken
        if not known:
            self._shaken[key] = self._leg(run.policy, shaken, ())
        leg = self._shaken[key]
        measured = placebo(
            run.faulty.inputs,
            rebased(leg.output, shaken.arrival_ps - self.trace.arrival_ps),
            run.fault_free.output,
            self.cluster.horizon_ps,
            self.cluster.measures.recovery,
        )
        return PlaceboRun(measured=measured, cpu_s=0.0 if known else leg.cpu_s)

    @property
    def fault_free_cpu_s(self) -> float:
        """CPU seconds of all fault-free legs so far."""
        return sum(leg.cpu_s for leg in self._fault_free.values())

    def _placement(self, policy: RecoveryPolicy) -> tuple[int, ...]:
        """All of a policy that a run without faults depends on."""
        codes = policy.codes(budget_pages=self.cluster.budget_pages)
        return (codes.placement, codes.token_weight, codes.request_weight)

    def _leg(self, policy: RecoveryPolicy, trace: Trace, faults: Sequence[Fault]) -> Leg:
        from lumen_policy.replay.engine import replay_timed

        inputs = self.cluster.replay_input(trace, faults=faults, policy=policy, scenario=self.scenario)
        output, cpu_s = replay_timed(inputs)
        return Leg(inputs=inputs, output=output, cpu_s=cpu_s)
