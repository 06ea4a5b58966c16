"""docs/own-rules.md tells the truth: its example runs, and its table is that of the decisions."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

from lumen_policy.cli.main import main
from lumen_policy.replay.own_rules import DECISIONS

PAGE = Path(__file__).resolve().parents[1] / "docs/own-rules.md"


def test_the_table_is_that_of_the_decisions() -> None:
    text = PAGE.read_text(encoding="utf-8")
    stated = set(re.findall(r"^\| `(.+?)` \|", text, flags=re.MULTILINE))
    signatures = {
        f"{name}({', '.join(inspect.signature(function).parameters)})" for name, function in DECISIONS.items()
    }
    assert stated == signatures


def test_the_example_changes_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command as it stands, on the first requests of the trace."""
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- example -->\n```python\n(.*?)```", text, flags=re.DOTALL)
    (command,) = re.findall(r"\$ lumen-tune (.*)\n", text)
    (tmp_path / "my_rules.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), "--limit", "3000"]) == 0
    own = json.loads(capsys.readouterr().out)
    arguments = command.replace("--own-rules my_rules.py", "").split()
    assert main([*arguments, "--limit", "3000"]) == 0
    standard = json.loads(capsys.readouterr().out)
    assert own["cluster"]["own_rules"]["decisions"] == ["choose_holder"]
    assert own["cluster"]["own_rules"]["file"] == str(tmp_path / "my_rules.py")
    assert standard["cluster"]["own_rules"] is None
    assert own["impact"] != standard["impact"]
