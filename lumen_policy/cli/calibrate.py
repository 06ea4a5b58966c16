"""``lumen-tune calibrate``: measure a GPU, or fit what was measured elsewhere, into a hardware profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumen_policy.cli.options import Json, Quiet, with_settings
from lumen_policy.errors import InputError
from lumen_policy.settings import Settings

if TYPE_CHECKING:
    from cost_models.calibration.fit import FitOptions
    from cost_models.hardware import HardwareProfile
    from cost_models.model_spec import ModelSpec

__all__ = ["register"]

_UNUSED = ("workers", "chunk_tokens", "max_batch", "kv_pages", "scheduler", "router", "seed")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("calibrate")(_calibrate)


@with_settings("cluster", trace=False, without=_UNUSED)
def _calibrate(
    settings: Settings,
    *,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Profile to write.")] = None,
    device: Annotated[
        str, typer.Option("--device", metavar="cuda|cpu", help="What to measure. Default: cuda.")
    ] = "cuda",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points, fewer repetitions.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Run all layers where they fit, not one.")] = False,
    from_samples: Annotated[
        str | None,
        typer.Option("--from-samples", metavar="FILE", help="Fit stored samples (.parquet or .csv)."),
    ] = None,
    from_operators: Annotated[
        str | None,
        typer.Option(
            "--from-operators", metavar="FILE", help="Fit a table of linear operators (Vidur's mlp.csv)."
        ),
    ] = None,
    attention: Annotated[
        str | None, typer.Option("--attention", metavar="FILE", help="Its table of attention operators.")
    ] = None,
    allreduce: Annotated[
        str | None, typer.Option("--allreduce", metavar="FILE", help="Its table of all-reduces.")
    ] = None,
    observe: Annotated[
        str | None,
        typer.Option(
            "--observe", metavar="FILE", help="Fit one factor on iterations to a server's log (CSV)."
        ),
    ] = None,
    overhead_ms: Annotated[
        float, typer.Option("--overhead-ms", metavar="X", help="Engine overhead of an iteration. Default: 0.")
    ] = 0.0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure iterations, restores and loads on this machine, or fit stored timings, into a profile.

    The profile is the one of --hardware with measured parts put in; replay with --hardware FILE.
    """
    from cost_models.hardware import load_hardware
    from cost_models.hf_config import load_model
    from lumen_policy.cli.report import write_notices

    _check_sources(out, from_samples, from_operators, attention, allreduce, observe)
    if not 0 <= overhead_ms <= 1e5:
        raise InputError(f"--overhead-ms is {overhead_ms}, allowed: ≥ 0 and ≤ 1e5")
    if device not in ("cuda", "cpu"):
        raise InputError(f"--device is {device!r}, allowed: cuda, cpu")
    assert out is not None
    notices: list[str] = []
    model = load_model(settings.model, notices)
    base = load_hardware(settings.hardware)
    model.check_tensor_parallel(settings.tp)
    overhead_s = overhead_ms / 1e3
    if observe is not None:
        write_notices(notices, quiet=quiet)
        _from_log(observe, settings, model, base, out, json=json)
        return
    if from_operators is not None or from_samples is not None:
        profile = _from_tables(
            (from_operators, attention, allreduce),
            from_samples,
            settings.tp,
            model,
            base,
            overhead_s,
            notices,
        )
    else:
        from lumen_policy.cli.calibrate_device import measure_profile

        profile = measure_profile(
            settings, model, base, out, device, overhead_s, notices, quick=quick, full=full, quiet=quiet
        )
    from cost_models.calibration.profile import write_profile

    write_profile(profile, out)
    write_notices(notices, quiet=quiet)
    _show(profile, model, settings.tp, out, notices, json=json)


def _check_sources(
    out: str | None,
    from_samples: str | None,
    from_operators: str | None,
    attention: str | None,
    allreduce: str | None,
    observe: str | None,
) -> None:
    given = [
        name
        for name, value in (
            ("--from-samples", from_samples),
            ("--from-operators", from_operators),
            ("--observe", observe),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise InputError(f"{given[0]} and {given[1]}: allowed: one of them")
    if from_operators is None and (attention is not None or allreduce is not None):
        raise InputError("--attention and --allreduce need --from-operators")
    if out is None:
        raise InputError("--out FILE is needed: the profile to write")


def _from_tables(
    operators: tuple[str | None, str | None, str | None],
    samples_file: str | None,
    tensor_parallel: int,
    model: ModelSpec,
    base: HardwareProfile,
    overhead_s: float,
    notices: list[str],
) -> HardwareProfile:
    from pathlib import Path

    from cost_models.calibration.fit import FitOptions, fit_calibration
    from cost_models.calibration.operators import OperatorTables, operator_samples
    from cost_models.calibration.profile import with_calibrations
    from cost_models.calibration.samples import read_samples

    linear, attention, all_reduce = operators
    options: FitOptions
    if linear is not None:
        tables = OperatorTables(linear=linear, attention=attention, all_reduce=all_reduce)
        samples = operator_samples(tables, model, tensor_parallel, notices)
        named = [Path(path).name for path in operators if path is not None]
        options = FitOptions(
            overhead_s=overhead_s,
            attention_kernel="as in the operator table" if attention is not None else "none measured",
            kind="published",
            source=f"fit to operator tables {', '.join(named)}: {model.name}, TP {tensor_parallel}",
        )
    else:
        assert samples_file is not None
        samples = read_samples(samples_file)
        sources = [text for text in samples["source"].unique().sort() if text]
        options = FitOptions(
            overhead_s=overhead_s,
            attention_kernel="as in the samples",
            kind="measured",
            source="; ".join(sources) or f"samples in {Path(samples_file).name}, origin not stated",
        )
    calibration = fit_calibration(samples, model, tensor_parallel, base, options, notices)
    notices.append(f"memory, links and reload are those of {base.name}")
    return with_calibrations(base, [calibration])


def _from_log(
    path: str, settings: Settings, model: ModelSpec, base: HardwareProfile, out: str, *, json: bool
) -> None:
    from pathlib import Path

    import msgspec

    from cost_models.calibration.observe import observe
    from cost_models.calibration.profile import with_calibrations, write_profile
    from cost_models.sourced import Sourced
    from lumen_policy.cli.report import write_document
    from lumen_policy.document import SCHEMA_VERSION

    found = observe(path, model, base, settings.tp, settings.chunk_tokens)
    before = 1.0 if base.residual_scale is None else base.residual_scale.value
    scale = Sourced(
        value=float(f"{before * found.residual_scale:.6g}"),
        unit="1",
        kind="measured",
        source=f"{Path(path).name}: {found.requests} requests of {model.name}, TP {settings.tp}",
    )
    write_profile(with_calibrations(base, [], residual_scale=scale), out)
    document = {"schema_version": SCHEMA_VERSION, "profile": out, **msgspec.to_builtins(found)}
    if json:
        write_document(document)
        return
    from lumen_policy.cli.render_calibrate import print_observation

    print_observation(document)


def _show(
    profile: HardwareProfile,
    model: ModelSpec,
    tensor_parallel: int,
    out: str,
    notices: Sequence[str],
    *,
    json: bool,
) -> None:
    import msgspec

    from lumen_policy.cli.report import write_document
    from lumen_policy.document import SCHEMA_VERSION

    calibration = profile.calibration(model, tensor_parallel)
    assert calibration is not None
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "profile": out,
        "model": model.name,
        "tensor_parallel": tensor_parallel,
        "fit": msgspec.to_builtins(calibration.errors),
        "range": msgspec.to_builtins(calibration.range),
        "coefficients": {
            name: getattr(calibration, name).value
            for name in (
                "overhead_s",
                "head_weights_s",
                "head_row_s",
                "prefill_pair_s",
                "decode_context_s",
                "decode_sequence_s",
            )
        },
        "notes": list(notices),
    }
    if json:
        write_document(document)
        return
    from lumen_policy.cli.render_calibrate import print_calibration

    print_calibration(document)
