"""Samples of a worker's whole layer stack from tables of single operators on one GPU."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cost_models.calibration.samples import checked, empty
from cost_models.errors import CostModelError
from cost_models.model_spec import ModelSpec

__all__ = ["OperatorTables", "operator_samples"]

_LAYER_OPERATORS = (
    "input_layernorm",
    "attn_pre_proj",
    "attn_rope",
    "attn_post_proj",
    "post_attention_layernorm",
    "mlp_up_proj",
    "mlp_act",
    "mlp_down_proj",
    "add",
)
_MS = 1e-3
_MAX_MS = 1e5


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTables:
    """Paths of CSV files (plain or .gz) with operator times in milliseconds, in Vidur's columns.

    Attributes:
        linear: ``mlp.csv``: one layer's operators over num_tokens and num_tensor_parallel_workers.
        attention: ``attention.csv``: attn_prefill and attn_decode of one layer; None = not measured.
        all_reduce: ``all_reduce.csv``: one all-reduce over size (bytes) and num_workers; None = not measured.
    """

    linear: str
    attention: str | None = None
    all_reduce: str | None = None


def operator_samples(
    tables: OperatorTables, model: ModelSpec, tensor_parallel: int, notes: list[str]
) -> pl.DataFrame:
    """Layer times × layers; median over repetitions, then over rows of one all-reduce size.

    Args:
        tables: the files.
        model: its shape must be that of the tables.
        tensor_parallel: rows of this TP are taken.
        notes: gets a line for each thing that is left out.

    Raises:
        CostModelError: unreadable, a missing column or value, no rows of the TP, or another model's shape.
    """
    model.check_tensor_parallel(tensor_parallel)
    parts = [_linear(tables.linear, model, tensor_parallel)]
    if tables.attention is None:
        notes.append("no attention table: attention comes from the base profile's efficiencies")
    else:
        parts.append(_attention(tables.attention, model, tensor_parallel, notes))
    if tables.all_reduce is not None:
        if tensor_parallel == 1:
            notes.append("TP 1 needs no all-reduce: the table is not used")
        else:
            parts.append(_all_reduce(tables.all_reduce, tensor_parallel))
    elif tensor_parallel > 1:
        notes.append("no all-reduce table: communication is left out")
    return pl.concat([empty(), *parts], how="diagonal_relaxed")


def _read(path: str, columns: tuple[str, ...]) -> pl.DataFrame:
    try:
        table = pl.read_csv(io.BytesIO(_bytes(path)), infer_schema_length=None)
    except (OSError, EOFError, pl.exceptions.PolarsError) as error:
        raise CostModelError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    for column in columns:
        if column not in table.columns:
            raise CostModelError(f"{path}: column {column!r} is missing")
    return table


def _bytes(path: str) -> bytes:
    import gzip

    content = Path(path).read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def _median(operator: str) -> str:
    return f"time_stats.{operator}.median"


def _checked_times(table: pl.DataFrame, columns: list[str], path: str) -> None:
    for column in columns:
        try:
            times = table[column].cast(pl.Float64)
        except pl.exceptions.PolarsError as error:
            raise CostModelError(f"{path}: {column}: not a number: {str(error).splitlines()[0]}") from error
        bad = times.is_null() | ~times.is_finite() | (times < 0) | (times > _MAX_MS)
        if bad.any():
            value = times.filter(bad)[0]
            raise CostModelError(
                f"{path}: {column} is {value}, allowed: a finite number of ms ≥ 0 and ≤ {_MAX_MS:g}"
            )


def _of_tp(table: pl.DataFrame, column: str, tensor_parallel: int, path: str) -> pl.DataFrame:
    rows = table.filter(pl.col(column) == tensor_parallel)
    if rows.is_empty():
        known = ", ".join(str(value) for value in table[column].unique().sort())
        raise CostModelError(f"{path}: no rows with {column} {tensor_parallel}, there are: {known}")
    return rows


def _check_shape(table: pl.DataFrame, names: dict[str, int], model: ModelSpec, path: str) -> None:
    for column, expected in names.items():
        found = [] if column not in table.columns else table[column].unique().to_list()
        if found and found != [expected]:
            raise CostModelError(
                f"{path}: {column} is {found[0]}, but {model.name} has {expected}: another model's table"
            )


def _linear(path: str, model: ModelSpec, tensor_parallel: int) -> pl.DataFrame:
    medians = [_median(operator) for operator in _LAYER_OPERATORS]
    table = _read(path, ("num_tokens", "num_tensor_parallel_workers", *medians))
    _check_shape(
        table,
        {
            "n_head": model.q_heads,
            "n_kv_head": model.kv_heads,
            "n_embd": model.hidden,
            "n_expanded_embd": model.ffn,
        },
        model,
        path,
    )
    rows = _of_tp(table, "num_tensor_parallel_workers", tensor_parallel, path)
    _checked_times(rows, medians, path)
    samples = rows.select(
        pl.lit("linear").alias("kind"),
        pl.col("num_tokens").alias("tokens"),
        (pl.sum_horizontal(medians) * (_MS * model.layers)).alias("seconds"),
    )
    return checked(samples, path)


def _attention(path: str, model: ModelSpec, tensor_parallel: int, notes: list[str]) -> pl.DataFrame:
    needed = ("prefill_chunk_size", "kv_cache_size", "batch_size", "num_tensor_parallel_workers")
    table = _read(path, (*needed, _median("attn_prefill"), _median("attn_decode")))
    _check_shape(
        table,
        {"n_q_head": model.q_heads, "n_kv_head": model.kv_heads, "n_embd": model.hidden},
        model,
        path,
    )
    rows = _of_tp(table, "num_tensor_parallel_workers", tensor_parallel, path)
    chunk, cached, batch = (pl.col(name) for name in needed[:3])
    prefill = rows.filter((chunk > 0) & (batch == 1))
    decode = rows.filter(chunk == 0)
    parts = []
    if len(prefill):
        _checked_times(prefill, [_median("attn_prefill")], path)
        parts.append(
            prefill.select(
                pl.lit("attention_prefill").alias("kind"),
                chunk.alias("tokens"),
                (chunk * cached + chunk * (chunk + 1) // 2).alias("pairs"),
                (pl.col(_median("attn_prefill")) * (_MS * model.layers)).alias("seconds"),
            )
        )
    if len(decode):
        _checked_times(decode, [_median("attn_decode")], path)
        parts.append(
            decode.select(
                pl.lit("attention_decode").alias("kind"),
                batch.alias("sequences"),
                (batch * cached).alias("context_tokens"),
                (pl.col(_median("attn_decode")) * (_MS * model.layers)).alias("seconds"),
            )
        )
    left = len(rows) - sum(len(part) for part in parts)
    if left:
        notes.append(f"{left:,} attention rows of several prompts at once are not used")
    if not parts:
        raise CostModelError(f"{path}: no rows of one prompt's chunk and none of a decode")
    samples = pl.concat(parts, how="diagonal_relaxed")
    timed = samples.filter(pl.col("seconds") > 0)
    if len(timed) < len(samples):
        dropped = len(samples) - len(timed)
        notes.append(f"{dropped:,} attention rows of 0 ms, below the profiler's resolution, are not used")
    samples = timed
    return checked(samples, path)


def _all_reduce(path: str, tensor_parallel: int) -> pl.DataFrame:
    median = _median("all_reduce")
    table = _read(path, ("num_workers", "size", median))
    rows = _of_tp(table, "num_workers", tensor_parallel, path)
    if "devices_per_node" in rows.columns:
        rows = _of_tp(rows, "devices_per_node", tensor_parallel, path)
    _checked_times(rows, [median], path)
    samples = (
        rows.group_by("size")
        .agg(pl.col(median).median())
        .sort("size")
        .select(
            pl.lit("all_reduce").alias("kind"),
            pl.col("size").alias("bytes"),
            (pl.col(median) * _MS).alias("seconds"),
        )
        .filter(pl.col("seconds") > 0)
    )
    return checked(samples, path)
