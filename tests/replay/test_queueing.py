"""The replay as a queue with a known answer: M/D/1, M/M/1, two servers, Little's law.

One request at a time, one output token and a cost linear in the prompt make a worker a single server whose service
time is proportional to the prompt.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from twin.strategies import random_input

from lumen_policy.replay.contract import ReplayInput, Status
from lumen_policy.replay.engine import replay

from .inputs import calm, linear, make_costs, make_input

REPLICATIONS = 24
REQUESTS = 20_000
WARM_UP = 2_000
MEAN_PROMPT = 500
LONGEST = 12_000
T_999 = 3.768  # two-sided 99.9 % of Student's t with 23 degrees of freedom

COSTS = make_costs(linear(1_000_000, LONGEST))


def mean_delays(
    utilisation: float, exponential: bool, workers: int = 1
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(mean waits, mean sojourns) of independent replications, in mean service times."""
    waits, sojourns = [], []
    service_ps = MEAN_PROMPT * 1_000_000
    for replication in range(REPLICATIONS):
        random = np.random.default_rng([replication, int(1000 * utilisation), exponential])
        arrivals = np.cumsum(random.exponential(service_ps / (utilisation * workers), REQUESTS))
        prompts = np.full(REQUESTS, MEAN_PROMPT)
        if exponential:
            prompts = random.geometric(1 / MEAN_PROMPT, REQUESTS)
        assert prompts.max() < LONGEST
        inputs = make_input(
            np.rint(arrivals), prompts, np.ones(REQUESTS), COSTS, max_batch=1, workers=workers
        )
        output = replay(inputs)
        assert np.array_equal(output.first_ps, output.last_ps)
        sojourn = (output.last_ps - inputs.arrival_ps)[WARM_UP:]
        sojourns.append(sojourn.mean() / service_ps)
        waits.append((sojourn - prompts[WARM_UP:] * 1_000_000).mean() / service_ps)
    return np.array(waits), np.array(sojourns)


@cache
def two_servers() -> npt.NDArray[np.float64]:
    """Mean sojourns at two workers, each 80 % busy, that share arrivals by the shortest queue."""
    return mean_delays(0.8, True, workers=2)[1]


def half_width(samples: npt.NDArray[np.float64]) -> float:
    """Of the 99.9 % confidence interval of the mean."""
    return T_999 * float(samples.std(ddof=1)) / len(samples) ** 0.5


@pytest.mark.parametrize("utilisation", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("exponential", [False, True], ids=["M/D/1", "M/M/1"])
def test_mean_wait_of_one_server(utilisation: float, exponential: bool) -> None:
    """INV-11: the mean wait is ρ/(1 - ρ) · E[S²]/(2·E[S]²) service times (Pollaczek and Khinchine).

    That is ρ/(2(1 - ρ)) for M/D/1 and ρ/(1 - ρ) for M/M/1; whole tokens make the prompts geometric, whose second
    moment (2 - p)/p² is used.
    """
    waits, _ = mean_delays(utilisation, exponential)
    second_moment = 2 - 1 / MEAN_PROMPT if exponential else 1.0
    expected = utilisation / (1 - utilisation) * second_moment / 2
    assert half_width(waits) < 0.1 * expected
    assert abs(waits.mean() - expected) < half_width(waits)


def test_two_servers_are_worse_than_one_line() -> None:
    """INV-12: joining the shortest of two queues is not better than one queue for both servers, M/M/2."""
    bound = 1 / (1 - 0.8**2)
    assert two_servers().mean() + half_width(two_servers()) > bound
    assert two_servers().mean() < 1.25 * bound


def test_two_servers_are_better_than_two_lines() -> None:
    """INV-12: joining the shortest of two queues is better than a coin, two M/M/1."""
    assert two_servers().mean() + half_width(two_servers()) < 1 / (1 - 0.8)


def little(inputs: ReplayInput) -> tuple[int, int]:
    """Σ sojourn of all that finish, and ∫ N dt with N = Σ Q as the gateway counts it, both exact.

    All events lie on even instants, so that a snapshot one picosecond after each sees N of the time up to the next.
    """
    doubled = replace(
        inputs,
        arrival_ps=2 * inputs.arrival_ps,
        costs=replace(
            inputs.costs,
            target=replace(
                inputs.costs.target,
                token_ps=2 * inputs.costs.target.token_ps,
                lm_head_ps=2 * inputs.costs.target.lm_head_ps,
                prefill_pair_ps=2 * inputs.costs.target.prefill_pair_ps,
                decode_context_ps=2 * inputs.costs.target.decode_context_ps,
                decode_sequence_ps=2 * inputs.costs.target.decode_sequence_ps,
            ),
        ),
        snapshot_ps=np.zeros(0, np.int64),
    )
    first = replay(doubled)
    finished = first.status == Status.FINISHED
    events = np.unique(np.concatenate([doubled.arrival_ps, first.last_ps[finished]]))
    output = replay(replace(doubled, snapshot_ps=events + 1))
    numbers = output.snapshot_queue.sum(axis=1)
    assert numbers[-1] == 0
    area = sum(int(n) * int(span) for n, span in zip(numbers[:-1], np.diff(events), strict=True))
    return sum((output.last_ps - doubled.arrival_ps)[finished].tolist()), area


@pytest.mark.parametrize("seeds", [range(0, 30), range(30, 60)], ids=["0-29", "30-59"])
def test_littles_law_on_random_replays(seeds: range) -> None:
    """INV-13: Σ sojourn = ∫ N dt, in whole picoseconds, for any batching, router and number of workers."""
    for seed in seeds:
        sojourns, area = little(calm(random_input(seed)))
        assert sojourns == area, f"seed {seed}"


def test_littles_law_on_a_busy_queue() -> None:
    """INV-13: the same on a long queue of one server."""
    random = np.random.default_rng(1)
    arrivals = np.cumsum(random.integers(0, 1_000_000_000, 3000))
    prompts = random.geometric(1 / MEAN_PROMPT, 3000)
    sojourns, area = little(make_input(arrivals, prompts, np.ones(3000), COSTS, max_batch=1))
    assert sojourns == area > 10**12
