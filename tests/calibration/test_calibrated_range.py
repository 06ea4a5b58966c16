"""Time beyond the calibrated range: by hand, and laws on whole replays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.calibrated import CalibratedRange
from cost_models.serving_costs import IterationCosts
from lumen_policy.measures.calibrated_range import outside_range
from lumen_policy.paired import Pairing
from lumen_policy.policy_choice import choose_policy
from lumen_policy.replay.contract import PS_PER_S, ReplayInput, ReplayOutput
from lumen_policy.settings import settings_from
from lumen_policy.workload import prepare
from tests.measures.builder import ints, replay_input, replay_output
from tests.twin.simulation import replay
from tests.twin.strategies import random_input

WIDE = CalibratedRange(tokens=2**40, pairs=2**40, sequences=2**40, context_tokens=2**40)


def two_requests() -> tuple[ReplayInput, ReplayOutput]:
    """Worker 0: one decodes from 0 s to 10 s (context 100 → 199), one from 5 s to 10 s (100 → 149)."""
    inp = replay_input([0, 0], [100, 50])
    inp = replace(inp, prompt_tokens=ints([99, 99]), token_budget=1024)
    target = replace(
        inp.costs.target,
        token_ps=np.arange(1025, dtype=np.int64) * (PS_PER_S // 100),
        prefill_pair_ps=PS_PER_S // 10**6,
    )
    inp = replace(inp, costs=replace(inp.costs, target=target))
    second = PS_PER_S
    output = replay_output(
        inp,
        first_ps=ints([0, 5 * second]),
        last_ps=ints([10 * second] * 2),
        worker=ints([0, 0]),
        dispatch_ps=ints([0, 0]),
    )
    return inp, output


@pytest.mark.parametrize(
    ("limits", "decode_s", "prefill_s"),
    [
        ({}, 0.0, 0.0),
        ({"sequences": 1}, 5.0, 0.0),
        ({"sequences": 2}, 0.0, 0.0),
        # alone, the first request's context passes 149.5 at half its way
        ({"context_tokens": 149}, 5.0 + 0.05, 0.0),
        ({"context_tokens": 0}, 0.0, 0.0),
        ({"tokens": 98}, 0.0, 2 * (0.99 + 99 * 100 / 2 / 1e6)),
        ({"tokens": 99}, 0.0, 0.0),
        ({"pairs": 4949}, 0.0, 2 * (0.99 + 99 * 100 / 2 / 1e6)),
        ({"pairs": 4950}, 0.0, 0.0),
    ],
)
def test_by_hand(limits: dict[str, int], decode_s: float, prefill_s: float) -> None:
    """Both are dispatched at 0 s: the worker is busy for 10 s."""
    inp, output = two_requests()
    limit = {name: getattr(WIDE, name) for name in WIDE.__struct_fields__} | limits
    found = outside_range(inp, output, CalibratedRange(**limit))
    assert found.busy_s == pytest.approx(10)
    assert found.decode_outside_s == pytest.approx(decode_s, abs=0.01)
    assert found.prefill_outside_s == pytest.approx(prefill_s)
    assert found.share == pytest.approx((decode_s + prefill_s) / 10, abs=0.002)


@settings(max_examples=20)
@given(st.integers(0, 200), st.integers(1, 8), st.integers(1, 400), st.integers(1, 60), st.integers(1, 2000))
def test_a_wider_range_has_less_outside(
    seed: int, sequences: int, context: int, tokens: int, pairs: int
) -> None:
    inp = random_input(seed)
    output = replay(inp)
    small = CalibratedRange(tokens=tokens, pairs=pairs, sequences=sequences, context_tokens=context)
    large = CalibratedRange(
        tokens=2 * tokens, pairs=2 * pairs, sequences=2 * sequences, context_tokens=2 * context
    )
    narrow, wide, all_in = (outside_range(inp, output, limit) for limit in (small, large, WIDE))
    assert narrow.decode_outside_s >= wide.decode_outside_s - 1e-9
    assert narrow.prefill_outside_s >= wide.prefill_outside_s
    assert 0 <= wide.share <= narrow.share + 1e-9 <= 1 + 2e-9
    assert all_in.share == 0


def test_close_to_a_count_of_every_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin asks for every iteration's duration; those beyond a limit are added up."""
    iterations: list[tuple[int, int, int, int, int]] = []
    duration_ps = IterationCosts.duration_ps

    def recorded(
        costs: IterationCosts, tokens: int, rows: int, pairs: int, context: int, sequences: int
    ) -> int:
        duration = duration_ps(costs, tokens, rows, pairs, context, sequences)
        iterations.append((tokens, pairs, sequences, context, duration))
        return duration

    stated = settings_from({"workers": 2, "limit": 60, "rate_scale": 3.0})
    workload = prepare(stated, [])
    policy = choose_policy("stop_and_restart", stated, Pairing(workload.cluster, workload.trace, ()), [])
    inp = workload.cluster.replay_input(workload.trace, faults=(), policy=policy)
    monkeypatch.setattr(IterationCosts, "duration_ps", recorded)
    output = replay(inp)
    counted = np.array(iterations, dtype=float)
    seconds = counted[:, 4] / PS_PER_S
    for column, name in ((2, "sequences"), (3, "context_tokens")):
        limit = int(np.quantile(counted[:, column], 0.6))
        values = {field: getattr(WIDE, field) for field in WIDE.__struct_fields__} | {name: limit}
        found = outside_range(inp, output, CalibratedRange(**values))
        assert found.busy_s == pytest.approx(seconds.sum(), rel=0.05)
        assert found.decode_outside_s == pytest.approx(seconds[counted[:, column] > limit].sum(), rel=0.25)
