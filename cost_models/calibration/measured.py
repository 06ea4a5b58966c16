"""Figures of a profile that come straight from samples: links, storage, verification."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl
from scipy.optimize import isotonic_regression

from cost_models.calibrated import Calibration
from cost_models.calibration.samples import of_kind
from cost_models.sourced import Sourced, SourcedCurve

__all__ = ["copy_curve", "storage_rate", "verify_context_ratio"]

_ATTENTION_SHARE = 0.5


def copy_curve(
    samples: pl.DataFrame, source: str, kind: Literal["host_to_device_pages", "device_to_host_pages"]
) -> SourcedCurve | None:
    """The curve of page-scattered copies of a kind, as restores and checkpoints do them; None without samples.

    Times do not decrease with size (isotonic regression); the latency is what a line through the two smallest
    transfers leaves for an empty one.
    """
    rows = of_kind(samples, kind).group_by("bytes").agg(pl.col("seconds").median()).sort("bytes")
    if len(rows) < 2:
        return None
    sizes = rows["bytes"].to_numpy().astype(np.float64)
    times = isotonic_regression(rows["seconds"].to_numpy()).x
    for i in range(1, len(times)):
        times[i] = max(times[i], times[i - 1] * (1 + 1e-4))
    slope = (times[1] - times[0]) / (sizes[1] - sizes[0])
    latency = max(0.0, times[0] - slope * sizes[0])
    return SourcedCurve(
        latency_s=float(f"{latency:.6g}"),
        points=[(float(size), float(f"{size / t:.6g}")) for size, t in zip(sizes, times, strict=True)],
        unit="byte/s",
        kind="measured",
        source=f"{source}; pinned memory, a copy for each KV page",
    )


def storage_rate(samples: pl.DataFrame, source: str) -> Sourced | None:
    """Bytes per second of a cold read of a weight file; None without a cold one."""
    rows = of_kind(samples, "storage_read")
    if rows.is_empty():
        return None
    rate = float((rows["bytes"] / rows["seconds"]).median())  # type: ignore[arg-type]
    return Sourced(
        value=float(f"{rate:.6g}"), unit="byte/s", kind="measured", source=f"{source}; safetensors, cold"
    )


def verify_context_ratio(samples: pl.DataFrame, calibration: Calibration, source: str) -> Sourced | None:
    """c_v: attention of k + 1 rows a sequence over that of one, where reading KV is most of it.

    Median over points of time(k) / time(0), k ≥ 1, of the same batch and context; None without such points.
    """
    rows = of_kind(samples, "attention_verify")
    plain = rows.filter(pl.col("k") == 0).select(
        "sequences", "context_tokens", pl.col("seconds").alias("plain_s")
    )
    read_s = pl.col("context_tokens") * calibration.decode_context_s.value
    pairs = (
        rows.filter(pl.col("k") > 0)
        .join(plain, on=["sequences", "context_tokens"])
        .filter(read_s >= _ATTENTION_SHARE * pl.col("plain_s"))
    )
    if pairs.is_empty():
        return None
    ratio = float((pairs["seconds"] / pairs["plain_s"]).median())  # type: ignore[arg-type]
    return Sourced(
        value=float(f"{min(max(ratio, 0.01), 100.0):.4g}"),
        unit="1",
        kind="measured",
        source=f"{source}; {calibration.attention_kernel}",
    )
