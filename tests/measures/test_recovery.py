"""Recovery against a slow, literal reading of its definition, and against hand-made runs."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumen_policy.errors import InputError
from lumen_policy.measures.options import RecoveryOptions
from lumen_policy.measures.recovery import recovery
from lumen_policy.replay.contract import PS_PER_S, ReplayInput, ReplayOutput

from .builder import GapRecord, brute_gaps, ints, replay_input, replay_output

S = PS_PER_S
MS = S // 1000

Samples = list[tuple[int, int]]
"""(instant, value)."""


def mean_in_window(samples: Samples, at: int, options: RecoveryOptions) -> Fraction | None:
    window_ps = int(options.window_s) * S
    values = [value for time, value in samples if at - window_ps < time <= at]
    return Fraction(sum(values), len(values)) if len(values) >= options.min_samples else None


def literal(
    inp: ReplayInput,
    runs: tuple[ReplayOutput, ReplayOutput],
    gaps: tuple[list[GapRecord], list[GapRecord]],
    options: RecoveryOptions,
) -> tuple[float | None, bool, bool, float | None]:
    """The definition, sample by sample and excursion by excursion, on a list of grid points."""
    x, end = int(inp.faults.ps[0]), max(int(inp.arrival_ps[-1]), int(inp.faults.ps[0]))
    grid = list(range(x, end + 1, int(options.grid_s) * S))
    ttft = [
        [(a, f - a) for a, f in zip(inp.arrival_ps.tolist(), run.first_ps.tolist(), strict=True) if a >= x]
        for run in runs
    ]
    token_gap = [[sample for sample in brute_gaps(records) if sample[0] > x] for records in gaps]
    out = []
    for at in grid:
        bad = False
        for samples, margin_s in ((ttft, options.ttft_margin_s), (token_gap, options.gap_margin_s)):
            mean, mean0 = (mean_in_window(run, at, options) for run in samples)
            if mean is not None and mean0 is not None:
                limit = mean0 * Fraction(str(options.band_ratio)) + Fraction(str(margin_s)) * S
                bad = bad or mean > limit
        out.append(bad)

    recovered, censored = 0.0 if not any(out) else None, any(out)
    for number, at in enumerate(grid):
        hold = [place for place, then in enumerate(grid) if at <= then <= at + int(options.hold_s) * S]
        long_enough = at + int(options.hold_s) * S <= grid[-1]
        starts = number > 0 and out[number - 1] and not out[number]
        if starts and long_enough and not any(out[place] for place in hold):
            recovered, censored = (at - x) / S, False
            break

    def in_system(run: ReplayOutput, at: int) -> int:
        spans = zip(inp.arrival_ps.tolist(), run.last_ps.tolist(), strict=True)
        return sum(a <= at < last for a, last in spans)

    exceeded, returned = False, None
    for at in grid:
        limit = Fraction(str(options.in_system_ratio)) * in_system(runs[1], at)
        above = in_system(runs[0], at) > limit + Fraction(str(options.in_system_margin_requests))
        if above:
            exceeded = True
        elif exceeded:
            returned = (at - x) / S
            break
    return recovered, censored, not any(out), returned if exceeded else 0.0


@st.composite
def disturbed(
    draw: st.DrawFn,
) -> tuple[ReplayInput, tuple[ReplayOutput, ReplayOutput], tuple[list[GapRecord], list[GapRecord]]]:
    """A trace of up to 80 s, slower in stretches of the faulty run; many instants lie on grid points."""
    step = draw(st.sampled_from([S, S, S // 2, S // 3]))
    count = draw(st.integers(20, 60))
    arrival = sorted(draw(st.lists(st.integers(0, 80), min_size=count, max_size=count)))
    arrival = [at * step for at in arrival]
    crash = draw(st.integers(0, 12)) * S
    stretch = st.tuples(st.integers(0, 40), st.integers(1, 15), st.integers(100, 9000))
    bad = draw(st.lists(stretch, min_size=1, max_size=3))

    def delay(at: int) -> int:
        return sum(
            extra * MS for start, length, extra in bad if start * S <= at - crash < (start + length) * S
        )

    base_ttft = draw(st.lists(st.integers(0, 600), min_size=count, max_size=count))
    first0 = [a + t * MS for a, t in zip(arrival, base_ttft, strict=True)]
    first = [f + delay(a) for a, f in zip(arrival, first0, strict=True)]
    service = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    gaps: tuple[list[GapRecord], list[GapRecord]] = ([], [])
    for end in range(0, draw(st.integers(1, 70)) * S, draw(st.sampled_from([S // 2, 2 * S, 7 * S]))):
        growth, steps = draw(st.integers(0, 2)) * MS, draw(st.integers(1, 12))
        gaps[1].append((end, 40 * MS, growth, steps, 2))
        gaps[0].append((end, 40 * MS + delay(end) // 20, growth, steps, 2))
    inp = replay_input(arrival, crashes=[(crash, 0)])
    runs = (
        replay_output(inp, first, [f + s * S for f, s in zip(first, service, strict=True)], gaps[0]),
        replay_output(inp, first0, [f + s * S for f, s in zip(first0, service, strict=True)], gaps[1]),
    )
    return inp, runs, gaps


OPTIONS = st.builds(
    RecoveryOptions,
    window_s=st.sampled_from([1.0, 4.0, 10.0]),
    hold_s=st.sampled_from([0.0, 3.0, 8.0]),
    min_samples=st.integers(1, 4),
    band_ratio=st.sampled_from([1.0, 1.2]),
    ttft_margin_s=st.sampled_from([0.0, 0.1]),
    gap_margin_s=st.sampled_from([0.0, 0.005]),
    in_system_margin_requests=st.sampled_from([0.0, 1.5, 2.0]),
)


@settings(max_examples=300)
@given(disturbed(), OPTIONS)
def test_recovery_equals_its_definition(
    case: tuple[ReplayInput, tuple[ReplayOutput, ReplayOutput], tuple[list[GapRecord], list[GapRecord]]],
    options: RecoveryOptions,
) -> None:
    inp, runs, gaps = case
    found = recovery(inp, *runs, options)
    assert (
        found.recovery_time_s,
        found.censored,
        found.no_impact,
        found.in_system_recovery_s,
    ) == literal(inp, runs, gaps, options)


def slowed(
    slow_ms: dict[range, int], *, arrivals_s: int = 400, crash_s: int = 100
) -> tuple[ReplayInput, ReplayOutput, ReplayOutput]:
    """One arrival a second, TTFT 0.5 s, longer by ``slow_ms`` in stretches of seconds after the crash."""
    arrival = [second * S for second in range(arrivals_s + 1)]
    inp = replay_input(arrival, crashes=[(crash_s * S, 0)])

    def first(at: int) -> int:
        after = at // S - crash_s
        return at + 500 * MS + sum(extra * MS for stretch, extra in slow_ms.items() if after in stretch)

    runs = [[first(at) for at in arrival], [at + 500 * MS for at in arrival]]
    return inp, *(replay_output(inp, run, run) for run in runs)  # type: ignore[return-value]


def test_placebo_has_no_impact() -> None:
    found = recovery(*slowed({}), RecoveryOptions())
    assert (found.recovery_time_s, found.no_impact, found.censored) == (0.0, True, False)
    assert (found.in_system_recovery_s, found.observed_s) == (0.0, 300.0)


def test_hand_made_recovery() -> None:
    """The 21 arrivals of seconds 0 … 20 wait 2 s longer: the band is 0.7 s, so 60 samples may hold 6 slow
    ones.

    A window that ends at second t holds the arrivals of t − 59 … t, slow ones from t − 59 to 20: 80 − t of
    them, 6 at t = 74.
    """
    found = recovery(*slowed({range(0, 21): 2000}), RecoveryOptions())
    assert (found.recovery_time_s, found.censored, found.no_impact) == (74.0, False, False)


def test_band_edge_is_in_band() -> None:
    """Every arrival waits exactly 0.2 s longer: 0.7 s = 1.2 · 0.5 + 0.1 is in band, one ms more is not."""
    assert recovery(*slowed({range(0, 301): 200}), RecoveryOptions()).no_impact
    above = recovery(*slowed({range(0, 301): 201}), RecoveryOptions())
    assert (above.recovery_time_s, above.censored, above.no_impact) == (None, True, False)


def test_a_pause_shorter_than_the_hold_is_no_recovery() -> None:
    """A second excursion within the hold: recovery is its end; after a full hold it is not waited for."""
    options = RecoveryOptions(window_s=10.0, hold_s=20.0, min_samples=1)
    short = recovery(*slowed({range(0, 11): 2000, range(30, 41): 2000}), options)
    assert short.recovery_time_s == 49.0
    long = recovery(*slowed({range(0, 11): 2000, range(60, 71): 2000}), options)
    assert long.recovery_time_s == 19.0


def test_an_excursion_may_begin_late() -> None:
    """In band for 100 s first: the run in band before the excursion is not the recovery."""
    found = recovery(*slowed({range(100, 111): 20_000}), RecoveryOptions(window_s=10.0, min_samples=1))
    assert found.recovery_time_s == 120.0


def test_too_few_samples_count_as_in_band() -> None:
    found = recovery(*slowed({range(0, 21): 2000}), RecoveryOptions(min_samples=61))
    assert found.no_impact


def test_not_back_before_the_last_arrival_is_censored() -> None:
    """The hold would end 74 + 60 s after the crash."""
    run = {range(0, 21): 2000}
    assert recovery(*slowed(run, arrivals_s=234), RecoveryOptions()).recovery_time_s == 74.0
    late = recovery(*slowed(run, arrivals_s=233), RecoveryOptions())
    assert (late.recovery_time_s, late.censored, late.observed_s) == (None, True, 133.0)


def test_in_system_recovery_is_the_first_return() -> None:
    """Fault-free 1 in the system, limit 3.1: four requests from second 2 to 6, again from 9 to 11."""
    arrival = [0, 0, 0, 1, 2, 9, 9, 20]
    inp = replay_input(ints(arrival) * S, crashes=[(0, 0)])
    base = replay_output(inp, ints(arrival) * S, ints([40, 0, 0, 1, 2, 9, 9, 20]) * S)
    faulty = replay_output(inp, ints(arrival) * S, ints([40, 11, 6, 6, 6, 12, 12, 20]) * S)
    found = recovery(inp, faulty, base, RecoveryOptions())
    assert found.in_system_recovery_s == 6.0
    never = replay_output(inp, ints(arrival) * S, ints([40, 40, 40, 40, 40, 40, 40, 40]) * S)
    assert recovery(inp, never, base, RecoveryOptions()).in_system_recovery_s is None


def test_an_excess_after_the_window_is_not_the_crash_s() -> None:
    """The same run, its first excess at second 9: within a window of 9 s it counts, within 8 s it does not."""
    arrival = [0, 0, 0, 1, 2, 9, 9, 20]
    inp = replay_input(ints(arrival) * S, crashes=[(0, 0)])
    base = replay_output(inp, ints(arrival) * S, ints([40, 0, 0, 1, 2, 9, 9, 20]) * S)
    faulty = replay_output(inp, ints(arrival) * S, ints([40, 11, 0, 1, 2, 12, 12, 20]) * S)
    for horizon_s, expected in ((9, 11.0), (8, 0.0), (None, 11.0)):
        horizon_ps = None if horizon_s is None else horizon_s * S
        found = recovery(inp, faulty, base, RecoveryOptions(), horizon_ps)
        assert found.in_system_recovery_s == expected


def test_crash_after_the_last_arrival_sees_one_grid_point() -> None:
    inp = replay_input([0, S], crashes=[(5 * S, 0)])
    run = replay_output(inp, [S, 2 * S], [9 * S, 9 * S])
    found = recovery(inp, run, run, RecoveryOptions())
    assert (found.recovery_time_s, found.no_impact, found.observed_s) == (0.0, True, 0.0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("recovery_window_s", {"window_s": 0.0}),
        ("recovery_window_s", {"window_s": 7.5}),
        ("recovery_hold_s", {"hold_s": -1.0}),
        ("recovery_hold_s", {"hold_s": 0.5}),
        ("recovery_min_samples", {"min_samples": 0}),
        ("recovery_band_ratio", {"band_ratio": 0.9}),
        ("recovery_ttft_margin_s", {"ttft_margin_s": float("nan")}),
    ],
)
def test_options_out_of_range_are_named(name: str, options: dict[str, float]) -> None:
    with pytest.raises(InputError, match=rf"^{name}: found .*allowed is"):
        RecoveryOptions(**options)  # type: ignore[arg-type]
