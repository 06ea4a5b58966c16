"""Prediction against fresh measurement at points that no grid holds: ``python -m bench.fresh_points PROFILE``."""

from __future__ import annotations

import argparse
import sys

import msgspec
import numpy as np

from cost_models.calibration.device import open_device
from cost_models.calibration.microbenchmarks import ModelBench, Point, grid_for
from cost_models.calibration.profile import with_calibrations
from cost_models.hardware import load_hardware
from cost_models.hf_config import load_model
from cost_models.iteration import iteration_model

__all__ = ["fresh_points", "main"]

_MEDIAN_TARGET, _P90_TARGET = 0.05, 0.12


def fresh_points(device: str) -> list[Point]:
    """Ten prefill chunks and ten decodes between the grid's sizes."""
    small = device == "cpu"
    chunks = (24, 50, 100, 150, 200) if small else (200, 700, 1500, 3000, 6000)
    batches = (2, 3, 6, 9, 12) if small else (3, 12, 40, 80, 160)
    points = []
    for chunk in chunks:
        for cached in (0, 60 if small else 2500):
            pairs = chunk * cached + chunk * (chunk + 1) // 2
            points.append(Point(kind="prefill", counts={"tokens": chunk, "pairs": pairs}))
    for batch in batches:
        for context in (50, 300) if small else (700, 3000):
            counts = {"sequences": batch, "context_tokens": batch * context}
            points.append(Point(kind="decode", counts=counts))
    return points


def main() -> int:
    """Print each point and the errors; exit 1 above the targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile")
    parser.add_argument("--model", default="qwen3-14b")
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    asked = parser.parse_args()
    model = load_model(asked.model, [])
    hardware = load_hardware(asked.profile)
    calibration = hardware.calibration(model, asked.tp)
    if calibration is None:
        print(f"{asked.profile} is not calibrated for {model.name} at TP {asked.tp}", file=sys.stderr)
        return 2
    # what the device runs: neither an engine's overhead nor other GPUs
    on_device = msgspec.structs.replace(
        calibration, overhead_s=msgspec.structs.replace(calibration.overhead_s, value=0.0), communication=None
    )
    iteration = iteration_model(model, with_calibrations(hardware, [on_device]), asked.tp)
    device = open_device(asked.device)
    bench = ModelBench(device, model, asked.tp, grid_for(asked.device, quick=False), full=False)
    errors = []
    for point in fresh_points(asked.device):
        _, measured = bench.seconds(point)
        counts = point.counts
        sequences = counts.get("sequences", 0)
        predicted = float(
            iteration.seconds(
                counts.get("tokens", sequences),
                pairs=counts.get("pairs", 0),
                context_tokens=counts.get("context_tokens", 0),
                sequences=sequences,
            )
        )
        errors.append(abs(predicted / measured - 1))
        print(
            f"{point.kind:<8} {counts!s:<50} {1e3 * predicted:9.3f} / {1e3 * measured:9.3f} ms "
            f"{100 * errors[-1]:5.1f} %"
        )
    median, p90 = float(np.median(errors)), float(np.quantile(errors, 0.9))
    print(f"median {100 * median:.1f} %, P90 {100 * p90:.1f} %, {device.description}")
    return 0 if median <= _MEDIAN_TARGET and p90 <= _P90_TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
