"""Laws of the transformations: what they keep, what they change, and that they say so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.errors import InputError
from lumen_policy.trace.figures import arrival_figures
from lumen_policy.trace.reshape import cap_gaps, extend, limit_context
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.synthetic import built_in_trace
from lumen_policy.trace.table import PS_PER_S, PrefixBlocks, Trace
from lumen_policy.trace.transform import limit, rate_scale, segment, superpose, window


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Up to 40 requests with colliding times; the prompt is the request's number + 1."""
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 10**6, 10**12, 7 * 10**12]), min_size=1, max_size=40))
    arrival = np.cumsum(gaps)
    n = len(arrival)
    output = np.array(draw(st.lists(st.integers(1, 900), min_size=n, max_size=n)), np.int64)
    return Rows(arrival_ps=arrival, prompt_tokens=np.arange(1, n + 1), output_tokens=output).trace("t", "t")


@given(traces(), st.floats(0.05, 6.0), st.integers(0, 2**64 - 1))
def test_superposition_adds_whole_copies_and_part_of_one(trace: Trace, copies: float, seed: int) -> None:
    n = len(trace)
    period = trace.span_ps + max(1, trace.span_ps // max(1, n - 1))
    total = round(copies * n)
    if not total:
        return
    result = superpose(trace, total / (period / PS_PER_S), seed)
    assert len(result) == total
    whole, rest = divmod(total, n)
    counts = np.bincount(result.prompt_tokens, minlength=n + 1)[1:]
    assert counts.min() >= whole
    assert counts.max() <= whole + (rest > 0)
    # Lengths belong to their request.
    assert (result.output_tokens == trace.output_tokens[result.prompt_tokens - 1]).all()
    assert result.span_ps < period
    # Every copy is the trace turned on its circle: each arrival is a request's, moved by one of the offsets.
    for request in range(n):
        own = result.arrival_ps[result.prompt_tokens == request + 1]
        first = result.arrival_ps[result.prompt_tokens == 1]
        if len(first) < len(own) or not len(own):
            continue
        turn = int(trace.arrival_ps[request])
        assert set(((own - turn) % period).tolist()) <= set((first % period).tolist())
    assert "clock unchanged" in result.accounting.notes[-1]


@given(traces(), st.integers(0, 2**64 - 1))
def test_a_smaller_fraction_keeps_a_subset(trace: Trace, seed: int) -> None:
    n = len(trace)
    period_s = (trace.span_ps + max(1, trace.span_ps // max(1, n - 1))) / PS_PER_S
    kept = [set(superpose(trace, count / period_s, seed).prompt_tokens.tolist()) for count in range(1, n)]
    for smaller, larger in itertools.pairwise(kept):
        assert smaller < larger


def test_superposition_sorts_by_arrival_then_copy_then_row() -> None:
    trace = built_in_trace(requests=500)
    result = superpose(trace, 3 * trace.rate_per_s, 5)
    assert (np.diff(result.arrival_ps) >= 0).all()
    assert superpose(trace, 3 * trace.rate_per_s, 5).digest() == result.digest()
    assert superpose(trace, 3 * trace.rate_per_s, 6).digest() != result.digest()


def test_equal_times_of_copies_stay_in_order_of_copy_and_row() -> None:
    three = Rows(
        arrival_ps=np.zeros(3, np.int64),
        prompt_tokens=np.array([1, 2, 3]),
        output_tokens=np.ones(3, np.int64),
    ).trace("t", "t")
    assert superpose(three, 9 * PS_PER_S, 0, period_ps=1).prompt_tokens.tolist() == [1, 2, 3] * 3


def test_superposition_reaches_the_rate_and_smooths() -> None:
    trace = built_in_trace()
    result = superpose(trace, 40.0, 1)
    assert result.rate_per_s == pytest.approx(40.0, rel=1e-3)
    ours, theirs = (arrival_figures(t.arrival_ps)["window_count_cv"] for t in (result, trace))
    assert ours < theirs


def test_superposition_in_a_longer_period_leaves_the_rest_empty() -> None:
    trace = built_in_trace(requests=100)
    period = 2 * trace.span_ps
    result = superpose(trace, 100 / (period / PS_PER_S), 3, period_ps=period)
    assert len(result) == 100
    assert np.diff(result.arrival_ps).max() >= trace.span_ps * 0.9 or result.span_ps <= trace.span_ps


def test_superposition_near_90_days_does_not_overflow() -> None:
    trace = Rows(
        arrival_ps=np.array([0, 80 * 86_400 * PS_PER_S]),
        prompt_tokens=np.array([1, 2]),
        output_tokens=np.array([1, 1]),
    ).trace("t", "t")
    period = trace.span_ps + 1
    for seed in range(20):
        result = superpose(trace, 4 / (period / PS_PER_S), seed, period_ps=period)
        assert len(result) == 4
        assert result.span_ps < period


@given(traces(), st.sampled_from([0.5, 1.0, 1.5, 2.0, 10.0]))
def test_rate_scale_divides_every_time(trace: Trace, factor: float) -> None:
    result = rate_scale(trace, factor)
    expected = [round(int(t) / factor) for t in trace.arrival_ps]
    assert np.abs(result.arrival_ps - np.array(expected)).max() <= 1
    assert (result.prompt_tokens == trace.prompt_tokens).all()
    assert "clock" in result.accounting.notes[-1]


@given(traces(), st.integers(0, 30), st.integers(1, 30))
def test_segment_is_exactly_the_requests_inside(trace: Trace, start_s: int, length_s: int) -> None:
    start, end = start_s * PS_PER_S, (start_s + length_s) * PS_PER_S
    inside = [i for i, t in enumerate(trace.arrival_ps.tolist()) if start <= t < end]
    if not inside:
        with pytest.raises(InputError, match="no requests in segment"):
            segment(trace, start, end)
        return
    cut = segment(trace, start, end)
    assert cut.prompt_tokens.tolist() == [i + 1 for i in inside]
    assert cut.arrival_ps.tolist() == [int(trace.arrival_ps[i] - trace.arrival_ps[inside[0]]) for i in inside]
    assert cut.accounting.read == len(trace)
    assert window(trace, float(start_s), float(start_s + length_s)).digest() == cut.digest()


@given(traces(), st.integers(1, 50))
def test_limit_keeps_the_first(trace: Trace, count: int) -> None:
    cut = limit(trace, count)
    assert len(cut) == min(count, len(trace))
    assert cut.accounting.read == len(trace)
    assert (cut.prompt_tokens == trace.prompt_tokens[: len(cut)]).all()


@given(traces(), st.sampled_from([0.5, 1.0, 3.0]))
def test_capped_gaps_are_at_most_the_cap_and_others_stay(trace: Trace, cap_s: float) -> None:
    before, after = np.diff(trace.arrival_ps), np.diff(cap_gaps(trace, cap_s).arrival_ps)
    cap = round(cap_s * PS_PER_S)
    assert (after == np.where(before > cap, cap, before)).all()


@given(traces(), st.integers(2, 60))
def test_context_limit_refuses_or_cuts_and_counts(trace: Trace, tokens: int) -> None:
    long = trace.prompt_tokens + trace.output_tokens > tokens
    cut = limit_context(trace, tokens, "cut")
    assert len(cut) == len(trace)
    assert (cut.prompt_tokens + cut.output_tokens <= tokens).all()
    assert (cut.prompt_tokens[~long] == trace.prompt_tokens[~long]).all()
    assert (cut.output_tokens[~long] == trace.output_tokens[~long]).all()
    assert (cut.prompt_tokens + cut.output_tokens)[long].tolist() == [tokens] * int(long.sum())
    assert f"{int(long.sum())} requests cut" in cut.accounting.notes[-1]
    if long.all():
        with pytest.raises(InputError, match="no requests left"):
            limit_context(trace, tokens, "refuse")
        return
    kept = limit_context(trace, tokens, "refuse")
    assert (kept.prompt_tokens == trace.prompt_tokens[~long]).all()
    assert kept.accounting.dropped.get(f"longer than {tokens} tokens", 0) == long.sum()


def test_context_cut_drops_the_blocks_beyond_the_prompt() -> None:
    trace = Rows(
        arrival_ps=np.array([0, 1]),
        prompt_tokens=np.array([40, 10]),
        output_tokens=np.array([4, 4]),
        prefix=PrefixBlocks(block_tokens=16, offsets=np.array([0, 3, 4]), ids=np.array([1, 2, 3, 9])),
    ).trace("t", "t")
    cut = limit_context(trace, 24, "cut")
    assert cut.prompt_tokens.tolist() == [20, 10]
    assert cut.prefix is not None
    assert cut.prefix.offsets.tolist() == [0, 2, 3]
    assert cut.prefix.ids.tolist() == [1, 2, 9]


def test_extension_keeps_rate_and_lengths() -> None:
    trace = built_in_trace(requests=5000)
    longer = extend(trace, 10 * trace.span_s, 60.0, seed=2)
    assert longer.span_s == pytest.approx(10 * trace.span_s, rel=0.01)
    assert longer.rate_per_s == pytest.approx(trace.rate_per_s, rel=0.1)
    pairs = set(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True))
    assert set(zip(longer.prompt_tokens.tolist(), longer.output_tokens.tolist(), strict=True)) <= pairs
    assert extend(trace, 10 * trace.span_s, 60.0, seed=2).digest() == longer.digest()


def test_extension_by_one_whole_block_is_the_trace_turned() -> None:
    trace = built_in_trace(requests=200)
    turned = extend(trace, trace.span_s, trace.span_s, seed=1)
    assert abs(len(turned) - len(trace)) <= 1
    assert np.diff(turned.arrival_ps).min() >= 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: limit(t, 0), "limit must be at least 1"),
        (lambda t: rate_scale(t, 0.0), "positive finite"),
        (lambda t: rate_scale(t, float("nan")), "positive finite"),
        (lambda t: rate_scale(t, 1e-12), "beyond 90 days"),
        (lambda t: rate_scale(t, 1e-300), "beyond 90 days"),
        (lambda t: window(t, 5.0, 5.0), "0 ≤ start < end"),
        (lambda t: window(t, -1.0, 5.0), "0 ≤ start < end"),
        (lambda t: window(t, 1e9, 2e9), "no requests"),
        (lambda t: superpose(t, 0.0, 0), "positive finite"),
        (lambda t: superpose(t, float("inf"), 0), "positive finite"),
        (lambda t: superpose(t, 1e-9, 0), "leave no request"),
        (lambda t: superpose(t, 1e9, 0), "too many"),
        (lambda t: superpose(t, 1.0, 0, period_ps=5), "must exceed the span"),
        (lambda t: extend(t, 0.0, 1.0, 0), "span must be above 0"),
        (lambda t: extend(t, 10.0, 1e9, 0), "blocks must be"),
        (lambda t: cap_gaps(t, 0.0), "positive finite"),
        (lambda t: limit_context(t, 1, "cut"), "at least 2 tokens"),
        (lambda t: limit_context(t, 10, "fold"), "allowed are refuse, cut"),
    ],
)
def test_senseless_arguments_are_refused(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        call(built_in_trace(requests=50))
