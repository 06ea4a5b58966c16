"""Crashes for tests that do not come from a cluster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lumen_policy.replay.contract import FULL_SPEED_PPM, FaultTable

__all__ = ["Reload", "crash_table"]


class Reload(NamedTuple):
    """A way back, as ``FaultTable`` has it."""

    restart_ps: int
    draft_ps: int
    load_ps: int
    init_ps: int


def crash_table(
    ps: npt.ArrayLike, worker: npt.ArrayLike, delay_ps: npt.ArrayLike, reload: Reload
) -> FaultTable:
    """Crashes that lose the worker's host memory, all with one reload."""
    at = np.array(ps, np.int64)
    zero = np.zeros(len(at), np.int64)
    return FaultTable(
        ps=at,
        worker=np.array(worker, np.int64),
        kind=zero,
        delay_ps=np.array(delay_ps, np.int64),
        length_ps=zero,
        factor_ppm=zero + FULL_SPEED_PPM,
        keeps_copies=zero,
        refusals=zero,
        **{name: zero + part for name, part in reload._asdict().items()},
    )
