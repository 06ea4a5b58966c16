"""``lumen-tune trace``: inspect, convert and synthesise request traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumen_policy.errors import InputError

if TYPE_CHECKING:
    from lumen_policy.trace.options import ReadOptions
    from lumen_policy.trace.table import Trace

__all__ = ["app", "register"]

BUILT_IN = "built-in"

app = typer.Typer(
    name="trace",
    help="Inspect, convert and synthesise request traces.",
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _trace(context: typer.Context) -> None:
    """Inspect, convert and synthesise request traces."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.add_typer(app, name="trace")


Format = Annotated[
    str | None, typer.Option("--format", help="Format of FILE; default: recognised from its content.")
]
Mapping = Annotated[
    list[str] | None,
    typer.Option(
        "--map", help="field=column for generic formats, e.g. prompt_tokens=ContextTokens; repeatable."
    ),
]
TimeUnit = Annotated[str | None, typer.Option(help="Unit of numeric times: s, ms, us or ns.")]
Window = Annotated[
    str | None, typer.Option(help="START:END, keep these seconds from the first arrival; clock unchanged.")
]
DropUnreadable = Annotated[
    bool, typer.Option("--drop-unreadable", help="Drop and count rows with missing or unreadable fields.")
]
BlockTokens = Annotated[int | None, typer.Option(help="Tokens of a prefix block.")]
PrefixIds = Annotated[str, typer.Option(help="keep or ignore prefix hash ids.")]
Turns = Annotated[
    str | None, typer.Option(help="Prompts of a session: as_is, or accumulate the turns before.")
]
Arrivals = Annotated[
    str | None,
    typer.Option(
        help="For files without times: poisson:RATE, gamma:RATE:CV, weibull:RATE:CV, uniform:RATE, at_once."
    ),
]
Lengths = Annotated[
    str | None, typer.Option(help="For rate windows: trace whose lengths are drawn (built-in or a file).")
]
Seed = Annotated[int, typer.Option(min=0, help="Key of every draw.")]
Json = Annotated[bool, typer.Option("--json", help="One versioned JSON document on stdout.")]


@app.command("info")
def info(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A trace, rate windows, a fault log or built-in.")
    ],
    format: Format = None,
    mapping: Mapping = None,
    time_unit: TimeUnit = None,
    window: Window = None,
    drop_unreadable: DropUnreadable = False,
    block_tokens: BlockTokens = None,
    prefix_ids: PrefixIds = "keep",
    turns: Turns = None,
    arrivals: Arrivals = None,
    lengths: Lengths = None,
    seed: Seed = 0,
    cache_blocks: Annotated[
        int | None, typer.Option(min=1, help="Also report prefix reuse in a cache of so many blocks.")
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Nodes a fault log watched.")] = None,
    watched_days: Annotated[
        float | None, typer.Option(help="Days a fault log watched; default: first to last start.")
    ] = None,
    json: Json = False,
) -> None:
    """Print span, rate, burstiness, lengths and prefix reuse of a trace, or the figures of a fault log."""
    from lumen_policy.trace.inspect import inspect_built_in, inspect_file

    if file == BUILT_IN:
        document = inspect_built_in(seed)
    else:
        options = _options(
            mapping,
            time_unit,
            window,
            drop_unreadable,
            block_tokens,
            prefix_ids,
            turns,
            arrivals,
            lengths,
            seed,
        )
        document = inspect_file(
            file,
            format=format,
            options=options,
            cache_blocks=cache_blocks,
            nodes=nodes,
            watched_days=watched_days,
        )
    _show(document, json)


@app.command("convert")
def convert(
    file: Annotated[str, typer.Argument(metavar="IN", help="A trace file, or built-in.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write; .gz is packed.")],
    to: Annotated[
        str | None, typer.Option("--to", help="Format of OUT; default by its name: csv, jsonl or parquet.")
    ] = None,
    format: Format = None,
    mapping: Mapping = None,
    time_unit: TimeUnit = None,
    window: Window = None,
    drop_unreadable: DropUnreadable = False,
    block_tokens: BlockTokens = None,
    prefix_ids: PrefixIds = "keep",
    turns: Turns = None,
    arrivals: Arrivals = None,
    lengths: Lengths = None,
    seed: Seed = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Keep the first N requests.")] = None,
    cap_gaps_s: Annotated[
        float | None, typer.Option(help="Shorten longer gaps between arrivals to this; cuts the clock.")
    ] = None,
    context_limit: Annotated[
        int | None, typer.Option(min=2, help="Longest prompt + output, in tokens.")
    ] = None,
    too_long: Annotated[str, typer.Option(help="What longer requests become: refuse or cut.")] = "refuse",
    extend_to_s: Annotated[
        float | None, typer.Option(help="New span by block bootstrap; clock unchanged.")
    ] = None,
    block_s: Annotated[float, typer.Option(help="Length of its blocks, seconds.")] = 300.0,
    superpose_rate: Annotated[
        float | None,
        typer.Option(help="Requests/s reached by adding up shifted copies; clock unchanged."),
    ] = None,
    rate_scale: Annotated[
        float | None, typer.Option(help="Divide all times by this; compresses the clock.")
    ] = None,
    json: Json = False,
) -> None:
    """Read a trace, transform it (in the order of the options) and write it in another format."""
    from lumen_policy.trace import reshape, transform
    from lumen_policy.trace.write import write_trace

    options = _options(
        mapping, time_unit, window, drop_unreadable, block_tokens, prefix_ids, turns, arrivals, lengths, seed
    )
    target = to or _format_of(out)
    trace = _load(file, format, options)
    if limit is not None:
        trace = transform.limit(trace, limit)
    if cap_gaps_s is not None:
        trace = reshape.cap_gaps(trace, cap_gaps_s)
    if context_limit is not None:
        trace = reshape.limit_context(trace, context_limit, too_long)
    if extend_to_s is not None:
        trace = reshape.extend(trace, extend_to_s, block_s, seed)
    if superpose_rate is not None:
        trace = transform.superpose(trace, superpose_rate, seed)
    if rate_scale is not None:
        trace = transform.rate_scale(trace, rate_scale)
    _say(write_trace(trace, out, target))
    _show_written(trace, out, json)


@app.command("synth")
def synth(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write; .gz is packed.")],
    donor: Annotated[
        str,
        typer.Option("--from", metavar="FILE", help="Trace whose lengths, rate and burstiness are fitted."),
    ] = BUILT_IN,
    requests: Annotated[int | None, typer.Option(min=1, help="Default: as many as FILE has.")] = None,
    rate: Annotated[float | None, typer.Option(help="Requests/s; default: FILE's.")] = None,
    cv: Annotated[float | None, typer.Option(help="CV of the gaps (Gamma law); default: FILE's.")] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Format of OUT; default by its name: csv, jsonl or parquet.")
    ] = None,
    format: Format = None,
    mapping: Mapping = None,
    time_unit: TimeUnit = None,
    arrivals: Arrivals = None,
    lengths: Lengths = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Write a generated trace with the rate, burstiness and joint lengths of another one, without its
    rows.
    """
    from lumen_policy.trace.fitted import synthesise
    from lumen_policy.trace.write import write_trace

    options = _options(mapping, time_unit, None, False, None, "ignore", None, arrivals, lengths, seed)
    target = to or _format_of(out)
    trace = synthesise(_load(donor, format, options), requests=requests, rate_per_s=rate, cv=cv, seed=seed)
    _say(write_trace(trace, out, target))
    _show_written(trace, out, json)


@app.command("formats")
def formats() -> None:
    """List the formats read, and which of them are written."""
    from lumen_policy.trace.formats import all_formats
    from lumen_policy.trace.write import WRITABLE

    for name, reader in all_formats().items():
        typer.echo(f"{name:14} {'read, write' if name in WRITABLE else 'read':12} {reader.summary}")


def _load(file: str, format: str | None, options: ReadOptions) -> Trace:
    if file == BUILT_IN:
        from lumen_policy.trace.synthetic import built_in_trace

        return built_in_trace(options.seed)
    from lumen_policy.trace.read import read_trace

    return read_trace(file, format=format, options=options)


def _options(
    mapping: list[str] | None,
    time_unit: str | None,
    window: str | None,
    drop_unreadable: bool,
    block_tokens: int | None,
    prefix_ids: str,
    turns: str | None,
    arrivals: str | None,
    lengths: str | None,
    seed: int,
) -> ReadOptions:
    from lumen_policy.trace.arrivals import ArrivalProcess
    from lumen_policy.trace.options import ReadOptions

    return ReadOptions(
        columns=_columns(mapping or []),
        time_unit=time_unit,
        window_s=None if window is None else _window(window),
        drop_unreadable=drop_unreadable,
        block_tokens=block_tokens,
        prefix_ids=prefix_ids,
        turns=turns,
        arrivals=None if arrivals is None else ArrivalProcess.parse(arrivals, seed),
        lengths=None
        if lengths is None
        else _load(lengths, None, ReadOptions(prefix_ids="ignore", seed=seed)),
        seed=seed,
    )


def _columns(mapping: list[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for text in mapping:
        field, separator, column = text.partition("=")
        if not separator or not field or not column:
            raise InputError(f"--map {text!r} is not field=column, e.g. prompt_tokens=ContextTokens")
        if field in columns:
            raise InputError(f"--map names {field} twice")
        columns[field] = column
    return columns


def _window(text: str) -> tuple[float, float]:
    try:
        start, end = (float(part) for part in text.split(":"))
    except ValueError:
        raise InputError(f"--window {text!r} is not START:END in seconds, e.g. 0:3600") from None
    return start, end


def _format_of(out: Path) -> str:
    name = out.name.removesuffix(".gz")
    for suffix, format in ((".csv", "csv"), (".jsonl", "jsonl"), (".parquet", "parquet")):
        if name.endswith(suffix):
            return format
    raise InputError(f"{out}: say the format with --to, or name the file .csv, .jsonl or .parquet")


def _say(text: str | None) -> None:
    if text:
        typer.echo(text, err=True)


def _show(document: dict[str, Any], json: bool) -> None:
    if json:
        from lumen_policy.cli.report import write_document

        write_document(document)
    else:
        from lumen_policy.cli.render_trace import print_trace

        print_trace(document)


def _show_written(trace: Trace, out: Path, json: bool) -> None:
    from lumen_policy.trace.inspect import SCHEMA_VERSION, describe_trace

    _show({"schema_version": SCHEMA_VERSION, "written": str(out), **describe_trace(trace)}, json)
