"""Write a trace: what is read back holds the same requests."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.table import PS_PER_S, IntArray, Trace

if TYPE_CHECKING:
    import polars as pl

__all__ = ["WRITABLE", "write_trace"]

_CHUNK_ROWS = 1 << 18
_TICK_PS = 100_000
_EPOCH_S = 946_684_800
"""2000-01-01 00:00:00, where wall-clock formats start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CsvLayout:
    """Columns of a CSV format: header, with {time}, {prompt}, {output} and {total} standing for the
    numbers.
    """

    header: str
    row: str
    wall_clock: bool = False


_CSV = {
    "csv": _CsvLayout(header="arrival_s,prompt_tokens,output_tokens", row="{time},{prompt},{output}"),
    "azure": _CsvLayout(
        header="TIMESTAMP,ContextTokens,GeneratedTokens", row="{time},{prompt},{output}", wall_clock=True
    ),
    "vidur": _CsvLayout(
        header="arrived_at,num_prefill_tokens,num_decode_tokens", row="{time},{prompt},{output}"
    ),
    "splitwise": _CsvLayout(
        header="request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size",
        row="{index},0,0,{time},1,{prompt},{output}",
    ),
    "burstgpt": _CsvLayout(
        header="Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
        row="{time},model,{prompt},{output},{total},Conversation log",
    ),
}
_JSON = {
    "jsonl": (
        '{{"arrival_s": {time}, "prompt_tokens": {prompt}, "output_tokens": {output}{blocks}}}',
        ', "block_tokens": {size}, "hash_ids": [{ids}]',
    ),
    "mooncake": (
        '{{"timestamp": {time}, "input_length": {prompt}, "output_length": {output}{blocks}}}',
        ', "hash_ids": [{ids}]',
    ),
}
WRITABLE = (*_CSV, *_JSON, "parquet")
"""Formats `write_trace` knows."""


def write_trace(trace: Trace, path: str | Path, format: str) -> str | None:
    """Write a trace; the same trace makes the same bytes. A name ending in .gz is packed.

    Args:
        format: one of `WRITABLE`.

    Returns:
        What the format could not hold (prefix hash ids), or None.

    Raises:
        InputError: an unknown format, or times or blocks the format cannot hold exactly.
    """
    path = Path(path)
    if format not in WRITABLE:
        raise InputError(f"cannot write format {format!r}; writable: {', '.join(WRITABLE)}")
    if path.suffix == ".gz" and format == "parquet":
        raise InputError(f"{path}: Parquet packs its own pages; write .parquet")
    if path.suffix == ".zst":
        raise InputError(f"{path}: .zst is read but not written; use .gz")
    lost = None
    if trace.prefix is not None and format not in _JSON:
        lost = f"prefix hash ids are not part of format {format}; jsonl keeps them"
    if path.exists() and not path.is_file():
        # a device or folder must not be replaced by a file
        raise InputError(f"{path}: cannot be written: exists and is no regular file")
    part = path.with_name(f"{path.name}.part")
    try:
        try:
            if format == "parquet":
                _parquet(trace, part)
            else:
                _lines(_json(trace, format) if format in _JSON else _csv(trace, format), part, path.suffix)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    return lost


def _lines(lines: Iterator[bytes], path: Path, suffix: str) -> None:
    with path.open("wb") as raw:
        if suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as stream:
                stream.writelines(lines)
        else:
            raw.writelines(lines)


def _csv(trace: Trace, format: str) -> Iterator[bytes]:
    import polars as pl

    layout = _CSV[format]
    if layout.wall_clock and (trace.arrival_ps % _TICK_PS).any():
        raise InputError(f"format {format} holds times in ticks of 100 ns, and these are finer; write csv")
    yield f"{layout.header}\n".encode()
    for first in range(0, len(trace), _CHUNK_ROWS):
        part = slice(first, first + _CHUNK_ROWS)
        arrival, prompt, output = (
            trace.arrival_ps[part],
            trace.prompt_tokens[part],
            trace.output_tokens[part],
        )
        time = _wall_clock(arrival) if layout.wall_clock else _decimal(arrival, 12)
        columns = {
            "{index}": pl.Series(np.arange(first, first + len(arrival))),
            "{time}": time,
            "{prompt}": pl.Series(prompt),
            "{output}": pl.Series(output),
            "{total}": pl.Series(prompt + output),
        }
        fields = [columns.get(field, field) for field in layout.row.split(",")]
        frame = pl.DataFrame(
            [
                field.alias(f"c{i}")
                if isinstance(field, pl.Series)
                else pl.Series(f"c{i}", [field] * len(arrival))
                for i, field in enumerate(fields)
            ]
        )
        yield frame.write_csv(include_header=False, quote_style="never").encode()


def _json(trace: Trace, format: str) -> Iterator[bytes]:
    record, blocks = _JSON[format]
    prefix = trace.prefix
    if format == "mooncake":
        size = 512 if prefix is None else prefix.block_tokens
        if size != 512:
            raise InputError(f"format mooncake has blocks of 512 tokens, not {size}; write jsonl")
    times = _decimal(trace.arrival_ps, 9 if format == "mooncake" else 12)
    offsets = [0] * (len(trace) + 1) if prefix is None else prefix.offsets.tolist()
    rows = zip(times, trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
    for i, (time, prompt, output) in enumerate(rows):
        part = ""
        if prefix is not None:
            ids = ", ".join(map(str, prefix.ids[offsets[i] : offsets[i + 1]].tolist()))
            part = blocks.format(size=prefix.block_tokens, ids=ids)
        elif format == "mooncake":
            part = blocks.format(ids="")
        yield (record.format(time=time, prompt=prompt, output=output, blocks=part) + "\n").encode()


def _parquet(trace: Trace, path: Path) -> None:
    import polars as pl

    pl.DataFrame(
        {
            "arrival_s": _decimal(trace.arrival_ps, 12).cast(pl.Decimal(20, 12)),
            "prompt_tokens": trace.prompt_tokens,
            "output_tokens": trace.output_tokens,
        }
    ).write_parquet(path, compression="zstd", statistics=False)


def _decimal(arrival_ps: IntArray, digits: int) -> pl.Series:
    """Exact decimal text of ps / 10^digits without trailing zeros."""
    import polars as pl

    unit = 10**digits
    whole = pl.Series(arrival_ps // unit).cast(pl.String)
    rest = pl.Series(arrival_ps % unit).cast(pl.String).str.zfill(digits)
    return (whole + "." + rest).str.strip_chars_end("0").str.strip_chars_end(".")


def _wall_clock(arrival_ps: IntArray) -> pl.Series:
    """``YYYY-MM-DD HH:MM:SS.fffffff`` from 2000-01-01 on."""
    import polars as pl

    seconds, rest = arrival_ps // PS_PER_S, arrival_ps % PS_PER_S // _TICK_PS
    clock = pl.from_epoch(pl.Series(seconds + _EPOCH_S), time_unit="s").dt.strftime("%Y-%m-%d %H:%M:%S")
    return clock + "." + pl.Series(rest).cast(pl.String).str.zfill(7)
