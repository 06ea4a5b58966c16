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
from lumen_policy.acceptance import AcceptanceCurve
from lumen_policy.clock import seconds_to_ps
from lumen_policy.detection import Detection, FixedDetection, HangDetection
from lumen_policy.errors import InputError
from lumen_policy.faults import Crash, check_crashes
from lumen_policy.measures.options import MeasureOptions, RecoveryOptions, default_horizon_ps
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.replay.contract import PS_PER_S, FaultTable, IntArray, ReplayInput, Router, Scheduler
from lumen_policy.replay.draws import SCENARIO, draw
from lumen_policy.settings import Settings
from lumen_policy.trace.table import Trace

__all__ = ["NO_DRAFT", "Cluster", "resolve_cluster"]

NO_DRAFT = "none"
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
        budget_pages: checkpoint pages a worker may hold for others; the same for every policy.
        acceptance: of drafted tokens.
        detection: of crashes.
        measures: options with H resolved, common to every policy.
    """

    settings: Settings
    model: ModelSpec
    draft: ModelSpec | None
    hardware: HardwareProfile
    costs: ServingCosts
    budget_pages: int
    acceptance: AcceptanceCurve
    detection: Detection
    measures: MeasureOptions

    @property
    def workers(self) -> int:
        """Full model replicas."""
        return self.settings.workers

    @property
    def horizon_ps(self) -> int:
        """H, the window after each crash."""
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
        self, trace: Trace, *, crashes: Sequence[Crash], policy: RecoveryPolicy, scenario: int = 0
    ) -> ReplayInput:
        """One replay of this cluster.

        Args:
            trace: the requests.
            crashes: a timeline, checked against workers and trace.
            policy: its k must be 0 where there is no draft.
            scenario: keys the draws together with the seed.

        Raises:
            InputError: crash or policy do not fit the cluster.
        """
        timeline = tuple(sorted(crashes))
        check_crashes(timeline, workers=self.workers, span_ps=trace.span_ps)
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
            faults=FaultTable.crashes(
                [crash.time_ps for crash in timeline],
                [crash.worker for crash in timeline],
                self.detection.delays_ps(len(timeline), key),
                self.costs,
            ),
            policy=policy.codes(budget_pages=self.budget_pages),
            acceptance_threshold=self.acceptance.thresholds(),
            expected_tokens=self.acceptance.expected_tokens(policy.k),
            seed=key,
            snapshot_ps=self.snapshot_ps(trace),
        )

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
            "checkpoint_budget_gb": stated.checkpoint_budget_gb,
            "checkpoint_budget_pages": self.budget_pages,
            "acceptance": {
                "start": self.acceptance.start,
                "final": self.acceptance.final,
                "scale_passes": self.acceptance.scale_passes,
            },
            "draft_round_trip_s": self.costs.draft_round_trip_ps / PS_PER_S,
            "detection": self._describe_detection(),
            "reload": {
                "restart_s": self.costs.restart_ps / PS_PER_S,
                "full_load_s": self.costs.full_load_ps / PS_PER_S,
                "engine_init_s": self.costs.engine_init_ps / PS_PER_S,
                "draft_load_s": self.costs.draft_load_ps / PS_PER_S,
                "draft_init_s": self.costs.draft_init_ps / PS_PER_S,
            },
            "horizon_s": self.measures.horizon_s,
            "ttft_weight": stated.ttft_weight,
            "decode_weight": stated.decode_weight,
            "slo_ttft_s": self.measures.slo_ttft_s,
            "slo_tpot_s": self.measures.slo_tpot_s,
            "recovery": {
                name: getattr(self.measures.recovery, name) for name in RecoveryOptions.__dataclass_fields__
            },
        }

    def _describe_detection(self) -> dict[str, Any]:
        if isinstance(self.detection, FixedDetection):
            return {"kind": "fixed", "delay_s": self.detection.delay_s}
        return {
            "kind": "hang",
            "interval_s": self.detection.interval_s,
            "misses": self.detection.misses,
            "timeout_s": self.detection.timeout_s,
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
    detection = _detection(settings)
    return Cluster(
        settings=settings,
        model=model,
        draft=draft,
        hardware=hardware,
        costs=costs,
        budget_pages=int(Decimal(str(settings.checkpoint_budget_gb)) * _BYTES_PER_GB) // costs.page_bytes,
        acceptance=AcceptanceCurve(
            start=settings.acceptance_start,
            final=settings.acceptance_final,
            scale_passes=settings.acceptance_scale_passes,
        ),
        detection=detection,
        measures=_measures(settings, costs, detection),
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
        )

    resolved = costs(required)
    reached = min(longest_tokens, resolved.pool_pages * PAGE_TOKENS)
    return resolved if reached <= required else costs(reached)


def _detection(settings: Settings) -> Detection:
    if settings.detection_s is not None:
        return FixedDetection(delay_s=settings.detection_s)
    return HangDetection(
        interval_s=settings.hang_interval_s,
        misses=settings.hang_misses,
        timeout_s=settings.hang_timeout_s,
    )


def _measures(settings: Settings, costs: ServingCosts, detection: Detection) -> MeasureOptions:
    """The measures' options, H resolved with the longest detection, so that no draw moves it."""
    horizon_s = settings.horizon_s
    if horizon_s is None:
        longest = FaultTable.crashes([0], [0], [detection.longest_ps], costs)
        horizon_s = default_horizon_ps(longest) / PS_PER_S
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
