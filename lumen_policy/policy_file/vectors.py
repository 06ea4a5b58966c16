"""Test vectors for gateways: states and the decisions the replayer takes in them.

Generated from `lumen_policy.decide`, the code the replayer runs; `python -m lumen_policy.policy_file.vectors`
prints the shipped file. Loads and liveness are what the gateway believes: a dead worker that is not yet
detected is live here, with the loads it had.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Literal

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy.decide.assist import choose_target, drafts_per_pass
from lumen_policy.decide.placement import choose_holder, kv_load, next_on_ring
from lumen_policy.decide.routing import least_loaded, prefer_holder
from lumen_policy.policies.lumen import lumen
from lumen_policy.policies.spec import RecoveryPolicy

__all__ = ["VECTORS_FILE", "generate", "shipped", "vectors_text"]

VECTORS_FILE = "decision_vectors.json"

# Decimals on purpose: in binary floating point 0.1 · 3 > 0.3, so a gateway must compare exactly.
_HALF = {"alpha_per_page": "0.5", "beta_per_request": "1"}
_TENTH = {"alpha_per_page": "0.1", "beta_per_request": "0.3"}
_COPIES_ONLY = {"alpha_per_page": "0.25", "beta_per_request": "0"}
_QUEUE_ONLY = {"alpha_per_page": "0", "beta_per_request": "1"}


def shipped() -> dict[str, Any]:
    """The vectors that ship with the package."""
    text = files("lumen_policy.policy_file").joinpath(VECTORS_FILE).read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def vectors_text() -> str:
    """The text of the shipped file."""
    return json.dumps(generate(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def generate() -> dict[str, Any]:
    """Every vector: inputs and decisions; -1 means none."""
    return {
        "schema_version": 1,
        "page_tokens": PAGE_TOKENS,
        "placement": _placement(),
        "ring": _ring(),
        "routing": _routing(),
        "assist_target": _assist_target(),
        "drafts_per_pass": _drafts_per_pass(),
    }


def _policy(
    weights: dict[str, str], theta: str = "never", tau: int | Literal["inf"] = "inf"
) -> RecoveryPolicy:
    return lumen(alpha=weights["alpha_per_page"], beta=weights["beta_per_request"], theta=theta, tau=tau, k=0)


def _placement() -> list[dict[str, Any]]:
    """Where a checkpoint goes: argmin L over live workers ≠ server with room, ties lowest index."""
    room = [100, 100, 100, 100]
    return [
        _place("smallest load", _HALF, 0, [1, 1, 1, 1], room, [0, 64, 32, 160], [0, 3, 2, 1]),
        _place("tie goes to the lowest index", _HALF, 0, [1, 1, 1, 1], room, [0, 64, 0, 32], [0, 0, 2, 1]),
        _place("exact decimal tie", _TENTH, 0, [1, 1, 1, 1], room, [0, 96, 48, 0], [0, 0, 0, 1]),
        _place("the server itself never", _HALF, 2, [1, 1, 1, 1], room, [64, 64, 0, 64], [1, 2, 0, 3]),
        _place("dead workers never", _HALF, 0, [1, 0, 0, 1], room, [0, 0, 0, 640], [0, 0, 0, 9]),
        _place("no room, next best", _HALF, 0, [1, 1, 1, 1], [100, 7, 8, 100], [0, 0, 16, 160], [0, 0, 0, 0]),
        _place("nobody has room", _HALF, 0, [1, 1, 1, 1], [7, 7, 7, 7], [0, 0, 0, 0], [0, 0, 0, 0]),
        _place("nobody else is live", _HALF, 1, [0, 1, 0, 0], room, [0, 0, 0, 0], [0, 5, 0, 0]),
        _place("one worker", _HALF, 0, [1], [100], [0], [0]),
        _place("beta 0: copies only", _COPIES_ONLY, 0, [1, 1, 1, 1], room, [0, 160, 16, 32], [0, 0, 99, 0]),
        _place("alpha 0: queues only", _QUEUE_ONLY, 0, [1, 1, 1, 1], room, [0, 0, 9999, 0], [0, 2, 1, 3]),
    ]


def _place(
    name: str,
    weights: dict[str, str],
    server: int,
    live: list[int],
    free_pages: list[int],
    held_tokens: list[int],
    queue: list[int],
) -> dict[str, Any]:
    codes = _policy(weights).codes(budget_pages=0)
    need_pages = 8
    holder = choose_holder(
        server, need_pages, live, free_pages, held_tokens, queue, codes.token_weight, codes.request_weight
    )
    given = {
        "server": server,
        "need_pages": need_pages,
        "believed_live": live,
        "free_checkpoint_pages": free_pages,
        "held_tokens": held_tokens,
        "queue_requests": queue,
    }
    return {"name": name, "policy": weights, "given": given, "decides": {"holder": holder}}


def _ring() -> list[dict[str, Any]]:
    """fixed_checkpointing: the next live worker after the server."""
    cases = [
        ("next", 1, [1, 1, 1, 1]),
        ("around the end", 3, [1, 1, 1, 1]),
        ("over dead workers", 2, [0, 1, 1, 0]),
        ("none", 2, [0, 0, 1, 0]),
    ]
    return [
        {
            "name": name,
            "given": {"server": server, "believed_live": live},
            "decides": {"holder": next_on_ring(server, live)},
        }
        for name, server, live in cases
    ]


def _routing() -> list[dict[str, Any]]:
    """Where an interrupted request goes. held_tokens of the holder includes the request's own copy."""
    live, held, queue = [1, 0, 1, 1], [0, 0, 160, 32], [1, 0, 3, 2]
    return [
        _route("below theta: holder", _HALF, "8.5", "inf", 2, 160, live, held, queue),
        _route("at theta: holder", _HALF, "8", "inf", 2, 160, live, held, queue),
        _route("above theta: least loaded", _HALF, "7.5", "inf", 2, 160, live, held, queue),
        _route("above theta, saved above tau: holder", _HALF, "7.5", 144, 2, 160, live, held, queue),
        _route("above theta, saved equals tau: least loaded", _HALF, "7.5", 160, 2, 160, live, held, queue),
        _route("theta inf: holder at any load", _HALF, "inf", "inf", 2, 16, live, held, [1, 0, 900, 2]),
        _route("theta never: least loaded", _HALF, "never", "inf", 2, 160, live, held, queue),
        _route("theta never, tau 0: holder", _HALF, "never", 0, 2, 16, live, held, queue),
        _route("theta 0, empty holder of weight 0", _QUEUE_ONLY, "0", "inf", 3, 32, live, held, [1, 0, 3, 0]),
        _route("exact decimal theta", _TENTH, "0.3", "inf", 3, 48, live, [0, 0, 160, 48], [1, 0, 3, 0]),
        _route("no page saved: no reason for the holder", _HALF, "inf", 0, 2, 0, live, held, queue),
        _route("holder detected dead", _HALF, "inf", 0, 1, 160, live, held, queue),
        _route(
            "holder dead, not detected: believed", _HALF, "inf", 0, 1, 160, [1, 1, 1, 1], held, [1, 4, 3, 2]
        ),
        _route("no holder", _HALF, "inf", 0, -1, 0, live, held, queue),
        _route(
            "holder least loaded yet above theta", _HALF, "1", 512, 2, 160, [1, 0, 1, 1], held, [9, 0, 1, 9]
        ),
        _route("tie of least loaded", _QUEUE_ONLY, "never", "inf", 2, 160, [0, 0, 1, 1], held, [0, 0, 2, 2]),
        _route("nobody live: the gateway's queue", _HALF, "inf", 0, 2, 160, [0, 0, 0, 0], held, queue),
    ]


def _route(
    name: str,
    weights: dict[str, str],
    theta: str,
    tau: int | Literal["inf"],
    holder: int,
    saved_tokens: int,
    live: list[int],
    held_tokens: list[int],
    queue: list[int],
) -> dict[str, Any]:
    codes = _policy(weights, theta, tau).codes(budget_pages=0)
    load = 0
    if holder >= 0:
        load = kv_load(codes.token_weight, held_tokens[holder], codes.request_weight, queue[holder])
    holder_live = live[holder] if holder >= 0 else 0
    restore = prefer_holder(holder_live, load, saved_tokens, codes.theta, codes.tau_tokens)
    target = holder
    if not restore:
        target = least_loaded(live, held_tokens, queue, codes.token_weight, codes.request_weight)
    given = {
        "holder": holder,
        "saved_tokens": saved_tokens,
        "believed_live": live,
        "held_tokens": held_tokens,
        "queue_requests": queue,
    }
    return {
        "name": name,
        "policy": weights | {"theta_load": theta, "tau_tokens": tau},
        "given": given,
        "decides": {"worker": target, "restore": bool(restore)},
    }


def _assist_target() -> list[dict[str, Any]]:
    """Whom a recovering worker helps: the most loaded live worker without a drafter, ties lowest index."""
    cases = [
        ("most loaded", [0, 1, 1, 1], [0, 0, 0, 0], [0, 160, 16, 160], [0, 1, 2, 3]),
        ("tie goes to the lowest index", [0, 1, 1, 1], [0, 0, 0, 0], [0, 32, 64, 64], [0, 2, 1, 1]),
        ("has a drafter already", [0, 1, 1, 0], [0, 0, 1, 0], [0, 16, 160, 0], [0, 1, 9, 0]),
        ("nobody", [0, 1, 0, 0], [0, 1, 0, 0], [0, 16, 0, 0], [0, 1, 0, 0]),
    ]
    codes = _policy(_HALF).codes(budget_pages=0)
    return [
        {
            "name": name,
            "policy": _HALF,
            "given": {
                "believed_live": live,
                "has_drafter": drafter,
                "held_tokens": held,
                "queue_requests": queue,
            },
            "decides": {
                "target": choose_target(live, drafter, held, queue, codes.token_weight, codes.request_weight)
            },
        }
        for name, live, drafter, held, queue in cases
    ]


def _drafts_per_pass() -> list[dict[str, Any]]:
    """How many tokens a pass drafts: as many as the token budget leaves."""
    cases = [
        ("all of k", 4, 0, 10, 2048, 256),
        ("cut by the budget", 4, 48, 100, 512, 64),
        ("exactly filled", 3, 0, 64, 256, 0),
        ("no room for one draft", 4, 0, 200, 256, 0),
        ("no room at all", 4, 100, 10, 64, 0),
    ]
    return [
        {
            "name": name,
            "given": {
                "k_drafts_per_pass": k,
                "plain_sequences": plain,
                "verified_sequences": verified,
                "token_budget": budget,
                "reserved_tokens": reserved,
            },
            "decides": {"drafts": drafts_per_pass(k, plain, verified, budget, reserved)},
        }
        for name, k, plain, verified, budget, reserved in cases
    ]


if __name__ == "__main__":
    print(vectors_text(), end="")
