"""``lumen-tune replay``: one policy over a trace and its faults."""

from __future__ import annotations

from typing import Annotated

import typer

from lumen_policy.cli.options import Json, Quiet, with_settings
from lumen_policy.settings import Settings

__all__ = ["register"]

PerRequest = Annotated[
    str | None,
    typer.Option("--per-request", metavar="OUT.parquet|csv", help="One row per request, written to a file."),
]

Placebo = Annotated[
    bool,
    typer.Option(
        "--placebo",
        help="Also measure the noise floor: no fault, arrivals moved by up to 20 ms. Costs one more replay.",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("replay")(_replay)


@with_settings("cluster", "trace", "policy", "faults", "recovery", "measures")
def _replay(
    settings: Settings,
    *,
    per_request: PerRequest = None,
    placebo: Placebo = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Replay a trace under a recovery policy, paired with its fault-free run."""
    from lumen_policy.cli.report import write_document, write_notices
    from lumen_policy.fault_schedule.stated import stated_faults
    from lumen_policy.faults import outlasting
    from lumen_policy.paired import Pairing
    from lumen_policy.policy_choice import choose_policy
    from lumen_policy.request_file import check_output, write_per_request
    from lumen_policy.result import replay_document
    from lumen_policy.workload import prepare

    if per_request is not None:
        check_output(per_request)
    notices: list[str] = []
    workload = prepare(settings, notices)
    stated = stated_faults(settings, span_ps=workload.trace.span_ps, notices=notices)
    notices += outlasting(stated.faults, workload.cluster.horizon_ps)
    pairing = Pairing(workload.cluster, workload.trace, stated.faults)
    policy = choose_policy(settings.policy, settings, pairing, notices)
    write_notices(notices, quiet=quiet)
    run = pairing.run(policy)
    document = replay_document(workload, pairing, run, placebo=placebo, faults=stated.mapping)
    if per_request is not None:
        write_per_request(per_request, run.faulty)
    outside = document.get("calibrated_range", {}).get("outside_share", 0)
    if outside > 0:
        notice = f"{100 * outside:.1f} % of the workers' time is beyond the calibrated range, extrapolated"
        write_notices([notice], quiet=quiet)
    if json:
        write_document(document)
        return
    from lumen_policy.cli.render import print_replay

    print_replay(document)
