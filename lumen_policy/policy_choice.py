"""From a policy's name or file, and the parameters beside it, to the policy that runs."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Literal, cast

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy.errors import InputError
from lumen_policy.measures.load import mean_load
from lumen_policy.paired import Pairing
from lumen_policy.policies.fixed_checkpointing import fixed_checkpointing
from lumen_policy.policies.lumen import (
    DEFAULT_BETA,
    DEFAULT_K,
    DEFAULT_TAU_TOKENS,
    default_alpha,
    default_theta,
    lumen,
)
from lumen_policy.policies.remote_store import remote_store
from lumen_policy.policies.spec import NEVER, RecoveryPolicy
from lumen_policy.policies.stop_and_restart import stop_and_restart
from lumen_policy.policies.weights import decimal_text, parse_weight, scaled_weights
from lumen_policy.setting_key import near_match
from lumen_policy.settings import Settings
from lumen_policy.trace.table import Trace

__all__ = ["COMPARED", "LUMEN", "POLICY_NAMES", "choose_policy", "default_lumen", "mean_request_pages"]

LUMEN = "lumen"
POLICY_NAMES = ("stop_and_restart", "fixed_checkpointing", "remote_store", LUMEN)
COMPARED = ("stop_and_restart", "fixed_checkpointing", LUMEN)
"""Policies that are compared unless others are named."""
_PARAMETERS = ("alpha", "beta", "theta", "tau", "k")
_SWITCHES = ("guard", "placement", "routing", "assist")


def choose_policy(
    name: str, settings: Settings, pairing: Pairing, notices: list[str], *, strict: bool = True
) -> RecoveryPolicy:
    """The policy of that name, or of that exported file.

    Args:
        name: one of ``POLICY_NAMES``, or a path that exists or ends in ``.json``.
        settings: parameters for ``lumen``; those left out take their derived defaults.
        pairing: trace and cluster: defaults are derived from them, a file is checked against them.
        notices: gets the warnings of a policy file.
        strict: refuse parameters beside a policy that takes none (off where they are meant for another one).

    Raises:
        InputError: unknown name, parameters beside a policy that takes none, a file that does not fit.
    """
    if strict and name != LUMEN:
        _refuse_parameters(name, settings)
    if name == LUMEN:
        policy = default_lumen(settings, pairing)
    elif name == "stop_and_restart":
        policy = stop_and_restart()
    elif name == "fixed_checkpointing":
        policy = fixed_checkpointing()
    elif name == "remote_store":
        policy = remote_store()
    elif name.endswith(".json") or Path(name).is_file():
        policy = _from_file(name, pairing, notices)
    else:
        raise InputError(
            f"policy: {name!r} is not one of {', '.join(POLICY_NAMES)} or a policy file"
            f"{near_match(name, POLICY_NAMES)}"
        )
    pairing.cluster.check_policy(policy)
    return policy


def default_lumen(settings: Settings, pairing: Pairing) -> RecoveryPolicy:
    """LUMEN with the parameters stated and, for the others, the defaults on this trace and cluster.

    α = 1 / mean pages of a request (times β). θ = 2 × the time-mean fault-free L under these α and β.
    k = 2, or 0 without a draft model.
    """
    beta = settings.beta if settings.beta is not None else DEFAULT_BETA
    alpha = settings.alpha
    if alpha is None:
        per_request = Decimal(default_alpha(mean_request_pages(pairing.trace)))
        alpha = decimal_text(per_request * (parse_weight("beta", beta) or 1))
        _check_default_alpha(alpha, beta, pairing.trace)
    k = settings.k
    if k is None:
        k = DEFAULT_K if pairing.cluster.draft is not None and settings.assist else 0
    tau = cast("int | Literal['inf']", DEFAULT_TAU_TOKENS if settings.tau is None else settings.tau)

    def with_theta(theta: str) -> RecoveryPolicy:
        return lumen(
            alpha=alpha,
            beta=beta,
            theta=theta,
            tau=tau,
            k=k,
            guard=settings.guard,
            placement=settings.placement,
            routing=settings.routing,
            assist=settings.assist,
        )

    if settings.theta is not None:
        return with_theta(settings.theta)
    probe = with_theta(NEVER)
    return with_theta(_theta_of(probe, pairing))


def _check_default_alpha(alpha: str, beta: str, trace: Trace) -> None:
    """Says where an α out of range comes from, for the user stated none."""
    try:
        scaled_weights(alpha, beta, NEVER)
    except InputError as error:
        longest = int((trace.prompt_tokens + trace.output_tokens).max())
        raise InputError(
            f"alpha: {alpha}, the default 1 / mean pages of a request, is out of range: the longest request of "
            f"{trace.source} has {longest} tokens; cut the trace or state alpha"
        ) from error


def mean_request_pages(trace: Trace) -> Fraction:
    """Mean of ceil((prompt + output)/16) over the trace."""
    pages = (trace.prompt_tokens + trace.output_tokens + PAGE_TOKENS - 1) // PAGE_TOKENS
    return Fraction(int(pages.sum()), trace.count)


def _theta_of(policy: RecoveryPolicy, pairing: Pairing) -> str:
    """2 × the time-mean fault-free L of the policy, rounded in units of β (of α where β = 0)."""
    leg = pairing.fault_free(policy)
    means = mean_load(leg.inputs, leg.output)
    alpha, beta = Decimal(policy.alpha), Decimal(policy.beta)
    unit = beta if beta > 0 else alpha
    load = Fraction(alpha) * means.held_tokens / PAGE_TOKENS + Fraction(beta) * means.queue_requests
    return decimal_text(Decimal(default_theta(load / Fraction(unit))) * unit)


def _refuse_parameters(name: str, settings: Settings) -> None:
    given = [key for key in _PARAMETERS if getattr(settings, key) is not None]
    given += [key for key in _SWITCHES if not getattr(settings, key)]
    if given:
        kind = f"policy {name} takes no" if name in POLICY_NAMES else f"policy file {name} states its own"
        raise InputError(f"{given[0]}: {kind} parameters; leave out {', '.join(given)}")


def _from_file(path: str, pairing: Pairing, notices: list[str]) -> RecoveryPolicy:
    from lumen_policy.policy_file.load import load_policy_file

    exported = load_policy_file(path)
    notices.extend(exported.check(pairing.cluster, pairing.trace))
    return exported.policy
