"""What a cluster can serve: W times the saturated throughput of one worker on the trace."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Any

import msgspec
import numpy as np

from lumen_policy.cluster import Cluster
from lumen_policy.digests import cache_root, content_digest, replay_code_digest
from lumen_policy.errors import InputError
from lumen_policy.policies.stop_and_restart import stop_and_restart
from lumen_policy.replay.contract import PS_PER_S, IntArray, Status
from lumen_policy.replay.own_rules import STANDARD
from lumen_policy.trace.table import Trace

__all__ = ["Capacity", "capacity", "middle_throughput"]


class Capacity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Saturated throughput.

    Attributes:
        worker_requests_per_s: of one worker.
        cpu_s: CPU seconds of the replay that found it, 0 where it came from the cache.
    """

    worker_requests_per_s: Annotated[float, msgspec.Meta(gt=0)]
    cpu_s: float = 0.0


def capacity(cluster: Cluster, trace: Trace) -> Capacity:
    """The throughput of one worker with the whole trace queued at t = 0, over the middle 80 % of completions.

    The cluster's capacity is that times its workers; routing costs a little of it, which a load near 1 shows.

    Args:
        cluster: its costs, batch, token budget and scheduler count; its workers do not.
        trace: its lengths and their order count; its arrivals do not.

    Returns:
        Kept in memory and in the user's cache folder, by a digest of all that it depends on.

    Raises:
        InputError: fewer than ten requests, or none that fits.
    """
    key = _key(cluster, trace)
    known = _KEPT.get(key) or _read(key)
    if known is None:
        known = _measured(cluster, trace)
        _write(key, known)
    _KEPT[key] = msgspec.structs.replace(known, cpu_s=0.0)
    return known


def middle_throughput(last_ps: IntArray) -> Fraction:
    """Completions per second between the 10 % and the 90 % completion, exact.

    Args:
        last_ps: shape (n,), completion times, any order, n ≥ 10.
    """
    done = np.sort(last_ps)
    low, high = len(done) // 10, len(done) - 1 - len(done) // 10
    span_ps = int(done[high]) - int(done[low])
    if high <= low or span_ps == 0:
        raise InputError(
            "load: the trace is too short to measure a capacity, at least ten requests are needed"
        )
    return Fraction((high - low) * PS_PER_S, span_ps)


def _measured(cluster: Cluster, trace: Trace) -> Capacity:
    from lumen_policy.replay.engine import replay_timed

    inputs = cluster.replay_input(trace, faults=(), policy=stop_and_restart())
    queued = replace(
        inputs,
        arrival_ps=np.zeros_like(inputs.arrival_ps),
        workers=1,
        snapshot_ps=np.zeros(0, dtype=np.int64),
        own_rules=STANDARD,  # one worker leaves nothing to decide
    )
    output, cpu_s = replay_timed(queued)
    finished = output.last_ps[output.status == Status.FINISHED]
    if len(finished) < 10:
        raise InputError("load: a capacity needs at least ten requests that fit a worker")
    return Capacity(worker_requests_per_s=float(middle_throughput(finished)), cpu_s=cpu_s)


def _key(cluster: Cluster, trace: Trace) -> str:
    costs = cluster.costs
    stated = cluster.settings
    depends_on: list[Any] = [
        replay_code_digest(),
        content_digest([trace.prompt_tokens.tobytes(), trace.output_tokens.tobytes()]),
        [costs.target.token_ps.tobytes(), costs.target.lm_head_ps.tobytes()],
        [costs.target.prefill_pair_ps, costs.target.decode_context_ps, costs.target.decode_sequence_ps],
        [costs.pool_pages, stated.chunk_tokens, stated.max_batch, stated.scheduler],
    ]
    return content_digest(depends_on)


def _read(key: str) -> Capacity | None:
    try:
        return msgspec.json.decode((cache_root() / "capacity" / f"{key}.json").read_bytes(), type=Capacity)
    except (OSError, msgspec.MsgspecError):
        return None


def _write(key: str, found: Capacity) -> None:
    """Keeps a capacity for later runs; a cache folder that cannot be written is no error."""
    try:
        folder = cache_root() / "capacity"
    except OSError:
        return
    temporary = folder / f"{key}.{os.getpid()}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(msgspec.json.encode(msgspec.structs.replace(found, cpu_s=0.0)))
        temporary.replace(folder / f"{key}.json")
    except OSError:
        temporary.unlink(missing_ok=True)


_KEPT: dict[str, Capacity] = {}
