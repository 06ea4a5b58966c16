"""The request table: its invariants, its accounting law and its digest."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.errors import InputError
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.table import MAX_SPAN_PS, Accounting, PrefixBlocks, Trace


def trace_of(arrival: list[int], prompt: list[int], output: list[int]) -> Trace:
    return Rows(
        arrival_ps=np.array(arrival, np.int64),
        prompt_tokens=np.array(prompt, np.int64),
        output_tokens=np.array(output, np.int64),
    ).trace("test", "test")


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 3), st.integers(0, 3)),
        min_size=1,
        max_size=40,
    )
)
def test_rows_read_are_kept_or_dropped_and_order_of_equal_times_stays(
    rows: list[tuple[int, int, int]],
) -> None:
    # The prompt carries the row's number, so that every request can be traced back.
    arrival, prompt, output = (list(column) for column in zip(*rows, strict=True))
    prompt = [0 if p == 0 else 1 + i for i, p in enumerate(prompt)]
    kept = [i for i in range(len(rows)) if prompt[i] and output[i]]
    if not kept:
        with pytest.raises(InputError, match="no requests left"):
            trace_of(arrival, prompt, output)
        return
    trace = trace_of(arrival, prompt, output)
    expected = sorted(kept, key=lambda i: (arrival[i], i))
    assert trace.prompt_tokens.tolist() == [1 + i for i in expected]
    assert trace.output_tokens.tolist() == [output[i] for i in expected]
    assert trace.arrival_ps.tolist() == [arrival[i] - arrival[expected[0]] for i in expected]
    accounting = trace.accounting
    assert accounting.read == len(rows) == accounting.kept + sum(accounting.dropped.values())
    assert accounting.dropped.get("zero prompt tokens", 0) == prompt.count(0)
    late = sum(arrival[b] < arrival[a] for a, b in itertools.pairwise(kept))
    assert any(f": {late} rows" in note for note in accounting.notes) == bool(late)


def test_duplicate_rows_are_kept() -> None:
    assert len(trace_of([5, 5, 5], [7, 7, 7], [1, 1, 1])) == 3


def test_accounting_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(ValueError, match="do not add up"):
        Accounting(read=3, kept=1, dropped={"zero output tokens": 1})


def test_span_beyond_90_days_is_refused_and_a_window_cuts_it() -> None:
    arrival = np.array([0, 5, MAX_SPAN_PS + 1], np.int64)
    ones = np.ones(3, np.int64)
    rows = Rows(arrival_ps=arrival, prompt_tokens=ones, output_tokens=ones)
    with pytest.raises(InputError, match=r"spans 90\.0 days; at most 90"):
        rows.trace("long", "test")
    cut = rows.trace("long", "test", window_s=(0.0, 10.0))
    assert cut.arrival_ps.tolist() == [0, 5]
    assert cut.accounting.dropped == {"outside the window": 1}


def test_exactly_90_days_are_allowed() -> None:
    assert trace_of([0, MAX_SPAN_PS], [1, 1], [1, 1]).span_s == 90 * 86_400


def test_rate_is_requests_over_span() -> None:
    trace = trace_of([0, 2 * 10**12, 4 * 10**12], [1, 1, 1], [1, 1, 1])
    assert (trace.span_s, trace.rate_per_s, trace.count) == (4.0, 0.75, 3)
    assert trace_of([3], [1], [1]).rate_per_s == 0.0


def test_columns_are_read_only() -> None:
    trace = trace_of([0, 1], [1, 2], [3, 4])
    with pytest.raises(ValueError, match="read-only"):
        trace.prompt_tokens[0] = 9


def test_digest_depends_on_every_number_and_on_nothing_else() -> None:
    trace = trace_of([0, 10], [1, 2], [3, 4])
    assert trace.digest() == replace(trace, source="other", format="other").digest()
    others = [
        trace_of([0, 11], [1, 2], [3, 4]),
        trace_of([0, 10], [1, 3], [3, 4]),
        trace_of([0, 10], [1, 2], [3, 5]),
        trace_of([0, 10], [3, 4], [1, 2]),
        replace(
            trace, prefix=PrefixBlocks(block_tokens=16, offsets=np.array([0, 1, 2]), ids=np.array([7, 8]))
        ),
        replace(
            trace, prefix=PrefixBlocks(block_tokens=32, offsets=np.array([0, 1, 2]), ids=np.array([7, 8]))
        ),
        replace(
            trace, prefix=PrefixBlocks(block_tokens=16, offsets=np.array([0, 2, 2]), ids=np.array([7, 8]))
        ),
    ]
    assert len({trace.digest(), *(other.digest() for other in others)}) == 8


def test_take_keeps_the_blocks_of_its_requests() -> None:
    prefix = PrefixBlocks(block_tokens=16, offsets=np.array([0, 2, 2, 5]), ids=np.array([1, 2, 3, 4, 5]))
    taken = prefix.take(np.array([2, 0, 1]))
    assert taken.offsets.tolist() == [0, 3, 5, 5]
    assert taken.ids.tolist() == [3, 4, 5, 1, 2]
