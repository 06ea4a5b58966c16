"""Shared fixtures: where the real traces lie, if they are here."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")


def shared_path(relative: str) -> Path:
    """A file beside the checkout; the test is skipped, with the reason, where it is absent."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"real data not here: ../shared/{relative}")
    return path
