"""Entry point: mounts the commands and turns every failure into one line and an exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from cost_models.errors import CostModelError
from lumen_policy import __version__
from lumen_policy.errors import InputError

__all__ = ["app", "main"]

_NAME = "lumen-tune"
_BAD_INPUT, _OWN_FAILURE, _INTERRUPTED, _BROKEN_PIPE = 2, 1, 130, 141

app = typer.Typer(
    name=_NAME,
    help="Failure recovery in distributed LLM serving: replay crashes over a trace, tune recovery policies.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"{_NAME} {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _mount() -> None:
    """Adds every command module; each has a ``register(app)``."""
    for name in ("replay", "compare", "tune", "policy", "trace", "faults", "costs", "calibrate", "config"):
        import_module(f"lumen_policy.cli.{name}").register(app)


_mount()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line.

    Args:
        arguments: without the program's name; None = ``sys.argv``.

    Returns:
        The exit code: 0 done, 1 our own failure, 2 bad input, 130 interrupted.
    """
    if sys.stdout is None:  # started with a closed descriptor
        return _fail(_BAD_INPUT, "standard output is closed")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # names of files need not be valid UTF-8
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code: Any = app(args=arguments, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (InputError, CostModelError) as error:
        return _fail(_BAD_INPUT, str(error))
    except (KeyboardInterrupt, typer.Abort):
        return _fail(_INTERRUPTED, "interrupted")
    except SystemExit:
        # so typer ends where a closed pipe fails inside a command
        return _BROKEN_PIPE
    except BrokenPipeError:
        # stdout is gone: let the interpreter's last flush go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except Exception as error:
        usage = getattr(error, "format_message", None)
        if usage is not None:
            return _fail(_BAD_INPUT, f"{usage()} (see {_NAME} --help)")
        if os.environ.get("LUMEN_TUNE_DEBUG"):
            raise
        return _fail(
            _OWN_FAILURE,
            f"internal failure: {type(error).__name__}: {error} (LUMEN_TUNE_DEBUG=1 shows where)",
        )


def _fail(code: int, message: str) -> int:
    line = " ".join(message.split())
    print(f"{_NAME}: {line}", file=sys.stderr)
    return code
