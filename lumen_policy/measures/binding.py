"""Which resource binds after the faults: prefill, decode, KV or link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy.measures.gaps import bin_gaps
from lumen_policy.measures.outages import down_ps
from lumen_policy.replay.contract import ReplayInput, ReplayOutput

__all__ = ["RESOURCES", "Binding", "binding"]

Resource = Literal["prefill", "decode", "kv", "link", "none"]
RESOURCES: tuple[Resource, ...] = get_args(Resource)

_LEAST_USE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Use of four resources in [first fault, last fault + H], cut at the last arrival; None where that is
    empty or no worker lived in it.

    Attributes:
        resource: the most used one if its use is at least one half, else ``none``; ties in this order.
        prefill: time that full iterations would take for what was prefilled / live worker time.
        decode: mean sequences in decode / batch slots of the live workers.
        kv: mean KV tokens of admitted requests / pool tokens of the live workers, over the snapshots.
        link: time of completed restores / live worker time.
    """

    resource: Resource | None
    prefill: float | None
    decode: float | None
    kv: float | None
    link: float | None


_EMPTY = Binding(resource=None, prefill=None, decode=None, kv=None, link=None)


def binding(inp: ReplayInput, out: ReplayOutput, horizon_ps: int) -> Binding:
    """The uses, estimated from per-request times, token gaps and snapshots: a replay logs no iterations.

    A full iteration holds the mean number of decodes of the window, and prefill chunks in the rest of the
    token budget; prompts count at their first token, recomputed tokens at the request's next token.
    """
    start_ps = int(inp.faults.ps[0])
    end_ps = min(int(inp.faults.ps[-1]) + horizon_ps, int(inp.arrival_ps[-1]))
    live_ps = _live_ps(inp, out, start_ps, end_ps)
    if live_ps <= 0:
        return _EMPTY
    gaps = bin_gaps(out, start_ps, end_ps - start_ps, 2)
    sequences = gaps.sums()[1] / live_ps
    seen = (inp.snapshot_ps > start_ps) & (inp.snapshot_ps <= end_ps)
    live = out.snapshot_live[seen].sum(axis=1)
    existing = out.snapshot_existing_tokens[seen][live > 0] / live[live > 0]
    context_tokens = float(existing.mean()) if existing.size else 0.0
    uses: dict[Resource, float] = {
        "prefill": _prefill_ps(inp, out, start_ps, end_ps, sequences, context_tokens) / live_ps,
        "decode": sequences / inp.max_batch,
        "kv": context_tokens / (inp.costs.pool_pages * PAGE_TOKENS),
        "link": _restore_ps(inp, out, start_ps, end_ps) / live_ps,
    }
    most = max(uses, key=lambda resource: uses[resource])
    return Binding(resource=most if uses[most] >= _LEAST_USE else "none", **uses)


def _live_ps(inp: ReplayInput, out: ReplayOutput, start_ps: int, end_ps: int) -> int:
    """Worker time without the outages."""
    if end_ps <= start_ps:
        return 0
    return inp.workers * (end_ps - start_ps) - down_ps(out, start_ps, end_ps)


def _prefill_ps(
    inp: ReplayInput, out: ReplayOutput, start_ps: int, end_ps: int, sequences: float, context_tokens: float
) -> float:
    """Duration of the full iterations that hold the window's prefill tokens."""
    inside = (out.first_ps > start_ps) & (out.first_ps <= end_ps)
    prompts = inp.prompt_tokens[inside].astype(np.float64)
    answered = (out.interruption_next_ps > start_ps) & (out.interruption_next_ps <= end_ps)
    again = np.unique(out.interruption_request[answered])
    tokens = float(prompts.sum()) + float(out.recomputed_tokens[again].sum())
    costs = inp.costs.target
    room = max(1.0, inp.token_budget - sequences)
    full = min(inp.token_budget, len(costs.token_ps) - 1)
    rows = min(round(sequences) + 1, len(costs.lm_head_ps) - 1)
    iteration_ps = (
        float(costs.token_ps[full])
        + float(costs.lm_head_ps[rows])
        + context_tokens * costs.decode_context_ps
        + sequences * costs.decode_sequence_ps
    )
    pairs = float((prompts * (prompts + 1) / 2).sum())
    return tokens / room * iteration_ps + pairs * costs.prefill_pair_ps


def _restore_ps(inp: ReplayInput, out: ReplayOutput, start_ps: int, end_ps: int) -> float:
    """Σ restore times of requests that were restored and went on in the window."""
    done = (
        (out.interruption_restored == 1)
        & (out.interruption_next_ps > start_ps)
        & (out.interruption_next_ps <= end_ps)
    )
    pages = out.restored_tokens[np.unique(out.interruption_request[done])] // PAGE_TOKENS
    table = inp.costs.restore_ps
    return float(table[np.minimum(pages, len(table) - 1)].sum(dtype=np.float64))
