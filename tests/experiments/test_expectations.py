"""The two scripts behind docs/expectations.md run in their quick form and their tables hold together."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "experiments" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_expectations(tmp_path: Path) -> None:
    """Every regime has the same rows; the reference adds nothing to itself; k = 0 is the subset without
    assist, and a free draft is only free where there is one.
    """
    experiment = script("expectations")
    out = tmp_path / "table.csv"
    assert experiment.main(["built-in", "--quick", "--out", str(out)]) == 0
    with out.open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    regimes = {
        name: {row["policy"]: row for row in table if row["regime"] == name} for name in experiment.REGIMES
    }
    assert len({tuple(rows) for rows in regimes.values()}) == 1
    for rows in regimes.values():
        assert float(rows["placement + routing + assist"]["adds_request_s"]) == 0
        assert rows["k 0"]["excess_request_s"] == rows["placement + routing"]["excess_request_s"]
        assert rows["none"]["excess_request_s"] == rows["fixed_checkpointing"]["excess_request_s"]
    hard, free = regimes["slots bind hard"], regimes[experiment.FREE_DRAFT]
    assert hard["k 0"]["excess_request_s"] == free["k 0"]["excess_request_s"]
    assert hard["k 1"]["excess_request_s"] != free["k 1"]["excess_request_s"]


def test_published_table(capsys: pytest.CaptureFixture[str]) -> None:
    """The mean over all requests mixes both classes by their shares."""
    assert script("published_table").main(["built-in", "--quick"]) == 0
    for row in csv.DictReader(capsys.readouterr().out.splitlines()):
        share = float(row["interrupted %"]) / 100
        mixed = share * float(row["TTFT interrupted s"]) + (1 - share) * float(row["TTFT uninterrupted s"])
        assert float(row["TTFT all s"]) == pytest.approx(mixed, abs=0.02)
        assert float(row["TTFT interrupted s"]) > float(row["TTFT uninterrupted s"])
