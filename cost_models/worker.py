"""All costs of one worker as the integers a replay runs on."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np

from cost_models.errors import CostModelError
from cost_models.hardware import HardwareProfile
from cost_models.iteration import MAX_ITERATION_PS, iteration_model, to_ps
from cost_models.kv_pool import draft_pool_pages, pool_pages
from cost_models.kv_restore import restore_table_ps
from cost_models.model_spec import ModelSpec
from cost_models.serving_costs import PAGE_TOKENS, IterationCosts, ServingCosts, TransferCosts
from cost_models.transfers import transfer_costs

__all__ = ["serving_costs"]

_MAX_TRANSFER_PS = 2**60


def serving_costs(
    *,
    model: ModelSpec,
    draft: ModelSpec | None,
    hardware: HardwareProfile,
    tensor_parallel: int,
    token_budget: int,
    max_batch: int,
    max_context_tokens: int,
    kv_pages: int | None = None,
    pipeline_parallel: int = 1,
    links: Literal["free", "fifo"] = "free",
    store_latency_s: Fraction | float | None = None,
    store_bytes_per_s: Fraction | float | None = None,
) -> ServingCosts:
    """Costs of a worker (a TP group) that serves ``model`` and, while it recovers, drafts with ``draft``.

    The draft runs on the recovering worker's own GPUs with the same TP.

    Args:
        model: the served model.
        draft: the draft model, or None.
        hardware: the profile of the GPUs.
        tensor_parallel: GPUs of the worker.
        token_budget: tokens of one iteration.
        max_batch: admitted requests at most.
        max_context_tokens: tokens of the longest request, prompt + output.
        kv_pages: KV pages of the worker, at most what memory holds; None = all that fit.
        pipeline_parallel: 1; more is not modelled.
        links: ``free``: checkpoint transfers take no time; ``fifo``: they take their turn on the links.
        store_latency_s, store_bytes_per_s: of a checkpoint store; None = the profile's.

    Returns:
        Integer costs: token tables up to max(token_budget, max_batch) for the model and
        max(max_context_tokens, max_batch) for the draft, restores (from the own host memory, another worker
        or the store) up to the longest request's pages.

    Raises:
        CostModelError: a value out of range, TP that does not fit the model, PP > 1, a set-up that does not
            fit in memory, or an iteration too long for 64-bit picoseconds.
    """
    for name, value in (
        ("token_budget", token_budget),
        ("max_batch", max_batch),
        ("max_context_tokens", max_context_tokens),
        ("kv_pages", 1 if kv_pages is None else kv_pages),
    ):
        if value < 1:
            raise CostModelError(f"{name} is {value}, allowed: an integer ≥ 1")
    if pipeline_parallel != 1:
        raise CostModelError(f"pipeline_parallel is {pipeline_parallel}, allowed: 1 (more is not modelled)")
    model.check_tensor_parallel(tensor_parallel)
    if draft is not None:
        draft.check_tensor_parallel(tensor_parallel)
    pages = pool_pages(model, hardware, tensor_parallel, max_context_tokens)
    longest_pages = -(-max_context_tokens // PAGE_TOKENS)
    if kv_pages is not None:
        if not longest_pages <= kv_pages <= pages:
            raise CostModelError(
                f"kv_pages is {kv_pages}, allowed: {longest_pages} (one request of "
                f"{max_context_tokens} tokens) to {pages} (what memory holds)"
            )
        pages = kv_pages
    verify_context_ppm = round(hardware.verify_context_ratio.exact() * 10**6)
    n_max = max(token_budget, max_batch)
    target_costs = iteration_model(model, hardware, tensor_parallel).integer_costs(
        max_tokens=n_max, max_rows=n_max
    )
    _check_longest(
        target_costs,
        pairs=n_max * max_context_tokens,
        context_tokens=max_batch * max_context_tokens * verify_context_ppm // 10**6,
        sequences=max_batch,
    )
    draft_costs = None
    if draft is not None:
        draft_costs = iteration_model(draft, hardware, tensor_parallel, draft=True).integer_costs(
            max_tokens=max(max_context_tokens, max_batch), max_rows=max_batch
        )
        _check_longest(
            draft_costs,
            pairs=max_context_tokens * (max_context_tokens + 1) // 2,
            context_tokens=max_batch * max_context_tokens,
            sequences=max_batch,
        )
    restore_ps = restore_table_ps(model, hardware, tensor_parallel, longest_pages)
    _check_transfer("restoring the longest request", restore_ps[-1])
    transfers = transfer_costs(
        model=model,
        hardware=hardware,
        tensor_parallel=tensor_parallel,
        max_pages=longest_pages,
        links=links,
        store_latency_s=store_latency_s,
        store_bytes_per_s=store_bytes_per_s,
    )
    _check_sending(transfers, max_context_tokens)
    return ServingCosts(
        target=target_costs,
        draft=draft_costs,
        verify_context_ppm=verify_context_ppm,
        draft_round_trip_ps=to_ps(hardware.draft_round_trip_s.exact()),
        restore_ps=np.array(restore_ps, dtype=np.int64),
        pool_pages=pages,
        draft_pool_pages=0 if draft is None else draft_pool_pages(model, draft, hardware, tensor_parallel),
        page_bytes=model.kv_bytes_per_token * PAGE_TOKENS,
        transfers=transfers,
    )


def _check_sending(transfers: TransferCosts, tokens: int) -> None:
    for what, latency_ps, token_ps in (
        ("sending", transfers.egress_latency_ps, transfers.egress_token_ps),
        ("receiving", 0, transfers.ingress_token_ps),
        ("storing", transfers.store_latency_ps, transfers.store_token_ps),
    ):
        _check_transfer(f"{what} the longest request's checkpoint", latency_ps + tokens * token_ps)


def _check_transfer(what: str, duration_ps: int) -> None:
    """Refuse transfers of weeks: a bandwidth in the wrong unit, and the end of 64-bit picoseconds."""
    if duration_ps >= _MAX_TRANSFER_PS:
        raise CostModelError(
            f"{what} would take {duration_ps / 1e12:.3g} s, allowed: < {_MAX_TRANSFER_PS / 1e12:.3g} s; "
            f"is the bandwidth in byte/s?"
        )


def _check_longest(costs: IterationCosts, *, pairs: int, context_tokens: int, sequences: int) -> None:
    """Refuse costs whose longest possible iteration would not leave room in 64-bit picoseconds."""
    longest_ps = costs.duration_ps(
        len(costs.token_ps) - 1, len(costs.lm_head_ps) - 1, pairs, context_tokens, sequences
    )
    if longest_ps >= MAX_ITERATION_PS:
        raise CostModelError(
            f"the longest iteration could take {longest_ps / 1e12:.0f} s, allowed: "
            f"< {MAX_ITERATION_PS / 1e12:.0f} s; lower token_budget, max_batch or the longest request"
        )
