"""Laws of the measures on whole replays of the plain twin."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest
from twin.simulation import replay
from twin.strategies import random_input

from lumen_policy.measures.exact import exact_sum
from lumen_policy.measures.gaps import bin_gaps, gap_distribution
from lumen_policy.measures.impact import excess_e2e
from lumen_policy.measures.options import MeasureOptions, RecoveryOptions
from lumen_policy.measures.summary import summarise
from lumen_policy.measures.times import number_in_system, request_times
from lumen_policy.replay.contract import PS_PER_S, FaultTable, ReplayInput, ReplayOutput

SEEDS = range(30)


@cache
def pair(seed: int) -> tuple[ReplayInput, ReplayOutput, ReplayOutput]:
    """A random replay and its fault-free replay."""
    inp = random_input(seed)
    calm = replace(inp, faults=FaultTable.none())
    return inp, replay(inp), replay(calm)


@pytest.mark.parametrize("seed", SEEDS)
def test_littles_law(seed: int) -> None:
    inp, out, _ = pair(seed)
    times = request_times(inp, out)
    instants = np.unique(np.concatenate([times.arrival_ps, times.last_ps]))
    number = number_in_system(times, instants)
    assert exact_sum(number[:-1] * np.diff(instants)) == exact_sum(times.last_ps - times.arrival_ps)


@pytest.mark.parametrize("seed", SEEDS)
def test_gaps_fill_the_time_from_first_to_last_token(seed: int) -> None:
    """Σ gaps = Σ (l − f) of a run in which every request finishes: as a mean, and in one bin."""
    inp, out, calm = pair(seed)
    for run in (out, calm):
        times = request_times(inp, run)
        if not times.finished.all():
            continue
        span = exact_sum(times.last_ps - times.first_ps)
        count = int((run.gap_steps * run.gap_sequences).sum())
        binned = bin_gaps(run, -1, int(run.end_ps) + 1, 2)
        assert (binned.counts()[1], binned.sums()[1]) == (count, span)
        mean = gap_distribution(run).mean
        assert (mean is None) == (count == 0)
        if mean is not None:
            assert mean == pytest.approx(span / count / PS_PER_S, rel=1e-15)


@pytest.mark.parametrize("seed", SEEDS)
def test_summary_is_within_its_bounds(seed: int) -> None:
    inp, out, calm = pair(seed)
    grid_s = max(1e-6, 10.0 ** (len(str(int(out.end_ps))) - 15))
    options = MeasureOptions(
        horizon_s=float(1 + int(out.end_ps)) / PS_PER_S,
        slo_ttft_s=float(1 + int(out.end_ps) // 9) / PS_PER_S,
        recovery=RecoveryOptions(grid_s=grid_s, window_s=4 * grid_s, hold_s=4 * grid_s, min_samples=2),
    )
    summary = summarise(inp, out, calm, options)
    assert "NaN" not in str(msgspec.to_builtins(summary))
    requests = summary.requests
    assert requests.arrived == requests.finished + requests.unfinished + sum(requests.refused.values())
    for share in (summary.checkpoint.coverage, summary.assist.vetoed, summary.assist.acceptance):
        assert share is None or 0 <= share <= 1
    for balance in (summary.checkpoint.holder_balance, summary.checkpoint.load_balance):
        assert balance is None or 1 <= balance <= inp.workers
    assert (summary.impact is None) == (len(inp.faults) == 0)
    if summary.impact is not None:
        assert summary.interrupted.count <= summary.impact.affected


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_paired_with_itself_has_no_impact(seed: int) -> None:
    inp, out, _ = pair(seed)
    same = excess_e2e(inp, out, out, 10 * PS_PER_S)
    assert (same.ttft_ps, same.decode_ps) == (0, 0)
