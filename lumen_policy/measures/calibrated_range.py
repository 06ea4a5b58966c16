"""How much of a replay ran beyond what its calibrated costs were measured for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cost_models.calibrated import CalibratedRange
from lumen_policy.replay.contract import NONE, PS_PER_S, ReplayInput, ReplayOutput

__all__ = ["OutsideRange", "outside_range"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideRange:
    """Worker-seconds of a replay and how many of them lie outside the calibrated range.

    Found from the requests' times, not counted iteration by iteration: between a request's first and last
    token its context grows evenly; prompts run alone in chunks of the token budget; recomputed tokens and
    drafted passes are left out.

    Attributes:
        decode_s, prefill_s: worker-seconds with a decoding request; of prompts.
        decode_outside_s: part of decode_s with more sequences, or more context tokens, than were measured.
        prefill_outside_s: part of prefill_s in chunks of more tokens, or more pairs, than were measured.
    """

    decode_s: float
    prefill_s: float
    decode_outside_s: float
    prefill_outside_s: float

    @property
    def share(self) -> float:
        """Outside seconds / all seconds; 0 for a replay that took no time."""
        total = self.decode_s + self.prefill_s
        return (self.decode_outside_s + self.prefill_outside_s) / total if total > 0 else 0.0


def outside_range(inp: ReplayInput, output: ReplayOutput, measured: CalibratedRange) -> OutsideRange:
    """See ``OutsideRange``.

    Args:
        inp, output: the replay.
        measured: the largest iteration of the calibration; where attention was not measured (0 pairs or 0
            context tokens) it bounds nothing.
    """
    decode_s, decode_outside_s = _decode(inp, output, measured)
    prefill_s, prefill_outside_s = _prefill(inp, output, measured)
    return OutsideRange(
        decode_s=decode_s,
        prefill_s=prefill_s,
        decode_outside_s=decode_outside_s,
        prefill_outside_s=prefill_outside_s,
    )


def _decode(inp: ReplayInput, output: ReplayOutput, measured: CalibratedRange) -> tuple[float, float]:
    start = output.first_ps.copy()
    context = inp.prompt_tokens + 1
    for request, next_ps, delivered in zip(
        output.interruption_request,
        output.interruption_next_ps,
        output.interruption_delivered,
        strict=True,
    ):
        if next_ps != NONE:
            start[request] = next_ps
            context[request] = inp.prompt_tokens[request] + delivered + 1
    rows = np.flatnonzero((start != NONE) & (output.last_ps > start))
    if not len(rows):
        return 0.0, 0.0
    start_s, end_s = start[rows] / PS_PER_S, output.last_ps[rows] / PS_PER_S
    first = context[rows].astype(np.float64)
    last = (inp.prompt_tokens[rows] + inp.output_tokens[rows]).astype(np.float64)
    growth = (last - first) / (end_s - start_s)
    at_zero = first - growth * start_s
    times = np.concatenate([start_s, end_s])
    worker = np.concatenate([output.worker[rows]] * 2)
    sign = np.concatenate([np.ones(len(rows)), -np.ones(len(rows))])
    order = np.lexsort((times, worker))
    times, worker, sign = times[order], worker[order], sign[order]
    # all requests of a worker have left before the next worker's events begin, so one running sum serves all
    sequences = np.cumsum(sign)[:-1]
    offset = np.cumsum(sign * np.concatenate([at_zero, at_zero])[order])[:-1]
    slope = np.cumsum(sign * np.concatenate([growth, growth])[order])[:-1]
    length = np.where((np.diff(worker) == 0) & (sequences > 0), np.diff(times), 0.0)
    share = np.where(sequences > (measured.sequences or np.inf), 1.0, 0.0)
    if measured.context_tokens > 0:
        low, high = offset + slope * times[:-1], offset + slope * times[1:]
        share = np.maximum(share, _share_above(low, high, float(measured.context_tokens)))
    return float(length.sum()), float((length * share).sum())


def _share_above(a: FloatArray, b: FloatArray, limit: float) -> FloatArray:
    """Part of the way from a to b (linear) that lies above the limit."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    width = np.maximum(high - low, 1e-12)
    return np.asarray(np.clip((high - limit) / width, 0.0, 1.0), dtype=np.float64)


def _prefill(inp: ReplayInput, output: ReplayOutput, measured: CalibratedRange) -> tuple[float, float]:
    costs = inp.costs.target
    prompts, counts = np.unique(inp.prompt_tokens[output.first_ps != NONE], return_counts=True)
    if not len(prompts):
        return 0.0, 0.0
    total = outside = 0.0
    for cached in range(0, int(prompts[-1]), inp.token_budget):
        chunk = np.clip(prompts - cached, 0, inp.token_budget)
        pairs = chunk * cached + chunk * (chunk + 1) // 2
        seconds = np.where(chunk > 0, costs.token_ps[chunk] + costs.prefill_pair_ps * pairs, 0) / PS_PER_S
        beyond = (chunk > measured.tokens) | ((pairs > measured.pairs) & (measured.pairs > 0))
        total += float((seconds * counts).sum())
        outside += float((seconds * counts)[beyond].sum())
    return total, outside
