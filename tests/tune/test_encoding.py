"""The cube: exact corners, faces that are limits of the interior, and an inverse."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.errors import InputError
from lumen_policy.policies.lumen import lumen
from lumen_policy.tune.encoding import EDGE, Cube, Reference, decisions
from tests.tune.references import cube, default, reference

unit = st.floats(0, 1)
points = st.tuples(unit, unit, unit, st.integers(0, 6))


def test_corners_are_exact() -> None:
    """Each corner is the very policy its name says, whatever the reference."""
    space = cube()
    x0, x1, x2, k = space.encode(default())
    assert space.decode((x0, 1.0, x2, k)).theta == "inf"
    assert space.decode((x0, 1.0, x2, k)).tau == "inf"
    never = space.decode((x0, 0.0, 1.0, k))
    assert (never.theta, never.tau) == ("never", "inf")
    assert space.decode((x0, x1, 0.0, k)).tau == 0
    assert space.decode((0.0, x1, x2, k)).alpha == "0"
    assert space.decode((x0, x1, x2, 0)).k == 0
    for origin, point in space.corners(default()).items():
        policy = space.decode(point)
        expected = {
            "always the holder": policy.theta == "inf",
            "always recompute": (policy.theta, policy.tau) == ("never", "inf"),
            "tau = 0": policy.tau == 0,
            "alpha = 0": policy.alpha == "0",
            "k = 0": policy.k == 0,
        }
        assert expected[origin]


@given(points)
def test_strips_and_interior(point: tuple[float, float, float, int]) -> None:
    """The strips of width 0.02 are the extreme policies, the interior is not; β = 1 everywhere."""
    policy = cube().decode(point)
    assert policy.beta == "1"
    assert (policy.alpha == "0") == (point[0] < EDGE)
    assert (policy.theta == "inf") == (point[1] > 1 - EDGE)
    assert (policy.theta == "never") == (point[1] < EDGE)
    if policy.theta == "inf":
        assert policy.tau == "inf"
    else:
        assert (policy.tau == "inf") == (point[2] > 1 - EDGE)
        assert (policy.tau == 0) == (point[2] < EDGE)
        assert policy.tau == "inf" or policy.tau % 16 == 0


@given(points, points)
def test_decoding_is_monotone(a: tuple[float, float, float, int], b: tuple[float, float, float, int]) -> None:
    """A larger KV share means a larger α, a larger quantile a larger θ (same α) and τ."""
    low, high = sorted((a, b))
    assert Decimal(cube().decode(low).alpha) <= Decimal(cube().decode(high).alpha)
    order = {"never": -1.0, "inf": float("inf")}
    x1 = sorted((a[1], b[1]))
    thetas = [cube().decode((a[0], x, 0.5, 0)).theta for x in x1]
    values = [order[theta] if theta in order else float(theta) for theta in thetas]
    assert values[0] <= values[1]
    taus = [cube().decode((a[0], 0.5, x, 0)).tau for x in sorted((a[2], b[2]))]
    assert float(taus[0]) <= float(taus[1])


@given(points)
def test_faces_are_limits_of_the_interior(point: tuple[float, float, float, int]) -> None:
    """Just inside a face no reference load is decided otherwise than on it, whatever α."""
    space, x0 = cube(), point[0]
    inside = space.decode((x0, 1 - EDGE, 0.5, 0))
    loads = space.reference.loads(float(inside.alpha))
    assert float(inside.theta) >= loads[-1] * (1 - 1e-3)
    lowest = space.decode((x0, EDGE, 0.5, 0))
    assert float(lowest.theta) <= loads[0] * (1 + 1e-3)
    assert space.decode((x0, 0.5, EDGE, 0)).tau == 16
    assert space.decode((x0, 0.5, 1 - EDGE, 0)).tau == 1600


@given(points)
def test_encode_inverts_decode(point: tuple[float, float, float, int]) -> None:
    """A decoded policy encodes to a point that decodes to almost the same policy."""
    space = cube()
    policy = space.decode(point)
    again = space.decode(space.encode(policy))
    assert again.k == policy.k
    for name in ("alpha", "theta", "tau"):
        here, there = str(getattr(policy, name)), str(getattr(again, name))
        if here in ("inf", "never", "0"):
            assert here == there
        else:
            assert float(there) == pytest.approx(float(here), rel=0.05, abs=16 if name == "tau" else 0.1)


def test_hand_computed_point() -> None:
    """x0 = 1/2: α makes mean pages weigh like mean Q; the middle quantiles are medians."""
    space = cube()
    # mean Q = 20.5, mean pages = 205: α = 0.1; L of entry q = 0.1·10q + q = 2q, median 41
    # median of the saved tokens 808, down to whole pages 800
    policy = space.decode((0.5, 0.5, 0.5, 3))
    assert (policy.alpha, policy.theta, policy.tau, policy.k) == ("0.1", "41", 800, 3)


def test_default_beyond_the_reference_is_clipped_to_the_interior() -> None:
    """θ above every load seen is not the same as θ = inf; it encodes to the last interior level."""
    point = cube().encode(lumen(alpha="0.05", theta="1000000", tau=10**6, k=9))
    assert point[1] == 1 - EDGE
    assert point[2] == 1 - EDGE
    assert point[3] == 6


def test_equal_decisions() -> None:
    """θ = inf and τ = 0 both mean the holder whenever a page is saved; names mean nothing."""
    always = lumen(alpha="0.5", theta="inf", tau=64)
    assert decisions(always) == decisions(lumen(alpha="0.5", theta="3", tau=0, name="other"))
    assert decisions(always) != decisions(lumen(alpha="0.5", theta="3", tau=16))
    assert decisions(always) != decisions(lumen(alpha="0.25", theta="inf"))
    assert decisions(always) != decisions(lumen(alpha="0.5", theta="inf", k=3))


def test_distance_ignores_tau_where_theta_is_infinite() -> None:
    """Points that decide alike are no further apart for it."""
    space = cube()
    assert space.distance((0.5, 1.0, 0.1, 2), (0.5, 1.0, 0.9, 2)) == 0
    assert space.distance((0.5, 0.5, 0.1, 2), (0.5, 0.5, 0.9, 2)) == pytest.approx(0.8)
    assert space.distance((0, 0, 0, 0), (0, 0, 0, 6)) == 1


def test_no_draft_means_no_k() -> None:
    """k_max = 0: no k corner, k = 0 in every point."""
    space = cube(k_max=0)
    assert "k = 0" not in space.corners(default())
    assert space.decode((0.5, 0.5, 0.5, 4)).k == 0


def test_nothing_observed_still_decodes() -> None:
    """One worker holds nothing and nothing is interrupted elsewhere: the cube is degenerate, not broken."""
    space = Cube(reference=Reference.of([], [], [], default_ratio=0.02))
    policy = space.decode((0.5, 0.5, 0.5, 1))
    assert (policy.alpha, policy.theta, policy.tau) == ("0.02", "0", 0)
    space.corners(default())


def test_reference_keeps_extremes_and_is_small() -> None:
    """At most 256 entries, smallest and largest included, whatever the order of observation."""
    rng = np.random.default_rng(1)
    held, queue = rng.integers(0, 10_000, 5_000), rng.integers(0, 60, 5_000)
    saved = rng.integers(1, 200, 999) * 16
    one = Reference.of(held, queue, saved, default_ratio=0.02)
    order = rng.permutation(5_000)
    assert Reference.of(held[order], queue[order], saved[::-1], default_ratio=0.02) == one
    assert len(one.held_pages) == len(one.saved_tokens) == 256
    loads = 0.02 * held / 16 + queue
    assert one.loads(0.02)[[0, -1]] == pytest.approx([loads.min(), loads.max()])
    assert (one.saved_tokens[0], one.saved_tokens[-1]) == (saved.min(), saved.max())
    # evenly spaced ranks: no quantile is off by more than one step
    for level in (0.1, 0.5, 0.9):
        assert np.searchsorted(np.sort(loads), np.quantile(one.loads(0.02), level)) / 5_000 == pytest.approx(
            level, abs=0.01
        )


def test_points_outside_the_cube_are_refused() -> None:
    """A coordinate beyond [0, 1] is an error."""
    with pytest.raises(InputError, match="coordinates"):
        cube().decode((1.5, 0.0, 0.0, 0))
    assert reference().unit_ratio == pytest.approx(0.1)
