"""The tables that ``lumen-tune costs`` prints agree with the integers a replay runs on."""

from __future__ import annotations

import pytest

from cost_models.cost_tables import cost_tables
from cost_models.errors import CostModelError
from cost_models.hardware import load_hardware
from cost_models.model_spec import BUILT_IN_MODELS
from cost_models.worker import serving_costs

MODEL, DRAFT = BUILT_IN_MODELS["qwen3-32b"], BUILT_IN_MODELS["qwen3-1.7b"]
HARDWARE = load_hardware("h100-sxm")
TABLES = cost_tables(model=MODEL, draft=DRAFT, hardware=HARDWARE, tensor_parallel=2)
COSTS = serving_costs(
    model=MODEL,
    draft=DRAFT,
    hardware=HARDWARE,
    tensor_parallel=2,
    token_budget=2048,
    max_batch=256,
    max_context_tokens=32768,
)
ROUNDING = 1e-4  # an integer picosecond a pair is the coarsest coefficient


def test_prefill_is_the_sum_of_its_chunks() -> None:
    for row in TABLES.prefill:
        duration_ps = 0
        for start in range(0, row.tokens, 2048):
            chunk = min(2048, row.tokens - start)
            pairs = chunk * start + chunk * (chunk + 1) // 2
            duration_ps += COSTS.target.duration_ps(chunk, int(start + chunk == row.tokens), pairs, 0, 0)
        assert row.duration_s == pytest.approx(duration_ps / 1e12, rel=ROUNDING)
        assert row.fits
    assert [row.tokens for row in TABLES.prefill] == [512, 1024, 2048, 4096, 8192, 16384, 32768]


def test_decode() -> None:
    for row in TABLES.decode:
        batch, context = row.batch, row.batch * row.context_tokens
        duration_ps = COSTS.target.duration_ps(batch, batch, 0, context, batch)
        assert row.duration_s == pytest.approx(duration_ps / 1e12, rel=ROUNDING)
        assert row.fits == (context <= COSTS.pool_pages * 16)
    assert {row.fits for row in TABLES.decode} == {True, False}


def test_restore() -> None:
    for row in TABLES.restore:
        assert row.duration_s == pytest.approx(COSTS.restore_ps[row.tokens // 16] / 1e12)
        assert row.kv_bytes == row.tokens * 262144


def test_restore_over_the_network() -> None:
    for row in TABLES.restore:
        pages = row.tokens // 16
        assert row.remote_s == pytest.approx(COSTS.transfers.remote_restore_ps[pages] / 1e12)
        assert row.store_s == pytest.approx(COSTS.transfers.store_restore_ps[pages] / 1e12)
        assert row.duration_s < row.remote_s < row.store_s


def test_transfers_hold_the_links_as_long_as_in_a_replay() -> None:
    links = serving_costs(
        model=MODEL,
        draft=None,
        hardware=HARDWARE,
        tensor_parallel=2,
        token_budget=512,
        max_batch=8,
        max_context_tokens=512,
        links="fifo",
    ).transfers
    for row in TABLES.transfers:
        egress_ps = links.egress_latency_ps + row.tokens * links.egress_token_ps
        assert row.egress_s == pytest.approx(egress_ps / 1e12, rel=1e-6)
        assert row.ingress_s == pytest.approx(row.tokens * links.ingress_token_ps / 1e12, rel=1e-6)
        store_ps = links.store_latency_ps + row.tokens * links.store_token_ps
        assert row.store_s == pytest.approx(store_ps / 1e12, rel=1e-6)
        assert row.bytes_per_s == pytest.approx(row.tokens * 262144 / (row.egress_s + row.ingress_s))
    speeds = [row.bytes_per_s for row in TABLES.transfers]
    assert speeds == sorted(speeds)
    assert TABLES.egress_bound == "network"


def test_reload_paths() -> None:
    paths = {row.path: row for row in TABLES.reload_paths}
    assert list(paths) == ["storage", "weight_cache", "snapshot", "standby"]
    assert [row.needs_memory for row in TABLES.reload_paths] == [False, True, False, True]
    assert paths["standby"].draft_ready_s is paths["standby"].rejoin_with_draft_s is None
    for row in TABLES.reload_paths:
        assert sum(seconds for _, seconds, _ in row.parts) == pytest.approx(row.total_s)


def test_verify_is_what_a_drafted_pass_costs_in_a_replay() -> None:
    assert COSTS.draft is not None
    for row in TABLES.verify:
        n, context = row.batch * (row.k + 1), row.batch * row.context_tokens
        verify_ps = COSTS.target.duration_ps(n, n, 0, context * COSTS.verify_context_ppm // 10**6, row.batch)
        draft_ps = sum(
            COSTS.draft.duration_ps(row.batch, row.batch, 0, context + j * row.batch, row.batch)
            for j in range(row.k)
        )
        assert row.verify_s == pytest.approx(verify_ps / 1e12, rel=ROUNDING)
        assert row.draft_s == pytest.approx(draft_ps / 1e12, rel=ROUNDING)
        assert row.round_trip_s == COSTS.draft_round_trip_ps / 1e12
        pass_s = row.verify_s + row.draft_s + row.round_trip_s
        assert row.break_even_tokens == pytest.approx(pass_s / row.plain_s)
        assert row.break_even_tokens > 1


def test_storage_by_its_sums() -> None:
    """24 + 19.27 + 0.66 + 34.1 s, the draft's load and init first where it helps."""
    storage = next(row for row in TABLES.reload_paths if row.path == "storage")
    assert storage.total_s == pytest.approx(78.03, abs=0.005) == sum(part[1] for part in storage.parts)
    assert storage.draft_ready_s is not None
    assert storage.rejoin_with_draft_s == pytest.approx(storage.total_s + storage.draft_ready_s - 24)


def test_capacity() -> None:
    assert TABLES.capacity.pool_pages == COSTS.pool_pages
    assert TABLES.capacity.pool_tokens == 16 * COSTS.pool_pages
    assert TABLES.capacity.draft_pool_tokens == 16 * COSTS.draft_pool_pages
    assert TABLES.capacity.memory_bytes == 160_000_000_000


def test_without_a_draft() -> None:
    tables = cost_tables(model=MODEL, draft=None, hardware=HARDWARE, tensor_parallel=2)
    assert tables.verify == ()
    assert tables.reload_paths[0].draft_ready_s is tables.capacity.draft_pool_tokens is None
    assert tables.prefill == TABLES.prefill


def test_what_does_not_fit_is_an_error_with_gb() -> None:
    with pytest.raises(CostModelError, match="GB short"):
        cost_tables(model=BUILT_IN_MODELS["llama-3-70b"], draft=None, hardware=HARDWARE, tensor_parallel=2)
    with pytest.raises(CostModelError, match="token_budget is 0"):
        cost_tables(model=MODEL, draft=None, hardware=HARDWARE, tensor_parallel=2, token_budget=0)
