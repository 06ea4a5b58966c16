"""Reference distributions and cubes for the tests."""

from __future__ import annotations

from lumen_policy.policies.lumen import lumen
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.tune.encoding import Cube, Reference


def reference() -> Reference:
    """Loads 1 … 40 in Q, held pages 10 per request, saved tokens 16 … 1600."""
    queue = list(range(1, 41))
    return Reference.of([160 * q for q in queue], queue, [16 * i for i in range(1, 101)], default_ratio=0.05)


def cube(k_max: int = 6) -> Cube:
    """A cube over that reference."""
    return Cube(reference=reference(), k_max=k_max)


def default() -> RecoveryPolicy:
    """A default inside the cube."""
    return lumen(name="lumen default", alpha="0.05", theta="30", tau=512, k=2)
