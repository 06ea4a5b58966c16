"""Samples of a model whose every coefficient is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from cost_models.calibration.fit import FitOptions
from cost_models.calibration.samples import checked
from cost_models.model_spec import ModelSpec

TINY = ModelSpec(
    name="tiny",
    layers=4,
    hidden=256,
    q_heads=8,
    kv_heads=2,
    head_dim=32,
    ffn=512,
    vocab=2000,
    tied=False,
)
OPTIONS = FitOptions(attention_kernel="drawn", kind="assumed", source="drawn from known coefficients")
TOKENS = (1, 2, 4, 8, 16, 32, 48, 64, 65, 96, 128, 160, 192, 256, 320, 384, 448, 512, 768, 1024, 1536, 2048)


@dataclass(frozen=True, kw_only=True)
class Known:
    """t = max(weights, n · token) + A · pair + K · context + n_seq · sequence, seconds."""

    weights_s: float
    token_s: float
    pair_s: float
    context_s: float
    sequence_s: float

    def linear(self, tokens: int) -> float:
        return max(self.weights_s, tokens * self.token_s)


def component_samples(known: Known, noise: float = 0.0, seed: int = 0) -> pl.DataFrame:
    """Linear layers, attention and LM head apart."""
    rows: list[dict[str, object]] = [
        {"kind": "linear", "tokens": n, "seconds": known.linear(n)} for n in TOKENS
    ]
    rows += [
        {"kind": "attention_prefill", "tokens": c, "pairs": pairs, "seconds": pairs * known.pair_s}
        for c in (64, 256, 1024, 2048)
        for s in (0, 512, 4096)
        for pairs in (c * s + c * (c + 1) // 2,)
    ]
    rows += [
        {
            "kind": "attention_decode",
            "sequences": b,
            "context_tokens": b * s,
            "seconds": b * s * known.context_s + b * known.sequence_s,
        }
        for b in (1, 4, 16, 64, 256)
        for s in (128, 512, 2048)
    ]
    rows += [
        {"kind": "lm_head", "rows": r, "seconds": max(1e-4, r * 2e-6)}
        for r in (1, 2, 4, 8, 16, 64, 128, 256, 512)
    ]
    return _noisy(rows, noise, seed)


def whole_samples(known: Known, noise: float = 0.0, seed: int = 0) -> pl.DataFrame:
    """Whole iterations alone."""
    rows: list[dict[str, object]] = [
        {
            "kind": "prefill",
            "tokens": c,
            "pairs": pairs,
            "seconds": known.linear(c) + pairs * known.pair_s,
        }
        for c in TOKENS
        for s in (0, 512, 4096)
        for pairs in (c * s + c * (c + 1) // 2,)
    ]
    rows += [
        {
            "kind": "decode",
            "sequences": b,
            "context_tokens": b * s,
            "seconds": known.linear(b) + b * s * known.context_s + b * known.sequence_s,
        }
        for b in (1, 4, 16, 64, 256)
        for s in (128, 512, 2048)
    ]
    return _noisy(rows, noise, seed)


def _noisy(rows: list[dict[str, object]], noise: float, seed: int) -> pl.DataFrame:
    table = checked(pl.DataFrame(rows, infer_schema_length=None), "synthetic")
    factors = np.exp(noise * np.random.default_rng(seed).standard_normal(len(table)))
    return table.with_columns(pl.col("seconds") * pl.Series(factors))
