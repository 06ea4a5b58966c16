"""``lumen-tune calibrate``: measure a GPU, or fit what was measured elsewhere, into a hardware profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumen_policy.cli.options import Json, Quiet, with_settings
from lumen_policy.errors import InputError
from lumen_policy.settings import Settings

if TYPE_CHECKING:
    from cost_models.calibration.operators import OperatorTables
    from cost_models.hardware import HardwareProfile
    from cost_models.model_spec import ModelSpec

__all__ = ["Stated", "register"]

_UNUSED = ("workers", "chunk_tokens", "max_batch", "kv_pages", "scheduler", "router", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What the user states of the calibrated iteration."""

    model: ModelSpec
    overhead_s: float


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("calibrate")(_calibrate)


@with_settings("cluster", trace=False, without=_UNUSED)
def _calibrate(
    settings: Settings,
    *,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Profile to write.")] = None,
    device: Annotated[str, typer.Option("--device", metavar="cuda|cpu", help="What to measure.")] = "cuda",
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
        float, typer.Option("--overhead-ms", metavar="X", help="Engine overhead of an iteration.")
    ] = 0.0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure iterations, restores and loads on this machine, or fit stored timings, into a profile.

    The profile is the one of --hardware with measured parts put in; replay with --hardware FILE.
    """
    from cost_models.calibration.profile import renamed, write_profile
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
    base = load_hardware(settings.hardware)
    stated = Stated(model=load_model(settings.model, notices), overhead_s=overhead_ms / 1e3)
    stated.model.check_tensor_parallel(settings.tp)
    if observe is not None:
        write_notices(notices, quiet=quiet)
        _from_log(observe, settings, stated.model, base, out, json=json)
        return
    if from_operators is not None:
        from cost_models.calibration.operators import OperatorTables

        tables = OperatorTables(linear=from_operators, attention=attention, all_reduce=allreduce)
        profile = _from_tables(tables, settings, base, stated, notices)
    elif from_samples is not None:
        profile = _from_samples(from_samples, settings, base, stated, notices)
    else:
        from lumen_policy.cli.calibrate_device import measure_profile

        profile = measure_profile(
            settings, stated, base, out, device, notices, quick=quick, full=full, quiet=quiet
        )
    profile = renamed(profile, base, out)
    write_profile(profile, out)
    write_notices(notices, quiet=quiet)
    _show(profile, stated.model, settings.tp, out, notices, json=json)


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
    tables: OperatorTables, settings: Settings, base: HardwareProfile, stated: Stated, notices: list[str]
) -> HardwareProfile:
    from pathlib import Path

    from cost_models.calibration.fit import FitOptions, fit_calibration
    from cost_models.calibration.operators import operator_samples
    from cost_models.calibration.profile import with_calibrations

    samples = operator_samples(tables, stated.model, settings.tp, notices)
    paths = (tables.linear, tables.attention, tables.all_reduce)
    named = ", ".join(Path(path).name for path in paths if path is not None)
    options = FitOptions(
        overhead_s=stated.overhead_s,
        attention_kernel="as in the operator table" if tables.attention is not None else "none measured",
        kind="published",
        source=f"fit to operator tables {named}: {stated.model.name}, TP {settings.tp}",
    )
    calibration = fit_calibration(samples, stated.model, settings.tp, base, options, notices)
    notices.append(f"memory, links and reload are those of {base.name}")
    return with_calibrations(base, [calibration])


def _from_samples(
    path: str, settings: Settings, base: HardwareProfile, stated: Stated, notices: list[str]
) -> HardwareProfile:
    from pathlib import Path

    from cost_models.calibration.fit import FitOptions, fit_calibration
    from cost_models.calibration.profile import measured_profile
    from cost_models.calibration.samples import read_samples
    from cost_models.hf_config import load_model
    from lumen_policy.cluster import NO_DRAFT

    samples = read_samples(path)
    sources = [text for text in samples["source"].unique().sort() if text]
    source = "; ".join(sources) or f"samples in {Path(path).name}, origin not stated"
    options = FitOptions(
        overhead_s=stated.overhead_s,
        attention_kernel="as in the samples",
        kind="measured",
        source=source,
        base_communication=True,
    )
    models = [stated.model]
    if settings.draft != NO_DRAFT:
        draft = load_model(settings.draft, notices)
        if draft.name != stated.model.name and draft.name in samples["model"]:
            models.append(draft)
    fitted = [fit_calibration(samples, model, settings.tp, base, options, notices) for model in models]
    return measured_profile(base, samples, fitted, source, None, notices)


def _from_log(
    path: str, settings: Settings, model: ModelSpec, base: HardwareProfile, out: str, *, json: bool
) -> None:
    from pathlib import Path

    import msgspec

    from cost_models.calibration.observe import observe
    from cost_models.calibration.profile import renamed, with_calibrations, write_profile
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
    write_profile(renamed(with_calibrations(base, [], residual_scale=scale), base, out), out)
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
