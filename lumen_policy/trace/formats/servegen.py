"""ServeGen rate windows: one client's rate and burstiness over time, not a request list. Needs ``--lengths``.

CSV without header: window start in s, requests/s, CV of the gaps, family (``Gamma``, ``Weibull`` or empty)
and its two parameters, shape and scale.

Source: github.com/alibaba/ServeGen (Apache-2.0); Xiang et al., NSDI 2026.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lumen_policy.errors import InputError
from lumen_policy.trace import keyed
from lumen_policy.trace.arrivals import unit_gaps
from lumen_policy.trace.csv_text import read_blocks
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.parse import Where
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.table import MAX_SPAN_PS, PS_PER_S, IntArray

__all__ = ["FORMAT", "RateWindows"]

FloatArray = npt.NDArray[np.float64]

_COLUMNS = ("window start", "rate", "cv", "family", "shape", "scale")
_FAMILIES = {"Gamma": "gamma", "Weibull": "weibull", "Exponential": "poisson"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RateWindows:
    """A rate profile.

    Attributes:
        start_s, rate_per_s, shape: float64, shape (m,); starts are equally spaced.
        family: of each window's gaps; empty where the rate is 0.
        window_s: length of a window.
    """

    start_s: FloatArray
    rate_per_s: FloatArray
    shape: FloatArray
    family: list[str]
    window_s: float

    def arrivals(self, seed: int) -> IntArray:
        """A non-homogeneous renewal process: in each window gaps of its family and shape, scaled to its rate.

        The part of a gap that crosses a window's end goes on in the next window at that one's rate. Draws
        are keyed by (seed, window).

        Returns:
            int64 picoseconds from the first window's start, shape (n,).
        """
        times: list[FloatArray] = []
        next_at: float | None = None
        for i, (start, rate) in enumerate(zip(self.start_s, self.rate_per_s, strict=True)):
            if not rate:
                continue
            rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, i])))
            family, shape, mass = self.family[i], float(self.shape[i]), float(rate) * self.window_s
            if next_at is None:
                next_at = float(unit_gaps(rng, family, shape, 1)[0])
            # In expected requests since the window began; the first one beyond its end opens a later window.
            while next_at < mass:
                gaps = unit_gaps(rng, family, shape, int(mass - next_at) + 16)
                at = next_at + np.concatenate([[0.0], np.cumsum(gaps)])
                inside = int(np.searchsorted(at[:-1], mass))
                times.append(start + at[:inside] / rate)
                next_at = float(at[inside])
            next_at -= mass
        arrival = np.concatenate(times) if times else np.zeros(0)
        ps: IntArray = np.rint((arrival - self.start_s[0]) * PS_PER_S).astype(np.int64)
        return ps


class _ServeGen:
    name = "servegen"
    summary = "ServeGen rate windows (needs --lengths)"
    kind = "rate_windows"
    generic = False

    def recognises(self, file: TraceFile) -> bool:
        fields = file.first_line().split(",")
        return (
            not file.is_parquet
            and len(fields) == 6
            and fields[3].strip() in (*_FAMILIES, "")
            and all(_is_number(field) for field in (*fields[:3], *fields[4:]))
        )

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        if options.lengths is None:
            raise InputError(
                f"{file.path}: holds rates but no lengths; say whose to draw with --lengths built-in or FILE"
            )
        arrival = self.windows(file).arrivals(options.seed)
        donor = options.lengths
        draws = keyed.keyed(options.seed, keyed.RESAMPLE, 0, len(arrival))
        rows = (draws >> np.uint64(32)) * np.uint64(len(donor)) >> np.uint64(32)
        return Rows(
            arrival_ps=arrival,
            prompt_tokens=donor.prompt_tokens[rows],
            output_tokens=donor.output_tokens[rows],
            notes=(
                f"arrivals generated from the rate windows (seed {options.seed})",
                f"lengths drawn from {donor.source}, prompt and output together",
            ),
        )

    def windows(self, file: TraceFile) -> RateWindows:
        """The profile in the file."""
        columns: list[list[FloatArray]] = [[] for _ in range(4)]
        families: list[str] = []
        for block in read_blocks(file, _COLUMNS, _COLUMNS, skip_header=False):
            blank = set(block.blank.tolist())
            keep = np.array([i not in blank for i in range(len(block.columns["rate"]))], bool)
            for column, name in zip(columns, ("window start", "rate", "cv", "shape"), strict=True):
                column.append(
                    _numbers(block.columns[name].to_list(), Where(file.path, name, block.first_line), keep)
                )
            for i, family in enumerate(block.columns["family"].to_list()):
                if i in blank:
                    continue
                if family is not None and family not in _FAMILIES:
                    where = Where(file.path, "family", block.first_line)
                    raise where.bad(i, family, f"{', '.join(_FAMILIES)} or nothing")
                families.append(_FAMILIES[family] if family else "")
        start, rate, _, shape = (np.concatenate(column) for column in columns)
        if len(start) < 2:
            raise InputError(f"{file.path}: a rate profile needs at least two windows")
        steps = np.diff(start)
        if (steps <= 0).any() or not np.allclose(steps, steps[0]):
            line = int(np.argmax(~np.isclose(steps, steps[0]) | (steps <= 0))) + 2
            raise InputError(f"{file.path}: line {line}: window starts must rise in equal steps")
        if (start[-1] - start[0] + steps[0]) * PS_PER_S > MAX_SPAN_PS:
            raise InputError(f"{file.path}: spans more than 90 days")
        for i in np.flatnonzero(rate > 0).tolist():
            if not families[i] or not shape[i] > 0:
                raise InputError(
                    f"{file.path}: line {i + 1}: rate {rate[i]:g} without family or positive shape"
                )
        return RateWindows(
            start_s=start, rate_per_s=rate, shape=shape, family=families, window_s=float(steps[0])
        )


def _numbers(values: list[str | None], where: Where, keep: npt.NDArray[np.bool_]) -> FloatArray:
    numbers = np.zeros(len(values))
    for i, value in enumerate(values):
        if not keep[i]:
            continue
        if value is None or not _is_number(value) or float(value) < 0:
            raise where.bad(i, value, "a number ≥ 0")
        numbers[i] = float(value)
    return numbers[keep]


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


FORMAT = _ServeGen()
