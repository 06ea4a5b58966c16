"""Predictions against published measurements, with the tolerance that docs/cost-models.md states."""

from __future__ import annotations

from pathlib import Path

import pytest

from cost_models.hardware import BUILT_IN_PROFILES, load_hardware
from cost_models.iteration import iteration_model
from cost_models.model_load import host_to_device_s, storage_read_s
from cost_models.model_spec import BUILT_IN_MODELS, ModelSpec
from cost_models.verification import draft_s, verify_s

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "cost-models.md"

LLAMA_2_70B = ModelSpec(
    name="llama-2-70b",
    layers=80,
    hidden=8192,
    q_heads=64,
    kv_heads=8,
    head_dim=128,
    ffn=28672,
    vocab=32000,
    tied=False,
)
LENGTHS = (512, 1024, 2048, 4096, 8192)

# splitwise-sim perf_model.csv (MIT), Llama-2-70B, batch 1: prefill seconds over LENGTHS, decode range in ms.
SPLITWISE = {
    ("a100-80g", 2): ((0.195, 0.377, 0.688, 1.485, 2.990), (55.0, 60.0)),
    ("a100-80g", 4): ((0.127, 0.227, 0.403, 0.965, 2.279), (44.5, 46.4)),
    ("a100-80g", 8): ((0.093, 0.155, 0.274, 0.661, 1.550), (45.0, 46.5)),
    ("h100-sxm", 2): ((0.084, 0.158, 0.310, 0.643, 1.340), (37.2, 37.8)),
    ("h100-sxm", 4): ((0.060, 0.106, 0.201, 0.464, 0.954), (29.3, 29.8)),
    ("h100-sxm", 8): ((0.054, 0.078, 0.137, 0.390, 0.845), (29.7, 31.4)),
}
PREFILL_TOLERANCE = 0.06
DECODE_TOLERANCE = 0.03

# tomasruizt.github.io, 06_vllm-spec-decode: Qwen3-32B with a Qwen3-1.7B draft on H100, MT-Bench, k = 1 … 4.
TOKENS_PER_PASS = {1: 1.77, 2: 2.35, 3: 2.80, 4: 3.13}


@pytest.mark.parametrize(("profile", "tp"), SPLITWISE)
def test_prefill_of_llama_2_70b(profile: str, tp: int) -> None:
    model = iteration_model(LLAMA_2_70B, load_hardware(profile), tp)
    for tokens, measured_s in zip(LENGTHS, SPLITWISE[profile, tp][0], strict=True):
        predicted_s = float(model.seconds(tokens, rows=1, pairs=tokens * (tokens + 1) // 2))
        assert predicted_s == pytest.approx(measured_s, rel=PREFILL_TOLERANCE)


@pytest.mark.parametrize(("profile", "tp"), SPLITWISE)
def test_decode_of_llama_2_70b(profile: str, tp: int) -> None:
    model = iteration_model(LLAMA_2_70B, load_hardware(profile), tp)
    low_ms, high_ms = SPLITWISE[profile, tp][1]
    for context in (512, 8192):
        predicted_ms = 1e3 * float(model.seconds(1, rows=1, context_tokens=context, sequences=1))
        assert low_ms * (1 - DECODE_TOLERANCE) <= predicted_ms <= high_ms * (1 + DECODE_TOLERANCE)


@pytest.mark.parametrize("profile", BUILT_IN_PROFILES)
def test_more_gpus_hardly_help_a_single_decode(profile: str) -> None:
    """The published latency floor: from TP 4 to TP 8 a decode of batch 1 gains less than 5 %."""
    four, eight = (iteration_model(LLAMA_2_70B, load_hardware(profile), tp) for tp in (4, 8))
    times = [m.seconds(1, rows=1, context_tokens=512, sequences=1) for m in (four, eight)]
    assert times[1] > times[0] * 95 / 100


def gain(tp: int, batch: int, k: int, context: int, tokens_per_pass: float) -> float:
    """Tokens per second of drafted passes over those of plain decode, H100, Qwen3-32B with Qwen3-1.7B."""
    hardware = load_hardware("h100-sxm")
    target = iteration_model(BUILT_IN_MODELS["qwen3-32b"], hardware, tp)
    draft = iteration_model(BUILT_IN_MODELS["qwen3-1.7b"], hardware, tp, draft=True)
    ratio, total = hardware.verify_context_ratio.exact(), batch * context
    plain = verify_s(target, ratio, sequences=batch, k=0, context_tokens=total)
    drafted = (
        verify_s(target, ratio, sequences=batch, k=k, context_tokens=total)
        + draft_s(draft, sequences=batch, k=k, context_tokens=total)
        + hardware.draft_round_trip_s.exact()
    )
    return tokens_per_pass * float(plain / drafted)


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("context", [300, 1000])
def test_speculation_wins_up_to_batch_64_and_loses_from_128_on(tp: int, context: int) -> None:
    """With the default k = 2 and acceptance 0.7: 1 + 0.7 + 0.49 tokens a pass."""
    tokens = 1 + 0.7 + 0.7**2
    assert all(gain(tp, batch, 2, context, tokens) > 1.15 for batch in (1, 8, 16, 32, 64))
    assert all(gain(tp, batch, 2, context, tokens) < 1 for batch in (128, 192, 256))


@pytest.mark.parametrize("tp", [1, 2])
def test_longer_drafts_lose_earlier(tp: int) -> None:
    gains = {k: gain(tp, 128, k, 300, tokens) for k, tokens in TOKENS_PER_PASS.items()}
    assert gains[1] > gains[2] > gains[3] > gains[4]
    assert gains[3] < 1


def test_verification_share_of_a_pass() -> None:
    """42 to 95 % of a pass is verification (arXiv 2601.11580)."""
    hardware = load_hardware("h100-sxm")
    for tp in (1, 2):
        target = iteration_model(BUILT_IN_MODELS["qwen3-32b"], hardware, tp)
        draft = iteration_model(BUILT_IN_MODELS["qwen3-1.7b"], hardware, tp, draft=True)
        for batch in (1, 32, 128):
            for k in (1, 2, 3, 4):
                verify = verify_s(
                    target, hardware.verify_context_ratio.exact(), sequences=batch, k=k, context_tokens=0
                )
                drafting = draft_s(draft, sequences=batch, k=k, context_tokens=0)
                assert 0.42 <= float(verify / (verify + drafting)) <= 0.95


def test_cold_load_of_qwen3_32b() -> None:
    """ServerlessLLM h100_2025: 20.6 s as safetensors from NVMe, cold."""
    model, hardware = BUILT_IN_MODELS["qwen3-32b"], load_hardware("h100-sxm")
    load = storage_read_s(model, hardware) + host_to_device_s(model, hardware, 1)
    assert float(load) == pytest.approx(20.6, rel=0.01)


def documentation() -> str:
    if not DOCUMENT.exists():
        pytest.skip("docs/cost-models.md is not beside the tests")
    return DOCUMENT.read_text(encoding="utf-8")


def test_the_documented_table_is_what_the_models_predict() -> None:
    documented = documentation()
    for (profile, tp), (prefill_s, (low_ms, high_ms)) in SPLITWISE.items():
        model = iteration_model(LLAMA_2_70B, load_hardware(profile), tp)
        cells = [profile, str(tp)]
        for tokens, measured_s in zip(LENGTHS, prefill_s, strict=True):
            predicted_s = float(model.seconds(tokens, rows=1, pairs=tokens * (tokens + 1) // 2))
            cells.append(f"{predicted_s:.3f} / {measured_s:.3f}")
        decode_ms = [
            1e3 * float(model.seconds(1, rows=1, context_tokens=context, sequences=1))
            for context in (512, 8192)
        ]
        cells.append(f"{decode_ms[0]:.1f}–{decode_ms[1]:.1f} / {low_ms:.1f}–{high_ms:.1f}")
        assert f"| {' | '.join(cells)} |" in documented


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_documented_gains_of_speculation(tp: int, k: int) -> None:
    documented = documentation()
    tokens = sum(0.7**i for i in range(k + 1))
    gains = [f"{gain(tp, batch, k, 300, tokens):.2f}" for batch in (1, 8, 16, 32, 64, 96, 128, 192, 256)]
    assert f"| {tp} | {k} | {' | '.join(gains)} |" in documented
