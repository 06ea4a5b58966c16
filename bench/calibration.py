"""Accuracy of the calibration on published operator timings: held-out rows and twice the fitted range."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.line import Line
from cost_models.calibrated import FitError
from cost_models.calibration.fit import FitOptions, fit_calibration
from cost_models.calibration.operators import OperatorTables, operator_samples
from cost_models.hardware import load_hardware
from cost_models.model_spec import ModelSpec

__all__ = ["TABLES", "fitted", "lines"]

TABLES = Path(__file__).resolve().parent.parent.parent / "shared/data/vidur-profiles"
"""Vidur's profiling data (microsoft/vidur@7d47513, MIT), if it lies beside the checkout."""

_TP = (1, 2, 4, 8)
_OPTIONS = FitOptions(attention_kernel="FlashAttention-2", kind="published", source="microsoft/vidur@7d47513")


def _spec(name: str, layers: int, hidden: int, q_heads: int, kv_heads: int, ffn: int) -> ModelSpec:
    return ModelSpec(
        name=name,
        layers=layers,
        hidden=hidden,
        q_heads=q_heads,
        kv_heads=kv_heads,
        head_dim=128,
        ffn=ffn,
        vocab=32000,
        tied=False,
    )


_MODELS = {
    spec.name: spec
    for spec in (
        _spec("Llama-2-70b-hf", 80, 8192, 64, 8, 28672),
        _spec("Llama-2-7b-hf", 32, 4096, 32, 32, 11008),
        _spec("Meta-Llama-3-70B", 80, 8192, 64, 8, 28672),
        _spec("Meta-Llama-3-8B", 32, 4096, 32, 8, 14336),
        _spec("Qwen-72B", 80, 8192, 64, 64, 24576),
    )
}


def fitted(gpu: str, name: str, tensor_parallel: int, *, attention: bool = False) -> dict[str, FitError]:
    """Errors of one GPU, model and TP."""
    folder = TABLES / gpu / name
    tables = OperatorTables(
        linear=str(folder / "mlp.csv.gz"),
        attention=str(folder / "attention_tp2_early.csv.gz") if attention else None,
        all_reduce=str(TABLES / "network" / f"{gpu}_dgx/all_reduce.csv.gz") if tensor_parallel > 1 else None,
    )
    model = _MODELS[name]
    samples = operator_samples(tables, model, tensor_parallel, [])
    base = load_hardware("a100-80g" if gpu == "a100" else "h100-sxm")
    return fit_calibration(samples, model, tensor_parallel, base, _OPTIONS, []).errors


def _percent(name: str, value: float | None, target: float | None, note: str = "") -> Line:
    assert value is not None
    return Line(name=name, value=100 * value, target=target, unit="%", note=note)


def lines() -> Iterator[Line]:
    """The figures, each against its target."""
    if not TABLES.is_dir():
        yield Line(
            name="calibration accuracy",
            value=0,
            target=None,
            unit="",
            note=f"no tables at ../shared/{TABLES.name}",
        )
        return
    whole = fitted("a100", "Llama-2-70b-hf", 2, attention=True)
    for form, median, p90 in (("prefill", 2.5, 7.0), ("decode", 2.0, 4.5)):
        name = f"{form}, A100, Llama-2-70B TP 2, whole layer stack"
        error = whole[form]
        note = f"{error.rows:,} rows, held-out fifths"
        yield _percent(f"{name}: median error", error.median_error, median, note)
        yield _percent(f"{name}: P90", error.p90_error, p90)
        note = "fitted on half the tokens, context and batch"
        yield _percent(f"{name}, beyond: median", error.extrapolated_median_error, 4.0, note)
        yield _percent(f"{name}, beyond: P90", error.extrapolated_p90_error, 9.0)
    errors = {
        (gpu, folder.name, tp): fitted(gpu, folder.name, tp)["prefill"]
        for gpu in ("a100", "h100")
        for folder in sorted((TABLES / gpu).iterdir())
        if folder.is_dir()
        for tp in _TP
    }
    for field, median, p90, what in (
        ("", 3.0, 8.0, "held out"),
        ("extrapolated_", 4.0, 9.0, "twice the fitted tokens"),
    ):
        for quantile, target in (("median", median), ("p90", p90)):
            found = {case: getattr(error, f"{field}{quantile}_error") for case, error in errors.items()}
            worst = max(found, key=lambda case: found[case])
            name = f"linear layers + all-reduce, {what}: {'P90' if quantile == 'p90' else quantile}, worst"
            note = f"{worst[0].upper()} {worst[1]} TP {worst[2]}, of {len(found)}"
            yield _percent(name, found[worst], target, note)
            name = name.replace("worst", "middle")
            yield _percent(name, statistics.median(found.values()), None)
