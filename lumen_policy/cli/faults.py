"""``lumen-tune faults``: describe and draw fault schedules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumen_policy.errors import InputError

if TYPE_CHECKING:
    from lumen_policy.fault_schedule.schedule import FaultSchedule

__all__ = ["app", "register"]

app = typer.Typer(
    name="faults",
    help="Describe and draw fault schedules.",
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _faults(context: typer.Context) -> None:
    """Describe and draw fault schedules."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.add_typer(app, name="faults")


Json = Annotated[bool, typer.Option("--json", help="One versioned JSON document on stdout.")]


@app.command("info")
def info(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A fault schedule, or an event log in days.")],
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Nodes or workers that were watched, for a rate.")
    ] = None,
    watched_days: Annotated[
        float | None, typer.Option(help="Days that were watched; default: first to last start.")
    ] = None,
    json: Json = False,
) -> None:
    """Print counts, rate, repairs, bursts and repeated faults of a file."""
    from lumen_policy.fault_schedule.read import read_schedule

    if watched_days is not None and not 0 < watched_days < float("inf"):
        raise InputError(f"--watched-days {watched_days!r} is not > 0 and finite")
    _show(read_schedule(file), nodes, watched_days, json, {})


@app.command("synth")
def synth(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write: .csv or .json.")],
    mtbf_hours: Annotated[float, typer.Option(help="Mean time between faults of a worker, hours.")],
    workers: Annotated[int, typer.Option(min=1, help="Workers of the cluster.")] = 8,
    days: Annotated[float | None, typer.Option(help="Length of the schedule, days.")] = None,
    span_s: Annotated[float | None, typer.Option(help="Length of the schedule, seconds.")] = None,
    repair: Annotated[
        str | None,
        typer.Option(help="Durations: fixed:H, exp:MEAN_H or lognormal:P50_H:P90_H; default: unstated."),
    ] = None,
    burst_share: Annotated[float, typer.Option(help="Share of the faults that come in bursts.")] = 0.0,
    burst_workers: Annotated[int, typer.Option(help="Neighbouring workers that a burst hits.")] = 2,
    lemons: Annotated[int, typer.Option(help="Workers (the first ones) that fail more often.")] = 0,
    lemon_factor: Annotated[float, typer.Option(help="How many times more often.")] = 10.0,
    process_share: Annotated[
        float, typer.Option(help="Share of process crashes, which need no repair; the rest are of scope gpu.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Key of every draw.")] = 0,
    json: Json = False,
) -> None:
    """Draw a schedule from failure rate, repair law, bursts and lemons, and write it."""
    from lumen_policy.fault_schedule.schedule import DAY_S
    from lumen_policy.fault_schedule.synthetic import FaultModel, RepairLaw, draw_schedule
    from lumen_policy.fault_schedule.write import write_schedule

    if (days is None) == (span_s is None):
        raise InputError("say how long the schedule is: either --days or --span-s")
    model = FaultModel(
        workers=workers,
        span_s=days * DAY_S if days is not None else span_s or 0.0,
        mtbf_hours=mtbf_hours,
        repair=None if repair is None else RepairLaw.parse(repair),
        burst_share=burst_share,
        burst_workers=burst_workers,
        lemons=lemons,
        lemon_factor=lemon_factor,
        process_share=process_share,
        seed=seed,
    )
    schedule = draw_schedule(model)
    write_schedule(schedule, out)
    expected = {"written": str(out), "expected_faults": model.expected_faults}
    _show(schedule, workers, model.span_s / DAY_S, json, expected)


def _show(
    schedule: FaultSchedule, nodes: int | None, days: float | None, json: bool, more: dict[str, Any]
) -> None:
    from lumen_policy.document import SCHEMA_VERSION
    from lumen_policy.fault_schedule.figures import schedule_figures

    document = {
        "schema_version": SCHEMA_VERSION,
        **more,
        **schedule_figures(schedule, watched=nodes, days=days),
    }
    if json:
        from lumen_policy.cli.report import write_document

        write_document(document)
    else:
        from lumen_policy.cli.render_faults import print_schedule

        print_schedule(document)
