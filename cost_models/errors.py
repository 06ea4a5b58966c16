"""The error every cost model raises for values it cannot use."""

from __future__ import annotations

__all__ = ["CostModelError"]


class CostModelError(ValueError):
    """A model, profile or parameter is wrong: one line with field, value and what is allowed."""
