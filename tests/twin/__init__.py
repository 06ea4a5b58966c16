"""The plain twin: a slow, readable replay that the kernel must equal bit for bit."""

from __future__ import annotations

from .compare import compare
from .simulation import replay

__all__ = ["compare", "replay"]
