"""The experiment on LUMEN's published percentages runs and prints what it says."""

from __future__ import annotations

import csv
import io

import pytest

from experiments.published_percentages import main


def test_published_percentages(capsys: pytest.CaptureFixture[str]) -> None:
    """Two testbeds, k = 2 and 0; without assist a copy brings the next token earlier than a restart does."""
    assert main(["built-in", "--quick"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["workers"], row["k"]) for row in rows] == [("4", "2"), ("4", "0"), ("8", "2"), ("8", "0")]
    assert all(float(row["next token from crash vs stop-and-restart %"]) < 0 for row in rows)
