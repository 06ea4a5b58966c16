"""Ways back after a crash: sums by hand, what each needs, what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from cost_models.errors import CostModelError
from cost_models.hardware import load_hardware
from cost_models.model_spec import BUILT_IN_MODELS
from cost_models.reload_paths import MEMORY_PATHS, ReloadParts, ReloadPath, ReloadPhase, reload_parts

MODEL, DRAFT = BUILT_IN_MODELS["qwen3-32b"], BUILT_IN_MODELS["qwen3-1.7b"]
HARDWARE = load_hardware("h100-sxm")
IN_GB = msgspec.structs.replace(
    HARDWARE, storage_bytes_per_s=msgspec.structs.replace(HARDWARE.storage_bytes_per_s, value=3.4)
)
"""A bandwidth stated in GB/s."""
PHASES = tuple(ReloadPhase)


def parts_of(path: str, **more: Any) -> ReloadParts:
    given = {"draft": DRAFT, "host_memory_survives": True, "tensor_parallel": 2, "model": MODEL}
    return reload_parts(**{"hardware": HARDWARE, "path": path, **given, **more})


def integers(parts: ReloadParts) -> tuple[int, int, int, int]:
    return parts.restart_ps, parts.draft_ps, parts.load_ps, parts.init_ps


@pytest.mark.parametrize("tp", [1, 2, 8])
@pytest.mark.parametrize("survives", [True, False])
def test_storage_by_hand(tp: int, survives: bool) -> None:
    """24 s restart; each model over storage at 3.4 GB/s, then over TP links at 49.81 GB/s; inits of 14.2 and 34.1 s."""
    parts = parts_of("storage", tensor_parallel=tp, host_memory_survives=survives)
    draft, full = (
        Fraction(model.weight_bytes) / 3_400_000_000 + Fraction(model.weight_bytes, tp) / 49_810_000_000
        for model in (DRAFT, MODEL)
    )
    assert integers(parts) == (
        24 * 10**12,
        round(draft * 10**12) + 14_200_000_000_000,
        round(full * 10**12),
        34_100_000_000_000,
    )
    assert parts_of("storage", draft=None, tensor_parallel=tp).draft_ps == 0


def test_weight_cache_by_hand() -> None:
    """24 s restart; 3.44 GB and 65.5 GB over two links at 49.81 GB/s; inits of 14.2 s and 34.1 s."""
    parts = parts_of("weight_cache")
    copies = [Fraction(model.weight_bytes, 2) / 49_810_000_000 for model in (DRAFT, MODEL)]
    assert integers(parts) == (
        24 * 10**12,
        round(copies[0] * 10**12) + 14_200_000_000_000,
        round(copies[1] * 10**12),
        34_100_000_000_000,
    )
    assert [part.name for part in parts.parts] == [
        "process restart",
        "draft host to device",
        "draft engine init",
        "host to device",
        "engine init",
    ]


def test_snapshot_meets_what_was_published() -> None:
    """Two models fitted within 0.01 s; a 70B model in one byte a weight predicted 6 % too short."""
    for name, published_s in (("qwen3-14b", 6.8), ("qwen3-32b", 9.9)):
        parts = parts_of("snapshot", model=BUILT_IN_MODELS[name], draft=None, tensor_parallel=1)
        assert float(parts.seconds()) == pytest.approx(published_s, abs=0.01)
    fp8 = msgspec.structs.replace(
        HARDWARE,
        snapshot_bytes_per_s=msgspec.structs.replace(HARDWARE.snapshot_bytes_per_s, value=2 * 11.61e9),
    )
    large = parts_of("snapshot", model=BUILT_IN_MODELS["llama-3-70b"], draft=None, hardware=fp8)
    assert float(large.seconds()) == pytest.approx(11, rel=0.07)


def test_snapshot_of_a_draft_comes_first() -> None:
    parts = parts_of("snapshot")
    memory = [Fraction(model.weight_bytes, 11_610_000_000) for model in (DRAFT, MODEL)]
    base_ps = 4_260_000_000_000
    assert integers(parts) == (0, round(memory[0] * 10**12) + base_ps, round(memory[1] * 10**12), base_ps)


def test_a_standby_takes_over_without_a_draft() -> None:
    assert integers(parts_of("standby")) == integers(parts_of("standby", draft=None)) == (0, 0, 0, 4 * 10**12)


@pytest.mark.parametrize("path", list(ReloadPath))
def test_parts_stand_in_order_with_a_source_and_add_up(path: ReloadPath) -> None:
    parts = parts_of(path)
    phases = [PHASES.index(part.phase) for part in parts.parts]
    assert phases == sorted(phases)
    assert all(part.seconds > 0 and len(part.source) > 20 for part in parts.parts)
    assert len({part.name for part in parts.parts}) == len(parts.parts)
    assert abs(sum(integers(parts)) - parts.seconds() * 10**12) <= Fraction(5, 2)


def test_paths_are_quicker_the_more_they_keep() -> None:
    seconds = [
        parts_of(path, draft=None).seconds() for path in ("standby", "snapshot", "weight_cache", "storage")
    ]
    assert seconds == sorted(seconds)
    assert len(set(seconds)) == 4


@pytest.mark.parametrize("path", ["storage", "weight_cache", "snapshot"])
def test_larger_models_take_longer(path: str) -> None:
    sizes = ("qwen3-0.6b", "qwen3-14b", "qwen3-32b", "llama-3-70b")
    seconds = [parts_of(path, model=BUILT_IN_MODELS[name], draft=None).seconds() for name in sizes]
    assert seconds == sorted(set(seconds))


@pytest.mark.parametrize("path", sorted(MEMORY_PATHS))
def test_memory_that_is_gone_rules_a_path_out(path: ReloadPath) -> None:
    with pytest.raises(
        CostModelError, match=f"reload path is '{path}', .* allowed after one: storage, snapshot"
    ):
        parts_of(path, host_memory_survives=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"path": "teleport"},
            "reload path is 'teleport', allowed: storage, weight_cache, snapshot, standby",
        ),
        ({"hardware": IN_GB}, "reload path storage would take"),
        ({"tensor_parallel": 3}, "tensor_parallel 3 does not divide"),
    ],
)
def test_senseless_values_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        parts_of(**{"path": "storage", **change})
