"""Trials: each point a search asks for, its policy and what it scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lumen_policy.measures.exact import seconds
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.tune.encoding import Cube, Decisions, Point, decisions
from lumen_policy.tune.optimizer import Search

__all__ = ["Named", "Score", "Trial", "run_search"]

_EXPLORATIONS = 16
"""Exploring points looked at for one trial, at most."""

Score = Callable[[RecoveryPolicy], Sequence[int]]
"""Request-picoseconds of a policy in each scenario, always the same scenarios in the same order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A policy that is tried whatever the search thinks: the default and the corners."""

    origin: str
    point: Point
    policy: RecoveryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One try.

    Attributes:
        number: from 0.
        origin: ``default``, a corner's name, or ``search``.
        point: of the cube.
        policy: the point's policy (for the default the default itself, not its rounding in the cube).
        request_ps: shape (scenarios,), weighted excess E2E in request-picoseconds.
        same_as: number of the earlier trial that decides alike, whose score this is; None if it was replayed.
    """

    number: int
    origin: str
    point: Point
    policy: RecoveryPolicy
    request_ps: tuple[int, ...]
    same_as: int | None

    @property
    def mean_request_s(self) -> float:
        """The objective: mean over scenarios, summed exactly and rounded once."""
        return seconds(sum(self.request_ps), len(self.request_ps))


def run_search(
    search: Search, cube: Cube, score: Score, *, trials: int, named: Sequence[Named] = ()
) -> Iterator[Trial]:
    """Try the named policies, then what the search asks for.

    A policy whose canonical decisions were tried before is not replayed: the search is told the known score,
    and unless the policy is a named one, the trial goes to an exploring point instead.

    Args:
        search: told every score.
        cube: decodes its points.
        score: replays a policy.
        trials: in all, ≥ 1; fewer than named policies drops the last of these.
        named: tried first, in order.

    Yields:
        Each trial as soon as it is done.
    """
    known: dict[Decisions, Trial] = {}
    for number in range(trials):
        if number < len(named):
            origin, point, policy = named[number].origin, named[number].point, named[number].policy
        else:
            origin, point = "search", _new_point(search, cube, known)
            policy = cube.decode(point)
        key = decisions(policy)
        earlier = known.get(key)
        trial = Trial(
            number=number,
            origin=origin,
            point=point,
            policy=policy,
            request_ps=earlier.request_ps if earlier else tuple(score(policy)),
            same_as=earlier.number if earlier else None,
        )
        known.setdefault(key, trial)
        search.tell(point, trial.mean_request_s)
        yield trial


def _new_point(search: Search, cube: Cube, known: Mapping[Decisions, Trial]) -> Point:
    """What the search asks for; if that decides as an earlier trial, it is told so and explores instead."""
    point = search.ask()
    earlier = known.get(decisions(cube.decode(point)))
    if earlier is None:
        return point
    search.tell(point, earlier.mean_request_s)
    for _ in range(_EXPLORATIONS):
        point = search.explore()
        if decisions(cube.decode(point)) not in known:
            break
    return point
