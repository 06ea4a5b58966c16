"""Flags of the commands, made from the keys of a set-up."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from lumen_policy.config_file import read_config
from lumen_policy.errors import InputError
from lumen_policy.setting_key import Group, Key, value_text
from lumen_policy.settings import Settings, keys, settings_from

__all__ = ["Json", "Quiet", "merged_settings", "with_settings"]

Json = Annotated[bool, typer.Option("--json", help="One versioned JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No notices on stderr.")]

_METAVARS = {"int": "N", "float": "X", "decimal": "X", "tokens": "N", "text": "TEXT", "texts": "TEXT"}


def with_settings(
    *groups: Group, trace: bool = True, also: tuple[str, ...] = (), without: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Any]:
    """Gives a command the flags of some groups of keys, ``--config`` and the TRACE argument.

    The command's first parameter ``settings`` gets the merged, checked settings; flags win over the file.

    Args:
        groups: whose keys become flags; a file may set all keys.
        trace: whether the command takes a trace.
        also: keys of other groups that are flags here too.
        without: keys of these groups that are no flags here.
    """

    def decorate(command: Callable[..., Any]) -> Any:
        flags = [
            key
            for key in keys()
            if key.name in also or (key.flag and key.group in groups and key.name not in without)
        ]
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        def flagged(**given: Any) -> Any:
            stated = {key.name: given.pop(key.name) for key in flags}
            if trace:
                stated["trace"] = given.pop("trace")
            settings = merged_settings(given.pop("config"), stated)
            return command(settings, **given)

        wrapper: Any = wraps(command)(flagged)
        parameters = [_parameter(key) for key in flags]
        parameters.append(_named("config", str, typer.Option("--config", metavar="FILE", help=_CONFIG_HELP)))
        if trace:
            parameters.insert(0, _named("trace", str, typer.Argument(metavar="TRACE", help=_TRACE_HELP)))
        parameters += [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in own]
        wrapper.__signature__ = inspect.Signature(parameters)
        wrapper.__annotations__ = {item.name: item.annotation for item in parameters}
        # typer would otherwise read the wrapped command's hints
        del wrapper.__wrapped__
        return wrapper

    return decorate


_CONFIG_HELP = "TOML file with any keys of `lumen-tune config`; flags win."
_TRACE_HELP = "Trace file; without it the built-in trace."


def merged_settings(config: str | None, stated: dict[str, Any]) -> Settings:
    """Settings from a file (or none) with the flags that were given on top."""
    values = read_config(config) if config is not None else {}
    given = {name: value for name, value in stated.items() if value is not None and value != []}
    if config is not None:
        try:
            settings_from(values)
        except InputError as error:
            raise InputError(f"config {config}: {error}") from None
    return settings_from({**values, **given})


def _parameter(key: Key) -> inspect.Parameter:
    unit = f" [{key.unit}]" if key.unit else ""
    # a derived default is explained in the meaning
    default = "" if key.optional else f" Default: {value_text(key.default)}."
    metavar = "|".join(key.choices) if key.choices else _METAVARS[key.kind]
    if key.words:
        metavar += "|" + "|".join(key.words)
    option = typer.Option(key.option, metavar=metavar, help=f"{key.meaning}{unit}.{default}")
    return _named(key.name, list[str] if key.kind == "texts" else str, option)


def _named(name: str, kind: Any, described: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, described]
    )
