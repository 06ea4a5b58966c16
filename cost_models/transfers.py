"""What checkpoint traffic costs on the links between workers: device to host, network, store."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from cost_models.errors import CostModelError
from cost_models.hardware import HardwareProfile
from cost_models.iteration import to_ps
from cost_models.kv_restore import restore_s, restore_table_ps
from cost_models.model_spec import ModelSpec
from cost_models.serving_costs import PAGE_TOKENS, IntArray, TransferCosts
from cost_models.sourced import SourcedCurve, exact

__all__ = [
    "CheckpointLinks",
    "LinkLine",
    "checkpoint_links",
    "link_line",
    "remote_restore_s",
    "transfer_costs",
]

_MAX_BYTES_PER_S = 1e14
_MAX_SECONDS = 1e5


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLine:
    """A link as a line: a transfer of b bytes takes latency_s + b · byte_s.

    The effective bandwidth b / (latency_s + b · byte_s) grows with size towards 1 / byte_s.
    """

    latency_s: Fraction
    byte_s: Fraction


def link_line(curve: SourcedCurve) -> LinkLine:
    """The line through a curve's points: least squares of relative errors, latency ≥ 0.

    A curve of one point keeps its own latency where that is shorter than the point's transfer.
    """
    points = [(exact(size), exact(size) / exact(rate)) for size, rate in curve.points]
    if len(points) == 1:
        size, seconds = points[0]
        latency = min(exact(curve.latency_s), seconds)
        return LinkLine(latency_s=latency, byte_s=(seconds - latency) / size)
    weights = [(1 / seconds, size / seconds) for size, seconds in points]
    xx, xy, yy = (
        sum((left[i] * left[j] for left in weights), Fraction(0)) for i, j in ((0, 0), (0, 1), (1, 1))
    )
    x, y = (sum((weight[i] for weight in weights), Fraction(0)) for i in (0, 1))
    determinant = xx * yy - xy * xy
    latency = (x * yy - y * xy) / determinant
    if latency < 0:
        return LinkLine(latency_s=Fraction(0), byte_s=y / yy)
    return LinkLine(latency_s=latency, byte_s=(xx * y - xy * x) / determinant)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLinks:
    """The links of one worker and the store's, exact seconds.

    A checkpoint goes from the server's GPUs through its network interfaces (egress; both stages at once, block by
    block) into the holder's host memory through the holder's interfaces (ingress), or into the store.

    Attributes:
        egress_latency_s: of one transfer: latency of device to host + of the network.
        egress_token_s: of the slower of the two.
        egress_bound: which one that is.
        ingress_token_s: a worker's network interfaces, all together.
        store_latency_s: of one transfer into or out of the store.
        store_token_s: the store's own bandwidth.
        host_latency_s: latency of the host links in a restore.
        network_latency_s: latency of the network.
    """

    egress_latency_s: Fraction
    egress_token_s: Fraction
    egress_bound: Literal["device_to_host", "network"]
    ingress_token_s: Fraction
    store_latency_s: Fraction
    store_token_s: Fraction
    host_latency_s: Fraction
    network_latency_s: Fraction


def checkpoint_links(
    *,
    model: ModelSpec,
    hardware: HardwareProfile,
    tensor_parallel: int,
    store_latency_s: Fraction | float | None = None,
    store_bytes_per_s: Fraction | float | None = None,
) -> CheckpointLinks:
    """The links' figures for one token of a model's KV.

    device to host: token bytes · copies / TP a GPU, all GPUs at once; a line through ``device_to_host`` (or
    ``host_link``). network: token bytes / (TP · nics_per_gpu · nic_bytes_per_s), one copy. store: token bytes /
    store_bytes_per_s, one copy.

    Args:
        model, hardware, tensor_parallel: the worker.
        store_latency_s, store_bytes_per_s: of the store; None = the profile's.

    Raises:
        CostModelError: TP does not fit the model, or a store value out of range.

    Valid for: interfaces used for checkpoints alone, a network core without contention.
    Ignores: interference of device-to-host copies with decoding, and of restores with them.
    """
    model.check_tensor_parallel(tensor_parallel)
    token_bytes = model.kv_bytes_per_token
    gpu_bytes = Fraction(token_bytes * model.kv_copies(tensor_parallel), tensor_parallel)
    down = link_line(hardware.device_to_host or hardware.host_link)
    nics = tensor_parallel * hardware.nics_per_gpu.exact()
    network_token_s = token_bytes / (nics * hardware.nic_bytes_per_s.exact())
    store_rate = _given("store_bytes_per_s", store_bytes_per_s, _MAX_BYTES_PER_S, zero=False)
    latency = _given("store_latency_s", store_latency_s, _MAX_SECONDS, zero=True)
    down_token_s = gpu_bytes * down.byte_s
    return CheckpointLinks(
        egress_latency_s=down.latency_s + hardware.nic_latency_s.exact(),
        egress_token_s=max(down_token_s, network_token_s),
        egress_bound="device_to_host" if down_token_s > network_token_s else "network",
        ingress_token_s=network_token_s,
        store_latency_s=hardware.store_latency_s.exact() if latency is None else latency,
        store_token_s=token_bytes
        / (hardware.store_bytes_per_s.exact() if store_rate is None else store_rate),
        host_latency_s=exact(hardware.host_link.latency_s),
        network_latency_s=hardware.nic_latency_s.exact(),
    )


def remote_restore_s(
    model: ModelSpec,
    hardware: HardwareProfile,
    tensor_parallel: int,
    pages: int,
    links: CheckpointLinks,
    *,
    store: bool = False,
) -> Fraction:
    """Whole pages from another worker's host memory, or the store's, into the GPUs; 0 for none.

    t = latencies + the slowest stage: the stages (source's network interfaces or the store, own interfaces, host
    links) work at once, block by block.

    t = network latency [+ store latency] + max(restore(pages), host-link latency + tokens · token time of the
    network [or of the store, if that is slower])

    Args:
        model, hardware, tensor_parallel: the restoring worker.
        pages: whole pages, ≥ 0.
        links: of this worker, from ``checkpoint_links``.
        store: out of the store.
    """
    if pages == 0:
        return Fraction(0)
    latency, token_s = _wire(links, store=store)
    local = restore_s(model, hardware, tensor_parallel, pages)
    return latency + max(local, links.host_latency_s + pages * PAGE_TOKENS * token_s)


def transfer_costs(
    *,
    model: ModelSpec,
    hardware: HardwareProfile,
    tensor_parallel: int,
    max_pages: int,
    links: Literal["free", "fifo"] = "free",
    store_latency_s: Fraction | float | None = None,
    store_bytes_per_s: Fraction | float | None = None,
) -> TransferCosts:
    """``checkpoint_links`` and ``remote_restore_s`` as integers, each rounded once to a picosecond.

    Args:
        model, hardware, tensor_parallel: the worker.
        max_pages: pages of the longest restore.
        links: ``free``: transfers take no time (restores do); ``fifo``: they take their turn on the links.
        store_latency_s, store_bytes_per_s: of the store; None = the profile's.

    Raises:
        CostModelError: see ``checkpoint_links``; links is another word.
    """
    if links not in ("free", "fifo"):
        raise CostModelError(f"links is {links!r}, allowed: free, fifo")
    found = checkpoint_links(
        model=model,
        hardware=hardware,
        tensor_parallel=tensor_parallel,
        store_latency_s=store_latency_s,
        store_bytes_per_s=store_bytes_per_s,
    )
    remote_ps, store_ps = (
        _restore_table_ps(model, hardware, tensor_parallel, max_pages, found, store=store)
        for store in (False, True)
    )
    if links == "free":
        return TransferCosts(remote_restore_ps=remote_ps, store_restore_ps=store_ps)
    return TransferCosts(
        egress_latency_ps=to_ps(found.egress_latency_s),
        egress_token_ps=to_ps(found.egress_token_s),
        ingress_token_ps=to_ps(found.ingress_token_s),
        store_latency_ps=to_ps(found.store_latency_s),
        store_token_ps=to_ps(found.store_token_s),
        remote_restore_ps=remote_ps,
        store_restore_ps=store_ps,
    )


def _restore_table_ps(
    model: ModelSpec,
    hardware: HardwareProfile,
    tensor_parallel: int,
    max_pages: int,
    links: CheckpointLinks,
    *,
    store: bool,
) -> IntArray:
    """Half-up rounding does not decrease, so the larger of two rounded times is the larger time rounded."""
    latency, token_s = _wire(links, store=store)
    local = restore_table_ps(model, hardware, tensor_parallel, max_pages, latency)
    start, step = (latency + links.host_latency_s) * 10**12, PAGE_TOKENS * token_s * 10**12
    denominator = 2 * math.lcm(start.denominator, step.denominator)
    base, slope = int(start * denominator) + denominator // 2, int(step * denominator)
    wire = [0, *((base + slope * page) // denominator for page in range(1, max_pages + 1))]
    longest_ps = max(local[-1], wire[-1])
    if longest_ps >= 2**60:
        raise CostModelError(
            f"restoring the longest request from {'the store' if store else 'another worker'} would take "
            f"{longest_ps / 1e12:.3g} s, allowed: < {2**60 / 1e12:.3g} s; is the bandwidth in byte/s?"
        )
    return np.maximum(np.array(local, dtype=np.int64), np.array(wire, dtype=np.int64))


def _wire(links: CheckpointLinks, *, store: bool) -> tuple[Fraction, Fraction]:
    if not store:
        return links.network_latency_s, links.ingress_token_s
    return links.network_latency_s + links.store_latency_s, max(links.ingress_token_s, links.store_token_s)


def _given(name: str, value: Fraction | float | None, highest: float, *, zero: bool) -> Fraction | None:
    if value is None:
        return None
    if not math.isfinite(value) or value < 0 or value > highest or (value == 0 and not zero):
        bound = "≥ 0" if zero else "> 0"
        raise CostModelError(f"{name} is {float(value):g}, allowed: {bound} and ≤ {highest:g}")
    return value if isinstance(value, Fraction) else exact(float(value))
