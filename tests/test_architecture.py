"""Imports go one way: docs/architecture.md says which, this walks them all."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ANYWHERE = {"errors", "lumen_policy"}
NOT_THE_PROJECT = ("tests", "bench", "experiments")


def allowed() -> dict[str, set[str]]:
    """The table of docs/architecture.md: module → what it may import."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table: dict[str, set[str]] = {}
    for line in text.split("| module | may import |\n|---|---|\n")[1].splitlines():
        if not line.startswith("|"):
            break
        modules, imports = (cell.strip() for cell in line.strip("|").split("|"))
        for module in modules.split(", "):
            table[module] = set(imports.split(", ")) - {""}
    return table


def sources() -> Iterator[Path]:
    yield from (ROOT / "cost_models").rglob("*.py")
    yield from (ROOT / "lumen_policy").rglob("*.py")


def unit(path: str) -> str:
    """The package or top-level module that a dotted name belongs to."""
    parts = path.split(".")
    if parts[0] == "lumen_policy" and len(parts) > 1:
        return parts[1]
    return parts[0]


def imports(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}: a relative import"
            assert node.module is not None
            yield node.module


def owner(source: Path) -> str:
    return unit(".".join(source.relative_to(ROOT).with_suffix("").parts))


def test_every_import_is_allowed() -> None:
    table = allowed()
    broken = []
    for source in sources():
        importer = owner(source)
        if importer in {"errors", "__init__"}:
            continue
        assert importer in table, f"{source}: not in the table of docs/architecture.md"
        for name in imports(source):
            if name.split(".")[0] in ("lumen_policy", "cost_models"):
                imported = unit(name)
                if imported not in table[importer] | ANYWHERE | {importer}:
                    broken.append(f"{source.relative_to(ROOT)} imports {name}")
            elif name.split(".")[0] in NOT_THE_PROJECT:
                broken.append(f"{source.relative_to(ROOT)} imports {name}")
    assert not broken


def test_the_table_is_acyclic_and_names_what_exists() -> None:
    table = allowed()
    existing = {owner(source) for source in sources()} - {"errors", "__init__"}
    assert set(table) == existing
    assert set().union(*table.values()) <= existing
    done: set[str] = set()
    while len(done) < len(table):
        ready = {module for module, needed in table.items() if module not in done and needed <= done}
        assert ready, f"a cycle among {sorted(set(table) - done)}"
        done |= ready


def test_the_table_allows_nothing_unused() -> None:
    used: dict[str, set[str]] = {module: set() for module in allowed()}
    for source in sources():
        if owner(source) in used:
            used[owner(source)] |= {unit(name) for name in imports(source)}
    for module, permitted in allowed().items():
        assert permitted <= used[module], f"{module} no longer imports {sorted(permitted - used[module])}"


def test_decisions_need_the_standard_library_alone() -> None:
    for source in (ROOT / "lumen_policy/decide").rglob("*.py"):
        for name in imports(source):
            assert name.split(".")[0] in sys.stdlib_module_names, f"{source} imports {name}"


def test_wheel_folders_hold_no_other_top_level_code() -> None:
    shipped = {path.name for path in ROOT.iterdir() if (path / "py.typed").is_file()}
    assert shipped == {"lumen_policy", "cost_models"}
