"""The search cube: recovery policies as points whose faces are the extreme policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

import numpy as np
import numpy.typing as npt

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy.errors import InputError
from lumen_policy.policies.lumen import DEFAULT_BETA, lumen
from lumen_policy.policies.spec import INFINITE, NEVER, RecoveryPolicy
from lumen_policy.policies.weights import decimal_text

__all__ = ["EDGE", "K_MAX", "Cube", "Decisions", "Point", "Reference", "decisions"]

EDGE = 0.02
"""Width of the strips of x0, x1 and x2 that mean an extreme policy."""
K_MAX = 6
"""Largest k searched; published tokens per pass flatten before it.

Source: 1.77/2.35/2.80/3.13/3.40/3.58 at k = 1…6, Qwen3-32B with a Qwen3-1.7B draft
(tomasruizt.github.io, 06_vllm-spec-decode).
"""
REFERENCE_LIMIT = 256
"""Entries of a reference distribution."""

Point = tuple[float, float, float, int]
"""(x0, x1, x2, k): KV share, quantile of L for θ, quantile of saved tokens for τ, drafted tokens."""
Decisions = tuple[str, str, str, str, int]
"""What a policy decides by, in canonical text: (α, β, θ, τ, k). Equal decisions need one replay."""

_FOUR_DIGITS = Context(prec=4, rounding=ROUND_HALF_EVEN)
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What default LUMEN met after the crashes of the tuning scenarios; frozen for a whole run.

    Entry i of `held_pages` and `queue_requests` is one live worker at one instant, default L increasing.

    Attributes:
        held_pages: checkpoint pages held (tokens/16).
        queue_requests: Q.
        saved_tokens: whole-page tokens a restore would have brought, one entry per interruption, ascending.
        mean_held_pages, mean_queue_requests: over all observations, not only the entries kept.
        fallback_ratio: α/β where nothing was held: default LUMEN's own.
    """

    held_pages: tuple[float, ...]
    queue_requests: tuple[float, ...]
    saved_tokens: tuple[int, ...]
    mean_held_pages: float
    mean_queue_requests: float
    fallback_ratio: float

    @classmethod
    def of(
        cls,
        held_tokens: Sequence[int] | npt.NDArray[np.int64],
        queue_requests: Sequence[int] | npt.NDArray[np.int64],
        saved_tokens: Sequence[int] | npt.NDArray[np.int64],
        *,
        default_ratio: float,
    ) -> Reference:
        """Reduce observations to at most 256 entries each, evenly spaced in rank, smallest and largest kept.

        Args:
            held_tokens, queue_requests: shape (n,), one entry per live worker and instant.
            saved_tokens: shape (m,), one entry per interrupted request.
            default_ratio: default LUMEN's α/β, per page.
        """
        pages = np.asarray(held_tokens, np.float64) / PAGE_TOKENS
        queue = np.asarray(queue_requests, np.float64)
        saved = np.sort(np.asarray(saved_tokens, np.int64))
        order = np.lexsort((queue, pages, default_ratio * pages + queue))
        order = order[_even_ranks(len(order))]
        return cls(
            held_pages=tuple(float(v) for v in pages[order]),
            queue_requests=tuple(float(v) for v in queue[order]),
            saved_tokens=tuple(int(v) for v in saved[_even_ranks(len(saved))]),
            mean_held_pages=float(pages.sum() / len(pages)) if len(pages) else 0.0,
            mean_queue_requests=float(queue.sum() / len(queue)) if len(queue) else 0.0,
            fallback_ratio=default_ratio,
        )

    @property
    def unit_ratio(self) -> float:
        """α/β at which held pages and queued requests weigh alike on average (s = 1/2)."""
        if self.mean_held_pages > 0 and self.mean_queue_requests > 0:
            return self.mean_queue_requests / self.mean_held_pages
        return self.fallback_ratio

    def loads(self, ratio: float) -> FloatArray:
        """The entries' L/β under α/β = `ratio`, ascending; a single 0 where there are none."""
        loads = np.sort(ratio * np.asarray(self.held_pages) + np.asarray(self.queue_requests))
        return loads if len(loads) else np.zeros(1)

    def saved(self) -> FloatArray:
        """Saved tokens, ascending; a single 0 where there are none."""
        return np.asarray(self.saved_tokens or (0,), np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cube:
    """Policies as points (x0, x1, x2, k) of [0, 1]³ × {0 … k_max}, β = 1.

    x0 is the share s of held pages in L: α/β = s/(1 - s) · mean Q / mean held pages; s < 0.02 means α = 0,
    s > 0.98 is read as 0.98.
    x1 is the quantile of L that θ takes, L being that of the reference entries under the point's own α (so
    that a face stays the limit of the interior whatever α is): < 0.02 `never`, > 0.98 `inf`, between them
    (x1 - 0.02)/0.96. x2 likewise for τ over saved tokens, down to whole pages: ends 0 and `inf`.
    θ = `inf` makes τ irrelevant, which is then written `inf`.
    α and θ are rounded to 4 significant digits, half to even.

    Attributes:
        reference: the frozen distributions.
        k_max: largest k; 0 where there is no draft model.
        guard: the guard of every policy of the cube.
    """

    reference: Reference
    k_max: int = K_MAX
    guard: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.k_max <= 64:
            raise InputError(f"k_max: {self.k_max} is not a whole number from 0 to 64")

    def decode(self, point: Point, *, name: str = "lumen") -> RecoveryPolicy:
        """The policy of a point."""
        share, load_level, saved_level, k = point
        if not all(0.0 <= x <= 1.0 for x in (share, load_level, saved_level)):
            raise InputError(f"point {point}: coordinates must lie in [0, 1]")
        alpha = self._alpha(share)
        if load_level > 1 - EDGE:
            theta = INFINITE
        elif load_level < EDGE:
            theta = NEVER
        else:
            theta = _decimal(_quantile(self.reference.loads(float(alpha)), _inner(load_level)))
        tau: int | str
        if theta == INFINITE or saved_level > 1 - EDGE:
            tau = INFINITE
        elif saved_level < EDGE:
            tau = 0
        else:
            pages = int(_quantile(self.reference.saved(), _inner(saved_level))) // PAGE_TOKENS
            tau = pages * PAGE_TOKENS
        return lumen(
            name=name,
            alpha=alpha,
            beta=DEFAULT_BETA,
            theta=theta,
            tau="inf" if tau == INFINITE else int(tau),
            k=min(k, self.k_max),
            guard=self.guard,
        )

    def encode(self, policy: RecoveryPolicy) -> Point:
        """A point near a policy; its decoding rounds θ and τ to the reference distributions."""
        alpha, beta = Decimal(policy.alpha), Decimal(policy.beta)
        ratio = float(alpha / beta) if beta else float("inf")
        relative = ratio / self.reference.unit_ratio
        share = 1 - EDGE if not relative < 1e9 else relative / (1 + relative)
        share = 0.0 if alpha == 0 else min(max(share, EDGE), 1 - EDGE)
        if policy.theta in (INFINITE, NEVER):
            load_level = 1.0 if policy.theta == INFINITE else 0.0
        else:
            theta = float(Decimal(policy.theta) / beta) if beta else float(policy.theta)
            load_level = _outer(_level(self.reference.loads(ratio if beta else 1.0), theta))
        if policy.tau == INFINITE:
            saved_level = 1.0
        elif policy.tau == 0:
            saved_level = 0.0
        else:
            saved_level = _outer(_level(self.reference.saved(), float(policy.tau)))
        return (share, load_level, saved_level, min(policy.k, self.k_max))

    def corners(self, default: RecoveryPolicy) -> dict[str, Point]:
        """The extreme policies, each the default moved to one face: name → point."""
        x0, x1, x2, k = self.encode(default)
        corners: dict[str, Point] = {
            "always the holder": (x0, 1.0, 1.0, k),
            "always recompute": (x0, 0.0, 1.0, k),
            "tau = 0": (x0, x1, 0.0, k),
            "alpha = 0": (0.0, x1, x2, k),
        }
        if self.k_max > 0:
            corners["k = 0"] = (x0, x1, x2, 0)
        return corners

    def distance(self, a: Point, b: Point) -> float:
        """Euclidean distance, k scaled to [0, 1]; τ counts nothing where θ is `inf` on either side."""
        x2 = 0.0 if max(a[1], b[1]) > 1 - EDGE else a[2] - b[2]
        k = (a[3] - b[3]) / self.k_max if self.k_max else 0.0
        return float(((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + x2**2 + k**2) ** 0.5)

    def _alpha(self, share: float) -> str:
        if share < EDGE:
            return "0"
        share = min(share, 1 - EDGE)
        return _decimal(share / (1 - share) * self.reference.unit_ratio)


def decisions(policy: RecoveryPolicy) -> Decisions:
    """The canonical form of a LUMEN policy: two with equal decisions replay alike.

    θ = `inf` makes τ irrelevant, and τ = 0 sends every request with a saved page to its holder just as well.
    """
    always = policy.theta == INFINITE or policy.tau == 0
    theta, tau = (INFINITE, INFINITE) if always else (policy.theta, str(policy.tau))
    return (policy.alpha, policy.beta, theta, tau, policy.k)


def _even_ranks(count: int) -> npt.NDArray[np.int64]:
    """Ranks 0 … count-1, or 256 of them spread evenly from first to last."""
    if count <= REFERENCE_LIMIT:
        return np.arange(count, dtype=np.int64)
    steps = np.arange(REFERENCE_LIMIT, dtype=np.int64)
    return (steps * (count - 1) * 2 + (REFERENCE_LIMIT - 1)) // (2 * (REFERENCE_LIMIT - 1))


def _inner(level: float) -> float:
    return min(max((level - EDGE) / (1 - 2 * EDGE), 0.0), 1.0)


def _outer(level: float) -> float:
    return min(max(EDGE + level * (1 - 2 * EDGE), EDGE), 1 - EDGE)


def _quantile(ordered: FloatArray, level: float) -> float:
    """Linear interpolation between order statistics; level 0 is the smallest, 1 the largest."""
    position = level * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (position - below) * (ordered[above] - ordered[below]))


def _level(ordered: FloatArray, value: float) -> float:
    """The inverse of `_quantile`, clipped to [0, 1]; of a run of equal values its middle."""
    if len(ordered) == 1:
        return 0.5
    low = float(np.interp(value, ordered, np.arange(len(ordered)), left=0.0))
    equal = np.flatnonzero(ordered == value)
    position = float(equal[0] + equal[-1]) / 2 if len(equal) else low
    return position / (len(ordered) - 1)


def _decimal(value: float) -> str:
    return decimal_text(_FOUR_DIGITS.plus(Decimal(value)))
