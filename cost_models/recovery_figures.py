"""Figures of restart paths and checkpoint links that a profile may leave out."""

from __future__ import annotations

from cost_models.sourced import Sourced

__all__ = [
    "NICS_PER_GPU",
    "NIC_BYTES_PER_S",
    "NIC_LATENCY_S",
    "SNAPSHOT_BASE_S",
    "SNAPSHOT_BYTES_PER_S",
    "STANDBY_SWITCH_S",
    "STORE_BYTES_PER_S",
    "STORE_LATENCY_S",
]

_SNAPSHOT = (
    "NVIDIA Dynamo Snapshot blog (2026-05): Qwen3-14B back in 6.8 s, Qwen3-32B in 9.9 s, on one GPU; the line "
    "through the two over their BF16 weights (70B in FP8: 10.3 s, published 11 s)"
)
_NETWORK = (
    "Mooncake, vLLM benchmark, H800 nodes with 8 x RoCE: 36.5 GiB/s at 20 MiB, 95 at 146 MiB, 142 at 4.5 GiB; "
    "latency + bytes / bandwidth of least largest relative error over its nine sizes (5.5 %)"
)

SNAPSHOT_BASE_S = Sourced(value=4.26, unit="s", kind="published", source=_SNAPSHOT)
SNAPSHOT_BYTES_PER_S = Sourced(value=11.61e9, unit="byte/s", kind="published", source=_SNAPSHOT)
STANDBY_SWITCH_S = Sourced(
    value=4.0,
    unit="s",
    kind="assumed",
    source=(
        "within 1 to 7 s: shadow engines, kill to response, NVIDIA/TensorRT-LLM#13394: 1.0 s (Qwen3-0.6B, TP 1), "
        "3.8 s (TP 8), 6.4 s (Kimi K2.5, TP 8); ai-dynamo/dynamo#6818: under 10 s"
    ),
)
NICS_PER_GPU = Sourced(
    value=1.0,
    unit="1",
    kind="assumed",
    source="eight-GPU nodes with eight network interfaces, as in the measured cluster",
)
NIC_LATENCY_S = Sourced(value=0.00037, unit="s", kind="published", source=_NETWORK)
NIC_BYTES_PER_S = Sourced(
    value=18.3e9, unit="byte/s", kind="published", source=f"{_NETWORK}; an eighth of it"
)
STORE_LATENCY_S = Sourced(
    value=0.001, unit="s", kind="assumed", source="a metadata look-up and an NVMe access behind the network"
)
STORE_BYTES_PER_S = Sourced(
    value=40.3e9,
    unit="byte/s",
    kind="assumed",
    source="one storage node: 6.6 TiB/s read over 180 nodes (deepseek-ai/3FS README); writes taken as reads",
)
