"""Where random choices come from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

__all__ = ["Chooser", "DrawnChooser", "SeededChooser"]

T = TypeVar("T")


class Chooser(Protocol):
    """Where the choices come from: hypothesis or a seeded generator."""

    def integer(self, low: int, high: int) -> int: ...

    def integers(self, count: int, low: int, high: int) -> list[int]: ...

    def pick(self, options: Sequence[T]) -> T: ...


class SeededChooser:
    """Choices of a seeded generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def integers(self, count: int, low: int, high: int) -> list[int]:
        return [self.random.randint(low, high) for _ in range(count)]

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)


class DrawnChooser:
    """Choices that hypothesis draws and shrinks."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def integers(self, count: int, low: int, high: int) -> list[int]:
        return self.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))
