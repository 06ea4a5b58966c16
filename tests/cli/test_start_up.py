"""What help and a replay must not load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "llvmlite",
    "polars",
    "pandas",
    "skopt",
    "sklearn",
    "torch",
    "scipy",
    "numpy",
    "rich.table",
    "msgspec",
)
UNUSED = ("scipy", "skopt", "sklearn", "torch", "pandas", "joblib", "rich.progress")


@pytest.mark.parametrize("arguments", [["--help"], ["replay", "--help"], ["tune", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from lumen_policy.cli.main import main\n"
        f"code = main({arguments!r})\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print(code, loaded, file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr == "0 []\n"
    assert ran.stdout


def test_a_warm_replay_imports_no_optimizer(tmp_path: Path) -> None:
    """Nor anything else that only a search or a calibration needs."""
    script = (
        "import sys\n"
        "from lumen_policy.cli.main import main\n"
        "code = main(['replay', '--limit', '50', '--crash', '3:1'])\n"
        f"loaded = [name for name in {UNUSED!r} if name in sys.modules]\n"
        "print(code, loaded, file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert ran.stderr.splitlines()[-1] == "0 []"
