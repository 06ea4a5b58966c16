"""The table of defaults in docs/defaults.md, made from the keys."""

from __future__ import annotations

from lumen_policy.setting_key import Key, value_text
from lumen_policy.settings import GROUPS, keys

__all__ = ["defaults_markdown"]

_TITLES = {
    "cluster": "Cluster",
    "trace": "Trace",
    "policy": "Policy",
    "faults": "Faults, detection and reload",
    "recovery": "Recovery",
    "measures": "Measures",
    "search": "Search",
}


def defaults_markdown() -> str:
    """One Markdown table per group: key, default, unit, meaning, source or reason."""
    parts = []
    for group in GROUPS:
        rows = [_row(key) for key in keys() if key.group == group]
        head = "| key | default | unit | meaning | source or reason |\n|---|---|---|---|---|\n"
        parts.append(f"## {_TITLES[group]}\n\n{head}" + "".join(rows))
    return "\n".join(parts)


def _row(key: Key) -> str:
    name = f"`{key.option}`" if key.flag else f"`{key.name}`"
    meaning = key.meaning + (f"; one of {', '.join(key.choices)}" if key.choices else "")
    cells = [name, value_text(key.default), key.unit, meaning, key.reason]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
