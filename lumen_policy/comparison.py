"""Policies side by side over the same faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from lumen_policy.document import SCHEMA_VERSION
from lumen_policy.errors import InputError
from lumen_policy.measures.windows import excess_by_window, rank_by_window
from lumen_policy.operator_figures import recovery_share
from lumen_policy.paired import Pairing
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.policy_choice import LUMEN, choose_policy
from lumen_policy.result import cluster_section, measured_sections, policy_section
from lumen_policy.settings import Settings
from lumen_policy.workload import Workload

__all__ = ["BASELINE", "Contender", "choose_contenders", "compare_faults"]

BASELINE = "stop_and_restart"
"""The policy against whose recovery time others are held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A policy under the name or path it was asked for."""

    label: str
    policy: RecoveryPolicy


def choose_contenders(
    names: Sequence[str], settings: Settings, pairing: Pairing, notices: list[str]
) -> tuple[Contender, ...]:
    """The policies to compare; parameters in the settings are for ``lumen``.

    Raises:
        InputError: a policy asked for twice, or parameters without ``lumen`` among the policies.
    """
    for position, name in enumerate(names):
        if name in names[:position]:
            raise InputError(f"policy: {name} is given twice")
    strict = LUMEN not in names
    return tuple(
        Contender(label=name, policy=choose_policy(name, settings, pairing, notices, strict=strict))
        for name in names
    )


def compare_faults(
    workload: Workload,
    pairing: Pairing,
    contenders: Sequence[Contender],
    *,
    placebo: bool = False,
    faults: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One timeline under every policy: all measures of each.

    Args:
        workload: cluster and trace.
        pairing: of the timeline.
        contenders: the policies.
        placebo: also measure each policy's noise floor, for one more replay each.
        faults: how a file of faults became the timeline.
    """
    entries: list[dict[str, Any]] = []
    by_window_ps: dict[str, tuple[int, ...]] = {}
    horizon_ps = workload.cluster.horizon_ps
    legs: dict[str, float] = {}
    shaken_cpu_s = 0.0
    for contender in contenders:
        run = pairing.run(contender.policy)
        legs[contender.label] = run.faulty.cpu_s
        by_window_ps[contender.label] = excess_by_window(
            run.faulty.inputs, run.faulty.output, run.fault_free.output, horizon_ps
        )
        floor = pairing.placebo(run) if placebo and pairing.faults else None
        if floor is not None:
            shaken_cpu_s += floor.cpu_s
        entries.append(
            {
                "label": contender.label,
                "policy": policy_section(contender.policy),
                **measured_sections(pairing.summary(run), run, pairing, floor),
            }
        )
    legs["fault_free"] = pairing.fault_free_cpu_s
    if placebo:
        legs["placebo"] = shaken_cpu_s
    baseline = [entry["impact"] for entry in entries if entry["policy"]["name"] == BASELINE]
    baseline_s = baseline[0]["recovery_time_s"] if baseline else None
    for entry in entries:
        entry["recovery_share"] = recovery_share(entry["impact"]["recovery_time_s"], baseline_s)
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster": cluster_section(pairing),
        "trace": workload.describe(),
        "faults": faults,
        "policies": entries,
        "windows": msgspec.to_builtins(rank_by_window(by_window_ps, horizon_ps)) if pairing.faults else None,
        "cost": {"legs_cpu_s": legs},
    }
