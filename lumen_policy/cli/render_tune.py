"""A tuning run for people: the table on validation scenarios, the verdict, the policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lumen_policy.cli.render import number, print_lines, print_table, replay_header
from lumen_policy.tune.output import POLICY, RESULT, TRIALS

__all__ = ["print_tuned"]


def print_tuned(document: Mapping[str, Any], folder: Path) -> None:
    """The result of ``lumen-tune tune``."""
    search, manifest = document["search"], document["manifest"]
    print_lines(*replay_header(manifest))
    print_lines(
        f"scenarios {search['scenarios']} for tuning, {search['validation_scenarios']} for validation: load "
        f"{search['load']:g} ({search['rate_per_s']:.2f} requests/s), {search['victims']} of "
        f"{manifest['cluster']['workers']} workers crash after {search['warmup_s']:g} s, "
        f"H = {search['horizon_s']:g} s",
        f"search    {document['trials']['done']} trials, {document['trials']['replayed']} of them replayed; "
        f"the optimizer took {100 * document['cost']['optimizer_share_of_cpu']:.0f} % of the CPU time",
        "",
    )
    if document["validation"] is not None:
        _print_validation(document["validation"])
    for line in document["verdict"]:
        print_lines(line)
    written = [RESULT, TRIALS]
    if document["choice"] is not None:
        policy = document["choice"]["policy"]
        written.insert(0, POLICY)
        print_lines(
            "",
            f"policy    α = {policy['alpha']} a page, β = {policy['beta']} a request, θ = {policy['theta']}, "
            f"τ = {policy['tau_tokens']} tokens, k = {policy['k']} (trial {document['choice']['trial'] + 1})",
        )
    print_lines(f"written   {', '.join(str(folder / name) for name in written)}")


def _print_validation(validation: Mapping[str, Any]) -> None:
    gains = {gain["against"]: gain for gain in validation["gains"]}
    rows = []
    for entry in validation["policies"]:
        name = entry["policy"]["name"]
        gain = gains.get(name)
        rows.append(
            [
                name,
                number(entry["mean_request_s"], 1),
                f"{number(entry['low_request_s'], 1)} … {number(entry['high_request_s'], 1)}",
                number(entry["excess_per_affected_s"], 3),
                "" if gain is None else number(gain["mean_request_s"], 1),
                ""
                if gain is None
                else f"{number(gain['low_request_s'], 1)} … {number(gain['high_request_s'], 1)}",
                "" if gain is None else gain["verdict"],
            ]
        )
    level = f"{100 * validation['confidence']:g} %"
    print_table(
        "Excess E2E a crash over the fault-free run, request-seconds, on validation scenarios",
        ["policy", "mean", level, "s per request", "tuned saves", level, "tuned is"],
        rows,
    )
    print_lines(f"Intervals: {validation['interval']}.", "")
