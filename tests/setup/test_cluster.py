"""The resolved cluster, the load it serves and the policies it runs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.errors import CostModelError
from lumen_policy.capacity import middle_throughput
from lumen_policy.cluster import Cluster, resolve_cluster
from lumen_policy.errors import InputError
from lumen_policy.faults import parse_crashes
from lumen_policy.paired import Pairing
from lumen_policy.policies.lumen import lumen
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.policy_choice import choose_policy, mean_request_pages
from lumen_policy.policy_file.document import spec_of
from lumen_policy.replay.contract import Placement, Routing
from lumen_policy.settings import settings_from
from lumen_policy.trace.synthetic import built_in_trace

S = 10**12


def cluster(longest: int = 4000, **values: object) -> Cluster:
    return resolve_cluster(settings_from(values), longest_tokens=longest, notices=[])


def test_budget_is_whole_pages_rounded_down() -> None:
    page = cluster().costs.page_bytes
    assert page == 16 * 262_144
    assert cluster(checkpoint_budget_gb=20).budget_pages == 20 * 10**9 // page
    just_below = (5 * page - 1) / 10**9
    assert cluster(checkpoint_budget_gb=just_below).budget_pages == 4
    assert cluster(checkpoint_budget_gb=5 * page / 10**9).budget_pages == 5


def test_horizon_is_fixed_beforehand() -> None:
    way = cluster().fault_columns.reload.hardware
    reload_ps = way.restart_ps + way.draft_ps + way.load_ps + way.init_ps
    assert cluster(detection_s=2).horizon_ps == max(300 * S, reload_ps + 182 * S)
    assert cluster(detection_s=1000).horizon_ps == reload_ps + 1180 * S
    assert cluster(horizon_s=42.5).horizon_ps == 425 * S // 10
    # hang: with the longest detection, so that no draw moves it
    assert cluster(hang_interval_s=500).horizon_ps == reload_ps + (1500 + 1 + 180) * S


def test_tables_reach_the_longest_request_that_fits() -> None:
    for longest in (4000, 40_000, 250_000):
        costs = cluster(longest).costs
        assert len(costs.restore_ps) > min(longest // 16, costs.pool_pages)
        assert costs.draft is not None
        assert len(costs.draft.token_ps) > min(longest, costs.pool_pages * 16)
    small = cluster(4000, kv_pages=60).costs
    assert small.pool_pages == 60
    with pytest.raises(CostModelError, match="kv_pages"):
        cluster(4000, kv_pages=60, max_context_tokens=4000)


def test_inputs_carry_the_set_up() -> None:
    trace = built_in_trace(requests=50)
    resolved = cluster(workers=3, detection_s=1.5, seed=7, router="least_kv", scheduler="prefill_first")
    crashes = parse_crashes(["4:2", "2:0"])
    policy = lumen(alpha="0.01", theta="9", k=3)
    inputs = resolved.replay_input(trace, faults=crashes, policy=policy)
    assert list(inputs.faults.ps) == [2 * S, 4 * S]
    assert list(inputs.faults.worker) == [0, 2]
    assert list(inputs.faults.delay_ps) == [15 * S // 10] * 2
    assert inputs.expected_tokens.shape == (len(inputs.acceptance_threshold), 4)
    assert (inputs.router, inputs.scheduler, inputs.workers) == (3, 1, 3)
    assert inputs.snapshot_ps[0] == 0
    assert set(np.diff(inputs.snapshot_ps)) == {5 * S}
    assert inputs.snapshot_ps[-1] > trace.span_ps + resolved.horizon_ps - 5 * S
    other = resolved.replay_input(trace, faults=crashes, policy=policy, scenario=1)
    assert other.seed != inputs.seed
    with pytest.raises(InputError, match="draft"):
        cluster(draft="none").replay_input(trace, faults=(), policy=policy)


@given(st.lists(st.integers(0, 10**15), min_size=10, max_size=60, unique=True))
def test_middle_throughput_leaves_out_both_ends(times: list[int]) -> None:
    ordered = sorted(times)
    cut = len(ordered) // 10
    kept = ordered[cut : len(ordered) - cut]
    expected = Fraction((len(kept) - 1) * S, kept[-1] - kept[0])
    assert middle_throughput(np.array(times, dtype=np.int64)) == expected


def test_throughput_of_a_steady_server() -> None:
    steady = np.arange(1, 1001, dtype=np.int64) * (S // 4)
    assert middle_throughput(steady) == 4
    with pytest.raises(InputError, match="ten requests"):
        middle_throughput(np.full(20, S, dtype=np.int64))


def test_default_alpha_makes_a_full_copy_weigh_one_request() -> None:
    trace = built_in_trace(requests=80)
    resolved = cluster(workers=2)
    policy = choose_policy("lumen", settings_from({"theta": "5"}), Pairing(resolved, trace, ()), [])
    assert float(policy.alpha) * float(mean_request_pages(trace)) == pytest.approx(1, rel=1e-8)
    assert (policy.beta, policy.theta, policy.tau, policy.k) == ("1", "5", 512, 2)
    without = choose_policy(
        "lumen", settings_from({"theta": "5", "draft": "none"}), Pairing(cluster(draft="none"), trace, ()), []
    )
    assert without.k == 0


def test_remote_store_is_known_by_name_and_takes_no_parameters() -> None:
    trace = built_in_trace(requests=80)
    resolved = cluster(second_replica=True)
    pairing = Pairing(resolved, trace, ())
    policy = choose_policy("remote_store", settings_from({}), pairing, [])
    inputs = resolved.replay_input(trace, faults=(), policy=policy)
    assert (inputs.policy.placement, inputs.policy.routing) == (Placement.STORE, Routing.ANYWHERE)
    assert not inputs.rules.second_replica, "a store has one copy"
    assert len(inputs.costs.transfers.store_restore_ps) > 1
    with pytest.raises(InputError, match="takes no parameters"):
        choose_policy("remote_store", settings_from({"alpha": "1"}), pairing, [])
    with pytest.raises(InputError, match="carries none"):
        spec_of(policy, checkpoint_bytes_per_worker=1)
    for routing in ("holder", "load_aware"):
        with pytest.raises(InputError, match="follows a holder"):
            RecoveryPolicy(name="x", placement="store", routing=routing)  # type: ignore[arg-type]
