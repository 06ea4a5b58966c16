"""The tables of ``lumen-tune compare``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lumen_policy.cli.render import number, policy_line, print_lines, print_table, replay_header, share

__all__ = ["print_crashes", "print_scenarios"]


def print_crashes(document: Mapping[str, Any]) -> None:
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
    if not document["cluster"]["crashes"]:
        return
    impact = entries[0]["impact"]
    cut = ", cut short by the trace's end" if impact["window_cut_short"] else ""
    print_table(
        f"impact of the crashes, windows of {impact['horizon_s']:g} s{cut}",
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
    cluster, entries, scenarios = document["cluster"], document["policies"], document["scenarios"]
    level = f"{100 * scenarios['confidence']:g} %"
    print_lines(
        *replay_header(document),
        f"scenarios {scenarios['count']} of {scenarios['rate_per_s']:.3f} requests/s, "
        f"{scenarios['victims']} of {cluster['workers']} workers crash after {scenarios['warmup_s']:g} s, "
        f"H = {cluster['horizon_s']:g} s",
        *(policy_line(entry["policy"]) for entry in entries),
        "",
    )
    print_table(
        "means over scenarios (recovery: median)",
        (
            "policy",
            "excess E2E request-s",
            level,
            "per affected s",
            "TTFT s",
            "TPOT s",
            "next token from crash s",
            "recovery s",
        ),
        [_scenario_row(entry) for entry in entries],
    )
    for difference in document["differences"]:
        saves = difference["saves_request_s"]
        print_lines(
            f"{difference['policy']} against {difference['against']}: saves {number(saves['mean_s'], 1)} "
            f"request-seconds a crash ({level}: {number(saves['low_s'], 1)} … {number(saves['high_s'], 1)}): "
            f"{difference['verdict']}"
        )


def _scenario_row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    excess = entry["excess_e2e_request_s"]
    recovery = entry["median_recovery_time_s"]
    return (
        entry["label"],
        number(excess["mean_s"], 1),
        f"{number(excess['low_s'], 1)} … {number(excess['high_s'], 1)}",
        number(entry["excess_e2e_per_affected_s"]),
        number(entry["impact_ttft_s"]),
        number(entry["impact_tpot_s"], 4),
        number(entry["replay_ttft_from_crash_s"]),
        "not back" if recovery is None else number(recovery, 0),
    )
