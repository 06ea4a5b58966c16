"""What the user says about a file where the file itself does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lumen_policy.errors import InputError
from lumen_policy.trace.parse import UNITS

__all__ = ["FIELDS", "ReadOptions"]

FIELDS = ("arrival_s", "prompt_tokens", "output_tokens")
"""Our names of a request's fields, as used by the generic formats and by `--map`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a reader; None means "on the evidence of the file, or refused".

    Attributes:
        columns: our field name → the file's column name (``--map``).
        time_unit: unit of a numeric time column: s, ms, us or ns.
        drop_unreadable: drop rows with a missing or unreadable field, counted, instead of refusing the file.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    time_unit: str | None = None
    drop_unreadable: bool = False

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in FIELDS:
                raise InputError(f"--map {name}=…: unknown field; allowed: {', '.join(FIELDS)}")
        if self.time_unit is not None and self.time_unit not in UNITS:
            raise InputError(f"time unit {self.time_unit!r}: allowed are {', '.join(UNITS)}")
