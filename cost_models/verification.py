"""How long drafting and verifying take in one drafted pass."""

from __future__ import annotations

from fractions import Fraction

from cost_models.iteration import IterationModel

__all__ = ["draft_s", "verify_s"]


def verify_s(
    target: IterationModel, context_ratio: Fraction, *, sequences: int, k: int, context_tokens: int
) -> Fraction:
    """One verify iteration: n_seq · (k + 1) tokens and sampled rows, K · c_v context tokens.

    Args:
        target: the served model.
        context_ratio: c_v, 1 when the KV of a sequence is read once for all its rows.
        sequences: verified sequences.
        k: drafted tokens of each; 0 is a plain decode where c_v = 1.
        context_tokens: K, context tokens of all of them.

    Source: LUMEN (arXiv 2606.17787), verification of drafts by the served model.
    """
    rows = sequences * (k + 1)
    without_context = target.seconds(rows, rows=rows, sequences=sequences)
    return without_context + context_ratio * context_tokens * target.decode_context_s


def draft_s(draft: IterationModel, *, sequences: int, k: int, context_tokens: int) -> Fraction:
    """k decode iterations of the draft over the batch, each sequence's context growing by one a step."""
    return sum(
        (
            draft.seconds(
                sequences,
                rows=sequences,
                context_tokens=context_tokens + step * sequences,
                sequences=sequences,
            )
            for step in range(k)
        ),
        Fraction(0),
    )
