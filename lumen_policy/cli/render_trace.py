"""A trace's figures for people."""

from __future__ import annotations

from typing import Any

from lumen_policy.cli.render import number, print_lines, print_table, share

__all__ = ["print_trace"]

_BARS = "▁▂▃▄▅▆▇█"


def print_trace(document: dict[str, Any]) -> None:
    """The document of `trace info`, `convert` or `synth`."""
    kind = document.get("kind", "requests")
    title = f"{document.get('written', document['source'])}: {kind.replace('_', ' ')} ({document['format']})"
    if kind == "faults":
        _faults(title, document)
    elif kind == "rate_windows":
        _rate_windows(title, document)
    else:
        _requests(title, document)


def _requests(title: str, document: dict[str, Any]) -> None:
    rows = document["rows"]
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in rows["dropped"].items()) or "none"
    lines = [title, f"rows     {rows['read']:,} read = {rows['kept']:,} kept + dropped: {dropped}"]
    lines += [f"note     {note}" for note in document["notes"]]
    if document["span_s"] is not None:
        lines += [
            f"span     {number(document['span_s'], 1, 's')}, {number(document['rate_per_s'], 4)} requests/s",
            f"bursts   CV of counts in {document['window_s']} s windows "
            f"{number(document['window_count_cv'])}, busiest {number(document['window_count_max'], 0)}, "
            f"empty {share(document['window_empty_share'])}; "
            f"gap CV {number(document['gap_cv'])}, longest gap {number(document['gap_max_s'], 1, 's')}",
        ]
    pair = document["correlation"]
    lines.append(
        f"lengths  Pearson {number(pair['pearson'])}, Spearman {number(pair['spearman'])}; "
        f"{document['one_token_outputs']:,} outputs of one token; {document['equal_rows']:,} equal rows"
    )
    prefix = document["prefix"]
    if prefix is not None:
        limited = ""
        if prefix["cache_blocks"] is not None:
            limited = f", {share(prefix['reuse_limited'])} by one of {prefix['cache_blocks']:,} blocks"
        lines.append(
            f"prefix   {prefix['blocks']:,} blocks of {prefix['block_tokens']} tokens, "
            f"{prefix['distinct_blocks']:,} distinct; "
            f"{share(prefix['reuse_unlimited'])} reused by an unlimited cache{limited}"
        )
    print_lines(*lines)
    columns = ("mean", "min", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max")
    print_table(
        "tokens",
        ("", *columns, "> 8K", "> 32K", "log₂ histogram"),
        [
            (
                name,
                *(number(figures[column], 1 if column == "mean" else 0) for column in columns),
                share(figures["share_over_8192"]),
                share(figures["share_over_32768"]),
                _spark(figures["histogram_log2"]),
            )
            for name, figures in (
                ("prompt", document["prompt_tokens"]),
                ("output", document["output_tokens"]),
            )
        ],
    )


def _rate_windows(title: str, document: dict[str, Any]) -> None:
    families = ", ".join(f"{count:,} {name}" for name, count in document["families"].items())
    print_lines(
        title,
        f"windows  {document['windows']:,} of {document['window_s']:g} s, "
        f"{document['empty_windows']:,} empty; {families}",
        f"span     {number(document['span_s'], 0, 's')}, {number(document['rate_per_s'], 4)} requests/s "
        f"on average, {number(document['rate_max_per_s'], 4)} at most; "
        f"{number(document['expected_requests'], 0)} requests expected",
        "no request list: --lengths built-in (or a trace) makes one",
    )


def _faults(title: str, document: dict[str, Any]) -> None:
    repair = document["repair_h"]
    rate = document["faults_per_1000_node_days"]
    of = "" if document["nodes_watched"] is None else f" of {document['nodes_watched']:,}"
    print_lines(
        title,
        f"faults   {document['faults']:,} on {document['nodes_hit']:,}{of} nodes in "
        f"{number(document['watched_days'], 1)} days"
        + ("; say --nodes for a rate" if rate is None else f"; {number(rate)} per 1,000 node-days"),
        f"repair   mean {number(repair['mean'], 1)} h, p50 {number(repair['p50'], 1)}, "
        f"p90 {number(repair['p90'], 1)}, max {number(repair['max'], 1)}; "
        f"{document['zero_length']:,} of zero length, {document['unrepaired']:,} without an end",
    )


def _spark(counts: list[int]) -> str:
    """One bar for each power of two from the first to the last one that occurs."""
    occurring = [i for i, count in enumerate(counts) if count]
    if not occurring:
        return ""
    shown = counts[occurring[0] : occurring[-1] + 1]
    top = max(shown)
    bars = "".join(_BARS[min(7, count * 8 // (top + 1))] if count else " " for count in shown)
    return f"{2 ** occurring[0]:,} {bars} {2 ** occurring[-1]:,}"
