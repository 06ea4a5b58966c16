"""Searches on functions with a known optimum, the choice rule, and validation intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.replay.draws import draw
from lumen_policy.tune.choice import choose, paired_error_s
from lumen_policy.tune.encoding import Cube, Point
from lumen_policy.tune.optimizer import RandomSearch, SurrogateSearch
from lumen_policy.tune.search import Named, Trial, run_search
from lumen_policy.tune.validation import bootstrap_interval, compare
from tests.tune.references import cube, default

PS = 10**12
OPTIMUM: Point = (0.3, 0.7, 0.5, 3)


def bowl(point: Point) -> float:
    """A known optimum inside the cube: value 100 at `OPTIMUM`."""
    x0, x1, x2, k = point
    return (
        100 * (1 + (x0 - OPTIMUM[0]) ** 2 + 2 * (x1 - OPTIMUM[1]) ** 2 + 0.2 * (x2 - OPTIMUM[2]) ** 2)
        + 5 * (k - OPTIMUM[3]) ** 2
    )


class Told:
    """A search that also remembers what it was told."""

    def __init__(self, inner: SurrogateSearch | RandomSearch) -> None:
        self.inner = inner
        self.points: list[Point] = []
        self.values: list[float] = []

    def ask(self) -> Point:
        return self.inner.ask()

    def tell(self, point: Point, value: float) -> None:
        self.points.append(point)
        self.values.append(value)
        self.inner.tell(point, value)


def scored(function: Callable[[Point], float], space: Cube) -> Callable[[RecoveryPolicy], Sequence[int]]:
    """Four scenarios: the function of the policy's point, a scenario effect on top."""

    def score(policy: RecoveryPolicy) -> Sequence[int]:
        value = function(space.encode(policy))
        return [round((value + 10 * scenario) * PS) for scenario in range(4)]

    return score


def study(
    trials: int, seed: int, function: Callable[[Point], float] = bowl
) -> tuple[list[Trial], SurrogateSearch]:
    """A whole search on a function of the cube."""
    space = cube()
    named = [Named(origin="default", point=space.encode(default()), policy=default())]
    named += [
        Named(origin=origin, point=point, policy=space.decode(point))
        for origin, point in space.corners(default()).items()
    ]
    search = SurrogateSearch(told_first=len(named), fill=4, k_max=6, seed=seed)
    return list(run_search(search, space, scored(function, space), trials=trials, named=named)), search


def test_surrogate_finds_a_known_optimum() -> None:
    """24 trials come within 2 % of the optimum; the random search of equal budget does not do better."""
    space = cube()
    trials, search = study(24, seed=3)
    best = min(trial.mean_request_s for trial in trials) - 15
    assert best < 102
    blind = list(run_search(RandomSearch(k_max=6, seed=3), space, scored(bowl, space), trials=24))
    assert best <= min(trial.mean_request_s for trial in blind) - 15
    assert search.cpu_s > 0


def test_a_corner_optimum_is_found_exactly() -> None:
    """Where the best is a face, the corner trial is it: nothing beats α = 0."""
    trials, search = study(14, 0, lambda point: 50 + 100 * point[0])
    means = search.surrogate_mean([trial.point for trial in trials])
    chosen = choose(trials, means, cube(), cube().encode(default())).trial
    assert chosen.policy.alpha == "0"


def test_same_seed_same_points_other_seed_other_points() -> None:
    """The search is a function of its seed and of what it is told."""
    one, two, other = study(12, 5)[0], study(12, 5)[0], study(12, 6)[0]
    assert [trial.point for trial in one] == [trial.point for trial in two]
    assert [trial.point for trial in one] != [trial.point for trial in other]


def test_equal_decisions_are_not_replayed_again() -> None:
    """τ = 0 decides as θ = inf: one replay, both told."""
    replayed: list[RecoveryPolicy] = []
    space = cube()

    def score(policy: RecoveryPolicy) -> Sequence[int]:
        replayed.append(policy)
        return [len(replayed) * PS]

    named = [
        Named(origin="a", point=(0.5, 1.0, 0.3, 2), policy=space.decode((0.5, 1.0, 0.3, 2))),
        Named(origin="b", point=(0.5, 0.4, 0.0, 2), policy=space.decode((0.5, 0.4, 0.0, 2))),
    ]
    search = Told(RandomSearch(k_max=6, seed=0))
    trials = list(run_search(search, space, score, trials=2, named=named))
    assert len(replayed) == 1
    assert [trial.same_as for trial in trials] == [None, 0]
    assert search.points == [named[0].point, named[1].point]
    assert search.values == [1.0, 1.0]


def test_fewer_trials_than_named_policies() -> None:
    """One trial is the default alone, and can be chosen without a surrogate."""
    trials, search = study(1, 0)
    assert [trial.origin for trial in trials] == ["default"]
    assert search.surrogate_mean([trials[0].point]) is None
    assert choose(trials, None, cube(), trials[0].point).trial is trials[0]


def test_non_finite_values_do_not_stop_the_search() -> None:
    """inf and nan are told as the worst so far; skopt itself would raise."""
    search = SurrogateSearch(told_first=3, fill=1, k_max=2, seed=0)
    for position, value in enumerate((3.0, math.inf, math.nan, 1.0, -math.inf)):
        search.tell((0.1 * position, 0.5, 0.5, 1), value)
    x0, x1, x2, k = search.ask()
    assert all(0 <= x <= 1 for x in (x0, x1, x2))
    assert isinstance(k, int)


@pytest.mark.parametrize("k_max", [0, 1, 6])
def test_random_points_lie_in_the_cube(k_max: int) -> None:
    """Uniform in every axis, every k reached."""
    search = RandomSearch(k_max=k_max, seed=1)
    points = [search.ask() for _ in range(400)]
    assert {point[3] for point in points} == set(range(k_max + 1))
    for axis in range(3):
        assert sum(point[axis] for point in points) / 400 == pytest.approx(0.5, abs=0.05)


def _trial(number: int, point: Point, request_s: Sequence[float], same_as: int | None = None) -> Trial:
    return Trial(
        number=number,
        origin="search",
        point=point,
        policy=cube().decode(point),
        request_ps=tuple(round(value * PS) for value in request_s),
        same_as=same_as,
    )


def test_choice_prefers_the_default_within_the_noise() -> None:
    """The best is 1 s better on average, but its paired differences scatter: the default stays."""
    home: Point = (0.5, 0.5, 0.5, 2)
    trials = [
        _trial(0, home, [10, 10, 10, 10]),
        _trial(1, (0.9, 0.9, 0.9, 6), [2, 14, 8, 12]),
        _trial(2, (0.1, 0.1, 0.1, 0), [30, 30, 30, 30]),
    ]
    choice = choose(trials, None, cube(), home)
    assert choice.best.number == 1
    assert choice.trial.number == 0
    # differences 8, -4, 2, -2: mean 1, standard deviation √(84/3) = 5.29, error 2.65
    assert choice.noise_s == pytest.approx(math.sqrt(84 / 3 / 4))
    assert choice.within_noise == (0, 1)


def test_choice_takes_a_clear_winner() -> None:
    """The same gain in every scenario is no noise."""
    home: Point = (0.5, 0.5, 0.5, 2)
    trials = [_trial(0, home, [10, 20, 30, 40]), _trial(1, (0.9, 0.9, 0.9, 6), [9, 19, 29, 39])]
    choice = choose(trials, None, cube(), home)
    assert choice.trial.number == 1
    assert choice.within_noise == (1,)


def test_choice_uses_the_surrogate_mean_and_counts_repeats_once() -> None:
    """A lucky score with a bad surrogate mean is not best; a repeat is not a candidate."""
    home: Point = (0.5, 0.5, 0.5, 2)
    trials = [
        _trial(0, home, [10, 10]),
        _trial(1, (0.8, 0.8, 0.8, 2), [5, 5]),
        _trial(2, (0.2, 0.8, 0.8, 2), [5, 5], same_as=1),
    ]
    choice = choose(trials, [10.0, 12.0, 1.0], cube(), home)
    assert choice.trial.number == 0


def test_paired_error_by_hand() -> None:
    """Differences 1, 2, 3: standard deviation 1, error 1/√3; one scenario has none."""
    a, b = _trial(0, (0, 0, 0, 0), [2, 4, 6]), _trial(1, (0, 0, 0, 0), [1, 2, 3])
    assert paired_error_s(a, b) == pytest.approx(1 / math.sqrt(3))
    assert paired_error_s(a, a) == 0
    assert paired_error_s(_trial(0, (0, 0, 0, 0), [1]), _trial(1, (0, 0, 0, 0), [2])) == 0


def test_bootstrap_interval_by_theory() -> None:
    """Near mean ± 1.96 standard errors (of the population form) for many values; exact for a constant."""
    values = [draw(7, 1, i, 0) % 1000 * PS for i in range(64)]
    mean = sum(values) / 64 / PS
    error = math.sqrt(sum((v / PS - mean) ** 2 for v in values) / 64 / 64)
    interval = bootstrap_interval(values, seed=0)
    assert interval.mean_s == pytest.approx(mean)
    assert interval.low_s == pytest.approx(mean - 1.96 * error, abs=0.1 * error)
    assert interval.high_s == pytest.approx(mean + 1.96 * error, abs=0.1 * error)
    constant = bootstrap_interval([3 * PS] * 5, seed=0)
    assert (constant.mean_s, constant.low_s, constant.high_s) == (3, 3, 3)
    assert bootstrap_interval(values, seed=0) == interval


def test_coverage_of_the_interval() -> None:
    """About 95 % of intervals over 16 scenarios hold the true mean (percentile ones a little fewer)."""
    held = 0
    for repeat in range(200):
        values = [draw(repeat, 2, i, 0) >> 24 for i in range(16)]
        interval = bootstrap_interval(values, seed=repeat)
        held += interval.low_s * PS <= 2**39 <= interval.high_s * PS
    assert 0.88 <= held / 200 <= 0.98


def test_two_names_for_one_policy_make_no_difference() -> None:
    """Equal figures: exactly zero, and the verdict says so."""
    (entry,) = compare("a", {"a": [5, 7, 9], "b": [5, 7, 9]}, seed=0)
    assert (entry.saves.mean_s, entry.saves.low_s, entry.saves.high_s) == (0, 0, 0)
    assert entry.verdict == "no difference"


def test_verdicts() -> None:
    """Better and worse are the same comparison seen from both sides."""
    figures = {"a": [1 * PS, 2 * PS, 3 * PS], "b": [2 * PS, 4 * PS, 5 * PS]}
    assert compare("a", figures, seed=0)[0].verdict == "better"
    assert compare("b", figures, seed=0)[0].verdict == "worse"
    assert compare("a", figures, seed=0)[0].saves.mean_s == pytest.approx(5 / 3)


def test_shuffled_labels_show_no_validation_gain() -> None:
    """Scores that say nothing about the policy: what tuning picks is no better on new scenarios.

    Each (policy, scenario) gets a draw of its own, as if labels were shuffled. The share of runs with a
    verdict other than "no difference" stays near the 5 % of the interval.
    """
    space, verdicts = cube(), []
    for repeat in range(40):

        def noise(policy: RecoveryPolicy, scenario: int, repeat: int = repeat) -> int:
            key = int.from_bytes(repr(space.encode(policy)).encode(), "little") % 2**61
            return 1000 * PS + (draw(repeat, 9, key, scenario) >> 24)

        def tuning(policy: RecoveryPolicy, noise: Callable[[RecoveryPolicy, int], int] = noise) -> list[int]:
            return [noise(policy, scenario) for scenario in range(8)]

        trials = list(run_search(RandomSearch(k_max=6, seed=repeat), space, tuning, trials=20))
        chosen = choose(trials, None, space, (0.5, 0.5, 0.5, 2)).trial.policy
        figures = {
            name: [noise(policy, scenario) for scenario in range(100, 116)]
            for name, policy in (("tuned", chosen), ("default", default()))
        }
        verdicts.append(compare("tuned", figures, seed=repeat)[0].verdict)
    assert verdicts.count("no difference") >= 34
    assert verdicts.count("better") <= 4
