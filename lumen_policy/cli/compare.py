"""``lumen-tune compare``: policies side by side."""

from __future__ import annotations

from typing import Annotated, Any

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
        "--scenarios",
        metavar="N",
        help="Instead of stated faults: N drawn crash scenarios, with paired intervals.",
    ),
]
Ablate = Annotated[
    bool,
    typer.Option(
        "--ablate",
        help="The eight subsets of LUMEN's mechanisms (or of one --policy FILE) beside the three baselines, "
        "over --scenarios (default 16).",
    ),
]
Placebo = Annotated[
    bool,
    typer.Option(
        "--placebo",
        help="Also measure the noise floor: no fault, arrivals moved by up to 20 ms. Costs one more "
        "fault-free replay a policy, or a scenario.",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("compare")(_compare)


@with_settings(
    "cluster",
    "trace",
    "policy",
    "faults",
    "recovery",
    "measures",
    also=("victims", "victim_choice", "victim_scope"),
    without=("policy",),
)
def _compare(
    settings: Settings,
    *,
    policy: Policies = None,
    scenarios: Scenarios = None,
    ablate: Ablate = False,
    placebo: Placebo = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Replay the same faults, or the same drawn scenarios, under several policies."""
    from lumen_policy.cli import render_compare
    from lumen_policy.cli.report import write_document

    if ablate:
        document = _ablate(settings, policy or [], scenarios, quiet=quiet)
        shown = render_compare.print_ablation
    elif scenarios is not None:
        document = _over_scenarios(settings, policy, scenarios, placebo=placebo, quiet=quiet)
        shown = render_compare.print_scenarios
    else:
        document = _over_faults(settings, policy, placebo=placebo, quiet=quiet)
        shown = render_compare.print_faults
    if json:
        write_document(document)
    else:
        shown(document)


def _over_faults(
    settings: Settings, policies: list[str] | None, *, placebo: bool, quiet: bool
) -> dict[str, Any]:
    from lumen_policy.cli.report import write_notices
    from lumen_policy.comparison import choose_contenders, compare_faults
    from lumen_policy.fault_schedule.stated import stated_faults
    from lumen_policy.faults import outlasting
    from lumen_policy.paired import Pairing
    from lumen_policy.policy_choice import COMPARED
    from lumen_policy.workload import prepare

    notices: list[str] = []
    workload = prepare(settings, notices)
    stated = stated_faults(settings, span_ps=workload.trace.span_ps, notices=notices)
    notices += outlasting(stated.faults, workload.cluster.horizon_ps)
    pairing = Pairing(workload.cluster, workload.trace, stated.faults)
    contenders = choose_contenders(policies or COMPARED, settings, pairing, notices)
    write_notices(notices, quiet=quiet)
    return compare_faults(workload, pairing, contenders, placebo=placebo, faults=stated.mapping)


def _over_scenarios(
    settings: Settings, policies: list[str] | None, scenarios: str, *, placebo: bool, quiet: bool
) -> dict[str, Any]:
    from lumen_policy.cli.report import write_notices
    from lumen_policy.comparison import choose_contenders
    from lumen_policy.paired import Pairing
    from lumen_policy.policy_choice import COMPARED
    from lumen_policy.scenario_comparison import compare_scenarios
    from lumen_policy.scenario_runs import checked_count, scenario_plan
    from lumen_policy.workload import prepare

    _refuse_faults(settings)
    count = checked_count(scenarios)
    notices: list[str] = []
    workload = prepare(settings, notices)
    plan = scenario_plan(workload)
    pairing = Pairing(workload.cluster, workload.trace, ())
    contenders = choose_contenders(policies or COMPARED, settings, pairing, notices)
    write_notices(notices, quiet=quiet)
    return compare_scenarios(workload, plan, contenders, count, placebo=placebo)


def _ablate(settings: Settings, policies: list[str], scenarios: str | None, *, quiet: bool) -> dict[str, Any]:
    from lumen_policy.ablation import ablate, ablation_contenders
    from lumen_policy.cli.report import write_notices
    from lumen_policy.errors import InputError
    from lumen_policy.paired import Pairing
    from lumen_policy.policy_choice import LUMEN, choose_policy
    from lumen_policy.scenario_runs import checked_count, scenario_plan
    from lumen_policy.workload import prepare

    _refuse_faults(settings)
    if len(policies) > 1:
        raise InputError("policy: --ablate takes one policy apart; give at most one")
    count = checked_count(settings.validation_scenarios if scenarios is None else scenarios)
    notices: list[str] = []
    workload = prepare(settings, notices)
    plan = scenario_plan(workload)
    pairing = Pairing(workload.cluster, workload.trace, ())
    full = choose_policy(policies[0] if policies else LUMEN, settings, pairing, notices)
    contenders = ablation_contenders(full, notices)
    write_notices(notices, quiet=quiet)
    return ablate(workload, plan, contenders, count)


def _refuse_faults(settings: Settings) -> None:
    from lumen_policy.errors import InputError

    if settings.crash or settings.fault or settings.faults is not None:
        raise InputError("scenarios: exclude crash, fault and faults, since scenarios draw their own crashes")
