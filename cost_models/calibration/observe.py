"""How far a server's own log is from the predictions, as one factor on every iteration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from cost_models.cost_tables import prefill_s
from cost_models.errors import CostModelError
from cost_models.hardware import HardwareProfile
from cost_models.iteration import iteration_model
from cost_models.model_spec import ModelSpec

__all__ = ["Observation", "observe"]

_LEAST_REQUESTS = 8
_MAX_SECONDS = 1e5


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a log says about a profile.

    Attributes:
        requests: rows of the log.
        residual_scale: measured / predicted, the factor that brings the prediction's median to the log's.
        ttft_error_before, tpot_error_before: median |predicted / measured − 1| with the profile as it was;
            None where the log has no such column.
        ttft_error_after, tpot_error_after: the same with the factor.
    """

    requests: int
    residual_scale: float
    ttft_error_before: float | None
    tpot_error_before: float | None
    ttft_error_after: float | None
    tpot_error_after: float | None


def observe(
    path: str, model: ModelSpec, hardware: HardwareProfile, tensor_parallel: int, token_budget: int
) -> Observation:
    """Fits the residual scale of a log: exp of the median of ln(measured / predicted), TTFT and TPOT alike.

    TTFT is predicted as the prompt alone in chunks of the token budget, TPOT as a decode of ``batch`` sequences
    (1 where the column is missing) with the request's mean context.

    Args:
        path: CSV with prompt_tokens, output_tokens, ttft_s or ttft_ms, tpot_s or tpot_ms (one of the two times is
            enough), optionally batch.
        model, hardware, tensor_parallel: what served the log. A residual scale that the profile has is part of
            the prediction before.
        token_budget: tokens of one iteration.

    Raises:
        CostModelError: unreadable, a missing column, impossible values, or too few requests.

    Ignores: waiting in a queue, which a TTFT holds too; take requests of a lightly loaded server.
    """
    table = _read(path)
    iteration = iteration_model(model, hardware, tensor_parallel)
    prompts, outputs = table["prompt_tokens"].to_list(), table["output_tokens"].to_list()
    batches = table["batch"].to_list() if "batch" in table.columns else [1] * len(table)
    ratios: dict[str, npt.NDArray[np.float64]] = {}
    if "ttft_s" in table.columns:
        once = {prompt: prefill_s(iteration, prompt, token_budget) for prompt in set(prompts)}
        predicted = np.array([once[prompt] for prompt in prompts])
        ratios["ttft"] = table["ttft_s"].to_numpy() / predicted
    if "tpot_s" in table.columns:
        several = np.array(outputs) > 1
        predicted = np.array(
            [
                float(
                    iteration.seconds(
                        batch, rows=batch, context_tokens=batch * (prompt + output // 2), sequences=batch
                    )
                )
                for prompt, output, batch in zip(prompts, outputs, batches, strict=True)
            ]
        )
        if several.any():
            ratios["tpot"] = table["tpot_s"].to_numpy()[several] / predicted[several]
    if not ratios:
        raise CostModelError(f"{path}: no ttft_s, and no tpot_s of a request of more than one token")
    scale = float(np.exp(np.mean([np.median(np.log(ratio)) for ratio in ratios.values()])))

    def error(name: str, factor: float) -> float | None:
        return float(np.median(np.abs(factor / ratios[name] - 1))) if name in ratios else None

    return Observation(
        requests=len(table),
        residual_scale=scale,
        ttft_error_before=error("ttft", 1.0),
        tpot_error_before=error("tpot", 1.0),
        ttft_error_after=error("ttft", scale),
        tpot_error_after=error("tpot", scale),
    )


def _read(path: str) -> pl.DataFrame:
    try:
        table = pl.read_csv(path, infer_schema_length=None)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CostModelError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    for name in ("ttft", "tpot"):
        if f"{name}_ms" in table.columns:
            if f"{name}_s" in table.columns:
                raise CostModelError(f"{path}: both {name}_s and {name}_ms, allowed: one of them")
            table = _cast(table, f"{name}_ms", pl.Float64, path)
            table = table.with_columns((pl.col(f"{name}_ms") / 1000).alias(f"{name}_s"))
    if "ttft_s" not in table.columns and "tpot_s" not in table.columns:
        raise CostModelError(f"{path}: no column ttft_s, ttft_ms, tpot_s or tpot_ms")
    if len(table) < _LEAST_REQUESTS:
        raise CostModelError(f"{path}: {len(table)} requests, allowed: at least {_LEAST_REQUESTS}")
    for name in ("prompt_tokens", "output_tokens", "batch"):
        if name not in table.columns:
            if name == "batch":
                continue
            raise CostModelError(f"{path}: column {name!r} is missing")
        table = _cast(table, name, pl.Int64, path)
        _refuse(table, name, pl.col(name) < 1, "an integer ≥ 1", path)
    for name in ("ttft_s", "tpot_s"):
        if name not in table.columns:
            continue
        table = _cast(table, name, pl.Float64, path)
        value = pl.col(name)
        one_token = (pl.col("output_tokens") == 1) & value.is_null() if name == "tpot_s" else pl.lit(False)
        bad = (value.is_null() | ~value.is_finite() | (value <= 0) | (value > _MAX_SECONDS)) & ~one_token
        if name == "tpot_s":
            bad &= pl.col("output_tokens") > 1
        _refuse(table, name, bad.fill_null(True), f"a finite number > 0 and ≤ {_MAX_SECONDS:g} s", path)
    return table


def _cast(table: pl.DataFrame, name: str, kind: type[pl.DataType], path: str) -> pl.DataFrame:
    try:
        return table.with_columns(pl.col(name).cast(kind))
    except pl.exceptions.PolarsError as error:
        raise CostModelError(f"{path}: {name}: {str(error).splitlines()[0]}") from error


def _refuse(table: pl.DataFrame, name: str, bad: pl.Expr, allowed: str, path: str) -> None:
    found = table.with_row_index("row", 1).filter(bad | pl.col(name).is_null() & (name != "tpot_s"))
    if len(found):
        raise CostModelError(
            f"{path}: row {found['row'][0]}: {name} is {found[name][0]!r}, allowed: {allowed}"
        )
