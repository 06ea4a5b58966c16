"""Parameters, KV bytes and FLOPs of the built-in models against published figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.errors import CostModelError
from cost_models.model_spec import BUILT_IN_MODELS, ModelSpec

# Published configs: (parameters, KV bytes per token).
PUBLISHED = {
    "qwen3-0.6b": (596_049_920, 114_688),
    "qwen3-1.7b": (1_720_574_976, 114_688),
    "qwen3-14b": (14_768_307_200, 163_840),
    "qwen3-32b": (32_762_123_264, 262_144),
    "llama-3-70b": (70_553_706_496, 327_680),
    "llama-3.1-405b": (405_853_388_800, 516_096),
}

# GB of KV at 1K, 4K and 32K tokens; 1K = 1024.
KV_GB = {
    "qwen3-14b": (0.168, 0.671, 5.37),
    "qwen3-32b": (0.268, 1.074, 8.59),
    "llama-3-70b": (0.336, 1.342, 10.74),
    "llama-3.1-405b": (0.529, 2.114, 16.91),
}


def test_the_built_in_models_are_the_six_published_ones() -> None:
    assert {m.name: (m.parameters, m.kv_bytes_per_token) for m in BUILT_IN_MODELS.values()} == PUBLISHED


@pytest.mark.parametrize(("name", "gb"), KV_GB.items())
def test_kv_of_a_context(name: str, gb: tuple[float, ...]) -> None:
    per_token = BUILT_IN_MODELS[name].kv_bytes_per_token
    for tokens, expected in zip((1024, 4096, 32768), gb, strict=True):
        assert tokens * per_token / 1e9 == pytest.approx(expected, rel=2e-3)


def test_head_dim_is_stated_not_derived() -> None:
    assert {m.head_dim for m in BUILT_IN_MODELS.values()} == {128}
    derived = {n for n, m in BUILT_IN_MODELS.items() if m.hidden != m.q_heads * m.head_dim}
    assert derived == {"qwen3-0.6b", "qwen3-32b"}


def test_prefill_of_32k_tokens_by_qwen3_32b() -> None:
    """About 3.3e15 FLOP with 2 FLOPs for every parameter; a little less without embedding and LM head."""
    model = BUILT_IN_MODELS["qwen3-32b"]
    assert model.prefill_flop(32768) == pytest.approx(3.3e15, rel=0.05)
    every_parameter = 2 * model.parameters * 32768 + model.attention_pair_flop * 32768 * 32769 // 2
    assert every_parameter == pytest.approx(3.3e15, rel=0.02)


SPECS = st.builds(
    ModelSpec,
    name=st.just("m"),
    layers=st.integers(1, 100),
    hidden=st.integers(1, 16384),
    q_heads=st.integers(1, 16).map(lambda n: 8 * n),
    kv_heads=st.sampled_from([1, 2, 4, 8]),
    head_dim=st.integers(1, 256),
    ffn=st.integers(1, 50000),
    vocab=st.integers(1, 200_000),
    tied=st.booleans(),
    qk_norm=st.booleans(),
    qkv_bias=st.booleans(),
    o_bias=st.booleans(),
)


@given(SPECS)
def test_parameters_are_the_sum_of_the_tensors(spec: ModelSpec) -> None:
    q, kv = spec.q_heads * spec.head_dim, spec.kv_heads * spec.head_dim
    h = spec.hidden
    layer = [(h, q), (h, kv), (h, kv), (q, h), (h, spec.ffn), (h, spec.ffn), (spec.ffn, h), (1, h), (1, h)]
    layer += [(1, spec.head_dim)] * 2 * spec.qk_norm
    layer += [(1, q), (1, kv), (1, kv)] * spec.qkv_bias
    layer += [(1, h)] * spec.o_bias
    outside = [(spec.vocab, h), (1, h)] + [(spec.vocab, h)] * (not spec.tied)
    tensors = layer * spec.layers + outside
    assert spec.parameters == sum(rows * columns for rows, columns in tensors)


@given(SPECS, st.integers(1, 5000), st.integers(1, 5000))
def test_a_prefill_in_two_chunks_has_the_same_attention(spec: ModelSpec, first: int, second: int) -> None:
    whole = spec.prefill_flop(first + second)
    chunks = spec.prefill_flop(first) + spec.prefill_flop(second, cached_tokens=first)
    assert chunks - whole == 2 * spec.head_parameters  # one more sampled row


def test_kv_is_held_once_up_to_as_many_gpus_as_kv_heads() -> None:
    model = BUILT_IN_MODELS["llama-3-70b"]
    assert [model.kv_copies(tp) for tp in (1, 2, 4, 8, 16, 32)] == [1, 1, 1, 1, 2, 4]
    assert model.resident_weight_bytes(8) == model.weight_bytes
    one_copy_more = 2 * 80 * 8192 * 8 * 128 * 2
    assert model.resident_weight_bytes(16) - model.weight_bytes == one_copy_more


@pytest.mark.parametrize(
    ("name", "tp", "words"),
    [
        ("qwen3-14b", 3, "does not divide the 40 query heads of qwen3-14b"),
        ("qwen3-14b", 5, "neither divides nor is a multiple of the 8 KV heads"),
        ("qwen3-32b", 0, "tensor_parallel is 0"),
        ("qwen3-32b", -2, "tensor_parallel is -2"),
    ],
)
def test_tensor_parallel_must_split_the_heads(name: str, tp: int, words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        BUILT_IN_MODELS[name].check_tensor_parallel(tp)


@pytest.mark.parametrize("field", ["layers", "hidden", "q_heads", "kv_heads", "head_dim", "ffn", "vocab"])
def test_sizes_are_positive(field: str) -> None:
    with pytest.raises(CostModelError, match=f"{field} is 0"):
        replace(BUILT_IN_MODELS["qwen3-32b"], **{field: 0})


def test_query_heads_share_kv_heads_evenly() -> None:
    with pytest.raises(CostModelError, match="q_heads 64 is not a multiple of kv_heads 7"):
        replace(BUILT_IN_MODELS["qwen3-32b"], kv_heads=7)
