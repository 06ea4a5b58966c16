"""Raw timings as a table: what was run, how long it took, where it was measured."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from cost_models.errors import CostModelError

__all__ = ["KINDS", "checked", "empty", "of_kind", "read_samples", "write_samples"]

KINDS = {
    "linear": "matrices, norms and activations of all layers, over `tokens`",
    "all_reduce": "one all-reduce of `bytes`",
    "lm_head": "LM head over `rows`",
    "attention_prefill": "prefill attention of all layers, `tokens` in a chunk with `pairs`",
    "attention_decode": "decode attention of all layers, `sequences` with `context_tokens` in all",
    "attention_verify": "the same with `k` + 1 rows a sequence",
    "prefill": "whole iteration without the LM head: a chunk of `tokens` with `pairs`",
    "decode": "whole iteration without the LM head: `sequences` decoding, `context_tokens` in all",
    "host_to_device": "`bytes` from pinned host memory, one copy",
    "host_to_device_pages": "the same, a copy a page",
    "device_to_host": "`bytes` into pinned host memory, one copy",
    "device_to_host_pages": "the same, a copy a page",
    "storage_read": "`bytes` of a weight file into host memory, page cache dropped",
    "storage_read_warm": "the same from the page cache",
}
"""What a row can be; all times are of the worker's whole layer stack where layers take part."""

_COUNTS = ("tokens", "rows", "pairs", "context_tokens", "sequences", "k", "bytes")
_NEEDED = {
    "linear": ("tokens",),
    "all_reduce": ("bytes",),
    "lm_head": ("rows",),
    "attention_prefill": ("tokens", "pairs"),
    "attention_decode": ("sequences", "context_tokens"),
    "attention_verify": ("sequences", "context_tokens", "k"),
    "prefill": ("tokens", "pairs"),
    "decode": ("sequences", "context_tokens"),
}
_SCHEMA: dict[str, type[pl.DataType]] = {
    "model": pl.String,
    "kind": pl.String,
    **dict.fromkeys(_COUNTS, pl.Int64),
    "seconds": pl.Float64,
    "source": pl.String,
}
_MAX_SECONDS = 1e5
_MAX_BYTES_PER_S = 1e14


def empty() -> pl.DataFrame:
    """A table without rows."""
    return pl.DataFrame(schema=_SCHEMA)


def checked(rows: pl.DataFrame, origin: str) -> pl.DataFrame:
    """The table with every column present and every value possible.

    Args:
        rows: at least ``kind`` and ``seconds``; counts that are missing are 0, texts empty.
        origin: names the table in errors.

    Raises:
        CostModelError: an unknown column or kind, a count or time that is missing, negative, NaN or too large.
    """
    unknown = [name for name in rows.columns if name not in _SCHEMA]
    if unknown:
        raise CostModelError(f"{origin}: column {unknown[0]!r} is unknown, known: {', '.join(_SCHEMA)}")
    for name in ("kind", "seconds"):
        if name not in rows.columns:
            raise CostModelError(f"{origin}: column {name!r} is missing")
    try:
        rows = rows.with_columns(
            pl.lit("" if kind is pl.String else 0, dtype=kind).alias(name)
            for name, kind in _SCHEMA.items()
            if name not in rows.columns
        ).select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())
    except pl.exceptions.PolarsError as error:
        raise CostModelError(f"{origin}: {str(error).splitlines()[0]}") from error
    rows = rows.with_columns(
        pl.col("model", "source").fill_null(""), *(pl.col(name).fill_null(0) for name in _COUNTS)
    )
    _refuse(
        rows, ~pl.col("kind").is_in(list(KINDS)) | pl.col("kind").is_null(), "kind", origin, ", ".join(KINDS)
    )
    seconds = pl.col("seconds")
    bad_time = seconds.is_null() | ~seconds.is_finite() | (seconds <= 0) | (seconds > _MAX_SECONDS)
    _refuse(rows, bad_time, "seconds", origin, f"a finite number of seconds > 0 and ≤ {_MAX_SECONDS:g}")
    for name in _COUNTS:
        needed = [kind for kind in KINDS if name in _NEEDED.get(kind, ("bytes",))]
        _refuse(rows, (pl.col(name) < 0), name, origin, "an integer ≥ 0")
        missing = pl.col("kind").is_in(needed) & (pl.col(name) < (0 if name == "k" else 1))
        _refuse(rows, missing, name, origin, "an integer ≥ 1 for this kind")
    rate = pl.col("bytes") / seconds
    _refuse(
        rows,
        rate > _MAX_BYTES_PER_S,
        "seconds",
        origin,
        "bytes / seconds ≤ 1e14 byte/s; is the time in seconds?",
    )
    return rows


def _refuse(rows: pl.DataFrame, bad: pl.Expr, column: str, origin: str, allowed: str) -> None:
    found = rows.with_row_index("row", 1).filter(bad)
    if len(found):
        value, kind = found[column][0], found["kind"][0]
        raise CostModelError(
            f"{origin}: row {found['row'][0]} ({kind}): {column} is {value!r}, allowed: {allowed}"
        )


def of_kind(rows: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The rows of one kind."""
    return rows.filter(pl.col("kind") == kind)


def read_samples(path: str) -> pl.DataFrame:
    """Stored samples from a ``.parquet`` or ``.csv`` file.

    Raises:
        CostModelError: unreadable, or see ``checked``.
    """
    try:
        if Path(path).suffix == ".parquet":
            rows = pl.read_parquet(path)
        else:
            rows = pl.read_csv(path, infer_schema_length=None)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CostModelError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    if rows.is_empty():
        raise CostModelError(f"{path}: no samples")
    return checked(rows, path)


def write_samples(rows: pl.DataFrame, path: Path) -> None:
    """Keep samples as Parquet."""
    try:
        rows.write_parquet(path)
    except OSError as error:
        raise CostModelError(f"{path}: cannot be written: {error.strerror or error}") from error
