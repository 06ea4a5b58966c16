"""A recovery policy: which mechanisms run and with which parameters."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from lumen_policy.errors import InputError
from lumen_policy.policies.weights import decimal_text, parse_weight, scaled_weights
from lumen_policy.replay.contract import Placement, PolicyCodes, Routing

__all__ = ["INFINITE", "NEVER", "PlacementName", "RecoveryPolicy", "RoutingName"]

PlacementName = Literal["off", "ring", "load_aware", "store"]
RoutingName = Literal["shortest_queue", "holder", "load_aware", "anywhere"]

INFINITE = "inf"
NEVER = "never"
_INT64_MAX = 2**63 - 1

_PLACEMENT = {
    "off": Placement.OFF,
    "ring": Placement.RING,
    "load_aware": Placement.LOAD_AWARE,
    "store": Placement.STORE,
}
_ROUTING = {
    "shortest_queue": Routing.SHORTEST_QUEUE,
    "holder": Routing.HOLDER,
    "load_aware": Routing.LOAD_AWARE,
    "anywhere": Routing.ANYWHERE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPolicy:
    """One recovery policy, independent of any cluster.

    Attributes:
        name: for print-outs; two policies of equal content behave alike whatever their names.
        placement: ``off`` no checkpoints; ``ring`` next live worker; ``load_aware`` argmin L; ``store`` a store
            beside the workers.
        routing: of interrupted requests: ``shortest_queue`` and recompute; ``holder`` always; ``load_aware`` (θ, τ);
            ``anywhere`` the shortest queue, to restore there over the network.
        alpha, beta: placement weight per page and weight per queued request, decimal text, ≥ 0, not both 0.
        theta: L up to which the holder is preferred: decimal text, ``inf`` or ``never``.
        tau: saved tokens above which the holder is preferred whatever its load: an int ≥ 0 or ``inf``.
        k: drafted tokens per assisted pass, 0 = no assist.
        guard: skip drafted passes that are expected to be slower than plain decode.
    """

    name: str
    placement: PlacementName = "off"
    routing: RoutingName = "shortest_queue"
    alpha: str = "0"
    beta: str = "1"
    theta: str = NEVER
    tau: int | Literal["inf"] = "inf"
    k: int = 0
    guard: bool = True

    def __post_init__(self) -> None:
        if self.placement not in _PLACEMENT:
            raise InputError(f"placement: {self.placement!r} is not one of {', '.join(_PLACEMENT)}")
        if self.routing not in _ROUTING:
            raise InputError(f"routing: {self.routing!r} is not one of {', '.join(_ROUTING)}")
        if self.placement == "store" and self.routing in ("holder", "load_aware"):
            raise InputError(
                f"routing: {self.routing!r} follows a holder, and with placement store there is none; allowed: "
                "anywhere, shortest_queue"
            )
        alpha, beta = parse_weight("alpha", self.alpha), parse_weight("beta", self.beta)
        if alpha == 0 and beta == 0:
            raise InputError("alpha and beta are both 0: at least one must be positive")
        if self.theta not in (INFINITE, NEVER):
            parse_weight("theta", self.theta)
        if self.tau != INFINITE and (
            not isinstance(self.tau, int) or isinstance(self.tau, bool) or not 0 <= self.tau < _INT64_MAX
        ):
            raise InputError(f"tau: {self.tau!r} is not a whole number of tokens ≥ 0 or 'inf'")
        if not isinstance(self.k, int) or isinstance(self.k, bool) or not 0 <= self.k <= 64:
            raise InputError(f"k: {self.k!r} is not a whole number from 0 to 64")
        object.__setattr__(self, "alpha", decimal_text(alpha))
        object.__setattr__(self, "beta", decimal_text(beta))
        if self.theta not in (INFINITE, NEVER):
            object.__setattr__(self, "theta", decimal_text(Decimal(self.theta)))

    def codes(self, *, budget_pages: int) -> PolicyCodes:
        """The policy as the integers a replay reads.

        Args:
            budget_pages: checkpoint pages a worker may hold for others; a property of the cluster.
        """
        token_weight, request_weight, theta = scaled_weights(self.alpha, self.beta, self.theta)
        return PolicyCodes(
            placement=int(_PLACEMENT[self.placement]),
            routing=int(_ROUTING[self.routing]),
            k=self.k,
            token_weight=token_weight,
            request_weight=request_weight,
            theta=theta,
            tau_tokens=_INT64_MAX if self.tau == INFINITE else int(self.tau),
            guard=self.guard,
            budget_pages=budget_pages,
        )
