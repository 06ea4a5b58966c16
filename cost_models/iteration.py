"""How long one iteration of one model takes on one worker."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from cost_models.calibrated import Calibration, StepCurve
from cost_models.errors import CostModelError
from cost_models.hardware import HardwareProfile
from cost_models.model_spec import ModelSpec
from cost_models.serving_costs import IntArray, IterationCosts

__all__ = [
    "MAX_ITERATION_PS",
    "CalibratedTokens",
    "IterationModel",
    "RooflineTokens",
    "TokenCost",
    "iteration_model",
    "to_ps",
]

MAX_ITERATION_PS = 2**50
"""Iterations stay below this, so that sums of them stay far from 64 bits."""


def to_ps(seconds: Fraction) -> int:
    """Seconds as integer picoseconds, rounded half to even."""
    return round(seconds * 10**12)


class TokenCost(Protocol):
    """The part of an iteration that depends on its number of tokens alone."""

    def seconds(self, tokens: int) -> Fraction:
        """Of an iteration of that many tokens."""
        ...

    def table_ps(self, max_tokens: int) -> IntArray:
        """Of 0 … max_tokens tokens, integer picoseconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineTokens:
    """overhead + linear(n) + n · communication_token.

    linear(n) = max(weights, min(n, m) · linear_token + max(n - m, 0) · large_step_token) with
    m = large_step_tokens. Every coefficient is rounded once to a picosecond.

    Attributes:
        overhead_s: host and launch time of an iteration, with the fixed part of its all-reduces.
        weights_s: reading the layers' matrix weights once.
        linear_token_s: compute of the layers' matrices, per token.
        large_step_token_s: the same per token beyond large_step_tokens.
        large_step_tokens: m above.
        communication_token_s: all-reduce bytes, per token.
    """

    overhead_s: Fraction
    weights_s: Fraction
    linear_token_s: Fraction
    large_step_token_s: Fraction
    large_step_tokens: int
    communication_token_s: Fraction

    def seconds(self, tokens: int) -> Fraction:
        """See ``TokenCost``."""
        large = max(0, tokens - self.large_step_tokens)
        compute = (tokens - large) * self.linear_token_s + large * self.large_step_token_s
        return self.overhead_s + max(self.weights_s, compute) + tokens * self.communication_token_s

    def table_ps(self, max_tokens: int) -> IntArray:
        """See ``TokenCost``."""
        n = np.arange(max_tokens + 1, dtype=np.int64)
        large = np.maximum(0, n - self.large_step_tokens)
        compute_ps = (n - large) * to_ps(self.linear_token_s) + large * to_ps(self.large_step_token_s)
        table: IntArray = np.maximum(to_ps(self.weights_s), compute_ps)
        table += to_ps(self.overhead_s) + n * to_ps(self.communication_token_s)
        return table


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedTokens:
    """overhead + scale · (linear(n) + communication(n)), from measured curves.

    Every entry of each curve is rounded once to a picosecond.

    Attributes:
        overhead_s: host time of an iteration.
        curves: the measured parts.
        scale: their common factor.
    """

    overhead_s: Fraction
    curves: tuple[StepCurve, ...]
    scale: Fraction

    def seconds(self, tokens: int) -> Fraction:
        """See ``TokenCost``."""
        return self.overhead_s + self.scale * sum((c.seconds(tokens) for c in self.curves), Fraction(0))

    def table_ps(self, max_tokens: int) -> IntArray:
        """See ``TokenCost``."""
        table = np.full(max_tokens + 1, to_ps(self.overhead_s), dtype=np.int64)
        for curve in self.curves:
            table += curve.table_ps(max_tokens, self.scale)
        return table


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationModel:
    """Coefficients of an iteration, exact rational seconds.

    t = tokens(n) + lm_head(rows) + A · prefill_pair + K · decode_context + n_seq · decode_sequence

    lm_head(rows) = max(head_weights, rows · head_row) + rows · row_overhead, 0 without rows.

    Attributes:
        tokens: overhead, linear layers and communication of n tokens.
        head_weights_s: reading the LM head once.
        head_row_s: compute of the LM head, per sampled row.
        row_overhead_s: host time per sampled row.
        prefill_pair_s: per prefill attention pair.
        decode_context_s: per context token read by decoding sequences.
        decode_sequence_s: per decoding sequence.
    """

    tokens: TokenCost
    head_weights_s: Fraction
    head_row_s: Fraction
    row_overhead_s: Fraction
    prefill_pair_s: Fraction
    decode_context_s: Fraction
    decode_sequence_s: Fraction

    def seconds(
        self, tokens: int, *, rows: int = 0, pairs: int = 0, context_tokens: int = 0, sequences: int = 0
    ) -> Fraction:
        """One iteration.

        Args:
            tokens: n, tokens of the iteration (decodes, verify rows and chunks).
            rows: sampled rows.
            pairs: A, prefill attention pairs: c·s + c·(c+1)/2 for a chunk of c tokens after s cached ones.
            context_tokens: K, context tokens of the decoding sequences.
            sequences: n_seq, decoding sequences.
        """
        head = Fraction(0)
        if rows > 0:
            head = max(self.head_weights_s, rows * self.head_row_s) + rows * self.row_overhead_s
        return (
            self.tokens.seconds(tokens)
            + head
            + pairs * self.prefill_pair_s
            + context_tokens * self.decode_context_s
            + sequences * self.decode_sequence_s
        )

    def integer_costs(self, *, max_tokens: int, max_rows: int) -> IterationCosts:
        """The same as integers: every coefficient is rounded once to a picosecond.

        Args:
            max_tokens: the largest n.
            max_rows: the largest number of sampled rows.

        Raises:
            CostModelError: an iteration could last ``MAX_ITERATION_PS`` or more.
        """
        longest_s = self.seconds(max_tokens, rows=max_rows)
        if to_ps(longest_s) >= MAX_ITERATION_PS:
            raise CostModelError(
                f"an iteration of {max_tokens} tokens takes {float(longest_s):.0f} s, allowed: "
                f"< {MAX_ITERATION_PS / 1e12:.0f} s"
            )
        rows = np.arange(max_rows + 1, dtype=np.int64)
        lm_head_ps = np.maximum(to_ps(self.head_weights_s), rows * to_ps(self.head_row_s))
        lm_head_ps += rows * to_ps(self.row_overhead_s)
        lm_head_ps[0] = 0
        return IterationCosts(
            token_ps=self.tokens.table_ps(max_tokens),
            lm_head_ps=lm_head_ps,
            prefill_pair_ps=to_ps(self.prefill_pair_s),
            decode_context_ps=to_ps(self.decode_context_s),
            decode_sequence_ps=to_ps(self.decode_sequence_s),
        )


def iteration_model(
    model: ModelSpec, hardware: HardwareProfile, tensor_parallel: int, *, draft: bool = False
) -> IterationModel:
    """Coefficients of a model on a worker of TP GPUs.

    A calibration of the profile that holds for the model's shape and this TP replaces every term; otherwise
    they are peak × efficiency. The profile's residual_scale, if it has one, multiplies the whole iteration of
    the served model.

    linear: 2 FLOPs per matrix weight and token at peak · linear_mfu, at least one read of the weights at
    HBM · weight_hbm_share; LM head: the same over sampled rows; prefill attention: 4 · q_heads · head_dim
    · layers FLOPs a pair at peak · attention_mfu; decode attention: KV bytes a context token at
    HBM · kv_hbm_share; communication: 2 all-reduces a layer of n · hidden elements when TP > 1.

    Args:
        model: the model.
        hardware: the profile of its GPUs.
        tensor_parallel: GPUs of the worker.
        draft: the model drafts: its steps pay draft_step_overhead_s instead of the host times.

    Raises:
        CostModelError: TP does not fit the model.

    Valid for: dense models, weights and KV of one width, one node.
    Ignores: tile quantisation, norms, rotary embedding and activations (in the efficiency), overlap of
        communication and compute, attention over chunks beyond its FLOPs.
    """
    model.check_tensor_parallel(tensor_parallel)
    measured = hardware.calibration(model, tensor_parallel)
    scale = (
        hardware.residual_scale.exact() if hardware.residual_scale is not None and not draft else Fraction(1)
    )
    if measured is not None:
        return _calibrated(measured, hardware, scale, draft=draft)
    gpus = tensor_parallel
    peak_flop_per_s = gpus * hardware.peak_flop_per_s.exact() / scale
    flop_per_s = peak_flop_per_s * hardware.linear_mfu.at(gpus)
    large_step_flop_per_s = peak_flop_per_s * hardware.large_step_mfu.at(gpus)
    attention_flop_per_s = peak_flop_per_s * hardware.attention_mfu.exact()
    hbm_bytes_per_s = gpus * hardware.hbm_bytes_per_s.exact() / scale
    weight_bytes_per_s = hbm_bytes_per_s * hardware.weight_hbm_share.at(gpus)
    kv_bytes_per_s = hbm_bytes_per_s * hardware.kv_hbm_share.exact()
    matrix_parameters = model.layers * model.layer_matrix_parameters
    all_reduces = 2 * model.layers if gpus > 1 else 0
    host_s = hardware.iteration_overhead_s.exact()
    row_s, sequence_s = hardware.row_overhead_s.exact(), hardware.sequence_overhead_s.exact()
    if draft:
        host_s, row_s, sequence_s = hardware.draft_step_overhead_s.exact(), Fraction(0), Fraction(0)
    overhead_s = (
        host_s
        + model.layers * hardware.layer_overhead_s.at(gpus)
        + all_reduces * hardware.all_reduce_latency_s.at(gpus)
    )
    all_reduce_bytes = all_reduces * model.hidden * model.dtype_bytes
    return IterationModel(
        tokens=RooflineTokens(
            overhead_s=overhead_s * scale,
            weights_s=matrix_parameters * model.dtype_bytes / weight_bytes_per_s,
            linear_token_s=2 * matrix_parameters / flop_per_s,
            large_step_token_s=2 * matrix_parameters / large_step_flop_per_s,
            large_step_tokens=int(hardware.large_step_tokens.value),
            communication_token_s=all_reduce_bytes * scale / hardware.all_reduce_bytes_per_s.at(gpus),
        ),
        head_weights_s=model.head_parameters * model.dtype_bytes / weight_bytes_per_s,
        head_row_s=2 * model.head_parameters / flop_per_s,
        row_overhead_s=row_s * scale,
        prefill_pair_s=model.attention_pair_flop / attention_flop_per_s,
        decode_context_s=model.kv_bytes_per_token * model.kv_copies(gpus) / kv_bytes_per_s,
        decode_sequence_s=sequence_s * scale,
    )


def _calibrated(
    measured: Calibration, hardware: HardwareProfile, scale: Fraction, *, draft: bool
) -> IterationModel:
    overhead = hardware.draft_step_overhead_s if draft else measured.overhead_s
    decode_scale = scale / measured.attention_efficiency.exact()
    curves = (
        (measured.linear,) if measured.communication is None else (measured.linear, measured.communication)
    )
    return IterationModel(
        tokens=CalibratedTokens(overhead_s=overhead.exact() * scale, curves=curves, scale=scale),
        head_weights_s=measured.head_weights_s.exact() * scale,
        head_row_s=measured.head_row_s.exact() * scale,
        row_overhead_s=Fraction(0),
        prefill_pair_s=measured.prefill_pair_s.exact() * scale,
        decode_context_s=measured.decode_context_s.exact() * decode_scale,
        decode_sequence_s=measured.decode_sequence_s.exact() * decode_scale,
    )
