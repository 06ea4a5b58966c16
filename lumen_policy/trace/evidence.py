"""What a file itself says about its units and block size; where it does not say enough, it is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.json_lines import JsonColumns
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.table import PS_PER_S, IntArray, PrefixBlocks

__all__ = ["check_unit", "time_unit_of", "with_prefix"]

PLAUSIBLE_RATE_PER_S = (0.01, 1000.0)
"""Rates a request trace may have where its time unit must be told from it."""
BLOCK_SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
_EXACT_FLOAT = 1 << 53
_SUFFIXES = {"_s": "s", "_sec": "s", "_seconds": "s", "_ms": "ms", "_us": "us", "_ns": "ns"}
_TICKS_PER_S = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_EPOCH = (0.95e9, 2.6e9)
"""Seconds since 1970 from 2000 to 2052: a number in this range, or 10³, 10⁶, 10⁹ times it, is a wall
clock.
"""


def time_unit_of(
    file: TraceFile, column: str, sample: object, options: ReadOptions
) -> tuple[str, tuple[str, ...]]:
    """Unit of the time column of a generic format: from its name, from a date, from an epoch's size, or
    refused.

    Args:
        column: its name in the file.
        sample: its first value; it also has to be possible in the unit that the name states.

    Returns:
        A unit of `parse.UNITS` (irrelevant for dates) and the notes on how it was found.
    """
    if options.time_unit is not None:
        return options.time_unit, (f"times read as {options.time_unit} (as told)",)
    named = next((unit for suffix, unit in _SUFFIXES.items() if column.lower().endswith(suffix)), None)
    try:
        value = float(str(sample))
    except ValueError:
        return named or "s", ()
    if named is not None:
        if value / _TICKS_PER_S[named] > _EPOCH[1]:
            raise InputError(
                f"{file.path}: {column!r} begins at {str(sample)[:40]}, in {named} beyond the year 2052; "
                "say --time-unit s, ms, us or ns"
            )
        return named, ()
    for unit, factor in _TICKS_PER_S.items():
        if _EPOCH[0] <= value / factor <= _EPOCH[1]:
            return unit, (f"times read as {unit} since 1970 (from their size)",)
    raise InputError(
        f"{file.path}: the unit of the times in {column!r} is not certain (first value {str(sample)[:40]}); "
        "say --time-unit s, ms, us or ns"
    )


def check_unit(
    file: TraceFile, rows: Rows, unit: str, other: str, factor: float, options: ReadOptions
) -> str:
    """Whether the documented unit is the plausible one.

    The rate in the documented unit and in the other one (each tick `factor` times as long) are held against
    ``PLAUSIBLE_RATE_PER_S``. The documented unit stands if its rate is plausible; the file is refused if
    only the other one's is. A named unit (``--time-unit``) is taken as it is.

    Returns:
        A note that says what was decided, and on what evidence.
    """
    if options.time_unit is not None:
        return f"times read as {unit} (as told)"
    arrival = rows.arrival_ps
    span_s = (int(arrival.max()) - int(arrival.min())) / PS_PER_S if len(arrival) else 0.0
    if not span_s:
        return f"times read as {unit} (the format's documented unit; all arrive at once)"
    rate = len(arrival) / span_s
    low, high = PLAUSIBLE_RATE_PER_S
    if not low <= rate <= high and low <= rate / factor <= high:
        raise InputError(
            f"{file.path}: read as {unit} it has {rate:.4g} requests/s, as {other} {rate / factor:.4g}; "
            f"say which with --time-unit {unit} or --time-unit {other}"
        )
    return f"times read as {unit} (the format's documented unit; {rate:.4g} requests/s)"


def with_prefix(file: TraceFile, columns: JsonColumns, documented: int | None, options: ReadOptions) -> Rows:
    """The rows with their hash ids, once the block size is certain.

    A size fits if every row has one id per started block, or every row one per full block. The documented
    size is taken if it fits; otherwise the one size that fits.

    Raises:
        InputError: ids missing in some rows, no size or more than one fits, or ids rounded by a float.
    """
    rows, counts = columns.rows, columns.hash_counts
    if options.prefix_ids == "ignore" or not len(columns.hash_ids):
        return rows
    remedy = "or read without them with --prefix-ids ignore"
    if (counts < 0).any():
        line = int(columns.lines[np.argmax(counts < 0)])
        raise InputError(
            f"{file.path}: line {line}: no hash ids, though other rows have some; fix it, {remedy}"
        )
    _refuse_rounded(file, columns, remedy)
    prompt = rows.prompt_tokens
    if options.block_tokens is not None:
        size = options.block_tokens
        if not _fits(prompt, counts, size):
            bad = _first_misfit(prompt, counts, size)
            raise InputError(
                f"{file.path}: line {int(columns.lines[bad])}: {int(counts[bad])} hash ids do not fit "
                f"{int(prompt[bad])} prompt tokens in blocks of {size}; give another --block-tokens, {remedy}"
            )
        note = f"prefix blocks of {size} tokens (as told)"
    elif documented is not None and _fits(prompt, counts, documented):
        size, note = documented, f"prefix blocks of {documented} tokens (documented, and all rows fit)"
    else:
        fits = [candidate for candidate in BLOCK_SIZES if _fits(prompt, counts, candidate)]
        if len(fits) != 1:
            first = _first_misfit(prompt, counts, documented or BLOCK_SIZES[0])
            found = f"sizes {', '.join(map(str, fits))} fit" if fits else "no usual block size fits"
            raise InputError(
                f"{file.path}: line {int(columns.lines[first])}: {int(counts[first])} hash ids for "
                f"{int(prompt[first])} prompt tokens; {found}; say --block-tokens N, {remedy}"
            )
        size, note = fits[0], f"prefix blocks of {fits[0]} tokens (the only size all rows fit)"
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    prefix = PrefixBlocks(block_tokens=size, offsets=offsets, ids=columns.hash_ids)
    return replace(rows, prefix=prefix, notes=(*rows.notes, note))


def _fits(prompt: IntArray, counts: IntArray, size: int) -> bool:
    return bool((counts == -(-prompt // size)).all() or (counts == prompt // size).all())


def _first_misfit(prompt: IntArray, counts: IntArray, size: int) -> int:
    started = counts == -(-prompt // size)
    return int(np.argmin(started))


def _refuse_rounded(file: TraceFile, columns: JsonColumns, remedy: str) -> None:
    """Ids above 2⁵³ that all are float64 values went through a float: different blocks may have become
    one.
    """
    ids = columns.hash_ids.view(np.uint64)
    small_negative = (columns.hash_ids < 0) & (columns.hash_ids > -_EXACT_FLOAT)
    large = ids[(ids > _EXACT_FLOAT) & ~small_negative]
    # A float64 of this size is a multiple of 2^(bits − 53); eight ids are so by chance less than once in 2⁸.
    step = np.uint64(1) << (np.floor(np.log2(large)).astype(np.int64) - 52).clip(1).astype(np.uint64)
    rounded = len(large) >= 8 and bool((large % step == 0).all())
    if len(large) and (columns.hash_floats or rounded):
        raise InputError(
            f"{file.path}: hash ids above 2^53 have passed through floats and are no longer exact; "
            f"write them as integers, {remedy}"
        )
