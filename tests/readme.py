"""The README's examples: `python -m tests.readme [TUNE_OUTPUT]` writes their output into it anew."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

from lumen_policy.cli.main import main

README = Path(__file__).resolve().parent.parent / "README.md"
_CONSOLE = re.compile(r"```console\n\$ lumen-tune (?P<command>.*)\n(?P<output>(?:.*\n)*?)```\n")
_TUNE = re.compile(r"(<!-- tune -->\n```\n)(?:.*\n)*?(```\n<!-- /tune -->)")


def examples() -> list[tuple[str, str]]:
    """(arguments, output shown) of every console block."""
    text = README.read_text(encoding="utf-8")
    return [(match["command"], match["output"]) for match in _CONSOLE.finditer(text)]


def output_of(command: str) -> str:
    """What a command prints on stdout, without trailing blanks."""
    captured = io.StringIO()
    with contextlib.redirect_stdout(captured):
        code = main(shlex.split(command))
    assert code == 0, command
    return tidy(captured.getvalue())


def tidy(text: str) -> str:
    """Without trailing blanks and blank lines at the end."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n"


def without_cost(text: str) -> str:
    """Without the line on CPU time, the one thing that differs between runs."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("cost "))


def _refresh(tune_output: str | None) -> None:
    text = README.read_text(encoding="utf-8")
    text = _CONSOLE.sub(
        lambda match: f"```console\n$ lumen-tune {match['command']}\n{output_of(match['command'])}```\n",
        text,
    )
    if tune_output is not None:
        shown = tidy(Path(tune_output).read_text(encoding="utf-8"))
        text = _TUNE.sub(lambda match: match[1] + shown + match[2], text)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _refresh(sys.argv[1] if len(sys.argv) > 1 else None)
