"""Crash scenarios: short superpositions of one half of the trace, with a crash after the warm-up."""

from __future__ import annotations

from dataclasses import dataclass

from lumen_policy.clock import seconds_to_ps
from lumen_policy.cluster import Cluster
from lumen_policy.errors import InputError
from lumen_policy.faults import Fault, Scope
from lumen_policy.replay.contract import PS_PER_S
from lumen_policy.replay.draws import draw
from lumen_policy.trace.table import Trace
from lumen_policy.trace.transform import segment, superpose

__all__ = ["TUNING", "VALIDATION", "Scenario", "ScenarioPlan", "plan_scenarios"]

VICTIM = 72
"""Purpose of the draws that rank workers as victims: (worker, 0)."""
RACK = 75
"""Purpose of the draw of the rack that crashes: (0, 0)."""

TUNING = "tuning"
VALIDATION = "validation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One crash to replay.

    Attributes:
        number: keys every draw of the scenario; odd for tuning, even for validation, so that more scenarios
            of one kind change none of the others.
        trace: warm-up + H of requests at the load.
        faults: the crashes at the end of the warm-up.
    """

    number: int
    trace: Trace
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioPlan:
    """How scenarios are built; small enough to send to another process.

    Attributes:
        cluster: that replays them.
        tuning, validation: the two segments of the source, an embargo of H between them.
        segment_ps: length of each segment, the circle that copies are shifted on.
        rate_per_s: arrivals of a scenario.
        warmup_ps: from a scenario's first arrival to its crash.
        victims: workers that crash together.
        victim_choice: ``any`` of them, or a ``rack``: the 1st, 2nd, … block of so many neighbours (the last
            may overlap the one before it).
        victim_scope: what of them the crash takes down.
    """

    cluster: Cluster
    tuning: Trace
    validation: Trace
    segment_ps: int
    rate_per_s: float
    warmup_ps: int
    victims: int
    victim_choice: str = "any"
    victim_scope: Scope = "gpu"

    def number(self, kind: str, index: int) -> int:
        """The scenario number of the index-th (from 0) scenario of a kind."""
        return 2 * index + (1 if kind == TUNING else 2)

    def build(self, number: int) -> Scenario:
        """The scenario of that number: its own copies, shifts and victims."""
        source = self.tuning if number % 2 else self.validation
        key = self.cluster.scenario_key(number)
        copies = superpose(source, self.rate_per_s, key, period_ps=self.segment_ps)
        trace = segment(copies, 0, self.warmup_ps + self.cluster.horizon_ps)
        faults = [
            Fault(time_ps=self.warmup_ps, worker=worker, scope=self.victim_scope)
            for worker in self._victims(key)
        ]
        return Scenario(number=number, trace=trace, faults=tuple(faults))

    def _victims(self, key: int) -> list[int]:
        workers = self.cluster.workers
        if self.victim_choice == "rack":
            racks = -(-workers // self.victims)
            first = min((draw(key, RACK, 0, 0) * racks >> 64) * self.victims, workers - self.victims)
            return list(range(first, first + self.victims))
        ranked = sorted(range(workers), key=lambda worker: (draw(key, VICTIM, worker, 0), worker))
        return sorted(ranked[: self.victims])


def plan_scenarios(
    cluster: Cluster,
    source: Trace,
    *,
    rate_per_s: float,
    warmup_s: float,
    victims: int,
    victim_choice: str = "any",
    victim_scope: Scope = "gpu",
) -> ScenarioPlan:
    """Cut the source into two equal segments, for tuning and validation, with an embargo of H between them.

    Args:
        cluster: resolved, H included.
        source: the trace at its own rate.
        rate_per_s: arrivals of a scenario.
        warmup_s: > 0, warm-up before the crash.
        victims: workers that crash together, at most all.
        victim_choice: ``any``, or ``rack`` for a block of neighbours.
        victim_scope: what of them the crash takes down.

    Raises:
        InputError: the trace spans less than 2 · (warm-up + H) + H, or more victims than workers.
    """
    if not 1 <= victims <= cluster.workers:
        raise InputError(f"victims: {victims} is not a whole number from 1 to {cluster.workers} (workers)")
    warmup_ps = seconds_to_ps("warmup_s", warmup_s)
    horizon_ps = cluster.horizon_ps
    least_ps = 2 * (warmup_ps + horizon_ps) + horizon_ps
    if source.span_ps < least_ps:
        raise InputError(
            f"{source.source}: spans {source.span_s:.1f} s, too short for its scenarios: it must span "
            f"{least_ps / PS_PER_S:g} s (two segments, tuning and validation, of warm-up "
            f"{warmup_ps / PS_PER_S:g} s + H {horizon_ps / PS_PER_S:g} s each, H between them)"
        )
    end_ps = source.span_ps + 1
    segment_ps = (end_ps - horizon_ps) // 2
    return ScenarioPlan(
        cluster=cluster,
        tuning=segment(source, 0, segment_ps),
        validation=segment(source, end_ps - segment_ps, end_ps),
        segment_ps=segment_ps,
        rate_per_s=rate_per_s,
        warmup_ps=warmup_ps,
        victims=victims,
        victim_choice=victim_choice,
        victim_scope=victim_scope,
    )
