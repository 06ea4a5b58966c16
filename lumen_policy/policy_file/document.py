"""The policy document: what a policy file holds, key by key, with units in the names."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from lumen_policy.errors import InputError
from lumen_policy.policies.spec import RecoveryPolicy

__all__ = [
    "API_VERSION",
    "Assist",
    "Budget",
    "Evidence",
    "Excess",
    "Gain",
    "Lengths",
    "Metadata",
    "Placement",
    "PolicyDocument",
    "ReferenceSummary",
    "Routing",
    "Spec",
    "Validity",
    "document_bytes",
    "recovery_policy",
    "spec_of",
]

API_VERSION: Final = "lumen-tune/v1"

# `$(?!\n)`: in Python `$` also matches before a last newline, in ECMA it does not; so both read it alike.
_NUMBER = r"(0|[1-9][0-9]{0,29})(\.[0-9]{1,40})?"
_ZERO = r"^0(\.0+)?$(?!\n)"
_SAFE_INT = 2**53 - 1

Text = Annotated[str, Meta(min_length=1, max_length=500)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)", description="SHA-256, hexadecimal")]
Count = Annotated[int, Meta(ge=0, le=_SAFE_INT)]
Positive = Annotated[int, Meta(ge=1, le=_SAFE_INT)]
Finite = Annotated[float, Meta(ge=-1e18, le=1e18)]
NotNegative = Annotated[float, Meta(ge=0, le=1e18)]


def _weight(description: str) -> Any:
    return Meta(pattern=rf"^{_NUMBER}$(?!\n)", description=description)


class Placement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where checkpoints go and what a worker's load is: L = alpha · pages held + beta · Q."""

    mechanism: Annotated[
        Literal["off", "ring", "load_aware"],
        Meta(description="off, ring (next live worker) or load_aware (argmin L)"),
    ]
    alpha_per_page: Annotated[
        str, _weight("α: weight in L of one 16-token checkpoint page held, as decimal text")
    ]
    beta_per_request: Annotated[
        str, _weight("β: weight in L of one request routed and not finished, as decimal text")
    ]

    def __post_init__(self) -> None:
        if not any(digit in "123456789" for digit in self.alpha_per_page + self.beta_per_request):
            raise ValueError("alpha_per_page and beta_per_request are both 0: at least one must be positive")


_NOT_BOTH_ZERO = {
    "not": {
        "properties": {"alpha_per_page": {"pattern": _ZERO}, "beta_per_request": {"pattern": _ZERO}},
        "required": ["alpha_per_page", "beta_per_request"],
    }
}


class Routing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an interrupted request goes: its holder if L ≤ theta or saved tokens > tau, else argmin L."""

    mechanism: Annotated[
        Literal["shortest_queue", "holder", "load_aware"],
        Meta(description="shortest_queue, holder (always) or load_aware (theta, tau)"),
    ]
    theta_load: Annotated[
        str,
        Meta(
            pattern=rf"^({_NUMBER}|inf|never)$(?!\n)",
            description="θ: holder's load L up to which it is preferred, in units of L, as decimal text; "
            "inf: always, never: only by tau",
        ),
    ]
    tau_tokens: Annotated[
        Count | Literal["inf"],
        Meta(
            description="τ: saved tokens above which the holder is preferred at any load; inf: never by tau"
        ),
    ]


class Assist(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a recovering worker drafts for a survivor."""

    k_drafts_per_pass: Annotated[
        int, Meta(ge=0, le=64, description="k: drafted tokens per pass; 0: no assist, no draft is loaded")
    ]
    guard: Annotated[bool, Meta(description="skip drafted passes expected to be slower than plain decode")]


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker may hold for others."""

    checkpoint_bytes_per_worker: Count


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a gateway decides by."""

    placement: Annotated[Placement, Meta(extra_json_schema=_NOT_BOTH_ZERO)]
    routing: Routing
    assist: Assist
    budget: Budget


class Metadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the policy is for and where it comes from."""

    name: Text
    model: Text
    kv_bytes_per_token: Positive
    page_tokens: Positive
    draft_model: Annotated[str, Meta(min_length=1, max_length=500, description="none: without a draft")]
    hardware: Text
    gpus_per_worker: Positive
    trace: Text
    trace_digest: Digest
    profile_digest: Digest
    cluster_digest: Digest
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    toolkit_version: Text


class Excess(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Excess E2E of one policy over the validation scenarios."""

    policy: Text
    mean_request_s: Finite
    low_request_s: Finite
    high_request_s: Finite


class Gain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What this policy saves against another: its paired difference of excess E2E (other - this)."""

    against: Text
    mean_request_s: Finite
    low_request_s: Finite
    high_request_s: Finite
    verdict: Literal["better", "worse", "no difference"]


class ReferenceSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The frozen distributions the search space was scaled by, as quantiles 0, 0.1 … 1."""

    mean_held_pages: NotNegative
    mean_queue_requests: NotNegative
    load_deciles: Annotated[list[NotNegative], Meta(min_length=11, max_length=11)]
    saved_tokens_deciles: Annotated[list[NotNegative], Meta(min_length=11, max_length=11)]


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the policy was found and what it gained. Intervals are conditional on the trace."""

    source: Literal["simulated", "measured"]
    objective: Literal["excess_e2e_request_s"]
    horizon_s: NotNegative
    tuning_scenarios: Count
    trials: Count
    chosen_trial: Count
    tuning_mean_request_s: Finite
    validation_scenarios: Count
    confidence: Annotated[float, Meta(gt=0, lt=1, description="of the intervals: bootstrap over scenarios")]
    excess: list[Excess]
    gains: list[Gain]
    reference: ReferenceSummary


class Lengths(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A length distribution."""

    mean: NotNegative
    p50: NotNegative
    p90: NotNegative
    p99: NotNegative


class Validity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions it was tuned for; elsewhere it is a guess."""

    workers: Positive
    crashed_workers: Positive
    load_of_capacity: NotNegative
    arrivals_per_s: NotNegative
    prompt_tokens: Lengths
    output_tokens: Lengths
    reload_s: Annotated[
        float, Meta(ge=0, le=1e18, description="detection to rejoin of a worker that loads no draft")
    ]
    reload_with_draft_s: NotNegative


class PolicyDocument(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"api_version": "apiVersion"},
):
    """A recovery policy with its evidence and the conditions it holds for."""

    api_version: Literal["lumen-tune/v1"]
    kind: Literal["RecoveryPolicy"]
    metadata: Metadata
    spec: Spec
    evidence: Evidence
    validity: Validity


def spec_of(policy: RecoveryPolicy, *, checkpoint_bytes_per_worker: int) -> Spec:
    """The document part that carries a policy; `recovery_policy` gives the same policy back.

    Raises:
        InputError: a policy with a store, which no document carries.
    """
    if policy.placement == "store" or policy.routing == "anywhere":
        raise InputError(f"policy: {policy.name} keeps its copies in a store, and a policy file carries none")
    return Spec(
        placement=Placement(
            mechanism=policy.placement, alpha_per_page=policy.alpha, beta_per_request=policy.beta
        ),
        routing=Routing(mechanism=policy.routing, theta_load=policy.theta, tau_tokens=policy.tau),
        assist=Assist(k_drafts_per_pass=policy.k, guard=policy.guard),
        budget=Budget(checkpoint_bytes_per_worker=checkpoint_bytes_per_worker),
    )


def recovery_policy(document: PolicyDocument) -> RecoveryPolicy:
    """The policy a document carries, bit for bit the exported one.

    Raises:
        InputError: weights whose ratio no 64-bit integers can hold.
    """
    spec = document.spec
    policy = RecoveryPolicy(
        name=document.metadata.name,
        placement=spec.placement.mechanism,
        routing=spec.routing.mechanism,
        alpha=spec.placement.alpha_per_page,
        beta=spec.placement.beta_per_request,
        theta=spec.routing.theta_load,
        tau=spec.routing.tau_tokens,
        k=spec.assist.k_drafts_per_pass,
        guard=spec.assist.guard,
    )
    policy.codes(budget_pages=0)
    return policy


def document_bytes(document: PolicyDocument) -> bytes:
    """The document as UTF-8 JSON: keys sorted, two-space indent, a last newline."""
    packed = msgspec.json.encode(document, order="sorted")
    return msgspec.json.format(packed, indent=2) + b"\n"
