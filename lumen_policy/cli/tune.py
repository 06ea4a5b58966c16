"""``lumen-tune tune`` and ``lumen-tune rerun``: search a policy, and do it again."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lumen_policy.cli.options import Json, Quiet, with_settings
from lumen_policy.settings import Settings

if TYPE_CHECKING:
    from lumen_policy.tune.study import Study, TuneResult

__all__ = ["register"]

_INTERRUPTED, _DIFFERS = 130, 1
_WITH_VALUE = ("--jobs", "--out")
_WITHOUT_VALUE = ("--force", "--json", "--quiet")

Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", help="Processes; changes no figure. Default: one a CPU."),
]
Out = Annotated[
    str,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Gets policy.json, trials.jsonl, result.json. Default: tuned.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite these three files where DIR is not empty.")]
RandomSearch = Annotated[
    bool,
    typer.Option(
        "--random-search/--no-random-search",
        help="Also try as many random policies, as a yardstick. Default: yes.",
        show_default=False,
    ),
]
Result = Annotated[str, typer.Argument(metavar="RESULT.json", help="Result of an earlier run.")]
RerunOut = Annotated[
    str | None, typer.Option("--out", metavar="DIR", help="Also write the repetition's files.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("tune")(_tune)
    app.command("rerun")(_rerun)


@with_settings(
    "cluster",
    "trace",
    "faults",
    "recovery",
    "measures",
    "search",
    without=(
        "crash",
        "fault",
        "faults",
        "fault_days",
        "fault_nodes",
        "fault_nodes_watched",
        "mtbf_hours",
        "rate_scale",
    ),
)
def _tune(
    settings: Settings,
    *,
    out: Out = "tuned",
    force: Force = False,
    jobs: Jobs = None,
    random_search: RandomSearch = True,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Tune LUMEN's parameters on crash scenarios, judge the choice on others, export the policy."""
    from lumen_policy.tune.output import OutputFolder
    from lumen_policy.tune.report import run_files

    folder = OutputFolder(Path(out), force=force)
    result = _run(_study(settings, quiet=quiet), jobs=jobs, random_search=random_search, quiet=quiet)
    argv = _figures(sys.argv[1:])
    folder.write(run_files(result, argv))
    _show(result, argv, folder.path, json=json)
    return _INTERRUPTED if result.interrupted else 0


def _rerun(
    result: Result, *, out: RerunOut = None, jobs: Jobs = None, json: Json = False, quiet: Quiet = False
) -> int:
    """Repeat a tuning run and say whether its bytes agree (but for what it cost)."""
    from lumen_policy.tune.output import OutputFolder
    from lumen_policy.tune.report import run_files
    from lumen_policy.tune.rerun import differences, read_result

    earlier = read_result(Path(result))
    folder = None if out is None else OutputFolder(Path(out), force=False)
    study = _study(earlier.settings, quiet=quiet)
    earlier.check_trace(study.base.digest())
    again = _run(study, jobs=jobs, random_search=earlier.random_search, quiet=quiet)
    if again.interrupted:
        raise KeyboardInterrupt
    files = run_files(again, earlier.argv)
    if folder is not None:
        folder.write(files)
    found = differences(earlier, files)
    if json:
        from lumen_policy.cli.report import write_document
        from lumen_policy.document import SCHEMA_VERSION

        write_document({"schema_version": SCHEMA_VERSION, "agrees": not found, "differs_in": found})
    elif found:
        more = f" and {len(found) - 8} more" if len(found) > 8 else ""
        print(f"differs in {', '.join(found[:8])}{more}")
    else:
        print("agrees byte for byte (cost left out)")
    return _DIFFERS if found else 0


def _study(settings: Settings, *, quiet: bool) -> Study:
    from lumen_policy.cli.report import write_notices
    from lumen_policy.tune.study import prepare_study

    notices: list[str] = []
    study = prepare_study(settings, notices)
    write_notices(notices, quiet=quiet)
    return study


def _run(study: Study, *, jobs: int | None, random_search: bool, quiet: bool) -> TuneResult:
    from lumen_policy.cli.tune_progress import progress
    from lumen_policy.tune.study import tune

    with progress(quiet=quiet) as shown:
        return tune(
            study, jobs=_cpus() if jobs is None else jobs, random_search=random_search, progress=shown
        )


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _figures(argv: Sequence[str]) -> list[str]:
    """The arguments that change figures: without processes, folder and output."""
    kept: list[str] = []
    skip = False
    for argument in argv:
        name = argument.partition("=")[0]
        if skip:
            skip = False
        elif name in _WITH_VALUE:
            skip = "=" not in argument
        elif name not in _WITHOUT_VALUE:
            kept.append(argument)
    return kept


def _show(result: TuneResult, argv: Sequence[str], folder: Path, *, json: bool) -> None:
    from lumen_policy.tune.report import result_document

    document = result_document(result, argv)
    if json:
        from lumen_policy.cli.report import write_document

        write_document(document)
        return
    from lumen_policy.cli.render_tune import print_tuned

    print_tuned(document, folder)
