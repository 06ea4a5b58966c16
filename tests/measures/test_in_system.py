"""The number in the system, Little's law, and the time-mean load."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.measures.load import mean_load
from lumen_policy.measures.times import number_in_system, request_times
from lumen_policy.replay.contract import NONE, PS_PER_S, ReplayInput, ReplayOutput, Status

from .builder import ints, replay_input, replay_output


@st.composite
def runs(draw: st.DrawFn) -> tuple[ReplayInput, ReplayOutput]:
    """Requests that finish, never finish or were refused, on a tiny clock."""
    count = draw(st.integers(1, 12))
    arrival = sorted(draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)))
    span = draw(st.lists(st.integers(0, 20), min_size=count, max_size=count))
    status = draw(st.lists(st.sampled_from(list(Status)), min_size=count, max_size=count))
    last = [
        a + s if how == Status.FINISHED else NONE for a, s, how in zip(arrival, span, status, strict=True)
    ]
    inp = replay_input(arrival)
    return inp, replay_output(inp, last, last, status=ints(status), end_ps=max(arrival[-1], *last) + 3)


@given(runs())
def test_littles_law_holds_exactly(run: tuple[ReplayInput, ReplayOutput]) -> None:
    """Σ sojourn = ∫ N dt, the integral summed over the instants at which N can change."""
    inp, out = run
    times = request_times(inp, out)
    instants = sorted({*times.arrival_ps.tolist(), *times.last_ps.tolist(), out.end_ps})
    number = number_in_system(times, ints(instants)).tolist()
    integral = sum(
        n * (after - at) for n, at, after in zip(number[:-1], instants[:-1], instants[1:], strict=True)
    )
    assert integral == (times.last_ps - times.arrival_ps).sum()


@given(runs(), st.integers(-1, 45))
def test_number_equals_its_definition(run: tuple[ReplayInput, ReplayOutput], at: int) -> None:
    inp, out = run
    present = 0
    for row, how in enumerate(out.status.tolist()):
        left = how == Status.FINISHED and out.last_ps[row] <= at
        present += how != Status.REFUSED_TOO_LONG and inp.arrival_ps[row] <= at and not left
    assert number_in_system(request_times(inp, out), ints([at])).tolist() == [present]


def test_mean_load_of_a_hand_made_run() -> None:
    """Two workers over [2, 10]: Q is 1 from 3 to 7 and from 4 to 10; H rises by 100 at 5 and falls by 40 at
    9.

    ∫Q = 4 + 6 = 10; ∫H = 100·(10 − 5) − 40·(10 − 9) = 460; both over 2 · 8.
    """
    inp = replay_input([2, 3, 4])
    out = replay_output(
        inp,
        [NONE, 5, 9],
        [NONE, 7, 10],
        status=ints([Status.REFUSED_TOO_LONG, Status.FINISHED, Status.FINISHED]),
        dispatch_ps=ints([NONE, 3, 4]),
        held_end=60,
        held_integral=-100 * 5 + 40 * 9,
        end_ps=10,
    )
    load = mean_load(inp, out)
    assert (load.held_tokens, load.queue_requests) == (Fraction(460, 16), Fraction(10, 16))


def test_mean_load_counts_the_unfinished_to_the_end_without_overflow() -> None:
    day = 86_400 * PS_PER_S
    inp = replay_input([0] * 200, workers=1)
    status = ints([Status.PENDING] * 200)
    out = replay_output(inp, [NONE] * 200, [NONE] * 200, status=status, end_ps=80 * day)
    assert mean_load(inp, out).queue_requests == 200


def test_mean_load_of_a_run_without_duration_is_zero() -> None:
    inp = replay_input([5])
    load = mean_load(inp, replay_output(inp, [5], [5], end_ps=5))
    assert (load.held_tokens, load.queue_requests) == (0, 0)
