"""What goes into a replay and what comes out: the data contract of kernel, twin and measures.

All times are int64 picoseconds from the first arrival, all lengths tokens, -1 means "none".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from cost_models.serving_costs import PAGE_TOKENS, ServingCosts

__all__ = [
    "NONE",
    "PAGE_TOKENS",
    "PS_PER_S",
    "Interruption",
    "Placement",
    "PolicyCodes",
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


class Routing(IntEnum):
    """Where an interrupted request goes."""

    SHORTEST_QUEUE = 0
    HOLDER = 1
    LOAD_AWARE = 2


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
        crash_ps: shape (m,), non-decreasing; crash_worker: shape (m,); at one instant ascending worker, unique.
        detection_ps: shape (m,), delay from crash to detection, ≥ 0; used only where the crash starts an outage.
        policy: the recovery policy.
        acceptance_threshold: uint64, shape (S,): a draft is accepted if its draw < threshold[min(s, S-1)] with s =
            drafted passes of the request in this episode so far.
        expected_tokens: float64, shape (S, k+1): expected tokens of one verified sequence with k' drafts after s
            passes.
        seed: uint64 key of every draw of this replay (user seed and scenario mixed).
        snapshot_ps: shape (g,), increasing: instants at which loads are recorded.
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
    crash_ps: IntArray
    crash_worker: IntArray
    detection_ps: IntArray
    policy: PolicyCodes
    acceptance_threshold: npt.NDArray[np.uint64]
    expected_tokens: npt.NDArray[np.float64]
    seed: int
    snapshot_ps: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutput:
    """Raw facts of one replay.

    Per request, shape (n,), times int64, the rest int32:
        status: ``Status``. first_ps, last_ps: end of the iteration that delivered the first, the last token; NONE.
        worker: the last server (NONE if never dispatched). holder: the last holder chosen (NONE), kept when the
        holder dies or the copy goes.
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
    Outages, shape (o,): outage_worker, outage_crash_ps (first crash), outage_detection_ps, outage_draft_ready_ps
        (NONE), outage_assist_target (NONE), outage_assist_end_ps (NONE), outage_rejoin_ps; the values of the last
        reload where a crash restarted it; NONE for what had not happened.
    Gaps, run-length coded, shape (s,), times int64, the rest int32: a record stands for `gap_steps` decode steps;
        step j ends at gap_end_ps + Σ_{i=1..j} (gap_ps + i·gap_growth_ps) [j = 0: gap_end_ps] and each of
        `gap_sequences` sequences waited gap_ps + j·gap_growth_ps since its previous delivery. A gap is counted once per
        sequence and decode step (one per verify pass), never for a first token. Any order; any split.
    Snapshots at snapshot_ps, state after iteration ends, transfers, crashes, detections, rejoins and assist events of
        that instant, before its arrivals: snapshot_queue (g, W) = Q, snapshot_held_tokens (g, W) = Σ arrived tokens,
        snapshot_live (g, W) = 1 if truly alive, snapshot_existing_tokens (g,), snapshot_saved_tokens (g,): existing KV
        tokens of admitted requests on truly live workers and how many of them a truly live holder could restore
        (16·floor(arrived/16), at most the existing ones).
    Coverage at each crash instant, after all its crashes, over requests admitted on the workers it took down, summed:
        crash_existing_tokens, crash_saved_tokens.
    held_integral: Σ over changes of ΔH·(-t): exact Python int; ∫ΣH dt up to T = H_end·T + held_integral with
        held_end = Σ_w H_w at the end.
    end_ps: the last event (iteration end, restore end, arrival, crash, detection, reload).
    counters: named int counters: iterations, leaps (iterations covered by leaps of ≥ 2), leap_count, decode_tokens,
        prefill_tokens, ordered_syncs, assisted_passes, plain_assisted_passes, vetoed_passes, drafted_tokens,
        accepted_tokens, verified_sequences, verified_tokens, assisted_ps (Σ duration of drafted passes),
        draft_busy_ps (Σ drafting and draft prefill), sent_after_crash, gateway_waited, peak_queue (max Q of any
        worker after a dispatch), restores, restored_bytes_tokens.
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
    outage_crash_ps: IntArray
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
