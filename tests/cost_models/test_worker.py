"""Costs of whole workers: the contract for every model and profile that fits, restores, reload, KV pool."""

from __future__ import annotations

import time
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from serving_contract import check_serving

from cost_models.errors import CostModelError
from cost_models.hardware import BUILT_IN_PROFILES, HardwareProfile, load_hardware
from cost_models.kv_restore import restore_s
from cost_models.model_spec import BUILT_IN_MODELS, ModelSpec
from cost_models.serving_costs import ServingCosts
from cost_models.worker import serving_costs

DRAFT = BUILT_IN_MODELS["qwen3-1.7b"]


def costs_of(
    model: ModelSpec,
    hardware: HardwareProfile,
    tp: int,
    *,
    draft: ModelSpec | None = DRAFT,
    longest: int = 4096,
    **more: int,
) -> ServingCosts:
    return serving_costs(
        model=model,
        draft=draft,
        hardware=hardware,
        tensor_parallel=tp,
        max_context_tokens=longest,
        **{"token_budget": 2048, "max_batch": 256, **more},
    )


FITTING = {
    ("qwen3-0.6b", "a100-80g"): (1, 2, 4, 8),
    ("qwen3-14b", "a100-80g"): (1, 2, 4, 8),
    ("qwen3-32b", "a100-80g"): (1, 2, 4, 8),
    ("llama-3-70b", "a100-80g"): (4, 8),
    ("llama-3.1-405b", "a100-80g"): (16,),
    ("qwen3-0.6b", "h100-sxm"): (1, 2, 4, 8),
    ("qwen3-14b", "h100-sxm"): (1, 2, 4, 8),
    ("qwen3-32b", "h100-sxm"): (1, 2, 4, 8),
    ("llama-3-70b", "h100-sxm"): (4, 8),
    ("llama-3.1-405b", "h100-sxm"): (16,),
    ("qwen3-32b", "h200-sxm"): (1, 2, 4, 8),
    ("llama-3-70b", "h200-sxm"): (2, 4, 8),
    ("llama-3.1-405b", "h200-sxm"): (8,),
}


@pytest.mark.parametrize(("name", "profile"), FITTING)
def test_contract(name: str, profile: str) -> None:
    model, hardware = BUILT_IN_MODELS[name], load_hardware(profile)
    draft = DRAFT if model.parameters > 2 * DRAFT.parameters else None
    for tp in FITTING[name, profile]:
        costs = costs_of(model, hardware, tp, draft=draft)
        check_serving(costs, n_max=2048, longest_tokens=4096, max_batch=256)


def test_without_a_draft_there_is_nothing_to_draft_with() -> None:
    costs = costs_of(BUILT_IN_MODELS["qwen3-32b"], load_hardware("h100-sxm"), 2, draft=None)
    check_serving(costs, n_max=2048, longest_tokens=4096, max_batch=256)
    assert costs.draft is None
    assert costs.draft_pool_pages == 0


def test_tables_reach_the_largest_batch_and_the_longest_request() -> None:
    costs = costs_of(
        BUILT_IN_MODELS["qwen3-32b"],
        load_hardware("h100-sxm"),
        2,
        longest=100,
        token_budget=64,
        max_batch=300,
    )
    check_serving(costs, n_max=300, longest_tokens=100, max_batch=300)


@pytest.mark.parametrize("profile", BUILT_IN_PROFILES)
@pytest.mark.parametrize("tp", [1, 2])
def test_restores_are_the_curve_rounded_once(profile: str, tp: int) -> None:
    model, hardware = BUILT_IN_MODELS["qwen3-14b"], load_hardware(profile)
    table = costs_of(model, hardware, tp, longest=9001).restore_ps
    assert len(table) == 564
    for pages, duration_ps in enumerate(table.tolist()):
        exact_ps = 10**12 * restore_s(model, hardware, tp, pages)
        assert abs(duration_ps - exact_ps) <= Fraction(1, 2)


def test_a_curve_with_more_points_than_pages() -> None:
    """Segments shorter than a page, and points exactly at whole pages, must not shift the table."""
    model, hardware = BUILT_IN_MODELS["qwen3-14b"], load_hardware("h100-sxm")
    page = model.kv_bytes_per_token * 16
    points = [(float(page * q / 4), 1e9 + q * 1e6) for q in (1, 2, 3, 4, 8, 9, 40)]
    link = msgspec.structs.replace(hardware.host_link, latency_s=0.0, points=points)
    table = costs_of(model, msgspec.structs.replace(hardware, host_link=link), 1, longest=16 * 50).restore_ps
    for pages, duration_ps in enumerate(table.tolist()):
        assert abs(duration_ps - 10**12 * link.seconds(pages * page)) <= Fraction(1, 2)


def test_replicated_kv_is_restored_to_every_gpu() -> None:
    model, hardware = BUILT_IN_MODELS["llama-3-70b"], load_hardware("h100-sxm")
    eight, sixteen = (costs_of(model, hardware, tp) for tp in (8, 16))
    assert (eight.restore_ps == sixteen.restore_ps).all()
    assert eight.page_bytes == sixteen.page_bytes == 16 * 327680


def test_kv_pool_by_hand() -> None:
    """Qwen3-32B on two H100: 144 GB usable − 4 GB reserve − 65.524246528 GB weights, 4 MiB a page."""
    costs = costs_of(BUILT_IN_MODELS["qwen3-32b"], load_hardware("h100-sxm"), 2)
    assert costs.page_bytes == 2**22
    assert costs.pool_pages == (144_000_000_000 - 4_000_000_000 - 65_524_246_528) // 2**22 == 17756
    left = 140_000_000_000 - 65_524_246_528 - 1_720_574_976 * 2
    assert costs.draft_pool_pages == left // (114_688 * 16) == 38710


def test_no_room_for_the_longest_request_says_how_much_is_missing() -> None:
    model, hardware = BUILT_IN_MODELS["llama-3-70b"], load_hardware("h100-sxm")
    # 2 · (72 − 2) − 141.107412992 − 1 page of 5.24288 MB = −1.1 GB
    with pytest.raises(
        CostModelError, match=r"llama-3-70b on 2 GPU\(s\) of h100-sxm: .* 16 tokens, 1\.1 GB short"
    ):
        costs_of(model, hardware, 2, longest=16)
    with pytest.raises(CostModelError, match=r"405b on 8 GPU.* GB short"):
        costs_of(BUILT_IN_MODELS["llama-3.1-405b"], hardware, 8)
    model = BUILT_IN_MODELS["qwen3-32b"]
    longest = costs_of(model, hardware, 1).pool_pages * 16
    assert costs_of(model, hardware, 1, longest=longest).pool_pages * 16 == longest
    with pytest.raises(CostModelError, match=r"0\.0 GB short"):
        costs_of(model, hardware, 1, longest=longest + 1)


def test_stated_pages_win_within_what_memory_holds() -> None:
    model, hardware = BUILT_IN_MODELS["qwen3-32b"], load_hardware("h100-sxm")
    assert costs_of(model, hardware, 2, kv_pages=300).pool_pages == 300
    with pytest.raises(CostModelError, match=r"kv_pages is 255, allowed: 256 .* to 17756"):
        costs_of(model, hardware, 2, kv_pages=255)
    with pytest.raises(CostModelError, match="kv_pages is 17757"):
        costs_of(model, hardware, 2, kv_pages=17757)


def test_a_draft_that_does_not_fit_drafts_for_nobody() -> None:
    costs = costs_of(
        BUILT_IN_MODELS["qwen3-32b"], load_hardware("h100-sxm"), 1, draft=BUILT_IN_MODELS["qwen3-14b"]
    )
    assert costs.draft_pool_pages == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"token_budget": 0}, "token_budget is 0"),
        ({"max_batch": -1}, "max_batch is -1"),
        ({"longest": 0}, "max_context_tokens is 0"),
        ({"kv_pages": 0}, "kv_pages is 0"),
        ({"pipeline_parallel": 2}, "pipeline_parallel is 2, allowed: 1"),
        ({"tp": 3}, "tensor_parallel 3 does not divide"),
        ({"token_budget": 10**9, "longest": 10**5}, "an iteration of .* takes|could take"),
    ],
)
def test_senseless_values_are_refused(change: dict[str, int], words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        costs_of(BUILT_IN_MODELS["qwen3-32b"], load_hardware("h100-sxm"), change.pop("tp", 2), **change)


def test_no_table_wraps_around() -> None:
    """Slow hardware: the largest entries must equal Python's own integers, or be refused."""
    hardware = load_hardware("a100-80g")
    slow = msgspec.structs.replace(
        hardware, peak_flop_per_s=msgspec.structs.replace(hardware.peak_flop_per_s, value=2e12)
    )
    costs = costs_of(BUILT_IN_MODELS["qwen3-32b"], slow, 8, draft=None, token_budget=8192)
    first, last = costs.target.token_ps[4096].item(), costs.target.token_ps[8192].item()
    assert 0 < first < last < 2**50
    slope = (last - costs.target.token_ps[8191]).item()
    assert last - first == 4096 * slope
    with pytest.raises(CostModelError, match=r"an iteration of .* takes|could take"):
        costs_of(BUILT_IN_MODELS["qwen3-32b"], slow, 8, draft=None, token_budget=300_000)


def test_a_bandwidth_in_gb_is_noticed() -> None:
    hardware = load_hardware("h100-sxm")
    link = msgspec.structs.replace(hardware.host_link, points=[(1e6, 50.0)])
    with pytest.raises(CostModelError, match="restoring the longest request"):
        costs_of(
            BUILT_IN_MODELS["qwen3-32b"],
            msgspec.structs.replace(hardware, host_link=link),
            2,
            longest=250_000,
        )


@pytest.mark.parametrize(("longest", "limit_s"), [(20_000, 0.02), (280_000, 0.2)])
def test_costs_are_quick_to_make(longest: int, limit_s: float) -> None:
    model, hardware = BUILT_IN_MODELS["qwen3-32b"], load_hardware("h100-sxm")
    spent = []
    for _ in range(3):
        start = time.process_time()
        costs = costs_of(model, hardware, 2, longest=longest)
        spent.append(time.process_time() - start)
    assert min(spent) < limit_s
    assert costs.draft is not None
    assert int(costs.draft.token_ps[-1]) == int(np.max(costs.draft.token_ps))
