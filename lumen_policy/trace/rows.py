"""Rows as a reader found them, and the one way they become a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.parse import FAR_PS
from lumen_policy.trace.table import MAX_SPAN_PS, PS_PER_S, Accounting, IntArray, PrefixBlocks, Trace

__all__ = ["Rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a reader hands over: every row it could read, in file order.

    Attributes:
        arrival_ps: int64, shape (n,), from any origin.
        prompt_tokens, output_tokens: int64, shape (n,), ≥ 0.
        dropped: rows the reader itself left out, by reason.
        notes: what the reader decided on the evidence of the file.
        prefix: hash ids of the prompts' blocks.
    """

    arrival_ps: IntArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    prefix: PrefixBlocks | None = None

    def trace(self, source: str, format_name: str, window_s: tuple[float, float] | None = None) -> Trace:
        """The trace: rows without a prompt or an output dropped, the rest in stable order of arrival, from 0.

        Args:
            source: the file's name.
            format_name: the reader's name.
            window_s: keep start ≤ time < end, seconds from the earliest row.

        Raises:
            InputError: no request is left, or the trace spans more than 90 days.
        """
        arrival, prompt, output = self.arrival_ps, self.prompt_tokens, self.output_tokens
        outside = np.zeros(len(arrival), bool)
        notes = self.notes
        if window_s is not None and len(arrival):
            first = int(arrival.min())
            start, end = (first + round(min(edge, FAR_PS / PS_PER_S) * PS_PER_S) for edge in window_s)
            # Rows too far away stay until the check below, unless the window ends before them.
            outside = (arrival < min(start, FAR_PS)) | ((arrival >= end) if end < FAR_PS else False)
            notes = (*notes, f"window {window_s[0]:g} … {window_s[1]:g} s")
        no_prompt = (prompt == 0) & ~outside
        no_output = (output == 0) & ~no_prompt & ~outside
        reasons = {
            **self.dropped,
            "outside the window": int(outside.sum()),
            "zero prompt tokens": int(no_prompt.sum()),
            "zero output tokens": int(no_output.sum()),
        }
        read = len(arrival) + sum(self.dropped.values())
        accounting = Accounting.of(read, reasons, notes)
        rows: IntArray | None = None
        if accounting.kept < len(arrival):
            rows = np.flatnonzero(~(no_prompt | no_output | outside))
            arrival = arrival[rows]
        if len(arrival) and (arrival.max() == FAR_PS or arrival.min() == -FAR_PS):
            raise InputError(
                f"{source}: times lie more than 106 days from the first row's; --window START:END cuts them"
            )
        late = int((arrival[1:] < arrival[:-1]).sum())
        if late:
            order = np.argsort(arrival, kind="stable")
            arrival = arrival[order]
            rows = order if rows is None else rows[order]
            accounting = accounting.note(
                f"sorted by arrival (stable): {late} rows came before the row above them"
            )
        if len(arrival):
            span = int(arrival[-1]) - int(arrival[0])
            if span > MAX_SPAN_PS:
                days = span / PS_PER_S / 86_400
                raise InputError(
                    f"{source}: spans {days:.1f} days; at most 90 are allowed (--window START:END cuts it)"
                )
            arrival = arrival - arrival[0]
        return Trace(
            arrival_ps=arrival,
            prompt_tokens=prompt if rows is None else prompt[rows],
            output_tokens=output if rows is None else output[rows],
            prefix=self.prefix if rows is None or self.prefix is None else self.prefix.take(rows),
            source=source,
            format=format_name,
            accounting=accounting,
        )
