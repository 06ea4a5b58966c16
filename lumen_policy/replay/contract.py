"""What goes into a replay and what comes out: the data contract of kernel, twin and measures.

All times are int64 picoseconds from the first arrival, all lengths tokens, -1 means "none".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from cost_models.serving_costs import PAGE_TOKENS, ServingCosts
from lumen_policy.replay.own_rules import STANDARD, OwnRules

__all__ = [
    "FULL_SPEED_PPM",
    "NONE",
    "PAGE_TOKENS",
    "PS_PER_S",
    "EvictionOrder",
    "FaultKind",
    "FaultTable",
    "Interruption",
    "Placement",
    "PolicyCodes",
    "RecoveryRules",
    "ReplayInput",
    "ReplayOutput",
    "Router",
    "Routing",
    "Scheduler",
    "Status",
]

IntArray = npt.NDArray[np.int64]

PS_PER_S = 10**12
NONE = -1


class Scheduler(IntEnum):
    """How an iteration is filled: decodes and chunks together, or prefill alone first."""

    MIXED = 0
    PREFILL_FIRST = 1


class Router(IntEnum):
    """How the gateway routes a new arrival."""

    JSQ = 0
    ROUND_ROBIN = 1
    POWER_OF_TWO = 2
    LEAST_KV = 3


class Placement(IntEnum):
    """Where a request's checkpoint goes."""

    OFF = 0
    RING = 1
    LOAD_AWARE = 2
    STORE = 3
    """A store beside the workers, without limit of room."""


class Routing(IntEnum):
    """Where an interrupted request goes."""

    SHORTEST_QUEUE = 0
    HOLDER = 1
    LOAD_AWARE = 2
    ANYWHERE = 3
    """The shortest queue, to restore there from wherever its copy lies."""


class FaultKind(IntEnum):
    """What happens to a worker; faults of one instant come in this order."""

    CRASH = 0
    HANG = 1
    UNREACHABLE = 2
    SLOW = 3
    DRAIN = 4
    """No new requests; it stops when the last one has finished."""
    MIGRATE = 5
    """No new requests; those it has are sent on at once and it stops."""


class EvictionOrder(IntEnum):
    """Which copy goes when checkpoint memory is full."""

    REFUSE = 0
    """None: what finds no room is refused."""
    LEAST_RECENT = 1
    SHORTEST = 2
    WEIGHTED = 3


class Status(IntEnum):
    """How a request ended."""

    PENDING = 0
    FINISHED = 1
    REFUSED_TOO_LONG = 2


class Interruption(IntEnum):
    """Where an interrupted request was when its worker crashed."""

    RUNNING = 0
    QUEUED = 1
    SENT_AFTER_CRASH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCodes:
    """A recovery policy as integers.

    L is scaled by a common positive factor: ``L = token_weight · held_tokens + request_weight · Q``.

    Attributes:
        placement, routing: which mechanism.
        k: drafted tokens per pass; 0 = no assist, no draft is loaded.
        token_weight: scaled α / page_tokens (see ``lumen_policy.policies.weights``).
        request_weight: scaled β.
        theta: scaled θ; -1 = ``never``, 2**63 - 1 = ``inf``.
        tau_tokens: τ; 2**63 - 1 = ``inf``.
        guard: skip drafted passes whose expected token rate is below plain decode.
        budget_pages: checkpoint pages a worker may hold for others.
    """

    placement: int
    routing: int
    k: int
    token_weight: int
    request_weight: int
    theta: int
    tau_tokens: int
    guard: bool
    budget_pages: int


FULL_SPEED_PPM = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTable:
    """The faults of a replay; int64 arrays of shape (m,), ordered by (ps, kind, worker), each triple once.

    Attributes:
        ps: start. worker: which. kind: ``FaultKind``.
        delay_ps: from the start to its detection, ≥ 0 (crash, hang, unreachable).
        length_ps: slow, hang, unreachable: how long it lasts (a hang may never end: NONE); drain: work on the
            stopped worker before its reload begins.
        factor_ppm: slow: how many times longer iterations take, in millionths, > 10⁶.
        keeps_copies: 1 where the copies the worker holds for others survive (crash, hang).
        refusals: failed sends until the gateway stops sending there although it noticed at detection; 0 = none:
            requests go into the void until detection, none afterwards.
        restart_ps: from detection to the start of a load: repair or spare, and process restart.
        draft_ps: load and init of the draft. load_ps: load of the full weights. init_ps: its engine init.
    """

    ps: IntArray
    worker: IntArray
    kind: IntArray
    delay_ps: IntArray
    length_ps: IntArray
    factor_ppm: IntArray
    keeps_copies: IntArray
    refusals: IntArray
    restart_ps: IntArray
    draft_ps: IntArray
    load_ps: IntArray
    init_ps: IntArray

    def __len__(self) -> int:
        return len(self.ps)

    @classmethod
    def none(cls) -> FaultTable:
        """A replay without faults."""
        return cls(**{name: np.zeros(0, np.int64) for name in cls.__dataclass_fields__})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRules:
    """How a cluster recovers beside its policy; the defaults are those of LUMEN's paper.

    Attributes:
        eviction: ``EvictionOrder`` of full checkpoint memory.
        stream_prefill: KV streams from the first prefill chunk on, not only from the last.
        second_replica: a second copy on another failure domain.
        anti_affinity: no copy in the server's failure domain.
        re_replicate: requests whose holder died get a new one at its detection.
        remote_restore: a request that does not go to its holder restores over the network.
        regenerate: interrupted requests decode their delivered tokens again, unseen.
        wait: interrupted requests wait for their own worker.
        front: interrupted requests join the front of the queue.
        ping_pong: drafts of one half batch overlap with the verification of the other.
        retarget_ps: how often a drafter chooses its target anew; 0 = never.
        load_report_ps: how old loads may be at the gateway; 0 = exact.
        slow_start_ps: how long a rejoined worker is treated as if it had a share of the load already.
        restore_failure: uint64; a restore fails if its draw is below.
        domain: failure domain of each worker, shape (W,); None: each its own.
    """

    eviction: int = 0
    stream_prefill: bool = False
    second_replica: bool = False
    anti_affinity: bool = False
    re_replicate: bool = False
    remote_restore: bool = False
    regenerate: bool = False
    wait: bool = False
    front: bool = False
    ping_pong: bool = False
    retarget_ps: int = 0
    load_report_ps: int = 0
    slow_start_ps: int = 0
    restore_failure: int = 0
    domain: IntArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayInput:
    """One replay, resolved to integers.

    Attributes:
        arrival_ps: shape (n,), non-decreasing, first entry 0 unless the trace is a window.
        prompt_tokens: shape (n,), ≥ 1.
        output_tokens: shape (n,), ≥ 1.
        workers: W ≥ 1.
        costs: integer costs of a worker.
        token_budget: tokens of one iteration (``--chunk-tokens``).
        max_batch: admitted requests of a worker at most (restoring ones included).
        min_prefill_tokens: kept free of verify rows while an admitted request is in prefill.
        scheduler, router: codes.
        faults: what happens to the workers.
        policy: the recovery policy. rules: how the cluster recovers beside it.
        acceptance_threshold: uint64, shape (S, J): draft j of a pass is accepted if its draw <
            threshold[min(s, S-1), min(j, J-1)] with s = drafted passes of the request in this episode so far.
        expected_tokens: float64, shape (S, k+1): expected tokens of one verified sequence with k' drafts after s
            passes.
        seed: uint64 key of every draw of this replay (user seed and scenario mixed).
        snapshot_ps: shape (g,), increasing: instants at which loads are recorded.
        own_rules: functions from outside that stand in for decisions of the package.
    """

    arrival_ps: IntArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    workers: int
    costs: ServingCosts
    token_budget: int
    max_batch: int
    min_prefill_tokens: int
    scheduler: int
    router: int
    faults: FaultTable
    policy: PolicyCodes
    rules: RecoveryRules = RecoveryRules()
    acceptance_threshold: npt.NDArray[np.uint64]
    expected_tokens: npt.NDArray[np.float64]
    seed: int
    snapshot_ps: IntArray
    own_rules: OwnRules = STANDARD


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutput:
    """Raw facts of one replay.

    Per request, shape (n,), times int64, the rest int32:
        status: ``Status``. first_ps, last_ps: end of the iteration that delivered the first, the last token; NONE.
        worker: the last server (NONE if never dispatched). holder: the last (first) holder chosen (NONE; W = the
        store), kept when the holder dies or the copy goes.
        interruptions: how often interrupted. preemptions: how often preempted.
        restored_tokens: tokens brought back by completed restores. recomputed_tokens: chunk tokens whose KV had existed
        before.
        dispatch_ps: first dispatch to a worker (NONE if refused).
    Interruption log, shape (i,), in the order of handling:
        interruption_request, interruption_class, interruption_crash_ps (crash of the worker),
        interruption_redispatch_ps
        (NONE while it waits at the gateway for ever), interruption_delivered (tokens delivered before),
        interruption_restored (1: sent to its holder to restore, 0: recompute), interruption_next_ps (the first token
        delivered after it; NONE when interrupted again before, or never).
    Outages, shape (o,), one for each fault but slow that found its worker up: outage_worker, outage_kind
        (``FaultKind``), outage_crash_ps (its start), outage_stop_ps (when the worker stopped serving: the start, of a
        drain its end), outage_detection_ps (the start of a drain; NONE where a silent worker was back before),
        outage_draft_ready_ps (NONE), outage_assist_target (NONE; the last one chosen), outage_assist_end_ps (NONE),
        outage_rejoin_ps; the values of the last reload where a crash restarted it; NONE for what had not happened.
    Gaps, run-length coded, shape (s,), times int64, the rest int32: a record stands for `gap_steps` decode steps;
        step j ends at gap_end_ps + Σ_{i=1..j} (gap_ps + i·gap_growth_ps) [j = 0: gap_end_ps] and each of
        `gap_sequences` sequences waited gap_ps + j·gap_growth_ps since its previous delivery. A gap is counted once per
        sequence and decode step (one per verify pass), never for a first token. Any order; any split.
    Snapshots at snapshot_ps, state after iteration ends, transfers, crashes, detections, rejoins and assist events of
        that instant, before its arrivals: snapshot_queue (g, W) = Q, snapshot_held_tokens (g, W) = Σ arrived tokens,
        snapshot_live (g, W) = 1 if truly alive, snapshot_existing_tokens (g,), snapshot_saved_tokens (g,): existing KV
        tokens of admitted requests on truly live workers and how many of them a truly live holder could restore
        (16·floor(arrived/16), at most the existing ones).
    Coverage at each instant of faults, after all of them, over requests admitted on the workers that crashed or fell
        silent then, summed:
        crash_existing_tokens, crash_saved_tokens.
    held_integral: Σ over changes of ΔH·(-t): exact Python int; ∫ΣH dt up to T = H_end·T + held_integral with
        held_end = Σ_w H_w at the end.
    end_ps: the last event (iteration end, restore end, arrival, fault, detection, reload; no transfer, no load report).
    counters: named int counters: iterations, leaps (iterations covered by leaps of ≥ 2), leap_count, decode_tokens,
        prefill_tokens, ordered_syncs, assisted_passes, plain_assisted_passes, vetoed_passes, drafted_tokens,
        accepted_tokens, verified_sequences, verified_tokens, assisted_ps (Σ duration of drafted passes),
        draft_busy_ps (Σ drafting and draft prefill), sent_after_crash, gateway_waited, peak_queue (max Q of any
        worker after a dispatch), restores, restored_bytes_tokens; refused_sends (connections refused by a dead
        worker), ignored_faults (faults that found their worker down), migrated (requests sent on by a drain),
        remote_restores, failed_restores, retargets (drafters that changed their target), ping_pong_passes,
        regenerated_tokens (delivered again, unseen), evictions, evicted_tokens, sent_tokens, arrived_tokens,
        refused_tokens (arrived without room), lost_tokens (in flight when a worker failed or their copy went),
        released_tokens (of copies that were released or lost with their holder), egress_wait_ps, ingress_wait_ps
        (longest wait of a transfer for its link). Tokens: sent = arrived + refused + lost;
        arrived = evicted + released + held at the end.
    """

    status: IntArray
    first_ps: IntArray
    last_ps: IntArray
    worker: IntArray
    holder: IntArray
    interruptions: IntArray
    preemptions: IntArray
    restored_tokens: IntArray
    recomputed_tokens: IntArray
    dispatch_ps: IntArray
    interruption_request: IntArray
    interruption_class: IntArray
    interruption_crash_ps: IntArray
    interruption_redispatch_ps: IntArray
    interruption_delivered: IntArray
    interruption_restored: IntArray
    interruption_next_ps: IntArray
    outage_worker: IntArray
    outage_kind: IntArray
    outage_crash_ps: IntArray
    outage_stop_ps: IntArray
    outage_detection_ps: IntArray
    outage_draft_ready_ps: IntArray
    outage_assist_target: IntArray
    outage_assist_end_ps: IntArray
    outage_rejoin_ps: IntArray
    gap_end_ps: IntArray
    gap_ps: IntArray
    gap_growth_ps: IntArray
    gap_steps: IntArray
    gap_sequences: IntArray
    snapshot_queue: IntArray
    snapshot_held_tokens: IntArray
    snapshot_live: IntArray
    snapshot_existing_tokens: IntArray
    snapshot_saved_tokens: IntArray
    crash_existing_tokens: IntArray
    crash_saved_tokens: IntArray
    held_integral: int
    held_end: int
    end_ps: int
    counters: dict[str, int]
