"""How much of a replay ran beyond what its calibrated costs were measured for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cost_models.calibrated import CalibratedRange
from lumen_policy.replay.contract import NONE, PS_PER_S, IntArray, ReplayInput, ReplayOutput

__all__ = ["OutsideRange", "outside_range"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideRange:
    """Worker-seconds of a replay and how many of them lie outside the calibrated range.

    Found from the requests' times, not counted iteration by iteration: between a request's first and last
    token its context grows evenly; prompts run alone in chunks of the token budget; recomputed tokens and
    drafted passes are left out. An interrupted request counts from its first token after the interruption.

    Attributes:
        busy_s: with a request on the worker.
        decode_outside_s: with more decoding sequences, or more context tokens, than were measured.
        prefill_outside_s: of prompts in chunks of more tokens, or more pairs, than were measured.
    """

    busy_s: float
    decode_outside_s: float
    prefill_outside_s: float

    @property
    def share(self) -> float:
        """Outside seconds / busy seconds, at most 1; 0 for a replay that took no time."""
        outside_s = self.decode_outside_s + self.prefill_outside_s
        return min(1.0, outside_s / self.busy_s) if self.busy_s > 0 else 0.0


def outside_range(inp: ReplayInput, output: ReplayOutput, measured: CalibratedRange) -> OutsideRange:
    """See ``OutsideRange``.

    Args:
        inp, output: the replay.
        measured: the largest iteration of the calibration; where attention was not measured (0 pairs or 0
            context tokens) it bounds nothing.
    """
    first_ps, context = output.first_ps.copy(), inp.prompt_tokens + 1
    begin_ps = np.where(output.first_ps == NONE, NONE, output.dispatch_ps)
    for request, next_ps, delivered in zip(
        output.interruption_request,
        output.interruption_next_ps,
        output.interruption_delivered,
        strict=True,
    ):
        if next_ps != NONE:
            first_ps[request] = begin_ps[request] = next_ps
            context[request] = inp.prompt_tokens[request] + delivered + 1
    return OutsideRange(
        busy_s=_busy_s(output, begin_ps),
        decode_outside_s=_decode_outside_s(inp, output, first_ps, context, measured),
        prefill_outside_s=_prefill_outside_s(inp, output, measured),
    )


class _Sweep:
    """Every begin and end of requests on their last workers, in order, worker after worker.

    All requests of a worker have left before the next worker's events, so one running sum serves all.
    """

    def __init__(self, output: ReplayOutput, rows: IntArray, begin_ps: IntArray) -> None:
        self.times = np.concatenate([begin_ps[rows], output.last_ps[rows]]) / PS_PER_S
        worker = np.concatenate([output.worker[rows]] * 2)
        self._order = np.lexsort((self.times, worker))
        self._sign = np.repeat([1.0, -1.0], len(rows))[self._order]
        self.times = self.times[self._order]
        same = np.diff(worker[self._order]) == 0
        self.length = np.where(same, np.diff(self.times), 0.0)

    def running(self, values: FloatArray) -> FloatArray:
        """Sum of a value over the requests that are there, after each event but the last."""
        both = np.concatenate([values, values])[self._order]
        return np.asarray(np.cumsum(self._sign * both)[:-1], dtype=np.float64)


def _busy_s(output: ReplayOutput, begin_ps: IntArray) -> float:
    rows = np.flatnonzero((begin_ps != NONE) & (output.last_ps > begin_ps))
    if not len(rows):
        return 0.0
    sweep = _Sweep(output, rows, begin_ps)
    return float(sweep.length[sweep.running(np.ones(len(rows))) > 0.5].sum())


def _decode_outside_s(
    inp: ReplayInput, output: ReplayOutput, first_ps: IntArray, context: IntArray, measured: CalibratedRange
) -> float:
    rows = np.flatnonzero((first_ps != NONE) & (output.last_ps > first_ps))
    if not len(rows):
        return 0.0
    sweep = _Sweep(output, rows, first_ps)
    begin_s, end_s = first_ps[rows] / PS_PER_S, output.last_ps[rows] / PS_PER_S
    growth = (inp.prompt_tokens[rows] + inp.output_tokens[rows] - context[rows]) / (end_s - begin_s)
    at_zero = context[rows] - growth * begin_s
    share = np.where(sweep.running(np.ones(len(rows))) > (measured.sequences or np.inf), 1.0, 0.0)
    if measured.context_tokens > 0:
        offset, slope = sweep.running(at_zero), sweep.running(growth)
        low, high = offset + slope * sweep.times[:-1], offset + slope * sweep.times[1:]
        share = np.maximum(share, _share_above(low, high, float(measured.context_tokens)))
    return float((sweep.length * share).sum())


def _share_above(a: FloatArray, b: FloatArray, limit: float) -> FloatArray:
    """Part of the way from a to b (linear) that lies above the limit."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    width = np.maximum(high - low, 1e-12)
    return np.asarray(np.clip((high - limit) / width, 0.0, 1.0), dtype=np.float64)


def _prefill_outside_s(inp: ReplayInput, output: ReplayOutput, measured: CalibratedRange) -> float:
    costs = inp.costs.target
    prompts, counts = np.unique(inp.prompt_tokens[output.first_ps != NONE], return_counts=True)
    outside = 0.0
    for cached in range(0, int(prompts.max(initial=0)), inp.token_budget):
        chunk = np.clip(prompts - cached, 0, inp.token_budget)
        pairs = chunk * cached + chunk * (chunk + 1) // 2
        beyond = (chunk > measured.tokens) | ((pairs > measured.pairs) & (measured.pairs > 0))
        seconds = (costs.token_ps[chunk] + costs.prefill_pair_ps * pairs) / PS_PER_S * counts
        outside += float(seconds[beyond].sum())
    return outside
