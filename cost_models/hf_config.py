"""Model specs by name, or from a Hugging Face ``config.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from cost_models.errors import CostModelError
from cost_models.model_spec import BUILT_IN_MODELS, ModelSpec

__all__ = ["load_model", "model_from_config"]

_MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")


def load_model(name_or_path: str, notices: list[str]) -> ModelSpec:
    """A built-in model by name, or a model from a ``config.json`` (or the folder that holds one).

    Args:
        name_or_path: a name of ``BUILT_IN_MODELS``, or a path that exists or ends in ``.json``.
        notices: gets one line for each value that had to be inferred, for stderr.

    Raises:
        CostModelError: unknown name, unreadable file, or a model that is not modelled.
    """
    if name_or_path in BUILT_IN_MODELS:
        return BUILT_IN_MODELS[name_or_path]
    path = Path(name_or_path)
    if path.is_dir():
        path = path / "config.json"
    if path.suffix != ".json" and not path.is_file():
        known = ", ".join(BUILT_IN_MODELS)
        raise CostModelError(f"unknown model {name_or_path!r}, known: {known}, or a path to a config.json")
    try:
        text = path.read_bytes()
    except OSError as error:
        raise CostModelError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        config = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CostModelError(f"{path}: not a model config: {error}") from error
    name = path.parent.name if path.name == "config.json" else path.stem
    try:
        return model_from_config(config, name or "config.json", notices)
    except CostModelError as error:
        raise CostModelError(f"{path}: {error}") from error


def model_from_config(config: dict[str, Any], name: str, notices: list[str]) -> ModelSpec:
    """A model spec from the keys of a Hugging Face config of a Llama, Mistral, Qwen2 or Qwen3 model.

    Args:
        config: the parsed file.
        name: as printed.
        notices: gets one line for each value that had to be inferred.

    Raises:
        CostModelError: another architecture, experts, quantised weights, or a missing or senseless value.
    """
    model_type = config.get("model_type")
    for key in _EXPERT_KEYS:
        experts = config.get(key)
        if isinstance(experts, int) and experts > 1:
            raise CostModelError(f"{key} is {experts}: mixtures of experts are not modelled")
    if model_type not in _MODEL_TYPES:
        raise CostModelError(f"model_type is {model_type!r}, allowed: {', '.join(_MODEL_TYPES)}")
    if config.get("quantization_config") is not None:
        raise CostModelError("quantization_config: quantised weights are not modelled")
    if config.get("mlp_bias"):
        raise CostModelError("mlp_bias is true: a bias in the feed-forward block is not modelled")
    hidden, q_heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
    kv_heads = _size_or(config, "num_key_value_heads", q_heads, "num_attention_heads", name, notices)
    if config.get("head_dim") is None and hidden % q_heads != 0:
        raise CostModelError(f"head_dim is missing and hidden_size {hidden} / {q_heads} heads is no integer")
    head_dim = _size_or(
        config, "head_dim", hidden // q_heads, "hidden_size / num_attention_heads", name, notices
    )
    window = config.get("sliding_window")
    if isinstance(window, int) and config.get("use_sliding_window", True):
        notices.append(f"model {name}: sliding_window {window} ignored, full attention assumed")
    attention_bias = bool(config.get("attention_bias", False))
    return ModelSpec(
        name=name,
        layers=_size(config, "num_hidden_layers"),
        hidden=hidden,
        q_heads=q_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=_size(config, "intermediate_size"),
        vocab=_size(config, "vocab_size"),
        tied=bool(config.get("tie_word_embeddings", False)),
        dtype_bytes=_dtype_bytes(config, name, notices),
        qk_norm=model_type == "qwen3",
        qkv_bias=model_type == "qwen2" or attention_bias,
        o_bias=model_type != "qwen2" and attention_bias,
    )


def _size(config: dict[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        found = "missing" if key not in config else repr(value)
        raise CostModelError(f"{key} is {found}, allowed: an integer ≥ 1")
    return value


def _size_or(
    config: dict[str, Any], key: str, inferred: int, rule: str, name: str, notices: list[str]
) -> int:
    if config.get(key) is not None:
        return _size(config, key)
    notices.append(f"model {name}: {key} not in the config, {rule} = {inferred} assumed")
    return inferred


def _dtype_bytes(config: dict[str, Any], name: str, notices: list[str]) -> int:
    dtype = config.get("torch_dtype", config.get("dtype"))
    if dtype is None:
        notices.append(f"model {name}: torch_dtype not in the config, bfloat16 assumed")
        return 2
    if dtype not in _DTYPE_BYTES:
        raise CostModelError(f"torch_dtype is {dtype!r}, allowed: {', '.join(_DTYPE_BYTES)}")
    return _DTYPE_BYTES[dtype]
