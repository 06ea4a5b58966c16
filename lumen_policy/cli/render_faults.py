"""The figures of a fault schedule for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lumen_policy.cli.render import number, print_lines, share

__all__ = ["print_schedule"]


def print_schedule(document: Mapping[str, Any]) -> None:
    """The document of ``faults info`` or ``faults synth``."""
    repair, on = document["repair_h"], document["on"]
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in document["kinds"].items())
    hit = on[:-1] if document["hit"] == 1 and document["watched"] is None else on
    of = "" if document["watched"] is None else f" of {document['watched']:,}"
    rate = document["faults_per_1000_node_days"]
    rated = "say --nodes for a rate"
    if rate is not None:
        rated = f"{number(rate)} per 1,000 {on[:-1]}-days, MTBF {number(document['mtbf_hours'], 0)} h"
    lines = [
        f"{document.get('written', document['source'])}: fault schedule ({document['format']})",
        f"faults   {document['faults']:,} on {document['hit']:,}{of} {hit} in "
        f"{number(document['watched_days'], 4)} days; {rated}",
    ]
    if "expected_faults" in document:
        lines.append(f"expected {number(document['expected_faults'], 1)} faults")
    lines += [
        f"kinds    {kinds}",
        f"repair   p10 {number(repair['p10'], 2)} h, p50 {number(repair['p50'], 2)}, p90 "
        f"{number(repair['p90'], 2)}, mean {number(repair['mean'], 2)}, max {number(repair['max'], 2)}; "
        f"{document['zero_length']:,} of zero length, {document['unended']:,} without an end, "
        f"{document['overlapping']:,} while the same {on[:-1]} is faulty",
        f"bursts   {document['bursts']:,} of two or more {on} within {document['burst_s']:g} s, the largest of "
        f"{document['largest_burst']:,}: {share(document['burst_share'])} of the faults",
        f"lemons   {share(document['repeated_share'])} of the faults on {on} with more than one, "
        f"{share(document['worst_20_share'])} on the worst 20",
    ]
    print_lines(*lines)
