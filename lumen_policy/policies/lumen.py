"""LUMEN: load-aware placement, load-aware routing, speculation-assisted recovery (arXiv 2606.17787)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.policies.weights import decimal_text, round_significant

__all__ = ["DEFAULT_BETA", "DEFAULT_K", "DEFAULT_TAU_TOKENS", "default_alpha", "default_theta", "lumen"]

DEFAULT_BETA = "1"
DEFAULT_TAU_TOKENS = 512
DEFAULT_K = 2


def default_alpha(mean_pages: Fraction) -> str:
    """α = 1 / mean pages of a request, so that a full copy weighs like one queued request.

    Args:
        mean_pages: mean of ceil((prompt + output)/16) over the trace.
    """
    return decimal_text(round_significant(1 / mean_pages))


def default_theta(mean_load: Fraction) -> str:
    """θ = 2 × time-mean fault-free L over workers, in units of β.

    Args:
        mean_load: mean of L/β under the default α, over workers and [first arrival, last event].
    """
    return decimal_text(round_significant(2 * mean_load))


def lumen(
    *,
    alpha: str,
    theta: str,
    beta: str = DEFAULT_BETA,
    tau: int | Literal["inf"] = DEFAULT_TAU_TOKENS,
    k: int = DEFAULT_K,
    guard: bool = True,
    placement: bool = True,
    routing: bool = True,
    assist: bool = True,
    name: str = "lumen",
) -> RecoveryPolicy:
    """LUMEN with each mechanism switchable alone.

    Args:
        alpha, beta, theta: decimal text, see ``RecoveryPolicy``.
        tau: tokens or ``inf``.
        k: drafted tokens per pass.
        guard: skip drafted passes expected to be slower than plain decode.
        placement: off means the ring of fixed checkpointing.
        routing: off means always the holder, JSQ and recompute where it is dead or has nothing.
        assist: off means the recovering worker idles and loads no draft.
    """
    return RecoveryPolicy(
        name=name,
        placement="load_aware" if placement else "ring",
        routing="load_aware" if routing else "holder",
        alpha=alpha,
        beta=beta,
        theta=theta,
        tau=tau,
        k=k if assist else 0,
        guard=guard,
    )
