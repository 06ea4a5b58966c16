"""The experiment runs in its quick form and its table adds up."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def experiment() -> ModuleType:
    """The script as a module."""
    path = ROOT / "experiments" / "gain_over_load.py"
    spec = importlib.util.spec_from_file_location("gain_over_load", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_quick_form(experiment: ModuleType, tmp_path: Path) -> None:
    """Two loads, four policies each; parts add up; the heavier load costs more under stop-and-restart."""
    out = tmp_path / "table.csv"
    arguments = ["built-in", "--quick", "--jobs", "1", "--out", str(out)]
    assert experiment.main(arguments) == 0
    with out.open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["load"] for row in table] == ["0.5"] * 4 + ["0.9"] * 4
    names = ["stop_and_restart", "fixed_checkpointing", "lumen default", "lumen tuned"]
    assert [row["policy"] for row in table] == names * 2
    for row in table:
        parts = float(row["ttft_part_request_s"]) + float(row["decode_part_request_s"])
        assert parts == pytest.approx(float(row["excess_request_s"]), abs=0.2)
        assert (row["tuned_is"] == "") == (row["policy"] == "lumen tuned")
    assert float(table[4]["excess_request_s"]) > float(table[0]["excess_request_s"])
    first = out.read_bytes()
    experiment.main(arguments)
    assert out.read_bytes() == first
