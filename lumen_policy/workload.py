"""The trace a set-up replays: read or generated, cut, and brought to its load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lumen_policy.capacity import Capacity, capacity
from lumen_policy.cluster import Cluster, resolve_cluster
from lumen_policy.errors import InputError
from lumen_policy.settings import Settings
from lumen_policy.trace.table import Trace

__all__ = ["BUILT_IN", "Workload", "base_trace", "longest_tokens", "prepare"]

BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A cluster with the trace it runs.

    Attributes:
        cluster: resolved for the trace's longest request.
        trace: at the load asked for.
        base: as read, before superposition or scaling.
        capacity: of the cluster on the base trace; None where no load was asked for.
    """

    cluster: Cluster
    trace: Trace
    base: Trace
    capacity: Capacity | None

    def describe(self) -> dict[str, Any]:
        """The trace for results: what was read, what ran, at which rate."""
        accounting = self.base.accounting
        description: dict[str, Any] = {
            "source": self.base.source,
            "format": self.base.format,
            "rows": {
                "read": accounting.read,
                "kept": accounting.kept,
                "dropped": dict(accounting.dropped),
            },
            "notes": list(self.trace.accounting.notes),
            "digest": self.trace.digest(),
            "requests": self.trace.count,
            "span_s": self.trace.span_s,
            "rate_per_s": self.trace.rate_per_s,
            "load": self.cluster.settings.load,
            "rate_scale": self.cluster.settings.rate_scale,
            "capacity_per_s": None,
        }
        if self.capacity is not None:
            description["capacity_per_s"] = self.capacity.worker_requests_per_s * self.cluster.workers
        return description


def base_trace(settings: Settings) -> Trace:
    """The trace file or the built-in trace, cut to ``limit``, at its own rate."""
    if settings.trace == BUILT_IN:
        from lumen_policy.trace.synthetic import REQUESTS, built_in_trace

        if settings.format is not None:
            raise InputError(f"format: {settings.format!r} is of a trace file, and none is given")
        return built_in_trace(requests=settings.limit or REQUESTS)
    from lumen_policy.trace.read import read_trace

    try:
        return read_trace(settings.trace, format=settings.format, limit=settings.limit)
    except InputError as error:
        hint = " (an option of trace convert, whose output can be replayed)" if " --" in str(error) else ""
        raise InputError(f"{error}{hint}") from error


def longest_tokens(trace: Trace) -> int:
    """Prompt + output of the longest request."""
    return int((trace.prompt_tokens + trace.output_tokens).max())


def _drops(trace: Trace) -> list[str]:
    accounting = trace.accounting
    return [
        f"{trace.source}: {count:,} of {accounting.read:,} rows dropped: {reason}"
        for reason, count in accounting.dropped.items()
    ]


def prepare(settings: Settings, notices: list[str]) -> Workload:
    """Trace and cluster of the settings.

    Args:
        settings: checked keys; ``load`` superposes copies, ``rate_scale`` compresses time, without them the
            trace keeps its own rate.
        notices: gets one line for each value that had to be inferred.

    Raises:
        InputError, CostModelError: anything wrong with trace, model, profile or load.
    """
    base = base_trace(settings)
    notices.extend(_drops(base))
    cluster = resolve_cluster(settings, longest_tokens=longest_tokens(base), notices=notices)
    trace, found = base, None
    if settings.load is not None:
        from lumen_policy.trace.transform import superpose

        found = capacity(cluster, base)
        rate_per_s = settings.load * cluster.workers * found.worker_requests_per_s
        trace = superpose(base, rate_per_s, settings.seed)
    elif settings.rate_scale is not None:
        from lumen_policy.trace.transform import rate_scale

        trace = rate_scale(base, settings.rate_scale)
    return Workload(cluster=cluster, trace=trace, base=base, capacity=found)
