"""The built-in trace: a parametric generator shaped like the Splitwise conversation trace.

Every request's draws are keyed by its index and use integer and IEEE basic operations only, so the same seed
gives the same bytes on every machine, and a longer trace has the same lengths in its first requests.

Source: figures of the Azure LLM inference trace 2023, conversation (Patel et al., "Splitwise", ISCA 2024;
data CC-BY 4.0, github.com/Azure/AzurePublicDataset): the constants below are fitted to its marginals, no row
of it is here.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from lumen_policy.errors import InputError
from lumen_policy.trace import keyed
from lumen_policy.trace.table import Accounting, IntArray, Trace

__all__ = ["RATE_PER_S", "REQUESTS", "built_in_trace"]

FloatArray = npt.NDArray[np.float64]

REQUESTS: Final = 19_366
"""Requests of the conversation trace."""
RATE_PER_S: Final = 5.5305
"""Requests per second: 19,366 in 3,501.7 s."""

# Rate profile: a cycle of blocks, one for each of equally spaced levels in 1 ± spread, in keyed random order.
_BLOCK_S = 220.0
_BLOCKS = 16
_RATE_SPREAD = 0.388
# Gaps between arrivals, in units of the current mean: exponential × (1 ± mix), each with probability ½.
_GAP_MIX = 0.2
_TICK_PS = 100_000

# Prompt lengths: piecewise linear quantile function (level, tokens).
_PROMPT_LEVELS = (0.0, 0.045, 0.122, 0.152, 0.386, 0.42, 0.727, 0.80, 0.90, 0.925, 1.0)
_PROMPT_TOKENS = (2.0, 180.0, 218.0, 380.0, 417.0, 977.0, 1140.0, 1313.0, 2735.0, 4047.0, 4157.0)
# Output lengths: a piecewise linear quantile function for each of four bands of the prompt's level. The
# bands begin at these knots of the prompt's quantile function; they carry the dependence between the two
# lengths.
_BAND_KNOTS = (2, 5, 7)
_OUTPUT_LEVELS = (0.0, 0.096, 0.211, 0.939, 1.0)
_OUTPUT_TOKENS = (
    (22.0, 58.0, 130.0, 191.0, 416.0),
    (15.0, 57.0, 75.0, 113.0, 465.0),
    (44.0, 202.0, 378.0, 449.0, 729.0),
    (29.0, 40.0, 42.0, 138.0, 537.0),
)


def built_in_trace(seed: int = 0, requests: int = REQUESTS, rate_per_s: float = RATE_PER_S) -> Trace:
    """Requests with the arrivals and lengths of the Splitwise conversation trace, as a model.

    Arrivals are a renewal process whose rate changes every 220 s between 16 levels within ± 38.8 % of its
    mean, scaled so that the last of n requests arrives at n / rate. Prompt and output lengths are drawn
    independently from request to request, the output given the prompt's band.

    Args:
        seed: key of all draws.
        requests: ≥ 1; more than 19,366 make a longer span at the same rate.
        rate_per_s: requests per second; the rate blocks keep their 220 s.

    Returns:
        A trace named ``built-in``, arrivals on ticks of 100 ns.

    Valid for: first-order figures (rate, CV of counts in 10 s windows 0.26, inter-arrival CV 1.09, length
        quantiles p10 … p99 within 5 %). Ignores: drift of lengths over time and the tails beyond p99
        (longest prompt 4,157).
    """
    if requests < 1:
        raise InputError(f"requests must be at least 1, not {requests}")
    if not 0 < rate_per_s < float("inf"):
        raise InputError(f"rate must be a positive finite number of requests/s, not {rate_per_s}")
    if requests / rate_per_s > 90 * 86_400:
        raise InputError(f"{requests} requests at {rate_per_s:g}/s span more than 90 days")
    prompt, output = _lengths(seed, requests)
    note = f"generated: seed {seed}, {requests} requests at {rate_per_s:g}/s"
    return Trace(
        arrival_ps=_arrivals(seed, requests, rate_per_s),
        prompt_tokens=prompt,
        output_tokens=output,
        source="built-in",
        format="synthetic",
        accounting=Accounting(read=requests, kept=requests, notes=(note,)),
    )


def _arrivals(seed: int, requests: int, rate_per_s: float) -> IntArray:
    """int64 picoseconds, shape (requests,), first 0, last requests / rate."""
    if requests == 1:
        return np.zeros(1, np.int64)
    gap = keyed.exponential(keyed.uniform(seed, keyed.GAP, 0, requests - 1))
    long = keyed.keyed(seed, keyed.GAP, 1, requests - 1) >> np.uint64(63)
    gap *= np.where(long, 1.0 + _GAP_MIX, 1.0 - _GAP_MIX)
    # Sums in integers (units of 2⁻³²), then the time at which the rate profile has let so many requests
    # through.
    gap *= 2.0**32
    passed = np.cumsum(np.rint(gap).astype(np.int64)).astype(np.float64)
    passed *= 2.0**-32
    per_cycle = rate_per_s * _BLOCK_S * _BLOCKS
    levels = np.concatenate([_cycle(seed, c) for c in range(int(passed[-1] / per_cycle) + 2)])
    rate = levels * rate_per_s
    mass = np.concatenate([[0.0], np.cumsum(rate * _BLOCK_S)])
    block = np.searchsorted(mass, passed, side="right") - 1
    passed -= mass[block]
    passed /= rate[block]
    passed += block * _BLOCK_S
    passed *= requests / rate_per_s / float(passed[-1])
    passed *= 1e7
    arrival = np.zeros(requests, np.int64)
    arrival[1:] = np.rint(passed).astype(np.int64) * _TICK_PS
    return arrival


def _cycle(seed: int, cycle: int) -> FloatArray:
    """The rate levels of one cycle in their keyed order, mean 1."""
    order = np.argsort(keyed.keyed(seed, keyed.RATE, cycle, _BLOCKS), kind="stable")
    return 1.0 + _RATE_SPREAD * ((2.0 * order + 1.0) / _BLOCKS - 1.0)


def _lengths(seed: int, requests: int) -> tuple[IntArray, IntArray]:
    """Prompt and output tokens, int64, shape (requests,)."""
    u = keyed.uniform(seed, keyed.LENGTHS, 0, requests)
    prompt_levels = np.array(_PROMPT_LEVELS)
    knot = np.searchsorted(prompt_levels, u, side="right") - 1
    prompt = _interpolate(u, knot, prompt_levels, np.array(_PROMPT_TOKENS))
    band_of_knot = np.searchsorted(np.array(_BAND_KNOTS), np.arange(len(_PROMPT_LEVELS)), side="right")
    u = keyed.uniform(seed, keyed.LENGTHS, 1, requests)
    output_levels = np.array(_OUTPUT_LEVELS)
    knot = np.searchsorted(output_levels, u, side="right") - 1 + band_of_knot[knot] * len(_OUTPUT_LEVELS)
    output = _interpolate(
        u, knot, np.tile(output_levels, len(_OUTPUT_TOKENS)), np.array(_OUTPUT_TOKENS).ravel()
    )
    return prompt, output


def _interpolate(u: FloatArray, knot: IntArray, levels: FloatArray, values: FloatArray) -> IntArray:
    """Rounded value at level u on the line from `knot` to the next one."""
    slope = np.zeros(len(levels))
    with np.errstate(divide="ignore"):
        slope[:-1] = np.diff(values) / np.diff(levels)
    offset = u - levels[knot]
    offset *= slope[knot]
    offset += values[knot]
    return np.rint(offset).astype(np.int64)
