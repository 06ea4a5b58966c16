"""The resolved cluster: everything a replay needs to know but the trace, the crashes and the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from cost_models.hardware import HardwareProfile, load_hardware
from cost_models.hf_config import load_model
from cost_models.model_spec import ModelSpec
from cost_models.serving_costs import PAGE_TOKENS, ServingCosts
from cost_models.worker import serving_costs
from lumen_policy.acceptance import Acceptance, AcceptanceCurve, PositionRates
from lumen_policy.clock import seconds_to_ps
from lumen_policy.detection import Detection, FixedDetection, HangDetection, RefusedDetection
from lumen_policy.errors import InputError
from lumen_policy.false_alarms import false_alarms
from lumen_policy.fault_table import FaultColumns
from lumen_policy.faults import Fault, check_faults, timeline_of
from lumen_policy.measures.options import MeasureOptions, RecoveryOptions, default_horizon_ps
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.recovery_rules import describe_rules, recovery_rules
from lumen_policy.recovery_settings import DEFAULT_BUDGET_GB
from lumen_policy.reload_times import reload_times
from lumen_policy.replay.contract import PS_PER_S, IntArray, RecoveryRules, ReplayInput, Router, Scheduler
from lumen_policy.replay.draws import SCENARIO, draw
from lumen_policy.replay.own_rules import STANDARD, OwnRules, load_rules
from lumen_policy.settings import Settings
from lumen_policy.trace.table import Trace

__all__ = ["NO_DRAFT", "NO_RULES", "Cluster", "resolve_cluster"]

NO_DRAFT = "none"
NO_RULES = "none"
_LONGEST_REQUIRED_TOKENS = 32768
_SNAPSHOT_PS = 5 * PS_PER_S
_BYTES_PER_GB = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster as integers, with the measures' options that are common to all its replays.

    Attributes:
        settings: what the user stated.
        model, draft, hardware: the specs behind the costs; draft None = no assist.
        costs: of one worker.
        budget_bytes, budget_pages: checkpoints a worker may hold for others; the same for every policy.
        acceptance: of drafted tokens.
        fault_columns: detection and reload of faults.
        rules: how the cluster recovers, whatever the policy.
        own_rules: functions from outside that stand in for decisions.
        measures: options with H resolved, common to every policy.
    """

    settings: Settings
    model: ModelSpec
    draft: ModelSpec | None
    hardware: HardwareProfile
    costs: ServingCosts
    budget_bytes: int
    acceptance: Acceptance
    fault_columns: FaultColumns
    rules: RecoveryRules
    own_rules: OwnRules
    measures: MeasureOptions

    @property
    def workers(self) -> int:
        """Full model replicas."""
        return self.settings.workers

    @property
    def budget_pages(self) -> int:
        """Whole pages of the budget."""
        return self.budget_bytes // self.costs.page_bytes

    @property
    def horizon_ps(self) -> int:
        """H, the window after each fault."""
        assert self.measures.horizon_s is not None
        return seconds_to_ps("horizon_s", self.measures.horizon_s)

    def scenario_key(self, scenario: int = 0) -> int:
        """The uint64 key of every draw of a scenario; number 0 is the plain replay."""
        return draw(self.settings.seed, SCENARIO, scenario, 0)

    def check_policy(self, policy: RecoveryPolicy) -> None:
        """Refuses a policy that drafts where the cluster has no draft model."""
        if policy.k > 0 and self.draft is None:
            raise InputError(f"k: {policy.k} needs a draft model, the cluster has none (draft: {NO_DRAFT})")

    def replay_input(
        self, trace: Trace, *, faults: Sequence[Fault], policy: RecoveryPolicy, scenario: int = 0
    ) -> ReplayInput:
        """One replay of this cluster.

        Args:
            trace: the requests.
            faults: checked against workers and trace.
            policy: its k must be 0 where there is no draft.
            scenario: keys the draws together with the seed.

        Raises:
            InputError: faults or policy do not fit the cluster.
        """
        check_faults(faults, workers=self.workers, span_ps=trace.span_ps)
        self.check_policy(policy)
        key = self.scenario_key(scenario)
        return ReplayInput(
            arrival_ps=trace.arrival_ps,
            prompt_tokens=trace.prompt_tokens,
            output_tokens=trace.output_tokens,
            workers=self.workers,
            costs=self.costs,
            token_budget=self.settings.chunk_tokens,
            max_batch=self.settings.max_batch,
            min_prefill_tokens=self.settings.min_prefill_tokens,
            scheduler=int(Scheduler[self.settings.scheduler.upper()]),
            router=int(Router[self.settings.router.upper()]),
            faults=self.fault_columns.table(faults, key),
            policy=policy.codes(budget_pages=self.budget_pages),
            rules=replace(self.rules, second_replica=False) if policy.placement == "store" else self.rules,
            acceptance_threshold=self.acceptance.thresholds(),
            expected_tokens=self.acceptance.expected_tokens(policy.k),
            seed=key,
            snapshot_ps=self.snapshot_ps(trace),
            own_rules=self.own_rules,
        )

    def with_false_alarms(
        self, faults: Sequence[Fault], *, span_ps: int, scenario: int = 0
    ) -> tuple[Fault, ...]:
        """The faults of a scenario and its false alarms, in order; an alarm yields to a fault like it."""
        alarms = false_alarms(self.settings, span_ps=span_ps, key=self.scenario_key(scenario))
        stated = {fault.order for fault in faults}
        return timeline_of([*faults, *(alarm for alarm in alarms if alarm.order not in stated)])

    def snapshot_ps(self, trace: Trace) -> IntArray:
        """Every 5 s over the arrivals and one window beyond them, the same for every run of the trace."""
        return np.arange(0, trace.span_ps + self.horizon_ps + 1, _SNAPSHOT_PS, dtype=np.int64)

    def describe(self) -> dict[str, Any]:
        """The resolved set-up for results: every key of its groups, with what was derived."""
        stated = self.settings
        return {
            "workers": stated.workers,
            "model": self.model.name,
            "draft": None if self.draft is None else self.draft.name,
            "hardware": self.hardware.name,
            "tensor_parallel": stated.tp,
            "chunk_tokens": stated.chunk_tokens,
            "max_batch": stated.max_batch,
            "min_prefill_tokens": stated.min_prefill_tokens,
            "scheduler": stated.scheduler,
            "router": stated.router,
            "seed": stated.seed,
            "kv_pages": self.costs.pool_pages,
            "draft_kv_pages": self.costs.draft_pool_pages,
            "page_tokens": PAGE_TOKENS,
            "kv_bytes_per_token": self.model.kv_bytes_per_token,
            "checkpoint_budget_gb": self.budget_bytes / _BYTES_PER_GB,
            "checkpoint_budget_pages": self.budget_pages,
            "acceptance": self.acceptance.describe(),
            "draft_round_trip_s": self.costs.draft_round_trip_ps / PS_PER_S,
            "detection": self.fault_columns.detection.describe(),
            "false_alarms": {
                "per_worker_and_hour": stated.false_alarms_per_hour,
                "duration_s": stated.false_alarm_s,
            },
            "reload": self.fault_columns.reload.describe(),
            "rules": describe_rules(stated, self.costs),
            "own_rules": self.own_rules.describe(),
            "horizon_s": self.measures.horizon_s,
            "ttft_weight": stated.ttft_weight,
            "decode_weight": stated.decode_weight,
            "slo_ttft_s": self.measures.slo_ttft_s,
            "slo_tpot_s": self.measures.slo_tpot_s,
            "recovery": {
                name: getattr(self.measures.recovery, name) for name in RecoveryOptions.__dataclass_fields__
            },
        }


def resolve_cluster(settings: Settings, *, longest_tokens: int, notices: list[str]) -> Cluster:
    """The cluster that the settings state, its costs as integers.

    Args:
        settings: checked keys.
        longest_tokens: prompt + output of the trace's longest request.
        notices: gets one line for each value that had to be inferred.

    Raises:
        InputError, CostModelError: unknown model or profile, a set-up that does not fit in memory.
    """
    model = load_model(settings.model, notices)
    draft = None if settings.draft == NO_DRAFT else load_model(settings.draft, notices)
    hardware = load_hardware(settings.hardware)
    unused = hardware.unused_calibrations(model, settings.tp)
    notices += [] if unused is None else [unused]
    costs = _costs(settings, model, draft, hardware, longest_tokens)
    if settings.draft_round_trip_s is not None:
        round_trip_ps = seconds_to_ps("draft_round_trip_s", settings.draft_round_trip_s)
        costs = replace(costs, draft_round_trip_ps=round_trip_ps)
    columns = FaultColumns(
        detection=_detection(settings), reload=reload_times(settings, model, draft, hardware)
    )
    return Cluster(
        settings=settings,
        model=model,
        draft=draft,
        hardware=hardware,
        costs=costs,
        budget_bytes=_budget_bytes(settings),
        acceptance=_acceptance(settings),
        fault_columns=columns,
        rules=recovery_rules(settings),
        own_rules=STANDARD if settings.own_rules == NO_RULES else load_rules(settings.own_rules),
        measures=_measures(settings, columns),
    )


def _costs(
    settings: Settings,
    model: ModelSpec,
    draft: ModelSpec | None,
    hardware: HardwareProfile,
    longest_tokens: int,
) -> ServingCosts:
    """Costs whose tables reach every request that fits the pool.

    The pool must have room for ``max_context_tokens``; a pool that the user states is its own limit: what is
    longer is refused, request by request.
    """
    required = settings.max_context_tokens or min(longest_tokens, _LONGEST_REQUIRED_TOKENS)
    if settings.kv_pages is not None and settings.max_context_tokens is None:
        required = min(required, settings.kv_pages * PAGE_TOKENS)

    def costs(max_context_tokens: int) -> ServingCosts:
        return serving_costs(
            model=model,
            draft=draft,
            hardware=hardware,
            tensor_parallel=settings.tp,
            token_budget=settings.chunk_tokens,
            max_batch=settings.max_batch,
            max_context_tokens=max_context_tokens,
            kv_pages=settings.kv_pages,
            links="fifo" if settings.links == "fifo" else "free",
            store_latency_s=settings.store_latency_s,
            store_bytes_per_s=None if settings.store_gb_per_s is None else settings.store_gb_per_s * 1e9,
        )

    resolved = costs(required)
    reached = min(longest_tokens, resolved.pool_pages * PAGE_TOKENS)
    return resolved if reached <= required else costs(reached)


def _budget_bytes(settings: Settings) -> int:
    """Checkpoint memory of a worker, whole bytes."""
    if settings.checkpoint_budget_share is not None:
        host_gb = settings.tp * Decimal(str(settings.host_memory_gb_per_gpu))
        return int(Decimal(str(settings.checkpoint_budget_share)) * host_gb * _BYTES_PER_GB)
    stated = settings.checkpoint_budget_gb
    return int(Decimal(str(DEFAULT_BUDGET_GB if stated is None else stated)) * _BYTES_PER_GB)


def _acceptance(settings: Settings) -> Acceptance:
    if settings.acceptance_rates:
        return PositionRates(rates=settings.acceptance_rates)
    return AcceptanceCurve(
        start=settings.acceptance_start,
        final=settings.acceptance_final,
        scale_passes=settings.acceptance_scale_passes,
    )


def _detection(settings: Settings) -> Detection:
    if settings.detection_s is not None:
        return FixedDetection(delay_s=settings.detection_s)
    checks = HangDetection(
        interval_s=settings.hang_interval_s,
        misses=settings.hang_misses,
        timeout_s=settings.hang_timeout_s,
    )
    if settings.detection == "refused":
        return RefusedDetection(breaker_threshold=settings.breaker_threshold, silent=checks)
    return checks


def _measures(settings: Settings, columns: FaultColumns) -> MeasureOptions:
    """The measures' options, H resolved with the longest detection and reload, so that no draw moves it."""
    horizon_s = settings.horizon_s
    if horizon_s is None:
        horizon_s = default_horizon_ps(columns.longest_ps) / PS_PER_S
    return MeasureOptions(
        horizon_s=horizon_s,
        slo_ttft_s=settings.slo_ttft_s,
        slo_tpot_s=settings.slo_tpot_s,
        recovery=RecoveryOptions(
            window_s=settings.recovery_window_s,
            hold_s=settings.recovery_hold_s,
            min_samples=settings.recovery_min_samples,
            band_ratio=settings.recovery_band_ratio,
            ttft_margin_s=settings.recovery_ttft_margin_s,
            gap_margin_s=settings.recovery_gap_margin_s,
            in_system_ratio=settings.in_system_ratio,
            in_system_margin_requests=settings.in_system_margin_requests,
        ),
    )
