"""Loading a policy file for a replay: what fits this cluster, what does not, what is a guess."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy.cluster import NO_DRAFT, Cluster
from lumen_policy.errors import InputError
from lumen_policy.faults import Fault, Scope
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.policy_file.document import Lengths, PolicyDocument, recovery_policy
from lumen_policy.policy_file.reader import read_policy
from lumen_policy.replay.contract import PS_PER_S, IntArray
from lumen_policy.trace.table import Trace

__all__ = ["ExportedPolicy", "lengths_of", "load_policy_file", "reload_s"]

_TOLERANCE = 0.1
"""Relative difference of load or reload time up to which a policy is taken as tuned for it."""
_LENGTH_TOLERANCE = 0.25
"""The same for mean lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedPolicy:
    """A policy file.

    Attributes:
        path: where it was read.
        document: all of it.
        policy: exactly the exported policy.
    """

    path: str
    document: PolicyDocument
    policy: RecoveryPolicy

    def check(self, cluster: Cluster, trace: Trace) -> list[str]:
        """One line for each condition of the file's validity that this replay does not meet.

        Raises:
            InputError: another model, KV bytes per token or page size: its numbers mean nothing here.
        """
        metadata = self.document.metadata
        must_agree = (
            ("model", metadata.model, cluster.model.name),
            ("kv_bytes_per_token", metadata.kv_bytes_per_token, cluster.model.kv_bytes_per_token),
            ("page_tokens", metadata.page_tokens, PAGE_TOKENS),
        )
        for name, tuned, here in must_agree:
            if tuned != here:
                raise InputError(f"{self.path}: tuned for {name} {tuned}, this cluster has {here}")
        return [f"{self.path}: {line}" for line in self._differences(cluster, trace)]

    def _differences(self, cluster: Cluster, trace: Trace) -> Iterator[str]:
        metadata, validity = self.document.metadata, self.document.validity
        draft = NO_DRAFT if cluster.draft is None else cluster.draft.name
        budget = self.document.spec.budget.checkpoint_bytes_per_worker
        for name, tuned, here in (
            ("workers", validity.workers, cluster.workers),
            ("draft model", metadata.draft_model, draft),
            ("hardware", metadata.hardware, cluster.hardware.name),
            ("GPUs per worker", metadata.gpus_per_worker, cluster.settings.tp),
            ("checkpoint bytes per worker", budget, cluster.budget_bytes),
        ):
            if tuned != here:
                yield f"tuned for {name} {tuned}, here {here}"
        per_worker = validity.arrivals_per_s / validity.workers
        mean_prompt = float(trace.prompt_tokens.mean())
        mean_output = float(trace.output_tokens.mean())
        for name, expected, found, tolerance in (
            ("load: arrivals/s a worker", per_worker, trace.rate_per_s / cluster.workers, _TOLERANCE),
            ("mean prompt tokens", validity.prompt_tokens.mean, mean_prompt, _LENGTH_TOLERANCE),
            ("mean output tokens", validity.output_tokens.mean, mean_output, _LENGTH_TOLERANCE),
            ("reload seconds", validity.reload_s, reload_s(cluster), _TOLERANCE),
            (
                "reload seconds with a draft",
                validity.reload_with_draft_s,
                reload_s(cluster, draft=True),
                _TOLERANCE,
            ),
        ):
            if abs(found - expected) > tolerance * max(abs(expected), abs(found)):
                yield f"tuned for {name} {expected:.4g}, here {found:.4g}"


def load_policy_file(path: str | Path) -> ExportedPolicy:
    """Read and check a policy file.

    Raises:
        InputError: one line naming the file and its first problem.
    """
    document = read_policy(Path(path))
    return ExportedPolicy(path=str(path), document=document, policy=recovery_policy(document))


def reload_s(cluster: Cluster, *, draft: bool = False) -> float:
    """Detection to rejoin after a scenario's crash, with the draft's load and init where it drafts."""
    reload = cluster.fault_columns.reload
    crash = Fault(time_ps=0, worker=0, scope=cast("Scope", cluster.settings.victim_scope))
    parts = reload.parts(crash)
    reload_ps = reload.before_ps(crash) + parts.restart_ps + parts.load_ps + parts.init_ps
    return (reload_ps + (parts.draft_ps if draft else 0)) / PS_PER_S


def lengths_of(tokens: IntArray) -> Lengths:
    """Mean and nearest-rank quantiles of a length column, shape (n,)."""
    ordered = sorted(int(value) for value in tokens)

    def rank(percent: int) -> float:
        return float(ordered[max(0, -(-percent * len(ordered) // 100) - 1)])

    return Lengths(mean=sum(ordered) / len(ordered), p50=rank(50), p90=rank(90), p99=rank(99))
