"""The measuring part of ``lumen-tune calibrate``: every point under a progress bar, nothing measured is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lumen_policy.cluster import NO_DRAFT
from lumen_policy.settings import Settings

if TYPE_CHECKING:
    import polars as pl

    from cost_models.calibration.device import Device
    from cost_models.calibration.microbenchmarks import Grid, ModelBench, Point
    from cost_models.hardware import HardwareProfile
    from cost_models.model_spec import ModelSpec
    from lumen_policy.cli.calibrate import Stated

__all__ = ["measure_profile"]


def measure_profile(
    settings: Settings,
    stated: Stated,
    base: HardwareProfile,
    out: str,
    device_name: str,
    notices: list[str],
    *,
    quick: bool,
    full: bool,
    quiet: bool,
) -> HardwareProfile:
    """Measures the model, its draft and the links, keeps the samples beside the profile, and fits them.

    Args:
        settings: draft and TP.
        stated: the served model and the engine's overhead.
        base: gives what is not measured.
        out: path of the profile; samples go to the same name with ``.samples.parquet``.
        device_name: ``cuda`` or ``cpu``.
        notices: gets a line for each point that was skipped and each thing not measured.
        quick, full: see the command.
        quiet: no progress.

    Raises:
        CostModelError: no torch, no such device, or too few points left.
        KeyboardInterrupt: like any failure, after the samples measured so far were written.
    """
    from cost_models.calibration.device import open_device
    from cost_models.calibration.fit import FitOptions, fit_calibration
    from cost_models.calibration.microbenchmarks import grid_for
    from cost_models.calibration.profile import measured_profile
    from cost_models.calibration.samples import write_samples
    from cost_models.calibration.transfers import TransferBench
    from cost_models.hf_config import load_model

    device = open_device(device_name)
    model = stated.model
    models = [model]
    if settings.draft != NO_DRAFT:
        draft = load_model(settings.draft, notices)
        draft.check_tensor_parallel(settings.tp)
        models.append(draft)
    samples_path = Path(out).with_suffix(".samples.parquet")
    run = _Run(device, notices, quiet=quiet)
    kernel = ""
    try:
        grid = grid_for(device_name, quick=quick)
        for spec in models:
            bench = run.bench(spec, settings.tp, grid, full=full)
            kernel = bench.attention.kernel
            run.measure(spec.name, bench.points(), bench.seconds)
            del bench
            device.free()
        transfers = TransferBench(device, model, settings.tp, Path(out).resolve().parent, quick=quick)
        run.measure(model.name, transfers.points(), transfers.seconds)
    except BaseException:
        if run.rows:
            write_samples(run.samples(kernel), samples_path)
            print(
                f"lumen-tune: {len(run.rows)} samples kept in {samples_path}; fit them with --from-samples",
                file=sys.stderr,
            )
        raise
    samples = run.samples(kernel)
    write_samples(samples, samples_path)
    notices.append(f"{len(samples)} samples in {samples_path}")
    options = FitOptions(
        overhead_s=stated.overhead_s,
        attention_kernel=kernel,
        kind="measured",
        source=device.description,
        base_communication=True,
    )
    calibrations = [
        fit_calibration(samples, spec, settings.tp, base, options, notices) for spec in dict.fromkeys(models)
    ]
    return measured_profile(base, samples, calibrations, device.description, device.memory_bytes, notices)


class _Run:
    """Samples so far."""

    def __init__(self, device: Device, notices: list[str], *, quiet: bool) -> None:
        self._device, self._notices, self._quiet = device, notices, quiet
        self.rows: list[dict[str, Any]] = []

    def bench(self, model: ModelSpec, tensor_parallel: int, grid: Grid, *, full: bool) -> ModelBench:
        """The model's weights: of all layers if asked and they fit, of one otherwise."""
        from cost_models.calibration.microbenchmarks import ModelBench
        from cost_models.errors import CostModelError

        try:
            return ModelBench(self._device, model, tensor_parallel, grid, full=full)
        except Exception as error:
            if not self._device.out_of_memory(error):
                raise
        self._device.free()
        if not full:
            raise CostModelError(f"{model.name}: no memory for the weights of one layer")
        self._notices.append(f"{model.name}: no memory for all layers, one is measured")
        return self.bench(model, tensor_parallel, grid, full=False)

    def measure(self, model: str, points: list[Point], seconds: Callable[[Point], tuple[str, float]]) -> None:
        """Measures points one by one; one without room is skipped and said."""
        with _progress(model, len(points), quiet=self._quiet) as advance:
            for point in points:
                advance(point.kind)
                try:
                    kind, value = seconds(point)
                except Exception as error:
                    if not self._device.out_of_memory(error):
                        raise
                    self._device.free()
                    counts = ", ".join(f"{name} {count:,}" for name, count in point.counts.items())
                    self._notices.append(f"{model}: {point.kind} of {counts} skipped: out of memory")
                    continue
                self.rows.append({"model": model, "kind": kind, **point.counts, "seconds": value})

    def samples(self, kernel: str) -> pl.DataFrame:
        """The rows as a checked table."""
        import polars as pl

        from cost_models.calibration.samples import checked

        rows = pl.DataFrame(self.rows, infer_schema_length=None)
        source = f"{self._device.description}; {kernel}"
        return checked(rows.with_columns(pl.lit(source).alias("source")), "samples")


@contextmanager
def _progress(model: str, total: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    if quiet or not sys.stderr.isatty():
        said: set[str] = set()

        def line(kind: str) -> None:
            if not quiet and kind not in said:
                said.add(kind)
                print(f"lumen-tune: {model}: {kind.replace('_', ' ')}", file=sys.stderr)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(model, total=total)
        started = False

        def step(kind: str) -> None:
            nonlocal started
            bar.update(task, description=f"{model}: {kind.replace('_', ' ')}", advance=1 if started else 0)
            started = True

        yield step
        bar.update(task, completed=total)
