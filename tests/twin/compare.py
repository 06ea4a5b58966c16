"""Whether two replays say the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import numpy as np

from lumen_policy.replay.contract import ReplayOutput

__all__ = ["compare", "gap_counts"]

KERNEL_ONLY = {"leaps", "leap_count", "ordered_syncs"}
"""Counters of how the kernel works, not of what happened."""


def gap_counts(output: ReplayOutput) -> Counter[tuple[int, int]]:
    """How many token gaps ended at an instant with a length: {(end_ps, gap_ps): count}."""
    counts: Counter[tuple[int, int]] = Counter()
    records = zip(
        output.gap_end_ps.tolist(),
        output.gap_ps.tolist(),
        output.gap_growth_ps.tolist(),
        output.gap_steps.tolist(),
        output.gap_sequences.tolist(),
        strict=True,
    )
    for end, gap, growth, steps, sequences in records:
        for step in range(steps):
            if step > 0:
                gap += growth
                end += gap
            counts[end, gap] += sequences
    return +counts


def compare(a: ReplayOutput, b: ReplayOutput) -> list[str]:
    """The fields in which two outputs differ, each with its first difference; gaps as one multiset."""
    found = []
    for name in (field.name for field in fields(ReplayOutput)):
        if name == "counters" or name.startswith("gap_"):
            continue
        left, right = getattr(a, name), getattr(b, name)
        if isinstance(left, np.ndarray):
            if left.shape != right.shape:
                found.append(f"{name}: shape {left.shape} != {right.shape}")
            elif not np.array_equal(left, right):
                at = tuple(int(i) for i in np.argwhere(left != right)[0])
                found.append(f"{name}{list(at)}: {left[at]} != {right[at]}")
        elif left != right:
            found.append(f"{name}: {left} != {right}")
    for name in sorted((a.counters.keys() | b.counters.keys()) - KERNEL_ONLY):
        if a.counters.get(name) != b.counters.get(name):
            found.append(f"counters[{name}]: {a.counters.get(name)} != {b.counters.get(name)}")
    left_gaps, right_gaps = gap_counts(a), gap_counts(b)
    if left_gaps != right_gaps:
        more = sorted((left_gaps - right_gaps).items())[:3]
        less = sorted((right_gaps - left_gaps).items())[:3]
        found.append(f"gaps ((end_ps, gap_ps), count): only left {more}, only right {less}")
    return found
