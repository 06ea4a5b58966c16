"""``lumen-tune config``: every key with its default, unit and meaning."""

from __future__ import annotations

from typing import Annotated

import typer

from lumen_policy.cli.options import Json, with_settings
from lumen_policy.settings import GROUPS, Settings

__all__ = ["register"]

Toml = Annotated[bool, typer.Option("--toml", help="A commented file for --config, on stdout.")]

Markdown = Annotated[bool, typer.Option("--markdown", help="The tables of docs/defaults.md, on stdout.")]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("config")(_config)


@with_settings(*GROUPS)
def _config(
    settings: Settings, *, toml: Toml = False, markdown: Markdown = False, json: Json = False
) -> None:
    """Print all keys of a set-up with values, defaults, units and meanings."""
    if toml:
        from lumen_policy.config_file import config_toml

        typer.echo(config_toml(settings), nl=False)
    elif markdown:
        from lumen_policy.defaults_table import defaults_markdown

        typer.echo(defaults_markdown(), nl=False)
    elif json:
        from lumen_policy.cli.report import write_document
        from lumen_policy.document import SCHEMA_VERSION
        from lumen_policy.result import settings_section

        write_document({"schema_version": SCHEMA_VERSION, "settings": settings_section(settings)})
    else:
        from lumen_policy.cli.render import print_settings

        print_settings(settings)
