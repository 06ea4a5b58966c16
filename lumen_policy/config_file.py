"""Set-ups as TOML files: the same keys as the flags, and all the lesser ones."""

from __future__ import annotations

import json
import textwrap
import tomllib
from pathlib import Path
from typing import Any

from lumen_policy.errors import InputError
from lumen_policy.setting_key import AUTO, Key
from lumen_policy.settings import GROUPS, Settings, key_of, keys

__all__ = ["config_toml", "read_config"]

_WRAP = textwrap.TextWrapper(width=108, break_on_hyphens=False, break_long_words=False)


def read_config(path: str | Path) -> dict[str, Any]:
    """The keys of a TOML file, unchecked but for their names.

    Raises:
        InputError: unreadable file, not TOML, unknown key (with the nearest one).
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = tomllib.loads(text, parse_float=str)
    except OSError as error:
        raise InputError(f"config {path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"config {path}: not TOML: {error}") from error
    try:
        for name in values:
            key_of(name)
    except InputError as error:
        raise InputError(f"config {path}: {error}") from None
    return values


def config_toml(settings: Settings) -> str:
    """The settings as a commented TOML file that loads back to the same settings."""
    lines = ["# Set-up of lumen-tune; use with --config FILE. Flags win over this file.", ""]
    for group in GROUPS:
        lines += [f"# ---- {group} " + "-" * 60, ""]
        for key in keys():
            if key.group == group:
                lines += [*_comment(key), f"{key.name} = {_toml(getattr(settings, key.name))}", ""]
    return "\n".join(lines)


def _comment(key: Key) -> list[str]:
    unit = f" [{key.unit}]" if key.unit else ""
    choices = f" One of {', '.join(key.choices)}." if key.choices else ""
    bounds = f" Allowed: {key.bounds_text}." if key.bounds_text else ""
    words = "".join(f" Or {word!r}." for word in key.words)
    texts = [f"{key.meaning}{unit}.{choices}{bounds}{words}", f"Default {_toml(key.default)}: {key.reason}."]
    return [f"# {line}" for text in texts for line in _WRAP.wrap(text)]


def _toml(value: Any) -> str:
    if value is None:
        return json.dumps(AUTO)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, int | float):
        return repr(value)
    # TOML escapes as JSON does, and DEL besides
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
