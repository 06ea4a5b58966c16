"""``--own-rules``: the outcome changes in compiled code as in plain Python, and errors are one line and 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Run

SMALL = ("--limit", "120", "--rate-scale", "3", "--workers", "3", "--detection-s", "1", "--crash", "3.5:1")
LAST = """
print("loaded")


def shortest_queue(live, queue):
    best = -1
    for w in range(len(live)):
        if live[w] != 0 and (best < 0 or queue[w] <= queue[best]):
            best = w
    return best
"""
CHILD = "import sys; from lumen_policy.cli.main import main; sys.exit(main())"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.py"
    path.write_text(LAST)
    return path


def test_it_changes_the_outcome_alike(run: Run, rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standard = run("replay", *SMALL, "--json").document
    documents = []
    for interpreted in ("0", "1"):
        monkeypatch.setenv("LUMEN_TUNE_INTERPRET", interpreted)
        documents.append(run("replay", *SMALL, "--json", "--own-rules", str(rules)).document)
    for document in (standard, *documents):
        del document["cost"]
    assert documents[0] == documents[1]
    assert documents[0]["e2e_s"] != standard["e2e_s"]
    assert standard["cluster"]["own_rules"] is None
    own = documents[0]["cluster"]["own_rules"]
    assert (own["file"], own["decisions"]) == (str(rules), ["shortest_queue"])
    assert run("replay", *SMALL, "--json", "--own-rules", "none").document["e2e_s"] == standard["e2e_s"]


def test_stdout_is_json_alone(rules: Path) -> None:
    """What the file prints goes to stderr."""
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, "replay", *SMALL, "--json", "--own-rules", str(rules)],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    assert json.loads(ran.stdout)["cluster"]["own_rules"]["file"] == str(rules)
    assert "loaded" in ran.stderr


def test_compare_takes_it(run: Run, rules: Path) -> None:
    """Policies against each other, all with the rule."""
    own = run("compare", *SMALL, "--json", "--own-rules", str(rules)).document
    standard = run("compare", *SMALL, "--json").document
    assert own != standard


def test_from_a_file_of_keys(run: Run, rules: Path, tmp_path: Path) -> None:
    keys = tmp_path / "setup.toml"
    keys.write_text(f'own_rules = "{rules}"\n')
    stated = run("replay", *SMALL, "--json", "--config", str(keys)).document
    assert stated["cluster"]["own_rules"]["file"] == str(rules)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("def shortest_queue(live):\n    return 0\n", "rules.py:1: shortest_queue must take (live, queue)"),
        ("def shortest_queue(live, queue)\n", "rules.py:1: "),
        ("def shortest_queue(live, queue):\n    return [0][0]\n", "rules.py:2: "),
        ("def shortest_queue(live, queue):\n    return 77\n", "rules.py:1: shortest_queue chose a worker"),
        (
            "def shortest_queue(live, queue):\n    return live[len(live)]\n",
            "rules.py:2: an index out of range",
        ),
    ],
)
def test_errors_are_one_line_and_2(text: str | None, message: str, run: Run, rules: Path) -> None:
    if text is None:
        rules.unlink()
    else:
        rules.write_text(text)
    ran = run("replay", *SMALL, "--own-rules", str(rules))
    lines = [line for line in ran.err.splitlines() if "compiling the replay kernel" not in line]
    assert (ran.code, ran.out, len(lines)) == (2, "", 1)
    assert lines[0].startswith("lumen-tune: own_rules: ")
    assert message in lines[0]


def test_an_empty_text_is_none_of_its_values(run: Run) -> None:
    ran = run("replay", *SMALL, "--own-rules", "")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "own_rules" in ran.err


@pytest.mark.parametrize("place", ["flag", "file"])
def test_tune_refuses_it(place: str, run: Run, rules: Path, tmp_path: Path) -> None:
    keys = tmp_path / "setup.toml"
    keys.write_text(f'own_rules = "{rules}"\n')
    stated = ("--own-rules", str(rules)) if place == "flag" else ("--config", str(keys))
    ran = run("tune", *stated, "--out", str(tmp_path / "out"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "lumen-tune: own_rules: a policy file cannot carry rules of your own; use replay or compare"
    ]
