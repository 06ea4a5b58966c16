"""docs/invariants.md and the tests name each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
DOCUMENT = (TESTS.parent / "docs/invariants.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::([\w:]+)`", DOCUMENT)
ROW = re.compile(r"^\| (INV-\d+) \|.*$", re.MULTILINE)


def docstrings(path: Path) -> dict[str, str]:
    """``name`` or ``Class::name`` of each test of a file, with its docstring."""
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for test in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                found[prefix + test.name] = ast.get_docstring(test) or ""
    return found


def test_the_document_names_tests() -> None:
    assert len(NAMED) > 40


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_every_named_test_exists(file: str) -> None:
    missing = {name for path, name in NAMED if path == file} - docstrings(TESTS / file).keys()
    assert missing == set()


def test_every_invariant_is_named_by_its_tests() -> None:
    """Each row's tests begin with its number."""
    rows = {match[1]: match[0] for match in ROW.finditer(DOCUMENT)}
    assert sorted(rows, key=lambda name: int(name[4:])) == [f"INV-{n}" for n in range(1, len(rows) + 1)]
    for invariant, row in rows.items():
        tests = re.findall(r"`([\w/]+\.py)::([\w:]+)`", row)
        assert tests, invariant
        for file, name in tests:
            assert docstrings(TESTS / file)[name].startswith(f"{invariant}: "), (invariant, name)


def test_every_number_in_a_test_is_in_the_document() -> None:
    """No test claims an invariant that is not written down."""
    known = {match[1] for match in ROW.finditer(DOCUMENT)}
    claimed = set()
    for path in sorted(TESTS.rglob("test_*.py")):
        for docstring in docstrings(path).values():
            claimed |= set(re.findall(r"^INV-\d+", docstring))
    assert claimed == known
