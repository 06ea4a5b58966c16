"""What a worker's operations cost, as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cost_models.errors import CostModelError
from cost_models.hardware import HardwareProfile
from cost_models.iteration import IterationModel, iteration_model
from cost_models.kv_pool import draft_pool_pages, pool_pages
from cost_models.kv_restore import restore_s
from cost_models.model_spec import ModelSpec
from cost_models.reload_paths import MEMORY_PATHS, ReloadPath, ReloadPhase, reload_parts
from cost_models.serving_costs import PAGE_TOKENS
from cost_models.transfers import CheckpointLinks, checkpoint_links, remote_restore_s
from cost_models.verification import draft_s, verify_s

__all__ = [
    "CostTables",
    "DecodeCost",
    "KvCapacity",
    "PrefillCost",
    "ReloadPathCost",
    "RestoreCost",
    "TransferCost",
    "VerifyCost",
    "cost_tables",
    "prefill_s",
]

LENGTHS_TOKENS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
BATCHES = (1, 8, 32, 64, 128, 256)
CONTEXTS_TOKENS = (512, 2048, 8192)
DRAFTED_TOKENS = (1, 2, 3, 4)
VERIFY_CONTEXT_TOKENS = 1024
TRANSFER_TOKENS = (1, 16, 128, 1024, 8192, 32768)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillCost:
    """A prompt alone on the worker, in chunks of the token budget, to its first token."""

    tokens: int
    duration_s: float
    flop: int
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeCost:
    """One decode iteration of ``batch`` sequences of ``context_tokens`` each; whether their KV ``fits``."""

    batch: int
    context_tokens: int
    duration_s: float
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCost:
    """Checkpointed KV of ``tokens`` brought into the GPUs: from the own host memory, or over the network."""

    tokens: int
    kv_bytes: int
    duration_s: float
    remote_s: float
    """From another worker's host memory."""
    store_s: float
    """Out of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCost:
    """One drafted pass of ``batch`` sequences with k drafts each beside a plain decode of the same batch.

    A pass takes verify + draft + round trip. Speculation gains where it yields more than
    ``break_even_tokens`` = pass / plain tokens a sequence.
    """

    k: int
    batch: int
    context_tokens: int
    verify_s: float
    draft_s: float
    round_trip_s: float
    plain_s: float
    break_even_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadPathCost:
    """One way back after detection, without repair or spare.

    Attributes:
        path: name. needs_memory: whether a crash of GPU or node rules it out.
        parts: (name, seconds, origin) without the draft's.
        total_s: their sum; the rejoin without a draft.
        draft_ready_s, rejoin_with_draft_s: None without a draft, or where none is loaded (standby).
    """

    path: str
    needs_memory: bool
    parts: tuple[tuple[str, float, str], ...]
    total_s: float
    draft_ready_s: float | None
    rejoin_with_draft_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCost:
    """A checkpoint transfer of ``tokens``: how long it holds each link; it arrives after egress + ingress.

    Attributes:
        egress_s: the server's. ingress_s: the holder's. store_s: the store's, in place of the holder's.
        bytes_per_s: KV bytes / (egress + ingress): the effective bandwidth.
    """

    tokens: int
    kv_bytes: int
    egress_s: float
    ingress_s: float
    store_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCapacity:
    """Memory of the worker, over all its GPUs."""

    memory_bytes: int
    weight_bytes: int
    kv_bytes_per_token: int
    pool_pages: int
    pool_tokens: int
    draft_pool_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTables:
    """Everything ``lumen-tune costs`` prints."""

    model: str
    draft: str | None
    hardware: str
    tensor_parallel: int
    token_budget: int
    prefill: tuple[PrefillCost, ...]
    decode: tuple[DecodeCost, ...]
    restore: tuple[RestoreCost, ...]
    verify: tuple[VerifyCost, ...]
    reload_paths: tuple[ReloadPathCost, ...]
    transfers: tuple[TransferCost, ...]
    egress_bound: str
    """Which of device_to_host and network limits a checkpoint's egress."""
    capacity: KvCapacity


def prefill_s(model: IterationModel, tokens: int, token_budget: int) -> float:
    """A prompt alone on the worker, an iteration per chunk of ``token_budget``; the last samples a row.

    Args:
        model: coefficients of the iteration.
        tokens: prompt tokens, ≥ 1.
        token_budget: tokens of one iteration.
    """
    seconds = 0.0
    for start in range(0, tokens, token_budget):
        chunk = min(token_budget, tokens - start)
        pairs = chunk * start + chunk * (chunk + 1) // 2
        last = start + chunk == tokens
        seconds += float(model.seconds(chunk, rows=1 if last else 0, pairs=pairs))
    return seconds


def cost_tables(
    *,
    model: ModelSpec,
    draft: ModelSpec | None,
    hardware: HardwareProfile,
    tensor_parallel: int,
    token_budget: int = 2048,
    lengths_tokens: Sequence[int] = LENGTHS_TOKENS,
    batches: Sequence[int] = BATCHES,
    contexts_tokens: Sequence[int] = CONTEXTS_TOKENS,
    drafted_tokens: Sequence[int] = DRAFTED_TOKENS,
) -> CostTables:
    """Costs of one worker over lengths, batches, contexts and drafts.

    Args:
        model: the served model.
        draft: the draft model, or None (then there is no verify table).
        hardware: the profile of the GPUs.
        tensor_parallel: GPUs of the worker.
        token_budget: tokens of one iteration; longer prompts run in chunks.
        lengths_tokens: prompts and restores.
        batches: decoding sequences.
        contexts_tokens: context of each of them.
        drafted_tokens: k.

    Raises:
        CostModelError: TP does not fit the model, or the weights leave no room for one KV page.
    """
    if token_budget < 1:
        raise CostModelError(f"token_budget is {token_budget}, allowed: an integer ≥ 1")
    target = iteration_model(model, hardware, tensor_parallel)
    pages = pool_pages(model, hardware, tensor_parallel, PAGE_TOKENS)
    links = checkpoint_links(model=model, hardware=hardware, tensor_parallel=tensor_parallel)
    return CostTables(
        model=model.name,
        draft=None if draft is None else draft.name,
        hardware=hardware.name,
        tensor_parallel=tensor_parallel,
        token_budget=token_budget,
        prefill=tuple(
            PrefillCost(
                tokens=tokens,
                duration_s=prefill_s(target, tokens, token_budget),
                flop=model.prefill_flop(tokens),
                fits=_pages(tokens) <= pages,
            )
            for tokens in lengths_tokens
        ),
        decode=tuple(
            DecodeCost(
                batch=batch,
                context_tokens=context,
                duration_s=_decode_s(target, batch, context),
                fits=batch * _pages(context) <= pages,
            )
            for batch in batches
            for context in contexts_tokens
        ),
        restore=tuple(
            RestoreCost(
                tokens=tokens,
                kv_bytes=tokens // PAGE_TOKENS * PAGE_TOKENS * model.kv_bytes_per_token,
                duration_s=float(restore_s(model, hardware, tensor_parallel, tokens // PAGE_TOKENS)),
                remote_s=_remote_s(model, hardware, tensor_parallel, tokens, links, store=False),
                store_s=_remote_s(model, hardware, tensor_parallel, tokens, links, store=True),
            )
            for tokens in lengths_tokens
        ),
        verify=_verify_costs(target, draft, hardware, tensor_parallel, batches, drafted_tokens),
        reload_paths=tuple(
            _reload_path_cost(model, draft, hardware, tensor_parallel, path) for path in ReloadPath
        ),
        transfers=tuple(_transfer_cost(model, links, tokens) for tokens in TRANSFER_TOKENS),
        egress_bound=links.egress_bound,
        capacity=KvCapacity(
            memory_bytes=int(tensor_parallel * hardware.hbm_bytes.value),
            weight_bytes=model.resident_weight_bytes(tensor_parallel),
            kv_bytes_per_token=model.kv_bytes_per_token,
            pool_pages=pages,
            pool_tokens=pages * PAGE_TOKENS,
            draft_pool_tokens=None
            if draft is None
            else draft_pool_pages(model, draft, hardware, tensor_parallel) * PAGE_TOKENS,
        ),
    )


def _pages(tokens: int) -> int:
    return -(-tokens // PAGE_TOKENS)


def _decode_s(model: IterationModel, batch: int, context: int) -> float:
    return float(model.seconds(batch, rows=batch, context_tokens=batch * context, sequences=batch))


def _verify_costs(
    target: IterationModel,
    draft: ModelSpec | None,
    hardware: HardwareProfile,
    tensor_parallel: int,
    batches: Sequence[int],
    drafted_tokens: Sequence[int],
) -> tuple[VerifyCost, ...]:
    if draft is None:
        return ()
    drafter = iteration_model(draft, hardware, tensor_parallel, draft=True)
    ratio = hardware.verify_context_ratio.exact()
    round_trip = hardware.draft_round_trip_s.exact()
    costs = []
    for k in drafted_tokens:
        for batch in batches:
            context_tokens = batch * VERIFY_CONTEXT_TOKENS
            verify = verify_s(target, ratio, sequences=batch, k=k, context_tokens=context_tokens)
            drafting = draft_s(drafter, sequences=batch, k=k, context_tokens=context_tokens)
            plain = _decode_s(target, batch, VERIFY_CONTEXT_TOKENS)
            costs.append(
                VerifyCost(
                    k=k,
                    batch=batch,
                    context_tokens=VERIFY_CONTEXT_TOKENS,
                    verify_s=float(verify),
                    draft_s=float(drafting),
                    round_trip_s=float(round_trip),
                    plain_s=plain,
                    break_even_tokens=float(verify + drafting + round_trip) / plain,
                )
            )
    return tuple(costs)


def _reload_path_cost(
    model: ModelSpec,
    draft: ModelSpec | None,
    hardware: HardwareProfile,
    tensor_parallel: int,
    path: ReloadPath,
) -> ReloadPathCost:
    alone, assisted = (
        reload_parts(
            model=model,
            draft=helper,
            hardware=hardware,
            tensor_parallel=tensor_parallel,
            path=path,
            host_memory_survives=True,
        )
        for helper in (None, draft)
    )
    ready = None
    if assisted.draft_ps > 0:
        ready = float(assisted.seconds(ReloadPhase.RESTART, ReloadPhase.DRAFT_LOAD, ReloadPhase.DRAFT_INIT))
    return ReloadPathCost(
        path=path.value,
        needs_memory=path in MEMORY_PATHS,
        parts=tuple((part.name, float(part.seconds), part.source) for part in alone.parts),
        total_s=float(alone.seconds()),
        draft_ready_s=ready,
        rejoin_with_draft_s=None if ready is None else float(assisted.seconds()),
    )


def _remote_s(
    model: ModelSpec,
    hardware: HardwareProfile,
    tensor_parallel: int,
    tokens: int,
    links: CheckpointLinks,
    *,
    store: bool,
) -> float:
    pages = tokens // PAGE_TOKENS
    return float(remote_restore_s(model, hardware, tensor_parallel, pages, links, store=store))


def _transfer_cost(model: ModelSpec, links: CheckpointLinks, tokens: int) -> TransferCost:
    kv_bytes = tokens * model.kv_bytes_per_token
    egress = links.egress_latency_s + tokens * links.egress_token_s
    ingress = tokens * links.ingress_token_s
    return TransferCost(
        tokens=tokens,
        kv_bytes=kv_bytes,
        egress_s=float(egress),
        ingress_s=float(ingress),
        store_s=float(links.store_latency_s + tokens * links.store_token_s),
        bytes_per_s=float(kv_bytes / (egress + ingress)),
    )
