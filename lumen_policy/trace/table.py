"""The request table: who asks when, for how many tokens, and what became of every row of the source."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lumen_policy.errors import InputError

__all__ = ["MAX_SPAN_PS", "MAX_TOKENS", "PS_PER_S", "Accounting", "IntArray", "PrefixBlocks", "Trace"]

IntArray = npt.NDArray[np.int64]

PS_PER_S = 10**12
MAX_SPAN_PS = 90 * 86_400 * PS_PER_S
"""Longest span of a trace: int64 picoseconds end at 106 days."""
MAX_TOKENS = 10**9
"""Longest prompt or output of one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """Where the rows of the source went: ``read = kept + Σ dropped``, checked on construction.

    Attributes:
        read: rows (requests) the source held.
        kept: requests of the trace.
        dropped: rows dropped, by reason; every count ≥ 1.
        notes: what was done to the rows that were kept (sorted, clock compressed, …), in order.
    """

    read: int
    kept: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "dropped", MappingProxyType({k: self.dropped[k] for k in sorted(self.dropped)})
        )
        if any(count < 1 for count in self.dropped.values()):
            raise ValueError(f"dropped counts must be positive: {dict(self.dropped)}")
        if self.read != self.kept + sum(self.dropped.values()):
            raise ValueError(
                f"rows do not add up: {self.read} read, {self.kept} kept, {dict(self.dropped)} dropped"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _accounting, (self.read, self.kept, dict(self.dropped), self.notes)

    @classmethod
    def of(cls, read: int, dropped: Mapping[str, int], notes: tuple[str, ...] = ()) -> Accounting:
        """The accounting of a source of `read` rows; reasons with count 0 are left out."""
        counts = {reason: int(count) for reason, count in dropped.items() if count}
        return cls(read=int(read), kept=int(read) - sum(counts.values()), dropped=counts, notes=notes)

    def drop(self, reason: str, count: int, note: str | None = None) -> Accounting:
        """The same source with `count` more rows dropped."""
        counts = dict(self.dropped)
        if count:
            counts[reason] = counts.get(reason, 0) + int(count)
        notes = self.notes if note is None else (*self.notes, note)
        return Accounting(read=self.read, kept=self.kept - int(count), dropped=counts, notes=notes)

    def note(self, text: str) -> Accounting:
        """The same rows with one more remark."""
        return replace(self, notes=(*self.notes, text))


def _accounting(read: int, kept: int, dropped: dict[str, int], notes: tuple[str, ...]) -> Accounting:
    """Unpickles: a read-only mapping cannot be sent to another process as it is."""
    return Accounting(read=read, kept=kept, dropped=dropped, notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixBlocks:
    """Hash ids of the prompts' blocks: equal ids at equal depth mean an equal prefix.

    Request i has the ids ``ids[offsets[i]:offsets[i + 1]]``, first block first.

    Attributes:
        block_tokens: tokens of a block; the last block of a prompt may be partly filled.
        offsets: int64, shape (n + 1,), non-decreasing, first entry 0.
        ids: int64, shape (offsets[-1],).
    """

    block_tokens: int
    offsets: IntArray
    ids: IntArray

    def __post_init__(self) -> None:
        _freeze(self, "offsets", "ids")
        if self.block_tokens < 1:
            raise InputError(f"block size must be at least 1 token, not {self.block_tokens}")
        offsets = self.offsets
        if (
            not len(offsets)
            or offsets[0] != 0
            or offsets[-1] != len(self.ids)
            or (np.diff(offsets) < 0).any()
        ):
            raise ValueError("prefix offsets must rise from 0 to the number of ids")

    def take(self, rows: IntArray) -> PrefixBlocks:
        """The blocks of the given requests, in that order."""
        counts = np.diff(self.offsets)[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        index = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], counts)
        return PrefixBlocks(block_tokens=self.block_tokens, offsets=offsets, ids=self.ids[index])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """Requests in order of arrival.

    Attributes:
        arrival_ps: int64, shape (n,), non-decreasing; picoseconds from the first arrival, so the first entry
            is 0.
        prompt_tokens: int64, shape (n,), 1 … ``MAX_TOKENS``.
        output_tokens: int64, shape (n,), 1 … ``MAX_TOKENS``.
        source: what was read or generated (a file's name, ``built-in``).
        format: the reader's name, or ``synthetic``.
        accounting: what became of the source's rows.
        prefix: hash ids of the prompts' blocks, where the source has them.
    """

    arrival_ps: IntArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    source: str
    format: str
    accounting: Accounting
    prefix: PrefixBlocks | None = None

    def __post_init__(self) -> None:
        _freeze(self, "arrival_ps", "prompt_tokens", "output_tokens")
        n = len(self.arrival_ps)
        if n == 0:
            raise InputError(f"{self.source}: no requests left{_drops(self.accounting)}")
        if len(self.prompt_tokens) != n or len(self.output_tokens) != n:
            raise ValueError("the columns of a trace must have one length")
        if self.arrival_ps[0] != 0 or (self.arrival_ps[1:] < self.arrival_ps[:-1]).any():
            raise ValueError("arrivals must rise from 0")
        if self.arrival_ps[-1] > MAX_SPAN_PS:
            days = int(self.arrival_ps[-1]) / PS_PER_S / 86_400
            raise InputError(
                f"{self.source}: spans {days:.1f} days; at most 90 are allowed (cut it with a window)"
            )
        for name in ("prompt_tokens", "output_tokens"):
            column = getattr(self, name)
            low, high = int(column.min()), int(column.max())
            if low < 1 or high > MAX_TOKENS:
                bad = low if low < 1 else high
                raise InputError(f"{self.source}: {name} {bad} is outside 1 … {MAX_TOKENS}")
        if self.prefix is not None and len(self.prefix.offsets) != n + 1:
            raise ValueError("prefix blocks must belong to the same requests")
        if self.accounting.kept != n:
            raise ValueError(f"{self.accounting.kept} rows kept but {n} requests")

    def __len__(self) -> int:
        return len(self.arrival_ps)

    @property
    def count(self) -> int:
        """Number of requests."""
        return len(self.arrival_ps)

    @property
    def span_ps(self) -> int:
        """Last arrival, picoseconds."""
        return int(self.arrival_ps[-1])

    @property
    def span_s(self) -> float:
        """Time from the first to the last arrival, seconds."""
        return self.span_ps / PS_PER_S

    @property
    def rate_per_s(self) -> float:
        """Requests per second of span; 0 where all arrive at once."""
        return self.count / self.span_s if self.span_ps else 0.0

    def digest(self) -> str:
        """SHA-256 over the requests alone (not the source's name): equal requests, equal digest, on any
        machine.
        """
        columns = [self.arrival_ps, self.prompt_tokens, self.output_tokens]
        head = "lumen-trace/1"
        if self.prefix is not None:
            head += f"/blocks-of-{self.prefix.block_tokens}"
            columns += [self.prefix.offsets, self.prefix.ids]
        sha = hashlib.sha256(head.encode())
        for column in columns:
            sha.update(len(column).to_bytes(8, "little"))
            sha.update(np.ascontiguousarray(column, "<i8").data)
        return sha.hexdigest()

    def take(self, rows: IntArray, accounting: Accounting) -> Trace:
        """The given requests (indices that keep arrivals in order), re-based to the first of them."""
        arrival = self.arrival_ps[rows]
        return replace(
            self,
            arrival_ps=arrival - arrival[0] if len(arrival) else arrival,
            prompt_tokens=self.prompt_tokens[rows],
            output_tokens=self.output_tokens[rows],
            prefix=None if self.prefix is None else self.prefix.take(rows),
            accounting=accounting,
        )


def _drops(accounting: Accounting) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in accounting.dropped.items())
    return f" of {accounting.read} rows ({reasons})" if reasons else ""


def _freeze(record: Any, *names: str) -> None:
    """Make the named columns read-only contiguous int64 (a view where they already are)."""
    for name in names:
        column = np.ascontiguousarray(getattr(record, name), np.int64).view()
        column.flags.writeable = False
        object.__setattr__(record, name, column)
