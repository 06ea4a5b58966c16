"""Shared fixtures: where the real traces lie, if they are here; the kernel, compiled once for all processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
WITHOUT_KERNEL = {"cost_models", "fault_schedule", "measures", "native", "policy_file", "setup", "trace"}

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    """Compile the kernel in the controlling process, before parallel workers would each do it."""
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    asked = {(Path(argument.split("::")[0])).resolve() for argument in config.args}
    free = [ROOT / "tests" / folder for folder in WITHOUT_KERNEL]
    if all(any(path.is_relative_to(folder) for folder in free) for path in asked):
        return
    from lumen_policy.replay.engine import prepare

    prepare()


def shared_path(relative: str) -> Path:
    """A file beside the checkout; the test is skipped, with the reason, where it is absent."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"real data not here: ../shared/{relative}")
    return path
