"""How long workers did not serve."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.measures.outages import down_ps, outages_ps
from lumen_policy.replay.contract import NONE, ReplayOutput
from tests.measures.builder import ints, replay_input, replay_output

Span = tuple[int, int, int]


def run_of(spans: list[Span]) -> ReplayOutput:
    """Outages as (worker, stop, rejoin)."""
    worker, stop, back = zip(*spans, strict=True) if spans else ((), (), ())
    return replay_output(
        replay_input([0]),
        [1],
        [2],
        outage_worker=ints(worker),
        outage_stop_ps=ints(stop),
        outage_rejoin_ps=ints(back),
    )


def test_outages_of_one_worker_are_united() -> None:
    """Worker 0 drains from 10 on and crashes at 12; worker 1 is silent from 11 to 13."""
    out = run_of([(0, 10, 20), (1, 11, 13), (0, 12, 25)])
    assert down_ps(out, 0, 100) == 15 + 2
    assert down_ps(out, 12, 20) == 8 + 1
    assert down_ps(out, 50, 40) == 0
    assert outages_ps(out) == 17


def test_what_did_not_happen() -> None:
    out = run_of([(0, NONE, NONE), (1, 11, NONE)])
    assert down_ps(out, 0, 15) == 4
    assert outages_ps(out) is None
    assert outages_ps(run_of([(0, NONE, NONE)])) is None


outages = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 30)).map(
        lambda span: (span[0], span[1], span[1] + span[2])
    ),
    max_size=8,
)


@given(outages, st.integers(0, 40), st.integers(0, 40))
def test_against_counting(spans: list[Span], start: int, end: int) -> None:
    out = run_of(spans)
    down = {(worker, at) for worker, stop, back in spans for at in range(stop, back)}
    assert down_ps(out, start, end) == sum(start <= at < end for _, at in down)
    assert outages_ps(out) == (len(down) if spans else None)
