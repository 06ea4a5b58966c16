"""The README tells the truth: its examples print what it shows, its links lead somewhere, its Python runs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("readme", Path(__file__).with_name("readme.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
readme = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(readme)


@pytest.mark.parametrize(("command", "shown"), readme.examples(), ids=lambda value: value[:40])
def test_examples_print_what_is_shown(command: str, shown: str) -> None:
    assert readme.without_cost(readme.output_of(command)) == readme.without_cost(shown)


def test_there_are_examples() -> None:
    assert len(readme.examples()) >= 2


def test_links_lead_somewhere() -> None:
    text = readme.README.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if not target.startswith("https://"):
            assert (readme.README.parent / target).is_file(), target


def test_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = readme.README.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["stop_and_restart", "fixed_checkpointing", "lumen"]
