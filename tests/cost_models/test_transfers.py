"""Checkpoint links: what was published, sums by hand, rounding, limits."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.errors import CostModelError
from cost_models.hardware import BUILT_IN_PROFILES, HardwareProfile, load_hardware
from cost_models.kv_restore import restore_s
from cost_models.model_spec import BUILT_IN_MODELS
from cost_models.serving_costs import TransferCosts
from cost_models.sourced import SourcedCurve
from cost_models.transfers import checkpoint_links, link_line, remote_restore_s, transfer_costs
from cost_models.worker import serving_costs

MODEL = BUILT_IN_MODELS["qwen3-32b"]
HARDWARE = load_hardware("h100-sxm")
TOKEN_BYTES = 262_144
HALF = Fraction(1, 2)

# Mooncake, vLLM benchmark on 8 x RoCE: MiB of KV (Qwen3-8B, whole pages) and milliseconds.
MOONCAKE = (
    (20.25, 0.54),
    (38.25, 0.61),
    (74.25, 0.92),
    (146.25, 1.50),
    (290.25, 2.51),
    (578.25, 4.75),
    (1154.25, 8.84),
    (2306.25, 16.43),
    (4610.25, 31.65),
)


def costs_of(**more: Any) -> TransferCosts:
    given = {"model": MODEL, "hardware": HARDWARE, "tensor_parallel": 2, "max_pages": 256, "links": "fifo"}
    return transfer_costs(**{**given, **more})


def changed(**figures: float) -> HardwareProfile:
    return msgspec.structs.replace(
        HARDWARE,
        **{
            name: msgspec.structs.replace(getattr(HARDWARE, name), value=value)
            for name, value in figures.items()
        },
    )


def curve(points: list[tuple[float, float]], latency_s: float = 0.0) -> SourcedCurve:
    return SourcedCurve(latency_s=latency_s, points=points, unit="byte/s", kind="assumed", source="drawn")


def test_the_network_is_what_was_published() -> None:
    latency, rate = HARDWARE.nic_latency_s.value, 8 * HARDWARE.nic_bytes_per_s.value
    errors = [(latency + mib * 2**20 / rate) / (ms / 1e3) - 1 for mib, ms in MOONCAKE]
    assert max(map(abs, errors)) < 0.056
    assert min(errors) < -0.05 < 0.05 < max(errors), "a better line exists"


@pytest.mark.parametrize("profile", BUILT_IN_PROFILES)
def test_the_line_through_a_shipped_host_link(profile: str) -> None:
    hardware = load_hardware(profile)
    line = link_line(hardware.host_link)
    assert float(line.latency_s) == pytest.approx(20e-6, rel=0.01)
    for size, rate in hardware.host_link.points:
        predicted = size / float(line.latency_s + Fraction(size) * line.byte_s)
        assert predicted == pytest.approx(rate, rel=0.01)


@given(st.fractions(0, 1, max_denominator=1000), st.integers(10**6, 10**12))
def test_a_line_is_found_again(latency: Fraction, rate: int) -> None:
    sizes = (10**4, 10**6, 10**8)
    points = [(float(size), float(size / (latency + Fraction(size, rate)))) for size in sizes]
    line = link_line(curve(points))
    assert float(line.latency_s) == pytest.approx(float(latency), rel=1e-6, abs=1e-9)
    assert float(line.byte_s) == pytest.approx(1 / rate, rel=1e-4, abs=1e-16)


def test_lines_of_few_or_odd_points() -> None:
    single = link_line(curve([(1e6, 1e9)], latency_s=0.0004))
    assert (single.latency_s, single.byte_s) == (Fraction(4, 10**4), Fraction(6, 10**10))
    # 1 s for 1 byte, 4 s for 2: a line through both would start at -2 s.
    bent = link_line(curve([(1.0, 1.0), (2.0, 0.5)]))
    assert bent.latency_s == 0
    assert bent.byte_s == (1 + Fraction(1, 2)) / (1 + Fraction(1, 4))


def test_figures_by_hand() -> None:
    """Qwen3-32B, TP 2: 256 KiB a token over 2 x 18.3 GB/s; the host links carry 100 GB/s."""
    costs = costs_of(store_latency_s=0.002, store_bytes_per_s=20e9)
    network_ps = TOKEN_BYTES * 10**12 / Fraction(36_600_000_000)
    assert costs.egress_token_ps == costs.ingress_token_ps == round(network_ps) == 7_162_404
    assert costs.egress_latency_ps == pytest.approx(370_000_000 + 20_000_000, abs=10_000)
    assert costs.store_latency_ps == 2_000_000_000
    assert costs.store_token_ps == TOKEN_BYTES * 50


def test_the_slower_of_host_link_and_network_bounds_the_egress() -> None:
    quick = changed(nic_bytes_per_s=100e9)
    links = checkpoint_links(model=MODEL, hardware=quick, tensor_parallel=2)
    assert links.egress_bound == "device_to_host"
    assert links.egress_token_s == TOKEN_BYTES * link_line(HARDWARE.host_link).byte_s / 2
    assert links.ingress_token_s == Fraction(TOKEN_BYTES, 200 * 10**9)
    slow = msgspec.structs.replace(quick, device_to_host=curve([(1e6, 1e9)]))
    links = checkpoint_links(model=MODEL, hardware=slow, tensor_parallel=2)
    assert links.egress_token_s == Fraction(TOKEN_BYTES, 2 * 10**9)
    assert checkpoint_links(model=MODEL, hardware=HARDWARE, tensor_parallel=2).egress_bound == "network"


def test_more_gpus_bring_more_interfaces() -> None:
    tokens = [costs_of(tensor_parallel=tp).egress_token_ps for tp in (1, 2, 4, 8)]
    for narrow, wide in itertools.pairwise(tokens):
        assert abs(narrow - 2 * wide) <= 1
    half = changed(nics_per_gpu=0.5)
    assert costs_of(hardware=half, tensor_parallel=4).ingress_token_ps == tokens[1]


def test_the_network_carries_one_copy_and_the_host_links_all() -> None:
    """TP 16 holds each of 8 KV heads twice."""
    model, hardware = BUILT_IN_MODELS["llama-3-70b"], changed(nic_bytes_per_s=1e13)
    eight, sixteen = (checkpoint_links(model=model, hardware=hardware, tensor_parallel=tp) for tp in (8, 16))
    assert eight.egress_bound == sixteen.egress_bound == "device_to_host"
    assert eight.egress_token_s == sixteen.egress_token_s
    assert eight.ingress_token_s == 2 * sixteen.ingress_token_s


@pytest.mark.parametrize("profile", BUILT_IN_PROFILES)
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("nic_bytes_per_s", [18.3e9, 30e9, 1e12])
def test_restores_over_the_network(profile: str, store: bool, nic_bytes_per_s: float) -> None:
    """Each entry is the exact time rounded once, above the local restore, and grows with its pages."""
    hardware = load_hardware(profile)
    nic = msgspec.structs.replace(hardware.nic_bytes_per_s, value=nic_bytes_per_s)
    hardware = msgspec.structs.replace(hardware, nic_bytes_per_s=nic)
    links = checkpoint_links(model=MODEL, hardware=hardware, tensor_parallel=2)
    costs = costs_of(hardware=hardware)
    table = costs.store_restore_ps if store else costs.remote_restore_ps
    assert table.dtype == np.int64
    assert table.shape == (257,)
    assert table[0] == 0
    assert (np.diff(table) > 0).all()
    for pages in (1, 2, 3, 16, 17, 200, 256):
        exact = remote_restore_s(MODEL, hardware, 2, pages, links, store=store)
        assert abs(int(table[pages]) - exact * 10**12) <= HALF
        assert exact >= restore_s(MODEL, hardware, 2, pages) + hardware.nic_latency_s.exact()


def test_a_remote_restore_by_hand() -> None:
    """100 pages of 4 MiB: 0.37 ms + 0.02 ms + 419.4 MB over 36.6 GB/s, or over the store's 10 GB/s + 2 ms."""
    links = checkpoint_links(
        model=MODEL,
        hardware=HARDWARE,
        tensor_parallel=2,
        store_latency_s=Fraction(1, 500),
        store_bytes_per_s=1e10,
    )
    latency, pages_bytes = Fraction(39, 10**5), 100 * 2**22
    assert remote_restore_s(MODEL, HARDWARE, 2, 100, links) == latency + Fraction(pages_bytes, 36_600_000_000)
    stored = remote_restore_s(MODEL, HARDWARE, 2, 100, links, store=True)
    assert stored == latency + Fraction(1, 500) + Fraction(pages_bytes, 10**10)
    costs = costs_of(store_latency_s=0.002, store_bytes_per_s=1e10)
    assert abs(int(costs.store_restore_ps[100]) - stored * 10**12) <= HALF


def test_free_links_cost_nothing_but_restores_do() -> None:
    free, fifo = costs_of(links="free"), costs_of()
    assert (free.egress_latency_ps, free.egress_token_ps, free.ingress_token_ps) == (0, 0, 0)
    assert (free.store_latency_ps, free.store_token_ps) == (0, 0)
    assert (free.remote_restore_ps == fifo.remote_restore_ps).all()
    assert (free.store_restore_ps == fifo.store_restore_ps).all()


@pytest.mark.parametrize("links", ["free", "fifo"])
def test_serving_costs_hold_them(links: Any) -> None:
    stated = {"links": links, "store_latency_s": 0.5, "store_bytes_per_s": 1e9}
    costs = serving_costs(
        model=MODEL,
        draft=None,
        hardware=HARDWARE,
        tensor_parallel=2,
        token_budget=512,
        max_batch=8,
        max_context_tokens=1000,
        **stated,
    )
    expected = costs_of(max_pages=63, **stated)
    for field in TransferCosts.__dataclass_fields__:
        assert np.array_equal(getattr(costs.transfers, field), getattr(expected, field)), field
    assert len(costs.transfers.remote_restore_ps) == len(costs.restore_ps) == 64


def test_values_of_the_profile_are_the_defaults() -> None:
    named = costs_of(store_latency_s=0.001, store_bytes_per_s=40.3e9)
    assert np.array_equal(costs_of().store_restore_ps, named.store_restore_ps)
    assert costs_of().store_token_ps == named.store_token_ps
    assert costs_of(store_latency_s=0).store_latency_ps == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"links": "slow"}, "links is 'slow', allowed: free, fifo"),
        ({"store_latency_s": -0.1}, r"store_latency_s is -0.1, allowed: ≥ 0 and ≤ 100000"),
        ({"store_bytes_per_s": 0}, r"store_bytes_per_s is 0, allowed: > 0"),
        ({"store_bytes_per_s": float("nan")}, "store_bytes_per_s is nan"),
        ({"store_bytes_per_s": 2e14}, r"store_bytes_per_s is 2e\+14, allowed: > 0 and ≤ 1e\+14"),
        ({"store_bytes_per_s": 40.3}, "from the store would take .* is the bandwidth in byte/s"),
        ({"hardware": changed(nic_bytes_per_s=18.3)}, "from another worker would take"),
        ({"tensor_parallel": 3}, "tensor_parallel 3 does not divide"),
    ],
)
def test_senseless_values_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        costs_of(**change)
