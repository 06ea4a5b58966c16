"""The memory of one replay: named records and arrays, allocated once.

Times are int64 picoseconds; ``FAR`` means "never".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lumen_policy.native.layout import Layout
from lumen_policy.replay.contract import FULL_SPEED_PPM, FaultTable, Placement, ReplayInput, Routing

__all__ = ["FAR", "LAYOUT", "LIMIT_PS", "LONGEST_LEAP", "MOST_STEPS", "SLOW_PS", "State", "allocate"]

FAR = 2**63 - 1
LIMIT_PS = 8_640_000 * 10**12
"""100 days: where a replay gives up; int64 picoseconds end at 106."""
LONGEST_LEAP, SLOW_PS = 2**15, 2**46
"""Iterations of one leap at most, and how long they may be to be leapt: its length stays far inside 64 bits."""
_WITHOUT_LIMIT = 2**40
MOST_STEPS = 2**30
"""Decode steps of a worker without a pause: above, 32-bit counters would be in danger."""

# --- codes ----------------------------------------------------------------------------------------------------
IDLE, SINGLE, LEAP = 0, 1, 2
"""What a worker is doing: nothing, one iteration with chunks or verification, a stretch of plain decode iterations."""

UP, UNDETECTED, LOADING_DRAFT, ASSISTING, LOADING, SILENT, AWAY = range(7)
"""Life of a worker: up; crashed, not detected; reloading up to draft ready; full load beside drafting; up to rejoin;
hung or unreachable, not detected; unreachable, detected."""

COMING, GATEWAY, QUEUED, RESTORING, RESTORED, PREFILL, DECODE, STRANDED, TO_SEND, DONE = range(10)
"""Where a request is; GATEWAY = in its queue or waiting for its own worker; RESTORED = its restore ended, it joins at
the next boundary; STRANDED = on a crashed worker, waiting for detection; TO_SEND = interrupted, to be sent on at this
very instant."""

VERIFIED, SITTING_OUT = 1, 2
"""Request.verify in a drafted pass; 0 = decodes plainly."""

STILL, COUNTED, OWN = 0, 1, 2
"""A copy: not growing; growing with every decode iteration of its server, kept lazily as a count (``rows``); growing
but recorded by its own number (short of pages, behind, or on an assisted server)."""

_REQUEST_FIELDS = {
    np.int64: "first last dispatch",
    np.int32: "prompt output delivered seen offset held_pages order link kv chunk high old_saved log",
    np.int16: "server last_holder",
    np.int8: "state draft_kv verify odd origin late lost rested",
}
REQUEST = np.dtype(
    [(name, kind) for kind, names in _REQUEST_FIELDS.items() for name in names.split()], align=True
)
"""offset: prompt + delivered = offset + decode steps of the server, while in decode. kv: KV tokens while in prefill.
seen: tokens the client has, while fewer are delivered again unseen. high: most KV ever. old_saved: whole-page tokens to
restore, -1: none. late: sent to a silent worker. lost: its holder is being forgotten. rested: it sat out the iteration
that ended. order: admission order. origin: class of the next interruption. log: open record of an interruption."""

RECOVERY = np.dtype(
    [(name, np.int64) for name in ("until", "old_opened", "old_wrote")]
    + [
        (name, np.int32)
        for name in (
            "old_arrived",
            "passes",
            "episode",
            "interruptions",
            "preemptions",
            "restored",
            "recomputed",
        )
    ]
    + [("old_holder", np.int16)],
    align=True,
)
"""What few requests need, all zero at first, so that it takes no memory for the others. until: end of the restore.
old_arrived, old_opened, old_wrote, old_holder: of the copy it comes from. passes: drafted ones of this episode."""

_WORKER_FIELDS = (
    "mode life life_at steps decoding prefilling restoring restored context used head tail link_free"
    " run_start run_first run_growth run_count run_decodes run_pages_done last_decode_end odd irregular"
    " sync_duration sync_growth sync_left sync_steps sync_decodes sync_wrote regular own by_number pending"
    " drafter target draft_until episode pass_k pass_draft_ps pass_halves plain_assisted vetoed outage"
    " fault detect_at back_at silent_at keeps draining drain_fault drain_outage refuse_left tried slow_ppm"
    " slow_until nic_free wait_head wait_tail front_at front_last retarget_at turn primed ramp_from ramp_queue"
    " marked due"
)
WORKER = np.dtype(
    [(name, np.int64) for name in _WORKER_FIELDS.split()] + [("page_phase", np.int64, (16,))],
    align=True,
)
"""steps: decode iterations run. context: Σ (prompt + delivered) over decoding requests. run_*: the current stretch.
sync_*: how far the checkpoint accounting has followed it. sync_wrote: when its rows last grew, without links. regular,
own: its COUNTED and its OWN copies. by_number: 1 while all its copies are OWN. pass_*: the drafted pass under way.
page_phase: decoding requests that open a page at steps ≡ phase. fault: the one whose reload it goes through.
refuse_left: refusals until it is believed dead, > 0 while it refuses. tried: it refused the request being routed.
ramp_*: slow start. marked: scratch of an instant of faults or detections."""

_GLOBAL_FIELDS = (
    "workers requests token_budget max_batch min_prefill prefill_first router placement routing k token_weight"
    " request_weight theta tau guard budget_pages pool_pages watermark tracking"
    " pair_ps context_ps sequence_ps verify_ppm round_trip_ps"
    " draft_pool_pages draft_pair_ps draft_context_ps draft_sequence_ps has_draft"
    " at_token at_lm_head at_restore at_remote_restore at_store_restore at_draft_token at_draft_lm_head"
    " shared replicas copy_shift copies holders linked eviction stream_prefill anti_affinity re_replicate"
    " remote_restore regenerate wait front ping_pong retarget_ps report_ps slow_start_ps"
    " egress_latency_ps egress_token_ps ingress_token_ps store_latency_ps store_token_ps"
    " next_arrival next_fault next_snapshot next_report oldest life_next order episode last_robin gateway_head"
    " gateway_tail drained ramp_until link_next to_send now stage refused refused_by flushing"
    " gaps interruptions outages starts specials sync_min hot integral_high integral_low end"
    " coverages too_long store_free wrong_choice"
    " iterations leaps leap_count decode_tokens prefill_tokens ordered_syncs assisted_passes plain_assisted_passes"
    " vetoed_passes drafted_tokens accepted_tokens verified_sequences verified_tokens assisted_ps draft_busy_ps"
    " sent_after_crash gateway_waited peak_queue restores restored_bytes_tokens refused_sends ignored_faults migrated"
    " remote_restores failed_restores retargets ping_pong_passes regenerated_tokens evictions evicted_tokens"
    " sent_tokens arrived_tokens refused_tokens lost_tokens released_tokens egress_wait_ps ingress_wait_ps"
)
GLOBAL = np.dtype(
    [(name, np.int64) for name in _GLOBAL_FIELDS.split()]
    + [("seed", np.uint64), ("restore_failure", np.uint64)],
    align=True,
)
"""shared: restores share links between workers. replicas: copies of a request, 0 without checkpoints; copy c is one of
request c >> copy_shift. copies: of all requests. holders: workers, and the store if there is
one; 0 without checkpoints. linked: transfers take
time. ramp_until: when the last slow start ends. link_next: nothing leaves or
arrives before it."""
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
        for name in (
            "worker",
            "kind",
            "crash",
            "stop",
            "detection",
            "ready",
            "target",
            "assist_end",
            "rejoin",
        )
    ],
    align=True,
)
SLOT = np.dtype(
    [(name, np.int64) for name in ("opened", "wrote", "at")]
    + [
        (name, np.int32)
        for name in ("arrived", "sent", "next", "last", "peer_next", "peer_last", "mate_next", "mate_last")
    ]
    + [
        ("holder", np.int16),
        ("server", np.int16),
        ("place", np.int8),
        ("growth", np.int8),
        ("phase", np.int8),
    ],
    align=True,
)
"""A copy of a request, number request·replicas + 0 or 1; behind all of them a row for each server and holder, where
links take time. opened: when its holder was chosen. wrote: its last arrival. sent: up to where tokens are under way.
at: when they leave or arrive. next, last: neighbours on that link. peer_next, peer_last: neighbours among its holder's
copies. mate_next, mate_last: neighbours in its row. phase: it opens a page there at steps ≡ phase. mate_next of an OWN
copy: its number in its server's list."""

# --- rows of State.by_worker ----------------------------------------------------------------------------------
(
    LIVE,  # believed
    ALIVE,  # in truth
    QUEUE,  # Q
    HELD,  # arrived checkpoint tokens, as far as the accounting has followed
    FREE,  # free checkpoint pages
    KV_TOKENS,  # prompt + delivered of what is routed and not finished
    HAS_DRAFTER,
    EXPLICIT_AT,  # OWN copies by holder
    PARTIAL,  # those with a page that is not full
    HOT_HOLDER,  # 1 where an OWN copy could grow
    SYNC_NEXT,  # end of the first iteration the accounting has not followed
    NEXT_END,  # end of the current stretch
    NEXT_RESTORE,  # end of the first restore on the host link
    STARTS,  # scratch: workers to look at when this instant's events are done
    OPEN,  # 0 while the books of a failed worker are closed
    DOMAIN,  # failure domain
    MASK,  # scratch: LIVE less what a choice excludes
    QUEUE_SEEN,  # scratch: QUEUE and what slow starts add
    HELD_SEEN,  # HELD, FREE and KV_TOKENS of the last load report
    FREE_SEEN,
    KV_SEEN,
    LINK_NEXT,  # and the row after it: when the first transfer is through the egress link, the ingress link
    _,
    LINK_FREE,  # likewise: when the link is free
    _,
    LINK_HEAD,  # likewise: the first slot on it, -1: none
    _,
    LINK_TAIL,  # likewise: the last
    _,
    COPIES,  # the first slot of the copies a holder has, -1: none
    PORTION,  # scratch: tokens for a holder
    PAGES,  # scratch: pages they need, or when they arrive
    ENDING,  # scratch: workers whose iteration ends at an instant
    SHORT,  # scratch: holders that have no room for all they get
) = range(34)
COMPLETIONS, PREFILLS, RESTORINGS = range(3)
"""Rows of State.batches: a heap of finish step << 32 | request; requests in prefill in admission order; restoring ones
in link order."""
ENDS, RESTORES, SYNCS, LEAVES = range(4)
"""Rows of State.trees, over NEXT_END, NEXT_RESTORE, SYNC_NEXT and LINK_NEXT + EGRESS."""
CANDIDATES, SPECIALS, ORDERING, SENDERS = range(4)
"""Rows of State.scratch: transfers of an instant (copies, in order holder << 32 | copy); requests whose prefill ended
at this instant; decoding requests by admission; servers of the rows among the transfers."""
TOTAL = 16
"""Row of State.copies: all COUNTED copies; rows 0 to 15 count those that open a page at steps ≡ row."""
EGRESS, INGRESS, NOWHERE = 0, 1, -1
"""A link: offset of the LINK rows, and Slot.place."""
(
    FAULT_AT,
    FAULT_WORKER,
    FAULT_KIND,
    FAULT_DELAY,
    FAULT_LENGTH,
    FAULT_FACTOR,
    FAULT_KEEPS,
    FAULT_REFUSALS,
    FAULT_RESTART,
    FAULT_DRAFT,
    FAULT_LOAD,
    FAULT_INIT,
) = range(12)
FAULT_COLUMNS = tuple(FaultTable.__dataclass_fields__)
"""Rows of State.faults by name, in order."""
SHOT_QUEUE, SHOT_HELD, SHOT_LIVE, SHOT_EXISTING, SHOT_SAVED = range(5)


class State(NamedTuple):
    """Everything a replay touches: few arrays, since each costs compile time wherever the state is passed.

    Shapes: n requests, W workers, B max batch, m crashes.
    """

    g: Any  # (1,) GLOBAL
    workers: Any  # (W,) WORKER
    requests: Any  # (n,) REQUEST
    recovery: Any  # (n,) RECOVERY
    arrival: Any  # (n,)
    by_worker: Any  # (34, W + 2); column W is the store, and a worker that is never first; W + 1 too
    batches: Any  # (3, W, B)
    own: Any  # (W, B·replicas) OWN copies by server: holder << 32 | copy
    trees: Any  # (4, 2·P) winner trees
    copies: Any  # (W, 17, W + 1) growing copies by (server, phase, holder)
    heads: Any  # (W, W + 1) the first copy of the row of (server, holder), -1: none
    slots: Any  # (n·replicas,) SLOT, and W·(W + 1) rows where links take time
    scratch: Any  # (4, 4·W·B)
    tables: Any  # the cost tables, one after the other; GLOBAL.at_* say where
    threshold: Any  # (S, J) uint64
    expected: Any  # (S, k+1)
    faults: Any  # (12, m)
    snapshot_ps: Any  # (g,)
    snapshots: Any  # (g, 5, W)
    gaps: Any  # (·,) GAP
    interruptions: Any  # (·,) INTERRUPTED
    outages: Any  # (m,) OUTAGE
    coverage: Any  # (m, 2) existing and saved tokens by crash instant


LAYOUT = Layout(
    {
        "g": (GLOBAL, 1),
        "workers": (WORKER, 1),
        "requests": (REQUEST, 1),
        "recovery": (RECOVERY, 1),
        "arrival": (np.int64, 1),
        "by_worker": (np.int64, 2, SHORT + 1),
        "batches": (np.int64, 3, RESTORINGS + 1),
        "own": (np.int64, 2),
        "trees": (np.int64, 2, LEAVES + 1),
        "copies": (np.int16, 3),
        "heads": (np.int32, 2),
        "slots": (SLOT, 1),
        "scratch": (np.int64, 2, SENDERS + 1),
        "tables": (np.int64, 1),
        "threshold": (np.uint64, 2),
        "expected": (np.float64, 2),
        "faults": (np.int64, 2, FAULT_INIT + 1),
        "snapshot_ps": (np.int64, 1),
        "snapshots": (np.int64, 3),
        "gaps": (GAP, 1),
        "interruptions": (INTERRUPTED, 1),
        "outages": (OUTAGE, 1),
        "coverage": (np.int64, 2),
    }
)

_NONE_AT_FIRST = "first last dispatch server link old_saved log last_holder".split()  # noqa: SIM905
_NOBODY_AT_FIRST = (
    *("head", "tail", "drafter", "target", "outage", "fault", "wait_head", "wait_tail", "front_last"),
)
"""Fields of REQUEST and WORKER that hold -1 before the first event."""


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
    costs, policy, rules, faults = inputs.costs, inputs.policy, inputs.rules, inputs.faults
    target, draft, transfers = costs.target, costs.draft, inputs.costs.transfers
    link_costs = {
        name: getattr(transfers, name)
        for name in (
            "egress_latency_ps",
            "egress_token_ps",
            "ingress_token_ps",
            "store_latency_ps",
            "store_token_ps",
        )
    }
    linked = policy.placement != 0 and any(link_costs.values())
    stored = policy.placement == int(Placement.STORE)
    replicas = 0 if policy.placement == 0 else 2 if rules.second_replica and not stored else 1
    copies = n * replicas
    servers, holders = (workers, workers + 1) if replicas else (0, 0)

    requests = np.zeros(n, REQUEST)
    requests["prompt"], requests["output"] = inputs.prompt_tokens, inputs.output_tokens
    for name in _NONE_AT_FIRST:
        requests[name] = -1
    slots = np.zeros(copies + (servers * holders if linked else 0), SLOT)
    for name in ("holder", "server", "next", "last", "peer_next", "peer_last", "place"):
        slots[name] = -1
    if linked:
        slots["server"][copies:] = np.repeat(np.arange(servers), holders)
        slots["holder"][copies:] = np.tile(np.arange(holders), servers)

    worker = np.zeros(workers, WORKER)
    for name in _NOBODY_AT_FIRST:
        worker[name] = -1
    for name in ("life_at", "retarget_at", "detect_at", "back_at"):
        worker[name] = FAR
    worker["slow_ppm"] = FULL_SPEED_PPM
    worker["front_at"] = -1

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
        "link_next": FAR,
        "shared": int(rules.remote_restore or policy.routing == int(Routing.ANYWHERE)),
        "replicas": replicas,
        "copy_shift": int(replicas == 2),
        "copies": copies,
        "holders": workers + int(stored) if replicas else 0,
        "linked": int(linked),
        **link_costs,
        "eviction": rules.eviction,
        "stream_prefill": int(rules.stream_prefill),
        "anti_affinity": int(rules.anti_affinity),
        "re_replicate": int(rules.re_replicate),
        "remote_restore": int(rules.remote_restore),
        "regenerate": int(rules.regenerate),
        "wait": int(rules.wait),
        "front": int(rules.front),
        "ping_pong": int(rules.ping_pong),
        "retarget_ps": rules.retarget_ps,
        "report_ps": rules.load_report_ps,
        "next_report": rules.load_report_ps or FAR,
        "slow_start_ps": rules.slow_start_ps,
    }
    for name, value in settings.items():
        g[name] = value
    g["seed"], g["restore_failure"] = inputs.seed, rules.restore_failure

    tables: list[Any] = [target.token_ps, target.lm_head_ps, costs.restore_ps]
    tables += [transfers.remote_restore_ps, transfers.store_restore_ps]
    tables += [draft.token_ps, draft.lm_head_ps] if draft else []
    offset = 0
    names = (
        "at_token at_lm_head at_restore at_remote_restore at_store_restore at_draft_token at_draft_lm_head"
    )
    for name, table in zip(names.split(), tables, strict=False):
        g[name] = offset
        offset += len(table)

    by_worker = np.zeros((SHORT + 1, workers + 2), np.int64)
    by_worker[LIVE, :workers] = 1
    by_worker[[ALIVE, OPEN], : workers + 1] = 1
    by_worker[[FREE, FREE_SEEN], :workers] = policy.budget_pages
    by_worker[FREE, workers] = _WITHOUT_LIMIT
    by_worker[[SYNC_NEXT, NEXT_END, NEXT_RESTORE, LINK_NEXT, LINK_NEXT + 1]] = FAR
    by_worker[LINK_HEAD:PORTION] = -1
    by_worker[DOMAIN, :workers] = np.arange(workers) if rules.domain is None else rules.domain
    tree = _tree(workers)
    snapshots, struck = len(inputs.snapshot_ps), len(faults)
    return State(
        g=g,
        workers=worker,
        requests=requests,
        recovery=np.zeros(n, RECOVERY),
        arrival=np.array(inputs.arrival_ps, np.int64),
        by_worker=by_worker,
        batches=np.zeros((3, workers, batch), np.int64),
        own=np.zeros((workers, batch * replicas), np.int64),
        trees=np.stack([tree, tree, tree, tree]),
        copies=np.zeros((servers, TOTAL + 1, holders), np.int16),
        heads=np.full((servers, holders), -1, np.int32),
        slots=slots,
        scratch=np.zeros((4, 4 * workers * batch), np.int64),
        tables=np.concatenate(tables).astype(np.int64),
        threshold=np.array(inputs.acceptance_threshold, np.uint64, order="C"),
        expected=np.array(inputs.expected_tokens, np.float64, order="C"),
        faults=np.stack([getattr(faults, name) for name in FAULT_COLUMNS]).astype(np.int64),
        snapshot_ps=np.array(inputs.snapshot_ps, np.int64),
        snapshots=np.zeros((snapshots, 5, workers), np.int64),
        gaps=np.zeros(gap_capacity, GAP),
        interruptions=np.zeros(max(16, min(n, 1024)), INTERRUPTED),
        outages=np.zeros(max(1, struck), OUTAGE),
        coverage=np.zeros((max(1, struck), 2), np.int64),
    )
