"""Results for people: tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from lumen_policy.setting_key import value_text
from lumen_policy.settings import GROUPS, Settings, keys

__all__ = [
    "number",
    "policy_line",
    "print_lines",
    "print_replay",
    "print_settings",
    "print_table",
    "replay_header",
    "share",
]

_QUANTILES = ("mean", "p50", "p90", "p99")
_NOTHING = "–"
_MOST_LISTED = 8


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """One table; the first column is text, the others are figures."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position == 0 else "right")
    for row in rows:
        table.add_row(*row)
    _print_titled(title, table)


def print_lines(*lines: str) -> None:
    """Lines of text."""
    for line in lines:
        _console().print(line, highlight=False, markup=False, soft_wrap=True)


def number(value: float | int | None, digits: int = 3, unit: str = "") -> str:
    """A figure for people: thousands separated, – for what is undefined."""
    if value is None:
        return _NOTHING
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"
    return f"{text} {unit}".rstrip()


def share(value: float | None) -> str:
    """A share as a percentage."""
    return _NOTHING if value is None else f"{100 * value:,.1f} %"


def replay_header(document: Mapping[str, Any]) -> list[str]:
    """What ran: cluster, trace, faults."""
    cluster, trace = document["cluster"], document["trace"]
    draft = f", draft {cluster['draft']}" if cluster["draft"] else ", no draft"
    rate = "its own rate"
    if trace["load"] is not None:
        rate = f"load {trace['load']:g} of {trace['capacity_per_s']:.2f}/s"
    elif trace["rate_scale"] is not None:
        rate = f"time compressed {trace['rate_scale']:g} times"
    lines = [
        f"cluster   {cluster['workers']} workers, {cluster['model']} on {cluster['hardware']}, "
        f"TP {cluster['tensor_parallel']}{draft}",
        f"trace     {trace['source']}: {trace['requests']:,} requests in {trace['span_s']:,.1f} s, "
        f"{trace['rate_per_s']:.3f}/s ({rate})",
    ]
    for reason, count in trace["rows"]["dropped"].items():
        lines.append(f"          {count:,} rows dropped: {reason}")
    if "faults" in cluster:
        lines.append(_faults_line(cluster["faults"]))
    if document.get("faults") is not None:
        faults = document["faults"]
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in faults["dropped"].items())
        lines.append(
            f"file      {faults['source']}: {faults['read']:,} read = {faults['replayed']:,} replayed "
            f"({faults['zero_length']:,} of zero length) + dropped: {dropped or 'none'}"
        )
        lines += [f"          {line}" for line in faults["mapping"]]
    return lines


def _faults_line(faults: Sequence[Mapping[str, Any]]) -> str:
    plain = all((fault["kind"], fault["scope"]) == ("crash", "gpu") for fault in faults)
    texts = []
    for fault in faults[:_MOST_LISTED]:
        what = fault["kind"].replace("_", " ")
        details = [fault["scope"]] if fault["scope"] is not None else []
        if fault["factor"] is not None:
            details.append(f"{fault['factor']:g} times")
        if fault["duration_s"] is not None:
            details.append(f"{fault['duration_s']:g} s")
        if fault["mode"] is not None:
            details.append(fault["mode"])
        at = f"worker {fault['worker']} at {fault['time_s']:g} s"
        texts.append(at if plain else f"{what} ({', '.join(details)}) {at}")
    if len(faults) > _MOST_LISTED:
        texts.append(f"{len(faults) - _MOST_LISTED:,} more")
    return ("crashes   " if plain else "faults    ") + ("; ".join(texts) or "none")


def print_replay(document: Mapping[str, Any]) -> None:
    """The result of ``lumen-tune replay``."""
    print_lines(*replay_header(document), policy_line(document["policy"]), "")
    print_table(
        "all requests",
        ("seconds", *_QUANTILES),
        [
            _quantile_row("TTFT", document["ttft_s"]),
            _quantile_row("TPOT", document["tpot_s"], 4),
            _quantile_row("token gap", document["token_gap_s"], 4),
            _quantile_row("E2E", document["e2e_s"]),
            _quantile_row("E2E / output token", document["e2e_s"]["per_output_token_s"], 4),
        ],
    )
    if document["cluster"]["faults"]:
        _print_fault_tables(document)
    requests, cost = document["requests"], document["cost"]
    refused = ", ".join(f"{count:,} {reason}" for reason, count in requests["refused"].items() if count)
    print_lines(
        f"requests  {requests['arrived']:,} arrived, {requests['finished']:,} finished, "
        f"{requests['unfinished']:,} unfinished, {refused or 'none'} refused",
        f"load      fault-free run {document['saturation']}",
        f"cost      {cost['replay_cpu_s'] * 1e3:.1f} ms CPU, {cost['iterations']:,} iterations, "
        f"{cost['leaps']:,} of them leapt",
    )


def policy_line(policy: Mapping[str, Any]) -> str:
    """A policy and the parameters that matter to it."""
    text = f"policy    {policy['name']}"
    load_aware = policy["placement"] == "load_aware" or policy["routing"] == "load_aware"
    if load_aware:
        text += f": α {policy['alpha']}, β {policy['beta']}, θ {policy['theta']}, τ {policy['tau_tokens']}"
    if load_aware or policy["k"]:
        text += f", k {policy['k']}" + ("" if policy["guard"] or not policy["k"] else " without guard")
    return text


def _print_fault_tables(document: Mapping[str, Any]) -> None:
    impact, interrupted = document["impact"], document["interrupted"]
    print_table(
        f"{interrupted['count']:,} interrupted requests, next token",
        ("seconds", *_QUANTILES),
        [
            _quantile_row("from arrival", interrupted["replay_ttft_from_arrival_s"]),
            _quantile_row("from crash", interrupted["replay_ttft_from_crash_s"]),
            _quantile_row("from redispatch", interrupted["replay_ttft_from_redispatch_s"]),
        ],
    )
    cut = " (cut short by the trace's end)" if impact["window_cut_short"] else ""
    print_table(
        f"{impact['affected']:,} affected requests, window of {impact['horizon_s']:g} s{cut}",
        ("seconds", *_QUANTILES),
        [
            _quantile_row("TTFT", impact["ttft_s"]),
            _quantile_row("TPOT", impact["tpot_s"], 4),
        ],
    )
    # render_operator draws on this module
    from lumen_policy.cli.render_operator import operator_lines

    print_lines(
        *impact_lines(impact),
        *_outage_lines(impact["outages"]),
        *_mechanism_lines(document),
        *operator_lines(document),
    )


def impact_lines(impact: Mapping[str, Any]) -> list[str]:
    """What the faults cost, in words."""
    recovery = number(impact["recovery_time_s"], 0, "s")
    if impact["censored"]:
        recovery = f"not back within {impact['observed_s']:,.0f} s"
    elif impact["no_impact"]:
        recovery = "never out of band"
    return [
        f"impact    excess E2E {number(impact['excess_e2e_request_s'], 1)} request-seconds "
        f"(TTFT {number(impact['excess_ttft_request_s'], 1)}, decode "
        f"{number(impact['excess_decode_request_s'], 1)}), "
        f"{number(impact['excess_e2e_per_affected_s'])} s per affected request",
        f"          recovery {recovery}; requests in system first back after "
        f"{number(impact['in_system_recovery_s'], 0, 's')}; SLO met by {share(impact['slo_attainment'])}",
    ]


def _outage_lines(outages: list[dict[str, Any]]) -> list[str]:
    lines = []
    for outage in outages[:_MOST_LISTED]:
        parts = [f"{outage['kind']} {number(outage['start_s'], 1)} s"]
        if outage["kind"] in ("drain", "migrate"):
            parts.append(f"stopped {number(outage['stop_s'], 1)} s")
        else:
            parts.append(f"detected {number(outage['detection_s'], 1)} s")
        if outage["draft_ready_s"] is not None:
            helped = outage["assist_target"]
            whom = "no worker" if helped is None else f"worker {helped}"
            parts.append(f"ready to draft for {whom} {number(outage['draft_ready_s'], 1)} s")
        parts.append(f"back {number(outage['rejoin_s'], 1)} s")
        lines.append(f"worker {outage['worker']:<3}{', '.join(parts)}")
    if len(outages) > _MOST_LISTED:
        lines.append(f"{len(outages) - _MOST_LISTED:,} more outages")
    return lines


def _mechanism_lines(document: Mapping[str, Any]) -> list[str]:
    checkpoint, assist, impact = document["checkpoint"], document["assist"], document["impact"]
    lines = []
    if document["policy"]["placement"] != "off":
        lines.append(
            f"copies    {share(checkpoint['coverage'])} of the lost KV was saved; "
            f"max/mean held {number(checkpoint['holder_balance'], 2)}; "
            f"{number(impact['restored_bytes'] / 1e9, 2)} GB restored, "
            f"{impact['recomputed_tokens']:,} tokens recomputed"
        )
        lines += _traffic_lines(document)
    lines += _handling_lines(document["handling"])
    if document["policy"]["k"]:
        lines.append(
            f"assist    {number(assist['seconds'], 1)} s of drafted passes, "
            f"{number(assist['tokens_per_pass'], 2)} tokens a pass, {share(assist['vetoed'])} vetoed"
        )
    return lines


def _traffic_lines(document: Mapping[str, Any]) -> list[str]:
    """Checkpoint traffic, where not all of it simply arrived."""
    traffic = document["traffic"]
    fates = [
        f"{share(traffic[f'{fate}_tokens'] / traffic['sent_tokens'])} {words}"
        for fate, words in (("refused", "without room"), ("lost", "lost under way"), ("evicted", "evicted"))
        if traffic[f"{fate}_tokens"]
    ]
    waits = max(traffic["egress_wait_s"], traffic["ingress_wait_s"])
    if not fates and not waits:
        return []
    line = f"traffic   {number(traffic['sent_bytes'] / 1e9, 2)} GB sent; {', '.join(fates) or 'all arrived'}"
    if waits:
        line += (
            f"; longest wait for the server's link {number(traffic['egress_wait_s'])} s, for the holder's "
            f"{number(traffic['ingress_wait_s'])} s"
        )
    return [line]


_HANDLED = (
    ("ignored_faults", "faults of workers that were down"),
    ("refused_sends", "refused sends"),
    ("migrated", "migrated requests"),
    ("remote_restores", "remote restores"),
    ("failed_restores", "failed restores"),
    ("partial_restores", "partial restores"),
    ("regenerated_tokens", "tokens decoded again"),
    ("preemptions", "preemptions"),
)


def _handling_lines(handling: Mapping[str, Any]) -> list[str]:
    """Counts of what is rare, where it happened."""
    counted = [f"{handling[name]:,} {words}" for name, words in _HANDLED if handling[name]]
    return [f"handling  {', '.join(counted)}"] if counted else []


def print_settings(settings: Settings) -> None:
    """Every key with its value, default, unit and meaning."""
    for group in GROUPS:
        rows = []
        for key in keys():
            if key.group == group:
                value, default = value_text(getattr(settings, key.name)), value_text(key.default)
                shown = value if value == default else f"{value} (default {default})"
                rows.append((key.name, shown, key.unit, key.meaning))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("key", "value", "unit", "meaning"):
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*row)
        _print_titled(group, table)


def _quantile_row(name: str, values: Mapping[str, Any], digits: int = 3) -> tuple[str, ...]:
    return (name, *(number(values[quantile], digits) for quantile in _QUANTILES))


def _print_titled(title: str, table: Table) -> None:
    console = _console()
    console.print(title, style="bold")
    console.print(table)


def _console() -> Console:
    # a pipe has no width: wide enough for every table
    width = None if sys.stdout.isatty() else 160
    return Console(file=sys.stdout, width=width, highlight=False, markup=False)
