"""How a recovering worker helps: plain functions (see ``placement``)."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["choose_target", "drafts_per_pass", "worth_drafting"]


def choose_target(
    live: Sequence[int],
    has_drafter: Sequence[int],
    held_tokens: Sequence[int],
    queue: Sequence[int],
    token_weight: int,
    request_weight: int,
) -> int:
    """The believed-live worker without a drafter that has the largest L, ties lowest index; -1 if none."""
    best = -1
    best_load = 0
    for w in range(len(live)):
        if live[w] != 0 and has_drafter[w] == 0:
            load = token_weight * held_tokens[w] + request_weight * queue[w]
            if best < 0 or load > best_load:
                best = w
                best_load = load
    return best


def drafts_per_pass(k: int, plain: int, verified: int, token_budget: int, reserved: int) -> int:
    """The largest k' ≤ k with plain + verified·(k' + 1) ≤ token_budget - reserved; 0 if none.

    Args:
        k: drafted tokens asked for.
        plain: sequences that decode plainly in the pass.
        verified: sequences that would be verified, ≥ 1.
        token_budget: tokens of one iteration.
        reserved: tokens kept free for prefill chunks (0 while no admitted request is in prefill).
    """
    rows = token_budget - reserved - plain
    if rows < verified:
        return 0
    return min(k, rows // verified - 1)


def worth_drafting(expected_tokens: float, pass_ps: int, plain_tokens: int, plain_ps: int) -> bool:
    """The guard: whether a drafted pass yields at least the decode tokens per second of a plain one.

    Args:
        expected_tokens: expected tokens of the drafted pass over all decoding sequences, not cut at their lengths.
        pass_ps: verify + draft + round trip, without prefill chunks.
        plain_tokens: decoding sequences.
        plain_ps: a plain decode iteration of the same sequences, without prefill chunks.

    Equality drafts.
    """
    return expected_tokens * plain_ps >= plain_tokens * pass_ps
