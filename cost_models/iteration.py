"""How long one iteration of one model takes on one worker."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cost_models.errors import CostModelError
from cost_models.hardware import HardwareProfile
from cost_models.model_spec import ModelSpec
from cost_models.serving_costs import IterationCosts

__all__ = ["IterationModel", "iteration_model", "to_ps"]

MAX_ITERATION_PS = 2**50


def to_ps(seconds: Fraction) -> int:
    """Seconds as integer picoseconds, rounded half to even."""
    return round(seconds * 10**12)


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationModel:
    """Coefficients of an iteration, exact rational seconds.

    t = overhead + max(weights, n · linear_token) + n > 0 communication
    + max(head_weights, rows · head_row) where rows > 0
    + A · prefill_pair + K · decode_context + n_seq · decode_sequence

    Attributes:
        overhead_s: host and launch time of an iteration, with the fixed part of its all-reduces.
        weights_s: reading the layers' matrix weights once.
        linear_token_s: compute of the layers' matrices, per token.
        communication_token_s: all-reduce bytes, per token.
        head_weights_s: reading the LM head once.
        head_row_s: compute of the LM head, per sampled row.
        prefill_pair_s: per prefill attention pair.
        decode_context_s: per context token read by decoding sequences.
        decode_sequence_s: per decoding sequence.
    """

    overhead_s: Fraction
    weights_s: Fraction
    linear_token_s: Fraction
    communication_token_s: Fraction
    head_weights_s: Fraction
    head_row_s: Fraction
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
        head = max(self.head_weights_s, rows * self.head_row_s) if rows > 0 else Fraction(0)
        return (
            self.overhead_s
            + max(self.weights_s, tokens * self.linear_token_s)
            + tokens * self.communication_token_s
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
        """
        for count, slope in ((max_tokens, self.linear_token_s), (max_rows, self.head_row_s)):
            if count * to_ps(slope) >= MAX_ITERATION_PS:
                raise CostModelError(
                    f"an iteration of {count} tokens takes {float(count * slope):.0f} s: too long"
                )
        n = np.arange(max_tokens + 1, dtype=np.int64)
        linear_ps = np.maximum(to_ps(self.weights_s), n * to_ps(self.linear_token_s))
        token_ps = to_ps(self.overhead_s) + linear_ps + n * to_ps(self.communication_token_s)
        rows = np.arange(max_rows + 1, dtype=np.int64)
        lm_head_ps = np.maximum(to_ps(self.head_weights_s), rows * to_ps(self.head_row_s))
        lm_head_ps[0] = 0
        return IterationCosts(
            token_ps=token_ps,
            lm_head_ps=lm_head_ps,
            prefill_pair_ps=to_ps(self.prefill_pair_s),
            decode_context_ps=to_ps(self.decode_context_s),
            decode_sequence_ps=to_ps(self.decode_sequence_s),
        )


def iteration_model(
    model: ModelSpec, hardware: HardwareProfile, tensor_parallel: int, *, draft: bool = False
) -> IterationModel:
    """Coefficients of a model on a worker of TP GPUs.

    linear: 2 FLOPs per matrix weight and token at peak · linear_mfu, at least one read of the weights at
    HBM · weight_hbm_share; LM head: the same over sampled rows; prefill attention: 4 · q_heads · head_dim
    · layers FLOPs a pair at peak · attention_mfu; decode attention: KV bytes a context token at
    HBM · kv_hbm_share; communication: 2 all-reduces a layer of n · hidden elements when TP > 1.

    Args:
        model: the model.
        hardware: the profile of its GPUs.
        tensor_parallel: GPUs of the worker.
        draft: the model drafts: its steps pay draft_step_overhead_s instead of iteration_overhead_s.

    Raises:
        CostModelError: TP does not fit the model.

    Valid for: dense models, weights and KV of one width, one node.
    Ignores: tile quantisation, norms, rotary embedding and activations (in the efficiency), overlap of
        communication and compute, attention over chunks beyond its FLOPs.
    """
    model.check_tensor_parallel(tensor_parallel)
    gpus = tensor_parallel
    flop_per_s = gpus * hardware.peak_flop_per_s.exact() * hardware.linear_mfu.at(gpus)
    attention_flop_per_s = gpus * hardware.peak_flop_per_s.exact() * hardware.attention_mfu.exact()
    weight_bytes_per_s = gpus * hardware.hbm_bytes_per_s.exact() * hardware.weight_hbm_share.exact()
    kv_bytes_per_s = gpus * hardware.hbm_bytes_per_s.exact() * hardware.kv_hbm_share.exact()
    matrix_parameters = model.layers * model.layer_matrix_parameters
    all_reduces = 2 * model.layers if gpus > 1 else 0
    step_overhead = hardware.draft_step_overhead_s if draft else hardware.iteration_overhead_s
    return IterationModel(
        overhead_s=step_overhead.exact()
        + model.layers * hardware.layer_overhead_s.exact()
        + all_reduces * hardware.all_reduce_latency_s.at(gpus),
        weights_s=matrix_parameters * model.dtype_bytes / weight_bytes_per_s,
        linear_token_s=2 * matrix_parameters / flop_per_s,
        communication_token_s=all_reduces
        * model.hidden
        * model.dtype_bytes
        / hardware.all_reduce_bytes_per_s.at(gpus),
        head_weights_s=model.head_parameters * model.dtype_bytes / weight_bytes_per_s,
        head_row_s=2 * model.head_parameters / flop_per_s,
        prefill_pair_s=model.attention_pair_flop / attention_flop_per_s,
        decode_context_s=model.kv_bytes_per_token * model.kv_copies(gpus) / kv_bytes_per_s,
        decode_sequence_s=hardware.sequence_overhead_s.exact(),
    )
