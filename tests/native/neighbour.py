"""Another module, whose functions and numbers ``constructs`` uses."""

from __future__ import annotations

from native import constructs

LIMIT = 1000
RATIO = 0.25


def twice(x: int) -> int:
    return x + x


def shared_twice(x: int) -> int:
    return twice(x) * 3


def through_another(x: int) -> int:
    return constructs.offered(x, LIMIT) + offered(x)


def offered(x: int) -> int:
    return x - LIMIT
