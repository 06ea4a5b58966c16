"""One row per request of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lumen_policy.replay.contract import NONE, PS_PER_S, IntArray, ReplayInput, ReplayOutput

if TYPE_CHECKING:
    import polars as pl

__all__ = ["per_request_columns", "per_request_frame"]

Column = npt.NDArray[np.int64] | npt.NDArray[np.float64]


def per_request_columns(inp: ReplayInput, out: ReplayOutput) -> dict[str, Column]:
    """The per-request columns, each shape (n,), in trace order.

    Times are float64 seconds on the trace clock (0 = the trace's first arrival). What has not happened is
    NaN in a time and -1 in ``worker``.

    Returns:
        request (row of the trace), arrival_s, prompt_tokens, output_tokens, worker (the last server),
        first_token_s, last_token_s, interrupted (how often), replay_ttft_from_crash_s (of the last
        interruption), restored_tokens, recomputed_tokens, preemptions (how often).
    """
    replay_ttft_ps = np.full(inp.arrival_ps.size, NONE, dtype=np.int64)
    since_crash = np.where(
        out.interruption_next_ps == NONE, NONE, out.interruption_next_ps - out.interruption_crash_ps
    )
    # the log is in order of handling: the last entry of a request is its last interruption
    requests, from_end = np.unique(out.interruption_request[::-1], return_index=True)
    replay_ttft_ps[requests] = since_crash[::-1][from_end]
    return {
        "request": np.arange(inp.arrival_ps.size, dtype=np.int64),
        "arrival_s": inp.arrival_ps / PS_PER_S,
        "prompt_tokens": inp.prompt_tokens,
        "output_tokens": inp.output_tokens,
        "worker": out.worker,
        "first_token_s": _seconds(out.first_ps),
        "last_token_s": _seconds(out.last_ps),
        "interrupted": out.interruptions,
        "replay_ttft_from_crash_s": _seconds(replay_ttft_ps),
        "restored_tokens": out.restored_tokens,
        "recomputed_tokens": out.recomputed_tokens,
        "preemptions": out.preemptions,
    }


def per_request_frame(inp: ReplayInput, out: ReplayOutput) -> pl.DataFrame:
    """``per_request_columns`` as a polars frame, null where something has not happened."""
    import polars as pl

    frame = pl.DataFrame(per_request_columns(inp, out), nan_to_null=True)
    return frame.with_columns(pl.col("worker").replace(NONE, None))


def _seconds(times_ps: IntArray) -> npt.NDArray[np.float64]:
    return np.where(times_ps == NONE, np.nan, times_ps / PS_PER_S)
