"""The residual scale of a server's log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.calibration.observe import observe
from cost_models.cost_tables import prefill_s
from cost_models.errors import CostModelError
from cost_models.hardware import load_hardware
from cost_models.iteration import iteration_model
from cost_models.model_spec import BUILT_IN_MODELS
from tests.cli.conftest import Run

MODEL = BUILT_IN_MODELS["qwen3-14b"]
HARDWARE = load_hardware("h100-sxm")


def log(path: Path, factor: float, *, ms: bool = False) -> str:
    """Requests of a server that takes ``factor`` times the prediction."""
    iteration = iteration_model(MODEL, HARDWARE, 1)
    unit, scale = ("ms", 1000.0) if ms else ("s", 1.0)
    lines = [f"prompt_tokens,output_tokens,batch,ttft_{unit},tpot_{unit}"]
    for i in range(12):
        prompt, output, batch = 100 + 400 * i, 20 + i, 1 + i % 4
        context = batch * (prompt + output // 2)
        decode = iteration.seconds(batch, rows=batch, context_tokens=context, sequences=batch)
        ttft = factor * prefill_s(iteration, prompt, 2048) * scale
        lines.append(f"{prompt},{output},{batch},{ttft!r},{factor * float(decode) * scale!r}")
    path.write_text("\n".join(lines))
    return str(path)


@settings(max_examples=10)
@given(st.floats(0.3, 3), st.booleans())
def test_the_factor_is_found(tmp_path_factory: pytest.TempPathFactory, factor: float, ms: bool) -> None:
    path = log(tmp_path_factory.mktemp("log") / "requests.csv", factor, ms=ms)
    found = observe(path, MODEL, HARDWARE, 1, 2048)
    assert found.residual_scale == pytest.approx(factor, rel=1e-6)
    assert found.ttft_error_before == pytest.approx(abs(1 / factor - 1), rel=1e-6)
    assert found.tpot_error_after == pytest.approx(0, abs=1e-6)


def test_the_command_writes_a_profile_that_needs_no_further_factor(run: Run, tmp_path: Path) -> None:
    path, out = log(tmp_path / "requests.csv", 1.3), str(tmp_path / "observed.json")
    common = ("--model", "qwen3-14b", "--tp", "1", "--json")
    first = run("calibrate", "--observe", path, *common, "--out", out).document
    assert first["residual_scale"] == pytest.approx(1.3)
    assert first["requests"] == 12
    scale = load_hardware(out).residual_scale
    assert scale is not None
    assert scale.value == pytest.approx(1.3)
    second = run("calibrate", "--observe", path, *common, "--hardware", out, "--out", out).document
    assert second["residual_scale"] == pytest.approx(1, rel=1e-5)
    assert load_hardware(out).residual_scale.value == pytest.approx(1.3, rel=1e-5)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prompt_tokens,output_tokens\n1,2\n", "no column ttft_s"),
        ("prompt_tokens,output_tokens,ttft_s\n1,2,0.1\n", "1 requests, allowed: at least 8"),
        ("prompt_tokens,output_tokens,ttft_s\n" + "1,2,0.1\n" * 8 + "0,2,0.1\n", "row 9: prompt_tokens is 0"),
        ("prompt_tokens,output_tokens,ttft_s\n" + "1,2,0.1\n" * 8 + "1,2,-1\n", "row 9: ttft_s is -1"),
        ("prompt_tokens,output_tokens,ttft_s\n" + "1,2,nan\n" * 8, "row 1: ttft_s is nan"),
        ("prompt_tokens,output_tokens,tpot_s\n" + "1,1,\n" * 8, "no tpot_s of a request of more than one"),
        ("prompt_tokens,ttft_s\n" + "1,2\n" * 8, "column 'output_tokens' is missing"),
        ("prompt_tokens,output_tokens,ttft_s,ttft_ms\n" + "1,2,1,1\n" * 8, "both ttft_s and ttft_ms"),
        ("prompt_tokens,output_tokens,ttft_s\n" + "x,2,1\n" * 8, "prompt_tokens"),
    ],
)
def test_a_wrong_log_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(text)
    with pytest.raises(CostModelError, match=words) as caught:
        observe(str(path), MODEL, HARDWARE, 1, 2048)
    assert "\n" not in str(caught.value)
