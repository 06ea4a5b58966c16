"""The memory of one replay: named records and arrays, allocated once.

Times are int64 picoseconds; ``FAR`` means "never".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from lumen_policy.replay.contract import ReplayInput

__all__ = ["FAR", "LIMIT_PS", "LONGEST_LEAP", "MOST_STEPS", "SLOW_PS", "State", "allocate"]

FAR = 2**63 - 1
LIMIT_PS = 8_640_000 * 10**12
"""100 days: where a replay gives up; int64 picoseconds end at 106."""
LONGEST_LEAP, SLOW_PS = 2**15, 2**46
"""Iterations of one leap at most, and how long they may be to be leapt: its length stays far inside 64 bits."""
MOST_STEPS = 2**30
"""Decode steps of a worker without a pause: above, 32-bit counters would be in danger."""

# --- codes ----------------------------------------------------------------------------------------------------
IDLE, SINGLE, LEAP = 0, 1, 2
"""What a worker is doing: nothing, one iteration with chunks or verification, a stretch of plain decode iterations."""

UP, UNDETECTED, LOADING_DRAFT, ASSISTING, LOADING = 0, 1, 2, 3, 4
"""Life of a worker: up; crashed, not detected; reloading up to draft ready; full load beside drafting; up to rejoin."""

COMING, GATEWAY, QUEUED, RESTORING, RESTORED, PREFILL, DECODE, STRANDED, DONE = range(9)
"""Where a request is; RESTORED = its restore ended, it joins at the next boundary; STRANDED = on a crashed worker,
waiting for detection."""

NO_COPY, STATIC, REGULAR, EXPLICIT = 0, 1, 2, 3
"""A checkpoint: none; not growing; growing with every decode iteration of its server, kept lazily as a count;
growing but recorded by its own number (short of pages, or on an assisted server)."""

_REQUEST_FIELDS = {
    np.int64: "first last dispatch until",
    np.int32: "prompt output delivered offset held_pages order link phase_next phase_last arrived kv chunk high"
    " old_saved old_arrived passes episode log interruptions preemptions restored recomputed",
    np.int16: "server holder last_holder",
    np.int8: "state growth draft_kv verify odd origin",
}
REQUEST = np.dtype(
    [(name, kind) for kind, names in _REQUEST_FIELDS.items() for name in names.split()], align=True
)
"""offset: prompt + delivered = offset + decode steps of the server, while in decode. kv: KV tokens while in prefill.
high: most KV ever. old_saved, old_arrived: whole-page tokens to restore and tokens of the copy they come from, at the
server. order: admission order. until: end of its restore. origin: class of the next interruption. log: open record of
an interruption. phase_next, phase_last: neighbours in a list of REGULAR copies."""

_WORKER_FIELDS = (
    "mode life life_at steps decoding prefilling restoring restored context used head tail link_free"
    " run_start run_first run_growth run_count run_decodes run_pages_done last_decode_end odd irregular"
    " sync_duration sync_growth sync_left sync_steps sync_decodes regular explicit by_number pending"
    " drafter target draft_until episode pass_k pass_draft_ps plain_assisted vetoed outage"
)
WORKER = np.dtype(
    [(name, np.int64) for name in _WORKER_FIELDS.split()]
    + [("page_phase", np.int64, (16,)), ("phase_head", np.int64, (16,))],
    align=True,
)
"""steps: decode iterations run. context: Σ (prompt + delivered) over decoding requests. run_*: the current stretch.
sync_*: how far the checkpoint accounting has followed it. regular, explicit: growing copies of its requests.
by_number: 1 while all its copies are EXPLICIT. pass_*: the drafted pass under way. page_phase: decoding
requests that open a page at steps ≡ phase. phase_head: lists of those with a REGULAR copy."""

_GLOBAL_FIELDS = (
    "workers requests token_budget max_batch min_prefill prefill_first router placement routing k token_weight"
    " request_weight theta tau guard budget_pages pool_pages watermark tracking"
    " pair_ps context_ps sequence_ps verify_ppm round_trip_ps restart_ps full_load_ps init_ps draft_load_ps"
    " draft_init_ps draft_pool_pages draft_pair_ps draft_context_ps draft_sequence_ps has_draft"
    " at_token at_lm_head at_restore at_draft_token at_draft_lm_head"
    " next_arrival next_crash next_snapshot oldest life_next order episode last_robin gateway_head gateway_tail"
    " gaps interruptions outages starts specials sync_min hot by_number integral_high integral_low end"
    " coverages too_long"
    " iterations leaps leap_count decode_tokens prefill_tokens ordered_syncs assisted_passes plain_assisted_passes"
    " vetoed_passes drafted_tokens accepted_tokens verified_sequences verified_tokens assisted_ps draft_busy_ps"
    " sent_after_crash gateway_waited peak_queue restores restored_bytes_tokens"
)
GLOBAL = np.dtype([(name, np.int64) for name in _GLOBAL_FIELDS.split()] + [("seed", np.uint64)], align=True)
COUNTERS = tuple(_GLOBAL_FIELDS.split()[_GLOBAL_FIELDS.split().index("iterations") :])

GAP = np.dtype(
    [
        ("end", np.int64),
        ("gap", np.int64),
        ("growth", np.int64),
        ("steps", np.int32),
        ("sequences", np.int32),
    ],
    align=True,
)
INTERRUPTED = np.dtype(
    [(name, np.int64) for name in ("crash", "redispatch", "next")]
    + [(name, np.int32) for name in ("request", "origin", "delivered", "restored")],
    align=True,
)
OUTAGE = np.dtype(
    [
        (name, np.int64)
        for name in ("worker", "crash", "detection", "ready", "target", "assist_end", "rejoin")
    ],
    align=True,
)


# --- rows of State.by_worker ----------------------------------------------------------------------------------
(
    LIVE,  # believed
    ALIVE,  # in truth
    QUEUE,  # Q
    HELD,  # arrived checkpoint tokens, as far as the accounting has followed
    FREE,  # free checkpoint pages
    KV_TOKENS,  # prompt + delivered of what is routed and not finished
    HAS_DRAFTER,
    EXPLICIT_AT,  # EXPLICIT copies by holder
    HOT_HOLDER,  # 1 where an EXPLICIT copy could grow
    SYNC_NEXT,  # end of the first iteration the accounting has not followed
    NEXT_END,  # end of the current stretch
    NEXT_RESTORE,  # end of the first restore on the host link
    STARTS,  # scratch: workers to look at when this instant's events are done
) = range(13)
COMPLETIONS, PREFILLS, RESTORINGS, EXPLICITS = range(4)
"""Rows of State.batches: a heap of finish step << 32 | request; requests in prefill in admission order; restoring ones
in link order; requests with an EXPLICIT copy."""
ENDS, RESTORES, SYNCS = range(3)
"""Rows of State.trees, over NEXT_END, NEXT_RESTORE and SYNC_NEXT."""
CANDIDATES, SPECIALS, ORDERING = range(3)
"""Rows of State.scratch: transfers of an instant (holder << 32 | request); requests whose prefill ended at this
instant; decoding requests by admission."""
TOTAL, WAITING = 16, 17
"""Rows of State.copies: all REGULAR copies, all EXPLICIT ones; rows 0 to 15 count the REGULAR copies that open a page
at steps ≡ row."""
CRASH_AT, CRASH_WORKER, DETECTION = range(3)
SHOT_QUEUE, SHOT_HELD, SHOT_LIVE, SHOT_EXISTING, SHOT_SAVED = range(5)


class State(NamedTuple):
    """Everything a replay touches: few arrays, since each costs compile time wherever the state is passed.

    Shapes: n requests, W workers, B max batch, m crashes.
    """

    g: Any  # (1,) GLOBAL
    workers: Any  # (W,) WORKER
    requests: Any  # (n,) REQUEST
    arrival: Any  # (n,)
    by_worker: Any  # (13, W + 1); the last column belongs to a sentinel that is never first
    batches: Any  # (4, W, B)
    trees: Any  # (3, 2·P) winner trees
    copies: Any  # (W, 18, W) growing copies by (server, phase, holder)
    scratch: Any  # (3, 2·W·B)
    tables: Any  # the cost tables, one after the other; GLOBAL.at_* say where
    threshold: Any  # (S,) uint64
    expected: Any  # (S, k+1)
    crashes: Any  # (3, m)
    snapshot_ps: Any  # (g,)
    snapshots: Any  # (g, 5, W)
    gaps: Any  # (·,) GAP
    interruptions: Any  # (·,) INTERRUPTED
    outages: Any  # (m,) OUTAGE
    coverage: Any  # (m, 2) existing and saved tokens by crash instant


def _named(records: Any) -> Any:
    """Records whose fields are attributes also where numba is switched off (``NUMBA_DISABLE_JIT=1``)."""
    config: Any = numba.config
    return records.view(np.recarray) if config.DISABLE_JIT else records


def _tree(workers: int) -> np.ndarray[Any, Any]:
    """A winner tree over ``workers`` leaves: node i has children 2i and 2i + 1; leaves hold worker indices."""
    size = 1
    while size < workers:
        size *= 2
    tree = np.zeros(2 * size, np.int64)
    tree[size : size + workers] = np.arange(workers)
    tree[size + workers :] = workers  # a sentinel worker that is never first
    for node in range(size - 1, 0, -1):
        tree[node] = tree[2 * node]
    return tree


def allocate(inputs: ReplayInput, gap_capacity: int) -> State:
    """The state before the first event.

    Args:
        inputs: the replay.
        gap_capacity: room for gap records at first; the engine enlarges it.
    """
    n, workers, batch = len(inputs.arrival_ps), inputs.workers, inputs.max_batch
    costs, policy = inputs.costs, inputs.policy
    target, draft = costs.target, costs.draft

    requests = np.zeros(n, REQUEST)
    requests["prompt"], requests["output"] = inputs.prompt_tokens, inputs.output_tokens
    for name in ("first", "last", "dispatch", "server", "link", "holder", "old_saved", "log", "last_holder"):
        requests[name] = -1

    worker = np.zeros(workers, WORKER)
    for name in ("head", "tail", "drafter", "target", "outage"):
        worker[name] = -1
    worker["life_at"] = FAR
    worker["phase_head"] = -1

    g = np.zeros(1, GLOBAL)
    settings: dict[str, int] = {
        "workers": workers,
        "requests": n,
        "token_budget": inputs.token_budget,
        "max_batch": batch,
        "min_prefill": inputs.min_prefill_tokens,
        "prefill_first": int(inputs.scheduler == 1),
        "router": inputs.router,
        "placement": policy.placement,
        "routing": policy.routing,
        "k": policy.k,
        "token_weight": policy.token_weight,
        "request_weight": policy.request_weight,
        "theta": policy.theta,
        "tau": policy.tau_tokens,
        "guard": int(policy.guard),
        "budget_pages": policy.budget_pages,
        "pool_pages": costs.pool_pages,
        "watermark": costs.pool_pages // 100,
        "tracking": int(policy.placement != 0 or inputs.router == 3),
        "pair_ps": target.prefill_pair_ps,
        "context_ps": target.decode_context_ps,
        "sequence_ps": target.decode_sequence_ps,
        "verify_ppm": costs.verify_context_ppm,
        "round_trip_ps": costs.draft_round_trip_ps,
        "restart_ps": costs.restart_ps,
        "full_load_ps": costs.full_load_ps,
        "init_ps": costs.engine_init_ps,
        "draft_load_ps": costs.draft_load_ps,
        "draft_init_ps": costs.draft_init_ps,
        "draft_pool_pages": costs.draft_pool_pages,
        "draft_pair_ps": draft.prefill_pair_ps if draft else 0,
        "draft_context_ps": draft.decode_context_ps if draft else 0,
        "draft_sequence_ps": draft.decode_sequence_ps if draft else 0,
        "has_draft": int(draft is not None and policy.k > 0),
        "life_next": FAR,
        "last_robin": -1,
        "gateway_head": -1,
        "gateway_tail": -1,
        "sync_min": FAR,
    }
    for name, value in settings.items():
        g[name] = value
    g["seed"] = inputs.seed

    tables: list[Any] = [target.token_ps, target.lm_head_ps, costs.restore_ps]
    tables += [draft.token_ps, draft.lm_head_ps] if draft else []
    offset = 0
    for name, table in zip(
        ("at_token", "at_lm_head", "at_restore", "at_draft_token", "at_draft_lm_head"), tables, strict=False
    ):
        g[name] = offset
        offset += len(table)

    by_worker = np.zeros((STARTS + 1, workers + 1), np.int64)
    by_worker[[LIVE, ALIVE], :workers] = 1
    by_worker[FREE] = policy.budget_pages
    by_worker[[SYNC_NEXT, NEXT_END, NEXT_RESTORE]] = FAR
    tree = _tree(workers)
    snapshots, crashes = len(inputs.snapshot_ps), len(inputs.crash_ps)
    return State(
        g=_named(g),
        workers=_named(worker),
        requests=_named(requests),
        arrival=np.array(inputs.arrival_ps, np.int64),
        by_worker=by_worker,
        batches=np.zeros((4, workers, batch), np.int64),
        trees=np.stack([tree, tree, tree]),
        copies=np.zeros((workers, WAITING + 1, workers), np.int16),
        scratch=np.zeros((3, 2 * workers * batch), np.int64),
        tables=np.concatenate(tables).astype(np.int64),
        threshold=np.array(inputs.acceptance_threshold, np.uint64),
        expected=np.array(inputs.expected_tokens, np.float64),
        crashes=np.stack([inputs.crash_ps, inputs.crash_worker, inputs.detection_ps]).astype(np.int64),
        snapshot_ps=np.array(inputs.snapshot_ps, np.int64),
        snapshots=np.zeros((snapshots, 5, workers), np.int64),
        gaps=_named(np.zeros(gap_capacity, GAP)),
        interruptions=_named(np.zeros(max(16, min(n, 1024)), INTERRUPTED)),
        outages=_named(np.zeros(max(1, crashes), OUTAGE)),
        coverage=np.zeros((max(1, crashes), 2), np.int64),
    )
