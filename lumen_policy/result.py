"""What the documents of replays and comparisons hold, and what a result came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from lumen_policy.digests import code_digest, content_digest, library_versions
from lumen_policy.document import SCHEMA_VERSION
from lumen_policy.measures.calibrated_range import outside_range
from lumen_policy.measures.exact import seconds
from lumen_policy.measures.impact import excess_e2e
from lumen_policy.measures.outages import outages_ps
from lumen_policy.measures.placebo import JITTER_PS, Placebo
from lumen_policy.measures.summary import Impact, ReplaySummary
from lumen_policy.operator_figures import availability_section, targets_section
from lumen_policy.paired import Leg, PairedRun, Pairing, PlaceboRun
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.replay.contract import NONE, PS_PER_S, FaultKind, ReplayOutput
from lumen_policy.settings import Settings, keys
from lumen_policy.workload import Workload

__all__ = [
    "cluster_section",
    "manifest",
    "measured_sections",
    "operator_section",
    "policy_section",
    "range_section",
    "replay_document",
    "settings_section",
    "unserved_s",
    "worker_down_s",
]


def replay_document(
    workload: Workload,
    pairing: Pairing,
    run: PairedRun,
    *,
    placebo: bool = False,
    faults: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of ``lumen-tune replay --json``.

    Args:
        workload: cluster and trace.
        pairing: of the timeline.
        run: of the policy.
        placebo: also measure the noise floor, for one more replay.
        faults: how a file of faults became the timeline.
    """
    summary = pairing.summary(run)
    floor = pairing.placebo(run) if placebo and pairing.faults else None
    legs = {"fault_free": run.fault_free.cpu_s}
    if run.faulty is not run.fault_free:
        legs[run.policy.name] = run.faulty.cpu_s
    if workload.capacity is not None:
        legs["capacity"] = workload.capacity.cpu_s
    if floor is not None:
        legs["placebo"] = floor.cpu_s
    counters = run.faulty.output.counters
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster": cluster_section(pairing),
        "trace": workload.describe(),
        "faults": faults,
        "policy": policy_section(run.policy),
        **measured_sections(summary, run, pairing, floor),
        "cost": {
            "replay_cpu_s": run.faulty.cpu_s,
            "legs_cpu_s": legs,
            "iterations": counters["iterations"],
            "leaps": counters["leaps"],
        },
        **range_section(pairing, run.faulty),
    }


def range_section(pairing: Pairing, leg: Leg) -> dict[str, Any]:
    """How much of a replay ran beyond its calibration; nothing where its costs are not calibrated."""
    cluster = pairing.cluster
    calibration = cluster.hardware.calibration(cluster.model, cluster.settings.tp)
    if calibration is None:
        return {}
    outside = outside_range(leg.inputs, leg.output, calibration.range)
    return {"calibrated_range": {**msgspec.to_builtins(outside), "outside_share": outside.share}}


def policy_section(policy: RecoveryPolicy) -> dict[str, Any]:
    """A policy as JSON: numbers as numbers, ``inf`` and ``never`` as words."""
    return {
        "name": policy.name,
        "placement": policy.placement,
        "routing": policy.routing,
        "alpha": Decimal(policy.alpha),
        "beta": Decimal(policy.beta),
        "theta": Decimal(policy.theta) if policy.theta not in ("inf", "never") else policy.theta,
        "tau_tokens": policy.tau,
        "k": policy.k,
        "guard": policy.guard,
    }


def settings_section(settings: Settings) -> dict[str, Any]:
    """Every key as stated, so that a result can be repeated; ``auto`` for what was derived."""
    values = {key.name: getattr(settings, key.name) for key in keys()}
    return {name: "auto" if value is None else value for name, value in values.items()}


def manifest(workload: Workload, argv: Sequence[str]) -> dict[str, Any]:
    """What a result came from: command line, set-up, digests of its inputs, versions."""
    cluster = workload.cluster
    return {
        "argv": list(argv),
        "settings": settings_section(cluster.settings),
        "cluster": cluster.describe(),
        "trace": workload.describe(),
        "digests": {
            "trace": workload.base.digest(),
            "profile": content_digest(cluster.hardware),
            "cluster": content_digest(cluster.describe()),
            "code": code_digest(),
        },
        "versions": library_versions(),
    }


def cluster_section(pairing: Pairing) -> dict[str, Any]:
    """The resolved set-up with its faults, false alarms among them."""
    return {**pairing.cluster.describe(), "faults": [fault.describe() for fault in pairing.faults]}


def measured_sections(
    summary: ReplaySummary, run: PairedRun, pairing: Pairing, placebo: PlaceboRun | None = None
) -> dict[str, Any]:
    """Every measure under its name; what has no value is null."""
    measured: dict[str, Any] = msgspec.to_builtins(summary)
    measured["e2e_s"]["per_output_token_s"] = measured.pop("e2e_per_output_s")
    if summary.impact is None:
        names = (*Impact.__dataclass_fields__, "weighted_excess_request_s", "outages")
        measured["impact"] = dict.fromkeys(names)
    else:
        stated = pairing.cluster.settings
        excess = excess_e2e(
            run.faulty.inputs, run.faulty.output, run.fault_free.output, pairing.cluster.horizon_ps
        )
        measured["impact"]["weighted_excess_request_s"] = excess.weighted_request_s(
            stated.ttft_weight, stated.decode_weight
        )
        measured["impact"]["outages"] = _outages(run.faulty.output)
    measured["operator"] = operator_section(summary)
    measured["availability"] = _availability(summary, run, pairing)
    measured["placebo"] = None if placebo is None else _placebo_section(placebo.measured)
    return measured


def operator_section(summary: ReplaySummary) -> dict[str, Any]:
    """The operator's figures of a run with their targets."""
    return targets_section(
        coverage=summary.checkpoint.coverage,
        holder_balance=summary.checkpoint.holder_balance,
        load_balance=summary.checkpoint.load_balance,
        acceptance=summary.assist.acceptance,
    )


def unserved_s(summary: ReplaySummary, pairing: Pairing) -> float | None:
    """Extra misses of the objectives per fault instant, in seconds of arrivals at the trace's rate."""
    impact = summary.impact
    instants = len(_instants(pairing))
    if impact is None or impact.extra_slo_misses is None or not pairing.trace.rate_per_s or not instants:
        return None
    return max(0, impact.extra_slo_misses) / pairing.trace.rate_per_s / instants


def worker_down_s(output: ReplayOutput, pairing: Pairing) -> float | None:
    """Time of all outages per fault instant; None where a worker is not back by the end of the run."""
    total_ps, instants = outages_ps(output), len(_instants(pairing))
    return None if total_ps is None or not instants else seconds(total_ps, instants)


def _instants(pairing: Pairing) -> list[int]:
    """Instants of the faults that are none of the set-up's false alarms."""
    return sorted({fault.time_ps for fault in pairing.faults if fault.kind != "false_alarm"})


def _availability(summary: ReplaySummary, run: PairedRun, pairing: Pairing) -> dict[str, Any] | None:
    mtbf_hours = pairing.cluster.settings.mtbf_hours
    faults = [fault for fault in pairing.faults if fault.kind != "false_alarm"]
    if mtbf_hours is None or not faults:
        return None
    return availability_section(
        mtbf_hours=mtbf_hours,
        workers=pairing.cluster.workers,
        victims=len(faults) / len(_instants(pairing)),
        unserved_s=unserved_s(summary, pairing),
        worker_down_s=worker_down_s(run.faulty.output, pairing),
    )


def _placebo_section(measured: Placebo) -> dict[str, Any]:
    """The noise floor of a run's measures."""
    return {
        "jitter_s": seconds(JITTER_PS),
        "excess_e2e_request_s": seconds(measured.excess_ps),
        "affected": measured.affected,
        "recovery_time_s": measured.recovery_time_s,
        "in_system_recovery_s": measured.in_system_recovery_s,
        "no_impact": measured.no_impact,
        "censored": measured.censored,
    }


def _outages(output: ReplayOutput) -> list[dict[str, Any]]:
    """Each outage's instants, seconds on the trace clock; null for what did not happen."""
    columns = {
        "worker": output.outage_worker,
        "assist_target": output.outage_assist_target,
        "start_s": output.outage_crash_ps,
        "stop_s": output.outage_stop_ps,
        "detection_s": output.outage_detection_ps,
        "draft_ready_s": output.outage_draft_ready_ps,
        "assist_end_s": output.outage_assist_end_ps,
        "rejoin_s": output.outage_rejoin_ps,
    }

    def cell(name: str, value: int) -> int | float | None:
        if value == NONE:
            return None
        return value / PS_PER_S if name.endswith("_s") else value

    return [
        {
            "kind": FaultKind(int(output.outage_kind[row])).name.lower(),
            **{name: cell(name, int(column[row])) for name, column in columns.items()},
        }
        for row in range(len(output.outage_worker))
    ]
