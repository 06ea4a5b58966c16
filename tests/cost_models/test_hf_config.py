"""Hugging Face configs: read where the shape is modelled, refused with a reason where it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cost_models.errors import CostModelError
from cost_models.hf_config import load_model
from cost_models.model_spec import BUILT_IN_MODELS, ModelSpec

QWEN3_32B: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "head_dim": 128,
    "hidden_size": 5120,
    "intermediate_size": 25600,
    "num_attention_heads": 64,
    "num_hidden_layers": 64,
    "num_key_value_heads": 8,
    "sliding_window": None,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 151936,
}
LLAMA_3_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
QWEN2_7B: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "sliding_window": 131072,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 152064,
}
MISTRAL_7B: dict[str, Any] = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "torch_dtype": "bfloat16",
    "vocab_size": 32000,
}


def load(folder: Path, config: dict[str, Any]) -> tuple[ModelSpec, list[str]]:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    notices: list[str] = []
    return load_model(str(path), notices), notices


def test_a_built_in_name_needs_no_file_and_says_nothing() -> None:
    notices: list[str] = []
    assert load_model("qwen3-32b", notices) is BUILT_IN_MODELS["qwen3-32b"]
    assert notices == []


def test_the_config_of_a_built_in_model_is_that_model(tmp_path: Path) -> None:
    folder = tmp_path / "qwen3-32b"
    folder.mkdir()
    spec, notices = load(folder, QWEN3_32B)
    assert spec == BUILT_IN_MODELS["qwen3-32b"]
    assert notices == []
    assert load_model(str(folder), []) == spec  # the folder will do


# Parameters as published with the models.
@pytest.mark.parametrize(
    ("config", "parameters"),
    [(LLAMA_3_8B, 8_030_261_248), (QWEN2_7B, 7_615_616_512), (MISTRAL_7B, 7_241_732_096)],
)
def test_published_parameter_counts(tmp_path: Path, config: dict[str, Any], parameters: int) -> None:
    spec, _ = load(tmp_path, config)
    assert spec.parameters == parameters


def test_a_missing_head_dim_is_inferred_and_said(tmp_path: Path) -> None:
    spec, notices = load(tmp_path, QWEN2_7B)
    assert spec.head_dim == 128
    assert len(notices) == 1
    assert "head_dim" in notices[0]
    assert "3584" not in notices[0]
    assert "= 128 assumed" in notices[0]


def test_everything_inferred_is_said(tmp_path: Path) -> None:
    config = {key: LLAMA_3_8B[key] for key in LLAMA_3_8B if key not in ("num_key_value_heads", "torch_dtype")}
    spec, notices = load(tmp_path, config)
    assert (spec.kv_heads, spec.dtype_bytes) == (32, 2)
    assert [
        word for word in ("num_key_value_heads", "head_dim", "torch_dtype") if word in " ".join(notices)
    ] == [
        "num_key_value_heads",
        "head_dim",
        "torch_dtype",
    ]


def test_a_sliding_window_is_ignored_aloud(tmp_path: Path) -> None:
    _, notices = load(tmp_path, MISTRAL_7B)
    assert any("sliding_window 4096 ignored" in notice for notice in notices)


def test_biases(tmp_path: Path) -> None:
    qwen2, _ = load(tmp_path, QWEN2_7B)
    assert (qwen2.qkv_bias, qwen2.o_bias, qwen2.qk_norm) == (True, False, False)
    llama, _ = load(tmp_path, {**LLAMA_3_8B, "attention_bias": True})
    assert (llama.qkv_bias, llama.o_bias) == (True, True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "mixtral", "num_local_experts": 8}, "num_local_experts is 8: mixtures of experts"),
        ({"model_type": "qwen3_moe", "num_experts": 128}, "num_experts is 128: mixtures of experts"),
        ({"model_type": "gemma3"}, "model_type is 'gemma3', allowed: llama, mistral, qwen2, qwen3"),
        ({"model_type": None}, "model_type is None"),
        ({"quantization_config": {"bits": 4}}, "quantised weights are not modelled"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"hidden_size": 0}, "hidden_size is 0, allowed: an integer ≥ 1"),
        ({"num_hidden_layers": "64"}, "num_hidden_layers is '64'"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"vocab_size": None}, "vocab_size is None"),
        ({"head_dim": -1}, "head_dim is -1"),
        ({"torch_dtype": "int8"}, "torch_dtype is 'int8'"),
        ({"head_dim": None, "hidden_size": 5121}, "head_dim is missing and hidden_size 5121 / 64"),
    ],
)
def test_what_is_not_modelled_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(CostModelError, match=words) as caught:
        load(tmp_path, {**QWEN3_32B, **change})
    assert "config.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="hidden_size is missing"):
        load(tmp_path, {"model_type": "llama"})


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        CostModelError, match=r"unknown model 'qwen3-1.5b', known: qwen3-0.6b, .*llama-3.1-405b"
    ):
        load_model("qwen3-1.5b", [])


@pytest.mark.parametrize("text", ["", "{", "[1]", "NaN", '{"model_type": NaN}'])
def test_a_broken_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CostModelError, match="not a model config"):
        load_model(str(path), [])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="cannot be read"):
        load_model(str(tmp_path / "absent.json"), [])
