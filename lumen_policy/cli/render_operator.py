"""What an operator reads beside the impact: parts, binding resource, targets, minutes a month, noise floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lumen_policy.cli.render import number, print_table, share

__all__ = ["availability_line", "floor_text", "operator_lines", "print_targets"]

_TARGETS = (
    ("coverage", "coverage"),
    ("holder_balance", "held max/mean"),
    ("load_balance", "L max/mean"),
    ("acceptance", "acceptance"),
)


def operator_lines(document: Mapping[str, Any]) -> list[str]:
    """The lines of one replay with faults."""
    impact = document["impact"]
    parts, binding = impact["parts"], impact["binding"]
    lines = [
        f"parts     detect {number(parts['detect_s'], 1, 's')}, restore and recompute "
        f"{number(parts['restore_recompute_s'], 1, 's')}, drain of the queue "
        f"{number(parts['queue_drain_s'], 1, 's')}; reload {number(parts['reload_s'], 1, 's')} beside them",
        f"binding   {binding['resource'] or 'unknown'}: prefill {share(binding['prefill'])}, decode "
        f"{share(binding['decode'])}, KV {share(binding['kv'])}, link {share(binding['link'])} used",
    ]
    judged = [
        f"{name} {_judged(document['operator'][key])}"
        for key, name in _TARGETS
        if document["operator"][key]["met"] is not None
    ]
    if judged:
        lines.append("targets   " + "; ".join(judged))
    if document["availability"] is not None:
        lines.append("a month   " + availability_line(document["availability"]))
    if document["placebo"] is not None:
        placebo = document["placebo"]
        lines.append(
            f"placebo   {floor_text(placebo)}, excess E2E {number(placebo['excess_e2e_request_s'], 1)} "
            f"request-seconds (no crash, arrivals moved by up to {placebo['jitter_s']:g} s)"
        )
    return lines


def floor_text(placebo: Mapping[str, Any]) -> str:
    """The recovery time that the measure reports where nothing happened."""
    if placebo["censored"]:
        return "recovery not back"
    return f"recovery {number(placebo['recovery_time_s'], 0, 's')}"


def availability_line(availability: Mapping[str, Any]) -> str:
    """Minutes lost a month."""
    return (
        f"{number(availability['crashes_per_month'], 2)} crashes at an MTBF of "
        f"{availability['mtbf_hours']:,g} h a worker: "
        f"{number(availability['unserved_minutes_per_month'], 2)} minutes of arrivals out of objective, "
        f"{number(availability['worker_down_minutes_per_month'], 1)} worker-minutes down"
    )


def print_targets(entries: Sequence[Mapping[str, Any]], binding: Sequence[str]) -> None:
    """A row per policy: figures with pass or fail; nothing where no policy has one."""
    head = [f"{name} {entries[0]['operator'][key]['target']}" for key, name in _TARGETS]
    print_table(
        "targets of an operator (! missed)",
        (
            "policy",
            *head,
            f"recovery / stop_and_restart's {entries[0]['recovery_share']['target']}",
            "binding",
        ),
        [
            (
                entry["label"],
                *(_judged(entry["operator"][key]) for key, _ in _TARGETS),
                _judged(entry["recovery_share"]),
                bound,
            )
            for entry, bound in zip(entries, binding, strict=True)
        ],
    )


def _judged(figure: Mapping[str, Any]) -> str:
    mark = " !" if figure["met"] is False else ""
    return f"{number(figure['value'], 2)}{mark}"
