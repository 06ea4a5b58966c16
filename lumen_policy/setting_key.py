"""One key of a set-up: what it means, what it allows, and the check of a value against it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Literal

from lumen_policy.errors import InputError

__all__ = ["AUTO", "Group", "Key", "Kind", "key_field", "near_match", "value_text"]

AUTO = "auto"
"""How a key without a value is written: the program derives it, as the key's meaning says."""

Kind = Literal["int", "float", "bool", "text", "decimal", "tokens", "texts", "numbers"]
Group = Literal["cluster", "trace", "policy", "faults", "recovery", "measures", "search"]

_MOST_DIGITS = 300

_KIND_NAMES = {
    "int": "a whole number",
    "tokens": "a whole number",
    "float": "a number",
    "numbers": "a number",
    "decimal": "a decimal number",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What is known about one key beside its value.

    Attributes:
        name: the key in files, the attribute of ``Settings``; its flag is ``--name`` with dashes.
        kind: int · float · bool · text · decimal (a number kept as its text) · tokens (int) · texts, numbers (lists).
        default: the value without flag or file; None prints as ``auto``.
        unit: of the value, "" for none.
        meaning: one line for help, files and docs.
        reason: source of the default, or why it was chosen.
        group: which part of a set-up it belongs to; a command takes the flags of some groups.
        flag: False for the lesser keys, which only a file can set.
        choices: allowed texts, empty for any.
        words: texts allowed beside numbers.
        at_least, above, at_most: bounds of numbers.
    """

    name: str
    kind: Kind
    default: Any
    unit: str
    meaning: str
    reason: str
    group: Group
    flag: bool
    choices: tuple[str, ...]
    words: tuple[str, ...]
    at_least: float | None
    above: float | None
    at_most: float | None

    @property
    def option(self) -> str:
        """The command-line flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def optional(self) -> bool:
        """Whether ``auto`` is a value."""
        return self.default is None

    def checked(self, value: Any) -> Any:
        """The value in its canonical type.

        Raises:
            InputError: wrong type, not finite, out of bounds, not a choice.
        """
        if value is None:
            if self.optional:
                return None
            raise InputError(f"{self.name}: a value is needed")
        if self.kind == "texts":
            if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
                raise InputError(f"{self.name}: {value!r} is not a list of texts")
            return tuple(value)
        if self.kind == "numbers":
            if not isinstance(value, list | tuple):
                raise InputError(f"{self.name}: {value!r} is not a list of numbers")
            return tuple(self._checked_number(item) for item in value)
        if self.kind == "bool":
            if not isinstance(value, bool):
                raise InputError(f"{self.name}: {value!r} is not true or false")
            return value
        if self.kind == "text":
            return self._checked_text(value)
        if isinstance(value, str) and value in self.words:
            return value
        return self._checked_number(value)

    def _checked_text(self, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise InputError(f"{self.name}: {value!r} is not a text")
        if self.choices and value not in self.choices:
            near = near_match(value, self.choices)
            raise InputError(f"{self.name}: {value!r} is not one of {', '.join(self.choices)}{near}")
        return value

    def _checked_number(self, value: Any) -> int | float | str:
        bounds = self.bounds_text
        wanted = _KIND_NAMES[self.kind] + (f" {bounds}" if bounds else "")
        wanted += "".join(f" or {word!r}" for word in self.words)
        refusal = InputError(f"{self.name}: {value!r} is not {wanted}")
        if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
            raise refusal
        text = str(value).strip()
        try:
            number = Decimal(text)
        except ArithmeticError:
            raise refusal from None
        # beyond these exponents exact arithmetic would take for ever
        if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
            raise refusal
        if self.kind in ("int", "tokens") and number != int(number):
            raise refusal
        if (
            (self.at_least is not None and number < Decimal(self.at_least))
            or (self.above is not None and number <= Decimal(self.above))
            or (self.at_most is not None and number > Decimal(self.at_most))
        ):
            raise refusal
        if self.kind == "decimal":
            return text
        if self.kind not in ("float", "numbers"):
            return int(number)
        result = float(number)
        if not math.isfinite(result):
            raise refusal
        return result

    @property
    def bounds_text(self) -> str:
        """The allowed range, "" where there is none."""
        parts = []
        if self.above is not None:
            parts.append(f"> {self.above:g}")
        if self.at_least is not None:
            parts.append(f"≥ {self.at_least:g}")
        if self.at_most is not None:
            parts.append(
                f"≤ {int(self.at_most)}" if self.at_most == int(self.at_most) else f"≤ {self.at_most}"
            )
        return " and ".join(parts)


def key_field(
    default: Any,
    kind: Kind,
    group: Group,
    meaning: str,
    *,
    reason: str,
    unit: str = "",
    flag: bool = True,
    choices: tuple[str, ...] = (),
    words: tuple[str, ...] = (),
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
) -> Any:
    """A dataclass field with the metadata of a ``Key``; arguments as its attributes."""
    described = {
        "kind": kind,
        "unit": unit,
        "meaning": meaning,
        "reason": reason,
        "group": group,
        "flag": flag,
        "choices": choices,
        "words": words,
        "at_least": at_least,
        "above": above,
        "at_most": at_most,
    }
    return field(default=default, metadata=described)


def value_text(value: Any) -> str:
    """A value for people: auto, true/false, plain numbers, lists with commas."""
    if value is None:
        return AUTO
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value) if value else "none"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def near_match(word: str, among: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` or nothing."""
    close = get_close_matches(word, list(among), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""
