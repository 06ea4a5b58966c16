"""One transformer layer with random weights at a model's real shapes, split as one GPU of a TP group holds it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cost_models.calibration.device import Device
from cost_models.model_spec import ModelSpec

__all__ = ["Attention", "Layer", "dtype_of"]

_BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")


def dtype_of(device: Device, model: ModelSpec) -> Any:
    """The torch type of weights and KV."""
    return device.torch.bfloat16 if model.dtype_bytes == 2 else device.torch.float32


class Attention:
    """torch's scaled dot product attention over gathered KV: not an engine's paged kernel.

    Attributes:
        kernel: name of what ran, for the profile.
    """

    def __init__(self, device: Device, model: ModelSpec, dtype: Any) -> None:
        self._functional = device.torch.nn.functional
        self._attention = device.torch.nn.attention
        self._lower_right = import_module("torch.nn.attention.bias").causal_lower_right
        self.backend = self._first_working(device, model, dtype)
        self.kernel = f"torch SDPA {self.backend.name}, gathered KV"

    def _first_working(self, device: Device, model: ModelSpec, dtype: Any) -> Any:
        q = device.random(1, model.kv_heads, 16, model.head_dim, dtype=dtype)
        for name in _BACKENDS:
            backend = getattr(self._attention.SDPBackend, name)
            try:
                with self._attention.sdpa_kernel(backend):
                    self._functional.scaled_dot_product_attention(q, q, q, is_causal=True)
            except RuntimeError:
                continue
            return backend
        raise AssertionError("torch has no attention kernel")

    def rows(self, q: Any, k: Any, v: Any) -> Any:
        """Decode or verify: q (batch, kv_heads, rows of the group, head_dim) over all of k, v."""
        with self._attention.sdpa_kernel(self.backend):
            return self._functional.scaled_dot_product_attention(q, k, v)

    def chunk(self, q: Any, k: Any, v: Any) -> Any:
        """Prefill: q (1, q_heads, chunk, head_dim) at the end of k, v (1, q_heads, context, head_dim)."""
        if q.shape[2] == k.shape[2]:
            with self._attention.sdpa_kernel(self.backend):
                return self._functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        mask = self._lower_right(q.shape[2], k.shape[2])
        return self._functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class Layer:
    """Weights of one layer on one GPU of a TP group, and what runs through them.

    Inputs are (tokens, hidden).
    """

    def __init__(self, device: Device, model: ModelSpec, tensor_parallel: int, dtype: Any) -> None:
        self._functional = device.torch.nn.functional
        self._torch = device.torch
        self.q_heads = model.q_heads // tensor_parallel
        self.kv_heads = max(1, model.kv_heads // tensor_parallel)
        self.head_dim = model.head_dim
        self._qk_norm = model.qk_norm
        ffn = -(-model.ffn // tensor_parallel)
        q_width, kv_width = self.q_heads * self.head_dim, self.kv_heads * self.head_dim
        self._split = [q_width, kv_width, kv_width]
        self._qkv = device.random(model.hidden, q_width + 2 * kv_width, dtype=dtype)
        self._out = device.random(q_width, model.hidden, dtype=dtype)
        self._gate_up = device.random(model.hidden, 2 * ffn, dtype=dtype)
        self._down = device.random(ffn, model.hidden, dtype=dtype)
        self._norm = device.random(model.hidden, dtype=dtype)
        self._head_norm = device.random(self.head_dim, dtype=dtype)
        self._rotation = device.random(1, self.head_dim, dtype=dtype)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the matrices."""
        matrices = (self._qkv, self._out, self._gate_up, self._down)
        return sum(matrix.numel() * matrix.element_size() for matrix in matrices)

    def _normed(self, x: Any, weight: Any) -> Any:
        return self._functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)

    def _rotated(self, x: Any) -> Any:
        first, second = x.chunk(2, dim=-1)
        return x * self._rotation + self._torch.cat((-second, first), dim=-1) * self._rotation

    def project(self, x: Any) -> tuple[Any, Any, Any]:
        """Q, K and V: (tokens, heads, head_dim)."""
        q, k, v = (self._normed(x, self._norm) @ self._qkv).split(self._split, dim=-1)
        q = q.view(-1, self.q_heads, self.head_dim)
        k = k.view(-1, self.kv_heads, self.head_dim)
        if self._qk_norm:
            q, k = self._normed(q, self._head_norm), self._normed(k, self._head_norm)
        return self._rotated(q), self._rotated(k), v.view(-1, self.kv_heads, self.head_dim)

    def finish(self, x: Any, attended: Any) -> Any:
        """Output projection and the feed-forward block."""
        x = x + attended.reshape(x.shape[0], -1) @ self._out
        gate, up = (self._normed(x, self._norm) @ self._gate_up).chunk(2, dim=-1)
        return x + (self._functional.silu(gate) * up) @ self._down

    def linear(self, x: Any) -> Any:
        """The layer without its attention."""
        q, _, _ = self.project(x)
        return self.finish(x, q)

    def prefill(self, attention: Attention, x: Any, k: Any, v: Any) -> Any:
        """A chunk whose KV is already at the end of k, v (1, q_heads, context, head_dim)."""
        q, _, _ = self.project(x)
        attended = attention.chunk(q.transpose(0, 1).unsqueeze(0), k, v)
        return self.finish(x, attended.squeeze(0).transpose(0, 1))

    def decode(self, attention: Attention, x: Any, k: Any, v: Any) -> Any:
        """A token of each sequence over k, v (batch, kv_heads, context, head_dim)."""
        q, new_k, new_v = self.project(x)
        k[:, :, -1].copy_(new_k)
        v[:, :, -1].copy_(new_v)
        group = self.q_heads // self.kv_heads
        return self.finish(x, attention.rows(q.view(-1, self.kv_heads, group, self.head_dim), k, v))
