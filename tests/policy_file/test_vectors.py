"""The shipped decision vectors against an independent reading of the rules, in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from lumen_policy.policy_file.vectors import generate, shipped


def _load(case: dict[str, Any], worker: int) -> Fraction:
    policy, given = case["policy"], case["given"]
    pages = Fraction(given["held_tokens"][worker], 16)
    return Fraction(policy["alpha_per_page"]) * pages + (
        Fraction(policy["beta_per_request"]) * given["queue_requests"][worker]
    )


def _smallest(case: dict[str, Any], workers: list[int]) -> int:
    return min(workers, key=lambda w: (_load(case, w), w), default=-1)


def _live(case: dict[str, Any]) -> list[int]:
    return [w for w, live in enumerate(case["given"]["believed_live"]) if live]


def test_shipped_vectors_are_what_the_code_decides() -> None:
    """Regenerate with python -m lumen_policy.policy_file.vectors."""
    assert shipped() == generate()


@pytest.mark.parametrize("case", shipped()["placement"], ids=lambda c: c["name"])
def test_placement(case: dict[str, Any]) -> None:
    """argmin L over live workers other than the server with room; ties lowest index."""
    given = case["given"]
    able = [
        w
        for w in _live(case)
        if w != given["server"] and given["free_checkpoint_pages"][w] >= given["need_pages"]
    ]
    assert case["decides"]["holder"] == _smallest(case, able)


@pytest.mark.parametrize("case", shipped()["routing"], ids=lambda c: c["name"])
def test_routing(case: dict[str, Any]) -> None:
    """The holder if live, with a page saved, and L ≤ θ or saved > τ; else argmin L."""
    given, policy = case["given"], case["policy"]
    holder, saved = given["holder"], given["saved_tokens"]
    restore = False
    if holder in _live(case) and saved > 0:
        theta, tau = policy["theta_load"], policy["tau_tokens"]
        below = theta == "inf" or (theta != "never" and _load(case, holder) <= Fraction(theta))
        restore = below or (tau != "inf" and saved > tau)
    assert case["decides"] == {
        "restore": restore,
        "worker": holder if restore else _smallest(case, _live(case)),
    }


@pytest.mark.parametrize("case", shipped()["assist_target"], ids=lambda c: c["name"])
def test_assist_target(case: dict[str, Any]) -> None:
    """argmax L over live workers without a drafter; ties lowest index."""
    able = [w for w in _live(case) if not case["given"]["has_drafter"][w]]
    assert case["decides"]["target"] == max(able, key=lambda w: (_load(case, w), -w), default=-1)


@pytest.mark.parametrize("case", shipped()["drafts_per_pass"], ids=lambda c: c["name"])
def test_drafts_per_pass(case: dict[str, Any]) -> None:
    """The largest k' ≤ k whose rows fit the budget, found by trying all."""
    given = case["given"]
    room = given["token_budget"] - given["reserved_tokens"] - given["plain_sequences"]
    fitting = [
        k for k in range(given["k_drafts_per_pass"] + 1) if given["verified_sequences"] * (k + 1) <= room
    ]
    assert case["decides"]["drafts"] == max(fitting, default=0)
