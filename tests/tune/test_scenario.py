"""Scenarios: keyed by their number alone, from segments that never meet."""

from __future__ import annotations

import numpy as np
import pytest

from lumen_policy.policies.lumen import lumen
from lumen_policy.tune.objective import Evaluator
from lumen_policy.tune.scenario import TUNING, VALIDATION
from tests.tune.test_study import small_study

PS = 10**12


def test_segments_are_apart_by_the_horizon() -> None:
    """Every tuning request arrives at least H before every validation request."""
    study = small_study()
    source, plan = study.base, study.plan
    tuning, validation = len(plan.tuning), len(plan.validation)
    last_tuning = source.arrival_ps[tuning - 1]
    first_validation = source.arrival_ps[len(source) - validation]
    assert first_validation - last_tuning >= study.cluster.horizon_ps
    assert np.array_equal(plan.tuning.prompt_tokens, source.prompt_tokens[:tuning])
    assert np.array_equal(plan.validation.prompt_tokens, source.prompt_tokens[-validation:])


def test_requests_come_from_the_own_segment() -> None:
    """A scenario holds only lengths of its segment."""
    study = small_study()
    for kind, segment in ((TUNING, study.plan.tuning), (VALIDATION, study.plan.validation)):
        trace = study.plan.build(study.plan.number(kind, 1)).trace
        lengths = set(zip(segment.prompt_tokens.tolist(), segment.output_tokens.tolist(), strict=True))
        assert set(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)) <= lengths


def test_a_scenario_depends_on_its_number_alone() -> None:
    """More scenarios change none of the others; tuning and validation numbers never meet."""
    few, many = small_study(), small_study(scenarios=5, validation_scenarios=9)
    assert few.tuning == many.tuning[:2]
    assert few.validation == many.validation[:3]
    assert not set(many.tuning) & set(many.validation)
    for number in few.tuning:
        one, other = few.plan.build(number), many.plan.build(number)
        assert one.trace.digest() == other.trace.digest()
        assert one.faults == other.faults
    digests = {many.plan.build(number).trace.digest() for number in (*many.tuning, *many.validation)}
    assert len(digests) == 14


def test_rate_crash_and_victims() -> None:
    """The load is met, the crash comes after the warm-up, every worker is a victim at some time."""
    study = small_study(scenarios=24)
    built = [study.plan.build(number) for number in study.tuning]
    requests = sum(len(scenario.trace) for scenario in built)
    assert requests / (24 * 60) == pytest.approx(study.plan.rate_per_s, rel=0.1)
    assert {crash.time_ps for scenario in built for crash in scenario.faults} == {20 * PS}
    assert {crash.worker for scenario in built for crash in scenario.faults} == {0, 1, 2}
    assert all(len(scenario.faults) == 1 for scenario in built)
    two = small_study(victims=2)
    for number in two.tuning:
        workers = [crash.worker for crash in two.plan.build(number).faults]
        assert len(set(workers)) == 2
        # one victim more keeps the first: victims are ranked by draws of their own
        assert small_study().plan.build(number).faults[0].worker in workers


def test_a_rack_is_a_block_of_neighbours() -> None:
    """Of four workers the racks of two are 0–1 and 2–3, of three workers 0–1 and 1–2; both come up."""
    for workers, racks in ((4, {(0, 1), (2, 3)}), (3, {(0, 1), (1, 2)})):
        study = small_study(workers=workers, victims=2, victim_choice="rack", scenarios=24)
        built = [study.plan.build(number) for number in study.tuning]
        assert {tuple(crash.worker for crash in scenario.faults) for scenario in built} == racks


def test_observations_cover_the_survivors() -> None:
    """Two of three workers live, at 31 instants; saved tokens are whole pages."""
    study = small_study()
    policy = lumen(alpha="0.01", theta="inf")
    with Evaluator(study.plan, study.tuning, jobs=1) as evaluator:
        evaluator.baselines(study.tuning, policy)
        seen = evaluator.observations(study.tuning, policy)
    for observation in seen:
        assert len(observation.held_tokens) == len(observation.queue_requests) == 2 * 31
        assert (observation.queue_requests > 0).any()
        assert len(observation.saved_tokens) > 0
        assert (observation.saved_tokens % 16 == 0).all()
        assert (observation.saved_tokens > 0).all()


def test_common_random_numbers() -> None:
    """A policy scores the same whatever was replayed before it, and under another name."""
    study = small_study()
    one, other = lumen(alpha="0.01", theta="inf", k=3), lumen(alpha="0.5", theta="never", k=1)
    with Evaluator(study.plan, study.tuning, jobs=1) as evaluator:
        evaluator.baselines(study.tuning, other)
        first = [score.excess for score in evaluator.scores(study.tuning, one)]
        evaluator.scores(study.tuning, other)
        renamed = lumen(alpha="0.01", theta="inf", k=3, name="another")
        assert [score.excess for score in evaluator.scores(study.tuning, renamed)] == first
