"""Token gaps straight from their run-length records: exact quantiles and exact sums over time bins.

A record is an arithmetic progression of ``gap_steps`` gaps, ``gap_ps + j·gap_growth_ps``, each counted
``gap_sequences`` times (see ``ReplayOutput``); growth is never negative. Nothing is expanded: a quantile is
found by counting over the records, a bin edge inside a record by a square root with integer correction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lumen_policy.measures.distributions import EMPTY, PERCENTS, Distribution, nearest_rank
from lumen_policy.measures.exact import ExactBins, chunks, exact_sum, seconds
from lumen_policy.replay.contract import IntArray, ReplayOutput

__all__ = ["bin_gaps", "gap_distribution"]

_SAMPLE_RECORDS = 1 << 12
_MARGINS_PERCENT = (0, 1, 4)


@dataclass(frozen=True, slots=True)
class _Records:
    """A selection of gap records; ``least``/``most`` are the smallest and largest gap of each."""

    end: IntArray
    least: IntArray
    growth: IntArray
    steps: IntArray
    sequences: IntArray

    @property
    def most(self) -> IntArray:
        return self.least + (self.steps - 1) * self.growth

    @property
    def last_end(self) -> IntArray:
        """The instant at which the last step ends."""
        return self.end + _end_offset(self, self.steps - 1)

    @property
    def weight(self) -> IntArray:
        return self.steps * self.sequences

    def __getitem__(self, rows: IntArray | slice) -> _Records:
        return _Records(
            self.end[rows],
            self.least[rows],
            self.growth[rows],
            self.steps[rows].astype(np.int64),  # the log holds 32 bits
            self.sequences[rows].astype(np.int64),
        )


def _end_offset(records: _Records, j: IntArray) -> IntArray:
    """From the end of step 0 to the end of step j."""
    return j * records.least + records.growth * (j * (j + 1) // 2)


def _gap_sum(records: _Records, j: IntArray) -> IntArray:
    """Sum of the gaps of steps 0 … j − 1, of one sequence."""
    return j * records.least + records.growth * (j * (j - 1) // 2)


def _all_records(out: ReplayOutput) -> _Records:
    return _Records(out.gap_end_ps, out.gap_ps, out.gap_growth_ps, out.gap_steps, out.gap_sequences)


def _chunked(records: _Records) -> Iterator[_Records]:
    for part in chunks(records.end.size):
        yield records[part]


def gap_distribution(out: ReplayOutput) -> Distribution:
    """Mean and nearest-rank quantiles over all token gaps of a replay, each gap counted once per sequence
    and step.

    Returns:
        Exact picoseconds, rounded once to seconds; all None without a gap.
    """
    records = _all_records(out)
    count = total_ps = 0
    for chunk in _chunked(records):
        count += int(chunk.weight.sum())
        # one sequence's sum is a span of time and fits; times the sequences it may not
        span = _gap_sum(chunk, chunk.steps)
        total_ps += exact_sum((span >> 32) * chunk.sequences) << 32
        total_ps += exact_sum((span & 0xFFFFFFFF) * chunk.sequences)
    if count == 0:
        return EMPTY
    p50, p90, p99 = _order_statistics(records, [nearest_rank(count, percent) for percent in PERCENTS])
    return Distribution(mean=seconds(total_ps, count), p50=seconds(p50), p90=seconds(p90), p99=seconds(p99))


def _order_statistics(records: _Records, ranks: list[int]) -> list[int]:
    """The gaps at the given ranks (from 1, ascending).

    A sample of the records proposes brackets, one pass over all counts them, a second gathers the records of
    the bracket in which each rank lies, and bisection over those ends at the exact picosecond.
    """
    edges = _proposed_edges(records)
    below = np.zeros(len(edges), dtype=np.int64)
    for chunk in _chunked(records):
        for number, edge in enumerate(edges):
            below[number] += _count_at_most(chunk, edge)
    return [_bisect(records, rank, edges, below) for rank in ranks]


def _proposed_edges(records: _Records) -> list[int]:
    """Gap values around each quantile of a sample, ascending, from below the least to the largest gap."""
    least = min(int(chunk.least.min()) for chunk in _chunked(records))
    most = max(int(chunk.most.max()) for chunk in _chunked(records))
    sample = records[slice(None, None, -(-records.end.size // _SAMPLE_RECORDS))]
    middle = sample.least + (sample.steps // 2) * sample.growth
    order = np.argsort(middle, kind="stable")
    weight = np.cumsum(sample.weight[order])
    edges = {least - 1, most}
    for percent in PERCENTS:
        for margin in _MARGINS_PERCENT:
            for at in (max(percent - margin, 0), min(percent + margin, 100)):
                place = np.searchsorted(weight, nearest_rank(int(weight[-1]), at))
                value = int(middle[order[place]])
                edges |= {value - 1, value}
    return sorted(edge for edge in edges if least - 1 <= edge <= most)


def _bisect(records: _Records, rank: int, edges: list[int], below: IntArray) -> int:
    upper = int(np.searchsorted(below, rank))
    low, high = edges[upper - 1], edges[upper]
    if high - low == 1:
        return high
    gathered = [
        chunk[np.flatnonzero((chunk.least <= high) & (chunk.most > low))] for chunk in _chunked(records)
    ]
    active = _Records(
        np.concatenate([part.end for part in gathered]),
        np.concatenate([part.least for part in gathered]),
        np.concatenate([part.growth for part in gathered]),
        np.concatenate([part.steps for part in gathered]),
        np.concatenate([part.sequences for part in gathered]),
    )
    wanted = rank - (int(below[upper - 1]) - _count_at_most(active, low))
    while high - low > 1:
        middle = (low + high) // 2
        if _count_at_most(active, middle) >= wanted:
            high = middle
        else:
            low = middle
    return high


def _count_at_most(records: _Records, value: int) -> int:
    """How many gaps are ≤ value."""
    whole = records.most <= value
    count = int(records.weight[whole].sum())
    partial = np.flatnonzero((records.least <= value) & ~whole)
    if partial.size:
        cut = records[partial]
        count += int((((value - cut.least) // cut.growth + 1) * cut.sequences).sum())
    return count


def bin_gaps(out: ReplayOutput, origin_ps: int, bin_ps: int, bins: int) -> ExactBins:
    """Count and sum of the token gaps by the instant at which they end.

    Args:
        out: a replay.
        origin_ps: gaps that end at it or before are left out.
        bin_ps: length of a bin.
        bins: number of bins; bin b ≥ 1 holds the gaps that end in (origin + (b−1)·bin, origin + b·bin], bin
            0 none. Later gaps are left out.

    Returns:
        Counts and exact sums, shape (bins,).
    """
    binned = ExactBins(bins)
    limit = origin_ps + (bins - 1) * bin_ps
    for chunk in _chunked(_all_records(out)):
        inside = chunk[np.flatnonzero((chunk.last_end > origin_ps) & (chunk.end <= limit))]
        last_end = inside.last_end
        first_bin = -((origin_ps - inside.end) // bin_ps)
        last_bin = -((origin_ps - last_end) // bin_ps)
        whole = (first_bin == last_bin) & (last_end <= limit)
        rows = np.flatnonzero(whole)
        unsplit = inside[rows]
        binned.add(first_bin[rows], _gap_sum(unsplit, unsplit.steps) * unsplit.sequences, unsplit.weight)
        rows = np.flatnonzero(~whole)
        _add_split(
            binned,
            inside[rows],
            np.maximum(first_bin[rows], 1),
            np.minimum(last_bin[rows], bins - 1),
            origin_ps,
            bin_ps,
        )
    return binned


def _add_split(
    binned: ExactBins,
    records: _Records,
    first_bin: IntArray,
    last_bin: IntArray,
    origin_ps: int,
    bin_ps: int,
) -> None:
    """Adds records that cross bin edges, one piece per record and bin."""
    pieces = last_bin - first_bin + 1
    rows = np.repeat(np.arange(pieces.size), pieces)
    number = np.arange(rows.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    split, bin_of = records[rows], first_bin[rows] + number
    upper_edge = origin_ps + bin_of * bin_ps
    upper = _steps_ended(split, upper_edge)
    lower = _steps_ended(split, upper_edge - bin_ps)
    sums = _gap_sum(split, upper) - _gap_sum(split, lower)
    binned.add(bin_of, sums * split.sequences, (upper - lower) * split.sequences)


def _steps_ended(records: _Records, at_ps: IntArray) -> IntArray:
    """How many steps of each record have ended at an instant, that one included."""
    room = at_ps - records.end
    inside = np.clip(room, 0, _end_offset(records, records.steps - 1))
    # largest j with growth·j² + linear·j ≤ 2·inside, in the form that does not cancel
    linear = (2 * records.least + records.growth).astype(np.float64)
    growth = records.growth.astype(np.float64)
    twice = 2.0 * inside.astype(np.float64)
    root = linear + np.sqrt(linear * linear + 4.0 * growth * twice)
    j = np.floor(np.divide(2.0 * twice, root, out=np.zeros_like(root), where=root > 0)).astype(np.int64)
    j = np.clip(j, 0, records.steps - 1)
    while True:
        high = _end_offset(records, j) > inside
        low = (
            ~high
            & (j < records.steps - 1)
            & (_end_offset(records, np.minimum(j + 1, records.steps - 1)) <= inside)
        )
        if not (high.any() or low.any()):
            break
        j = j - high + low
    return np.where(room < 0, 0, j + 1)
