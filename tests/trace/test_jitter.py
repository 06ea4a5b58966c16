"""Jitter moves arrivals by no more than it says and keeps every request in its place."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.trace.jitter import jitter
from lumen_policy.trace.table import Accounting, Trace

US = 10**6


def trace_of(gaps_us: list[int]) -> Trace:
    arrival = np.cumsum([0, *gaps_us]) * US
    lengths = np.arange(1, len(arrival) + 1)
    return Trace(
        arrival_ps=arrival,
        prompt_tokens=lengths,
        output_tokens=lengths,
        source="made",
        format="synthetic",
        accounting=Accounting(read=len(arrival), kept=len(arrival)),
    )


@given(
    gaps_us=st.lists(st.integers(0, 50_000), max_size=40),
    most_us=st.integers(0, 20_000),
    seed=st.integers(0, 2**64 - 1),
)
def test_bounds_and_order(gaps_us: list[int], most_us: int, seed: int) -> None:
    trace = trace_of(gaps_us)
    moved = jitter(trace, most_us * US, seed)
    assert np.abs(moved.arrival_ps - trace.arrival_ps).max() <= most_us * US
    assert (np.diff(moved.arrival_ps) >= 0).all()
    assert moved.arrival_ps[0] == 0
    assert np.array_equal(moved.prompt_tokens, trace.prompt_tokens)
    assert np.array_equal(moved.arrival_ps, jitter(trace, most_us * US, seed).arrival_ps)


def test_moves_are_uniform_and_keyed() -> None:
    """4,000 requests a second apart: mean 0 within four standard errors, both ends reached."""
    trace = trace_of([10**6] * 4000)
    moved = (jitter(trace, 20_000 * US, 7).arrival_ps - trace.arrival_ps)[1:] / US
    assert abs(moved.mean()) < 4 * 20_000 / np.sqrt(3 * 4000)
    assert moved.min() < -19_900
    assert moved.max() > 19_900
    other = jitter(trace, 20_000 * US, 8).arrival_ps
    assert not np.array_equal(other[1:], trace.arrival_ps[1:] + moved.astype(np.int64) * US)
