"""The tables of ``lumen-tune compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lumen_policy.cli.render import number, policy_line, print_lines, print_table, replay_header, share
from lumen_policy.cli.render_operator import availability_line, floor_text, print_targets

__all__ = ["print_ablation", "print_faults", "print_scenarios"]

_WHOLE_FROM_S = 100
"""Savings from here on are shown in whole request-seconds, so that three columns of them fit a page."""


def print_faults(document: Mapping[str, Any]) -> None:
    """One timeline under every policy: a row for each."""
    entries = document["policies"]
    print_lines(*replay_header(document), *(policy_line(entry["policy"]) for entry in entries), "")
    print_table(
        "all requests, seconds",
        ("policy", "TTFT mean", "p99", "TPOT mean", "p99", "E2E mean", "p99"),
        [
            (
                entry["label"],
                number(entry["ttft_s"]["mean"]),
                number(entry["ttft_s"]["p99"]),
                number(entry["tpot_s"]["mean"], 4),
                number(entry["tpot_s"]["p99"], 4),
                number(entry["e2e_s"]["mean"]),
                number(entry["e2e_s"]["p99"]),
            )
            for entry in entries
        ],
    )
    if not document["cluster"]["faults"]:
        return
    impact = entries[0]["impact"]
    cut = ", cut short by the trace's end" if impact["window_cut_short"] else ""
    print_table(
        f"impact of the faults, windows of {impact['horizon_s']:g} s{cut}",
        (
            "policy",
            "excess E2E request-s",
            "per affected s",
            "TTFT s",
            "TPOT s",
            "next token from crash s",
            "recovery s",
            "SLO met",
            "restored GB",
            "recomputed tokens",
        ),
        [_impact_row(entry) for entry in entries],
    )
    print_targets(entries, [entry["impact"]["binding"]["resource"] or "–" for entry in entries])
    print_lines(_windows_line(document["windows"]))
    for entry in entries:
        if entry["availability"] is not None:
            print_lines(f"{entry['label']} a month: {availability_line(entry['availability'])}")
    for entry in entries:
        if entry["placebo"] is not None:
            excess = number(entry["placebo"]["excess_e2e_request_s"], 1)
            print_lines(
                f"{entry['label']} without faults, arrivals moved by up to {entry['placebo']['jitter_s']:g} s: "
                f"{floor_text(entry['placebo'])}, excess E2E {excess} request-seconds"
            )


def _impact_row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    impact = entry["impact"]
    recovery = "not back" if impact["censored"] else number(impact["recovery_time_s"], 0)
    return (
        entry["label"],
        number(impact["excess_e2e_request_s"], 1),
        number(impact["excess_e2e_per_affected_s"]),
        number(impact["ttft_s"]["mean"]),
        number(impact["tpot_s"]["mean"], 4),
        number(entry["interrupted"]["replay_ttft_from_crash_s"]["mean"]),
        recovery,
        share(impact["slo_attainment"]),
        number(impact["restored_bytes"] / 1e9, 2),
        number(impact["recomputed_tokens"]),
    )


def print_scenarios(document: Mapping[str, Any]) -> None:
    """Means over scenarios with intervals, and what the last policy saves."""
    entries = document["policies"]
    level = _level(document)
    print_lines(
        *replay_header(document),
        _scenarios_line(document),
        *(policy_line(entry["policy"]) for entry in entries),
        "",
    )
    _print_means(document, entries)
    print_targets(entries, [_bindings(entry) for entry in entries])
    print_lines(_windows_line(document["windows"]), "")
    if document["strata"]:
        others = [entry["against"] for entry in document["differences"]]
        judged = document["differences"][0]["policy"]
        _print_strata(
            f"request-seconds a crash that {judged} saves, by load at the crash (mean, {level})",
            "against",
            document["strata"],
            [
                (other, [stratum["differences"][row] for stratum in document["strata"]])
                for row, other in enumerate(others)
            ],
            "saves_request_s",
        )
    for difference in document["differences"]:
        saves = difference["saves_request_s"]
        print_lines(
            f"{difference['policy']} against {difference['against']}: saves {number(saves['mean_s'], 1)} "
            f"request-seconds a crash ({level}: {number(saves['low_s'], 1)} … {number(saves['high_s'], 1)}): "
            f"{difference['verdict']}"
        )
    for entry in entries:
        if entry["availability"] is not None:
            print_lines(f"{entry['label']} a month: {availability_line(entry['availability'])}")
    if document["placebo"] is not None:
        print_lines(_placebo_line(document["placebo"]))


def print_ablation(document: Mapping[str, Any]) -> None:
    """Baselines, the eight subsets and the placebo; what each saves; the outcome in words."""
    entries = document["policies"]
    level = _level(document)
    print_lines(
        *replay_header(document),
        _scenarios_line(document),
        *(policy_line(entry["policy"]) for entry in entries[-1:]),
        "",
    )
    saves: dict[str, list[Mapping[str, Any]]] = {}
    for entry in document["against"]:
        saves.setdefault(entry["policy"], []).append(entry)
    baselines = [entry["against"] for entry in next(iter(saves.values()))]
    rows = [
        (
            *_scenario_row(entry)[:4],
            *(_saved(cell) for cell in saves.get(entry["label"], [None] * len(baselines))),
        )
        for entry in entries
    ]
    placebo = document["placebo"]
    nothing = ["–"] * (1 + len(baselines))
    rows.append(("placebo (no crash)", *_excess_cells(placebo["excess_e2e_request_s"]), *nothing))
    print_table(
        f"excess E2E a crash over the fault-free run, request-seconds ({level} in brackets or beside it)",
        (
            "mechanisms",
            "mean",
            level,
            "per affected s",
            *(f"saves against {baseline}" for baseline in baselines),
        ),
        rows,
    )
    print_targets(entries, [_bindings(entry) for entry in entries])
    if document["strata"]:
        _print_strata(
            f"excess E2E by load at the crash, request-seconds (mean, {level})",
            "mechanisms",
            document["strata"],
            [
                (entry["label"], [stratum["policies"][row] for stratum in document["strata"]])
                for row, entry in enumerate(entries)
            ],
            "excess_e2e_request_s",
        )
    print_lines(*document["words"], _placebo_line(placebo))


def _level(document: Mapping[str, Any]) -> str:
    return f"{100 * document['scenarios']['confidence']:g} %"


def _scenarios_line(document: Mapping[str, Any]) -> str:
    scenarios, cluster = document["scenarios"], document["cluster"]
    together = " (a rack)" if scenarios["victim_choice"] == "rack" else ""
    scope = "" if scenarios["victim_scope"] == "gpu" else f" of scope {scenarios['victim_scope']}"
    return (
        f"scenarios {scenarios['count']} of {scenarios['rate_per_s']:.3f} requests/s, "
        f"{scenarios['victims']} of {cluster['workers']} workers{together} crash{scope} after "
        f"{scenarios['warmup_s']:g} s, H = {cluster['horizon_s']:g} s"
    )


def _windows_line(windows: Mapping[str, Any]) -> str:
    lengths = [f"{length:g}" for length in windows["windows_s"]]
    if windows["robust"]:
        order = " < ".join(windows["orders"][-1])
        return f"ranking by excess E2E, the same for windows of {', '.join(lengths)} s: {order}"
    orders = "; ".join(
        f"{length} s: {' < '.join(order)}" for length, order in zip(lengths, windows["orders"], strict=True)
    )
    return f"ranking by excess E2E is NOT robust, it hangs on the window: {orders}"


def _print_means(document: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> None:
    print_table(
        "means over scenarios (recovery: median)",
        (
            "policy",
            "excess E2E request-s",
            _level(document),
            "per affected s",
            "TTFT s",
            "TPOT s",
            "next token from crash s",
            "recovery s",
        ),
        [_scenario_row(entry) for entry in entries],
    )


def _print_strata(
    title: str,
    first: str,
    strata: Sequence[Mapping[str, Any]],
    rows: Sequence[tuple[str, Sequence[Mapping[str, Any]]]],
    figure: str,
) -> None:
    columns = [
        f"{stratum['load']}: {stratum['scenarios']} with "
        f"{stratum['in_system_least']:,}–{stratum['in_system_most']:,} in system"
        for stratum in strata
    ]
    print_table(
        title,
        (first, *columns),
        [(label, *(_bracketed(cell[figure]) for cell in cells)) for label, cells in rows],
    )


def _placebo_line(placebo: Mapping[str, Any]) -> str:
    mean, interval = _excess_cells(placebo["excess_e2e_request_s"])
    verdict = (
        "no effect, as it should be" if placebo["zero"] else "an interval WITHOUT zero where nothing happened"
    )
    return (
        f"placebo (no crash, arrivals moved by up to {placebo['jitter_s']:g} s): excess {mean} request-seconds "
        f"({interval}), {number(placebo['largest_request_s'], 1)} at most in a scenario, "
        f"{placebo['out_of_band']} of {placebo['scenarios']} out of band: {verdict}"
    )


def _bindings(entry: Mapping[str, Any]) -> str:
    counts = [f"{name} {count}" for name, count in entry["binding"].items() if count]
    return ", ".join(counts) or "–"


def _saved(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "–"
    saves = entry["saves_request_s"]
    digits = 0 if abs(saves["mean_s"]) >= _WHOLE_FROM_S else 1
    mean, low, high = (number(saves[f"{name}_s"], digits) for name in ("mean", "low", "high"))
    return f"{mean} ({low} … {high})"


def _bracketed(figure: Mapping[str, Any]) -> str:
    mean, interval = _excess_cells(figure)
    return f"{mean} ({interval})"


def _excess_cells(interval: Mapping[str, Any]) -> tuple[str, str]:
    return number(interval["mean_s"], 1), f"{number(interval['low_s'], 1)} … {number(interval['high_s'], 1)}"


def _scenario_row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    excess = entry["excess_e2e_request_s"]
    recovery = entry["median_recovery_time_s"]
    return (
        entry["label"],
        *_excess_cells(excess),
        number(entry["excess_e2e_per_affected_s"]),
        number(entry["impact_ttft_s"]),
        number(entry["impact_tpot_s"], 4),
        number(entry["replay_ttft_from_crash_s"]),
        "not back" if recovery is None else number(recovery, 0),
    )
