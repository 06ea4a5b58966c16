"""What the user says about a file where the file itself does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lumen_policy.errors import InputError
from lumen_policy.trace.parse import UNITS

if TYPE_CHECKING:
    from lumen_policy.trace.arrivals import ArrivalProcess
    from lumen_policy.trace.table import Trace

__all__ = ["FIELDS", "ReadOptions"]

FIELDS = ("arrival_s", "prompt_tokens", "output_tokens")
"""Our names of a request's fields, as used by the generic formats and by `--map`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a reader; None means "on the evidence of the file, or refused".

    Attributes:
        columns: our field name → the file's column name (``--map``).
        time_unit: unit of a numeric time column: s, ms, us or ns (``--time-unit``).
        window_s: keep start ≤ time < end, seconds from the first arrival; also what makes a trace of more
            than 90 days readable (``--window``).
        drop_unreadable: drop rows with a missing or unreadable field, counted, instead of refusing the file.
        block_tokens: tokens of a prefix block (``--block-tokens``).
        prefix_ids: ``keep`` or ``ignore`` hash ids (``--prefix-ids``).
        turns: ``as_is`` (prompts hold their history, or are meant without) or ``accumulate`` (add the
            earlier turns of a session to a prompt) (``--turns``).
        arrivals: process for a source without times (``--arrivals``).
        lengths: trace whose lengths are drawn for a source without lengths (``--lengths``).
        seed: key of those draws.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    time_unit: str | None = None
    window_s: tuple[float, float] | None = None
    drop_unreadable: bool = False
    block_tokens: int | None = None
    prefix_ids: str = "keep"
    turns: str | None = None
    arrivals: ArrivalProcess | None = None
    lengths: Trace | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in FIELDS:
                raise InputError(f"--map {name}=…: unknown field; allowed: {', '.join(FIELDS)}")
        _one_of("time unit", self.time_unit, (None, *UNITS))
        _one_of("prefix ids", self.prefix_ids, ("keep", "ignore"))
        _one_of("turns", self.turns, (None, "as_is", "accumulate"))
        if self.block_tokens is not None and self.block_tokens < 1:
            raise InputError(f"block tokens must be at least 1, not {self.block_tokens}")
        if self.window_s is not None and not 0 <= self.window_s[0] < self.window_s[1]:
            raise InputError(
                f"window must have 0 ≤ start < end, not {self.window_s[0]} … {self.window_s[1]} s"
            )


def _one_of(name: str, value: str | None, allowed: tuple[str | None, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name} {value!r}: allowed are {', '.join(item for item in allowed if item)}")
