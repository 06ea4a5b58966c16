"""Shapes of dense decoder models and what follows from them: parameters, weight bytes, KV bytes, FLOPs."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cost_models.errors import CostModelError

__all__ = ["BUILT_IN_MODELS", "ModelSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A dense decoder-only transformer with grouped-query attention and a gated feed-forward block.

    Attributes:
        name: as printed.
        layers: transformer layers.
        hidden: width of the residual stream.
        q_heads, kv_heads: attention heads; q_heads is a multiple of kv_heads.
        head_dim: width of one head; stated, since q_heads · head_dim need not be ``hidden``.
        ffn: width of the feed-forward block.
        vocab: rows of the embedding.
        tied: whether the LM head shares the embedding's weights.
        dtype_bytes: bytes of one weight or KV element.
        qk_norm: RMS norm on the heads of Q and K (Qwen3).
        qkv_bias: bias on the Q, K and V projections (Qwen2).
        o_bias: bias on the output projection (Llama and Qwen3 configs with ``attention_bias``).
    """

    name: str
    layers: int
    hidden: int
    q_heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool
    dtype_bytes: int = 2
    qk_norm: bool = False
    qkv_bias: bool = False
    o_bias: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            # bool is an int: a flag is no size.
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise CostModelError(f"model {self.name}: {field.name} is {value}, allowed: an integer ≥ 1")
        if self.q_heads % self.kv_heads != 0:
            raise CostModelError(
                f"model {self.name}: q_heads {self.q_heads} is not a multiple of kv_heads {self.kv_heads}"
            )

    @property
    def qkv_width(self) -> int:
        """Columns of the joint Q, K, V projection."""
        return (self.q_heads + 2 * self.kv_heads) * self.head_dim

    @property
    def layer_matrix_parameters(self) -> int:
        """Weights of one layer's matrix products: Q, K, V, output, gate, up, down."""
        attention = self.hidden * self.qkv_width + self.q_heads * self.head_dim * self.hidden
        return attention + 3 * self.hidden * self.ffn

    @property
    def head_parameters(self) -> int:
        """Weights of the LM head, whether or not it has its own."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All weights: embedding, own LM head, matrices, norms, biases."""
        vectors = 2 * self.hidden
        if self.qk_norm:
            vectors += 2 * self.head_dim
        if self.qkv_bias:
            vectors += self.qkv_width
        if self.o_bias:
            vectors += self.hidden
        embeddings = self.head_parameters * (1 if self.tied else 2)
        return embeddings + self.layers * (self.layer_matrix_parameters + vectors) + self.hidden

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights, one copy."""
        return self.parameters * self.dtype_bytes

    @property
    def kv_bytes_per_token(self) -> int:
        """2 · layers · kv_heads · head_dim · dtype bytes: one copy, over all GPUs of the worker."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype_bytes

    def kv_copies(self, tensor_parallel: int) -> int:
        """Copies of each KV head: 1, or TP / kv_heads when there are more GPUs than KV heads."""
        return max(1, tensor_parallel // self.kv_heads)

    def resident_weight_bytes(self, tensor_parallel: int) -> int:
        """Bytes of weights over the worker's GPUs: K and V projections are held ``kv_copies`` times."""
        kv_projection = 2 * self.layers * self.hidden * self.kv_heads * self.head_dim * self.dtype_bytes
        return self.weight_bytes + (self.kv_copies(tensor_parallel) - 1) * kv_projection

    def prefill_flop(self, tokens: int, cached_tokens: int = 0) -> int:
        """FLOPs of a prefill: 2 per matrix weight and token, ``attention_pair_flop`` per pair.

        The LM head runs on one row; embedding lookups, norms and activations are not counted.

        Args:
            tokens: tokens of the chunk.
            cached_tokens: tokens before it whose KV exists.
        """
        pairs = tokens * cached_tokens + tokens * (tokens + 1) // 2
        linear = 2 * self.layers * self.layer_matrix_parameters * tokens
        return linear + self.attention_pair_flop * pairs + 2 * self.head_parameters

    @property
    def attention_pair_flop(self) -> int:
        """FLOPs of one query-key pair over all layers and heads: a dot product and a weighted sum."""
        return 4 * self.layers * self.q_heads * self.head_dim

    def check_tensor_parallel(self, tensor_parallel: int) -> None:
        """Refuse a TP degree that cannot split the heads.

        Raises:
            CostModelError: TP < 1, q_heads not a multiple of TP, or KV heads not evenly split or replicated.
        """
        if tensor_parallel < 1:
            raise CostModelError(f"tensor_parallel is {tensor_parallel}, allowed: an integer ≥ 1")
        if self.q_heads % tensor_parallel != 0:
            raise CostModelError(
                f"tensor_parallel {tensor_parallel} does not divide the {self.q_heads} query heads "
                f"of {self.name}"
            )
        if self.kv_heads % tensor_parallel != 0 and tensor_parallel % self.kv_heads != 0:
            raise CostModelError(
                f"tensor_parallel {tensor_parallel} neither divides nor is a multiple of the "
                f"{self.kv_heads} KV heads of {self.name}"
            )


def _qwen3(name: str, layers: int, hidden: int, q_heads: int, ffn: int, *, tied: bool) -> ModelSpec:
    return ModelSpec(
        name=name,
        layers=layers,
        hidden=hidden,
        q_heads=q_heads,
        kv_heads=8,
        head_dim=128,
        ffn=ffn,
        vocab=151936,
        tied=tied,
        qk_norm=True,
    )


def _llama3(name: str, layers: int, hidden: int, q_heads: int, ffn: int) -> ModelSpec:
    return ModelSpec(
        name=name,
        layers=layers,
        hidden=hidden,
        q_heads=q_heads,
        kv_heads=8,
        head_dim=128,
        ffn=ffn,
        vocab=128256,
        tied=False,
    )


# Source: config.json of each model as published by its maker, BF16.
BUILT_IN_MODELS: dict[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        _qwen3("qwen3-0.6b", 28, 1024, 16, 3072, tied=True),
        _qwen3("qwen3-1.7b", 28, 2048, 16, 6144, tied=True),
        _qwen3("qwen3-14b", 40, 5120, 40, 17408, tied=False),
        _qwen3("qwen3-32b", 64, 5120, 64, 25600, tied=False),
        _llama3("llama-3-70b", 80, 8192, 64, 28672),
        _llama3("llama-3.1-405b", 126, 16384, 128, 53248),
    )
}
"""The models that can be named without a file."""
