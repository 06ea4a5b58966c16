"""Traces fitted to a given one: its marginals and rank dependence of lengths, its rate and burstiness, no
row of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lumen_policy.errors import InputError
from lumen_policy.trace import keyed
from lumen_policy.trace.arrivals import ArrivalProcess
from lumen_policy.trace.table import Accounting, IntArray, Trace

__all__ = ["LengthModel", "fit_lengths", "synthesise"]

FloatArray = npt.NDArray[np.float64]

_LEVELS = 256
_CELLS = 24
"""Sides of the copula's grid at most; fewer where cells would hold under 16 requests on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthModel:
    """Joint law of prompt and output tokens: two quantile functions and a copula that is constant on a grid.

    Attributes:
        levels: float64, shape (m,): rising from 0 to 1, denser towards 1.
        prompt_tokens, output_tokens: float64, shape (m,): values at these levels.
        cells: float64, shape (g·g,): cumulative probability of the cells, prompt-major, last 1.
        grid: g, cells a side.
    """

    levels: FloatArray
    prompt_tokens: FloatArray
    output_tokens: FloatArray
    cells: FloatArray
    grid: int

    def draw(self, seed: int, count: int) -> tuple[IntArray, IntArray]:
        """`count` independent pairs, each keyed by its index; int64, ≥ 1."""
        cell = np.searchsorted(self.cells, keyed.uniform(seed, keyed.LENGTHS, 2, count), side="right")
        columns = []
        for stream, (index, values) in enumerate(
            ((cell // self.grid, self.prompt_tokens), (cell % self.grid, self.output_tokens)), start=3
        ):
            level = (index + keyed.uniform(seed, keyed.LENGTHS, stream, count)) / self.grid
            columns.append(np.rint(np.interp(level, self.levels, values)).astype(np.int64))
        return columns[0], columns[1]


def fit_lengths(trace: Trace) -> LengthModel:
    """The model of a trace's lengths. Ties of a rank are broken by the row, so equal lengths spread over
    their cells.
    """
    n = len(trace)
    grid = max(1, min(_CELLS, int(n**0.5 / 4)))
    ranks: list[IntArray] = []
    for column in (trace.prompt_tokens, trace.output_tokens):
        rank = np.empty(n, np.int64)
        # Ties in a keyed order: in row order a drift of the trace would look like dependence.
        rank[np.lexsort((keyed.keyed(0, keyed.RESAMPLE, 2 + len(ranks), n), column))] = np.arange(n)
        ranks.append(rank * grid // n)
    counts = np.bincount(ranks[0] * grid + ranks[1], minlength=grid * grid)
    cells = np.cumsum(counts) / n
    # Equal steps, and the tail by halving down to single requests.
    tail = 1.0 - 0.5 ** np.arange(6, max(7, int(np.log2(n))))
    index = np.unique(
        np.rint(np.concatenate([np.linspace(0.0, 1.0, _LEVELS + 1), tail]) * (n - 1)).astype(int)
    )
    return LengthModel(
        levels=index / max(1, n - 1),
        prompt_tokens=np.sort(trace.prompt_tokens)[index].astype(np.float64),
        output_tokens=np.sort(trace.output_tokens)[index].astype(np.float64),
        cells=cells,
        grid=grid,
    )


def synthesise(
    donor: Trace,
    *,
    requests: int | None = None,
    rate_per_s: float | None = None,
    cv: float | None = None,
    seed: int = 0,
) -> Trace:
    """A new trace with the donor's lengths and Gamma-distributed gaps.

    Args:
        donor: whose lengths are fitted.
        requests: default as many as the donor's.
        rate_per_s: default the donor's.
        cv: coefficient of variation of the gaps; default the donor's, within 0.1 … 50.
        seed: key of all draws.
    """
    count = len(donor) if requests is None else requests
    if not 1 <= count <= 200_000_000:
        raise InputError(f"requests must be 1 … 200000000, not {count}")
    rate = donor.rate_per_s if rate_per_s is None else rate_per_s
    if rate_per_s is None and not rate:
        raise InputError(f"{donor.source}: all requests arrive at once, so it has no rate; say --rate")
    if cv is None:
        gaps = np.diff(donor.arrival_ps).astype(np.float64)
        cv = (
            float(np.clip(gaps.std(ddof=1) / gaps.mean(), 0.1, 50.0)) if len(gaps) > 1 and gaps.any() else 1.0
        )
    process = ArrivalProcess(family="gamma", rate_per_s=rate, cv=cv, seed=seed)
    prompt, output = fit_lengths(donor).draw(seed, count)
    notes = (f"lengths fitted to {donor.source} ({len(donor)} requests), seed {seed}", process.describe())
    return Trace(
        arrival_ps=process.generate(count),
        prompt_tokens=prompt,
        output_tokens=output,
        source=f"synth of {donor.source}",
        format="synthetic",
        accounting=Accounting(read=count, kept=count, notes=notes),
    )
