"""What help must not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numba", "polars", "pandas", "skopt", "sklearn", "torch", "scipy", "numpy", "rich.table", "msgspec")


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
