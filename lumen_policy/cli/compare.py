"""``lumen-tune compare``: policies side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from lumen_policy.cli.options import Json, Quiet, with_settings
from lumen_policy.settings import Settings

__all__ = ["register"]

Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="TEXT",
        help="A policy's name or file; repeatable. The last one is judged against the others. "
        "Default: stop_and_restart, fixed_checkpointing, lumen.",
    ),
]
Scenarios = Annotated[
    str | None,
    typer.Option(
        "--scenarios", metavar="N", help="Instead of --crash: N drawn crash scenarios, with paired intervals."
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("compare")(_compare)


@with_settings("cluster", "trace", "policy", "faults", "measures", without=("policy",))
def _compare(
    settings: Settings,
    *,
    policy: Policies = None,
    scenarios: Scenarios = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Replay the same crashes, or the same drawn scenarios, under several policies."""
    from lumen_policy.cli.report import write_document, write_notices
    from lumen_policy.comparison import (
        checked_count,
        choose_contenders,
        compare_crashes,
        compare_scenarios,
        scenario_plan,
    )
    from lumen_policy.errors import InputError
    from lumen_policy.faults import parse_crashes
    from lumen_policy.paired import Pairing
    from lumen_policy.policy_choice import POLICY_NAMES
    from lumen_policy.workload import prepare

    if scenarios is not None and settings.crash:
        raise InputError("scenarios: exclude crash, since scenarios draw their own crashes")
    count = None if scenarios is None else checked_count(scenarios)
    crashes = parse_crashes(settings.crash)
    notices: list[str] = []
    workload = prepare(settings, notices)
    plan = None if count is None else scenario_plan(workload)
    pairing = Pairing(workload.cluster, workload.trace, crashes)
    contenders = choose_contenders(policy or POLICY_NAMES, settings, pairing, notices)
    write_notices(notices, quiet=quiet)
    if count is None or plan is None:
        document = compare_crashes(workload, pairing, contenders)
    else:
        document = compare_scenarios(workload, plan, contenders, count)
    if json:
        write_document(document)
        return
    from lumen_policy.cli.render_compare import print_crashes, print_scenarios

    if count is None:
        print_crashes(document)
    else:
        print_scenarios(document)
