"""Calibrated profiles: laws of their curves, which value wins, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.calibrated import StepCurve
from cost_models.calibration.curves import fit_smooth_curve, fit_tile_curve
from cost_models.calibration.fit import fit_calibration
from cost_models.calibration.measured import copy_curve
from cost_models.calibration.profile import with_calibrations, write_profile
from cost_models.errors import CostModelError
from cost_models.hardware import HardwareProfile, load_hardware
from cost_models.iteration import iteration_model, to_ps
from cost_models.model_spec import BUILT_IN_MODELS
from cost_models.sourced import Sourced
from cost_models.transfers import link_line
from cost_models.worker import serving_costs
from tests.cost_models.serving_contract import check_iteration

from .synthetic import OPTIONS, TINY, Known, component_samples

KNOWN = Known(weights_s=1e-3, token_s=1e-4, pair_s=1e-8, context_s=1e-7, sequence_s=1e-5)
CURVES = st.builds(
    lambda counts, levels, beyond: StepCurve(
        points=list(zip(sorted(counts), sorted(levels), strict=False)),
        beyond_s=beyond,
        unit="token",
        kind="assumed",
        source="drawn",
    ),
    st.sets(st.integers(0, 300), min_size=1, max_size=8),
    st.lists(st.floats(0, 10), min_size=8, max_size=8),
    st.floats(0, 1),
)


def calibrated() -> HardwareProfile:
    base = load_hardware("h100-sxm")
    return with_calibrations(base, [fit_calibration(component_samples(KNOWN), TINY, 1, base, OPTIONS, [])])


@pytest.mark.parametrize(
    ("kind", "other"),
    [("host_to_device_pages", "device_to_host_pages"), ("device_to_host_pages", "host_to_device_pages")],
)
def test_copies_of_each_direction_make_its_own_curve(
    kind: Literal["host_to_device_pages", "device_to_host_pages"],
    other: Literal["host_to_device_pages", "device_to_host_pages"],
) -> None:
    """10 µs + bytes over 20 GB/s one way; nothing of the other way."""
    sizes = [2**16, 2**20, 2**24]
    rows = [{"kind": kind, "bytes": size, "seconds": 1e-5 + size / 20e9} for size in sizes]
    curve = copy_curve(pl.DataFrame(rows), "drawn", kind)
    assert curve is not None
    line = link_line(curve)
    assert float(line.latency_s) == pytest.approx(1e-5, rel=1e-3)
    assert float(1 / line.byte_s) == pytest.approx(20e9, rel=1e-3)
    assert copy_curve(pl.DataFrame(rows), "drawn", other) is None


@given(CURVES, st.integers(0, 400), st.fractions(Fraction(1, 3), 3, max_denominator=1000))
def test_tables_are_the_exact_curve_rounded_once(curve: StepCurve, last: int, scale: Fraction) -> None:
    table = curve.table_ps(last, scale)
    assert table.shape == (last + 1,)
    for count in {0, 1, last // 2, last} & set(range(last + 1)):
        assert abs(int(table[count]) - curve.seconds(count) * scale * 10**12) <= Fraction(1, 2)
    assert (np.diff(table) >= 0).all()


@given(CURVES)
def test_floating_point_agrees_with_the_exact_curve(curve: StepCurve) -> None:
    counts = np.arange(0.0, 400.0, 7.0)
    exact = [float(curve.seconds(int(count))) for count in counts]
    assert curve.at(counts) == pytest.approx(exact, rel=1e-9, abs=1e-12)


@given(st.integers(0, 100))
def test_tile_steps_are_found(seed: int) -> None:
    """Seconds that step every 64 tokens, none within a tile."""
    rng = np.random.default_rng(seed)
    tokens = np.sort(rng.choice(np.arange(65, 2049), 300, replace=False)).astype(float)
    seconds = np.ceil(tokens / 64) * 1e-3
    curve = fit_tile_curve(tokens, seconds, kind="assumed", source="drawn")
    assert curve.at(tokens) == pytest.approx(seconds, rel=1e-5)
    assert float(curve.seconds(4096)) == pytest.approx(64e-3, rel=0.05)


def test_a_line_is_continued() -> None:
    counts = np.arange(1.0, 101.0)
    curve = fit_smooth_curve(counts, 2e-3 + 1e-4 * counts, unit="byte", kind="assumed", source="drawn")
    for count in (1, 50, 100, 200):
        assert float(curve.seconds(count)) == pytest.approx(2e-3 + 1e-4 * count, rel=0.01)


def test_the_calibration_wins_for_its_shape_and_tp_alone() -> None:
    profile, base = calibrated(), load_hardware("h100-sxm")
    fitted = profile.calibrations[0]
    model = iteration_model(TINY, profile, 1)
    assert model.prefill_pair_s == fitted.prefill_pair_s.exact()
    assert model.seconds(256) == fitted.linear.seconds(256)
    renamed = msgspec.structs.replace  # names do not matter, shapes do
    assert renamed(profile, name="other").calibration(TINY, 1) is fitted
    for spec, tp in ((TINY, 2), (BUILT_IN_MODELS["qwen3-14b"], 1)):
        assert iteration_model(spec, profile, tp) == iteration_model(spec, base, tp)
        assert "peak and efficiency are used" in (profile.unused_calibrations(spec, tp) or "")
    assert profile.unused_calibrations(TINY, 1) is None
    assert base.unused_calibrations(TINY, 1) is None


def test_replays_run_on_the_same_integers() -> None:
    costs = serving_costs(
        model=TINY, draft=None, hardware=calibrated(), tensor_parallel=1, token_budget=512, max_batch=64,
        max_context_tokens=4096,
    )  # fmt: skip
    check_iteration(costs.target)
    model = iteration_model(TINY, calibrated(), 1)
    for batch in (1, 64):
        exact = model.seconds(batch, rows=batch, context_tokens=1000, sequences=batch)
        assert abs(costs.target.duration_ps(batch, batch, 0, 1000, batch) - to_ps(exact)) <= 1000
    durations = [costs.target.duration_ps(8, 8, 0, context, 8) for context in (0, 500, 1000)]
    assert durations[2] - durations[1] == durations[1] - durations[0] > 0


@pytest.mark.parametrize("calibration", [False, True])
def test_the_residual_scale_multiplies_the_whole_iteration(calibration: bool) -> None:
    base = calibrated() if calibration else load_hardware("h100-sxm")
    scale = Sourced(value=1.25, unit="1", kind="measured", source="a server's log")
    scaled = with_calibrations(base, [], residual_scale=scale)
    work = {"rows": 3, "pairs": 5000, "context_tokens": 700, "sequences": 2}
    before, after = (iteration_model(TINY, hardware, 1).seconds(40, **work) for hardware in (base, scaled))
    assert after == before * Fraction(5, 4)
    draft = [iteration_model(TINY, hardware, 1, draft=True) for hardware in (base, scaled)]
    assert draft[0] == draft[1]


def test_attention_efficiency_divides_decode_attention() -> None:
    profile = calibrated()
    slower = msgspec.structs.replace(
        profile.calibrations[0],
        attention_efficiency=Sourced(value=0.5, unit="1", kind="assumed", source="an engine's kernel"),
    )
    one = iteration_model(TINY, profile, 1)
    two = iteration_model(TINY, with_calibrations(profile, [slower]), 1)
    assert two.decode_context_s == 2 * one.decode_context_s
    assert two.prefill_pair_s == one.prefill_pair_s


def test_round_trip_and_replacement(tmp_path: Path) -> None:
    profile = calibrated()
    path = tmp_path / "p.json"
    write_profile(profile, str(path))
    assert load_hardware(str(path)) == profile
    assert with_calibrations(profile, list(profile.calibrations)) == profile


def _set(where: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(document: dict[str, Any]) -> None:
        *path, last = where.split(".")
        target: Any = document
        for key in path:
            target = target[int(key)] if isinstance(target, list) else target[key]
        target[last] = value

    return edit


def _twice(document: dict[str, Any]) -> None:
    document["calibrations"] *= 2


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (_set("schema_version", 1), "needs schema_version 2"),
        (_set("schema_version", 4), "schema_version is 4, this release reads 1, 2, 3"),
        (_set("calibrations.0.clock", 1), "unknown field `clock`"),
        (_set("calibrations.0.prefill_pair_s.value", -1e-9), "prefill_pair_s: -1e-09 s, allowed"),
        (_set("calibrations.0.prefill_pair_s.unit", "ms"), "prefill_pair_s: unit is 'ms'"),
        (_set("calibrations.0.linear.unit", "byte"), "linear: unit is 'byte'"),
        (_set("calibrations.0.linear.points", [[1, 2.0], [2, 1.0]]), "2 would take less time than 1"),
        (_set("calibrations.0.linear.points", [[2, 1.0], [2, 1.0]]), "counts must increase"),
        (_set("calibrations.0.linear.points", []), "points: empty"),
        (_set("calibrations.0.linear.beyond_s", -1.0), "allowed: a finite number ≥ 0"),
        (_set("calibrations.0.range.tokens", -1), "range: tokens is -1"),
        (_set("calibrations.0.attention_efficiency.value", 0), "attention_efficiency: value is 0"),
        (
            _set("residual_scale", {"value": 0, "unit": "1", "kind": "assumed", "source": "x"}),
            "residual_scale",
        ),
        (_twice, "calibrations: two for tiny at TP 1, allowed: one"),
    ],
)
def test_a_wrong_profile_is_refused(
    tmp_path: Path, edit: Callable[[dict[str, Any]], None], words: str
) -> None:
    path = tmp_path / "p.json"
    write_profile(calibrated(), str(path))
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))
    with pytest.raises(CostModelError) as caught:
        load_hardware(str(path))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
