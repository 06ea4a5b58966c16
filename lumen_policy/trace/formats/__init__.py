"""Trace formats, one module each: a module that defines FORMAT is a reader; adding one is adding a file."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Protocol

from lumen_policy.errors import InputError
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile

__all__ = ["Format", "all_formats", "by_name", "recognise"]


class Format(Protocol):
    """A reader.

    Attributes:
        name: what `--format` takes.
        summary: one line on what it reads.
        kind: ``requests``, ``lengths`` (no times) or ``rate_windows`` (no requests).
        generic: tried only where no specific format recognises the file.
    """

    name: str
    summary: str
    kind: str
    generic: bool

    def recognises(self, file: TraceFile) -> bool:
        """Whether the head of the file looks like this format; cheap, never raises."""

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        """All rows of the file; InputError where it cannot be read in one certain way."""


@cache
def all_formats() -> dict[str, Format]:
    """Every reader by name, in alphabetical order."""
    found: dict[str, Format] = {}
    for module in pkgutil.iter_modules(__path__):
        reader: Format = importlib.import_module(f"{__name__}.{module.name}").FORMAT
        found[reader.name] = reader
    return dict(sorted(found.items()))


def by_name(name: str) -> Format:
    """The reader of that name."""
    formats = all_formats()
    if name not in formats:
        raise InputError(f"unknown trace format {name!r}; known: {', '.join(formats)}")
    return formats[name]


def recognise(file: TraceFile, options: ReadOptions) -> Format:
    """The one reader that fits the content; a specific one before a generic one, generic ones alone with
    ``--map``.

    Raises:
        InputError: none fits, or more than one specific reader does.
    """
    for generic in (True,) if options.columns else (False, True):
        fits = [
            reader
            for reader in all_formats().values()
            if reader.generic == generic and reader.recognises(file)
        ]
        if len(fits) > 1:
            names = " or ".join(reader.name for reader in fits)
            raise InputError(f"{file.path}: could be {names}; say which with --format")
        if fits:
            return fits[0]
    raise InputError(
        f"{file.path}: format not recognised (first line {file.first_line()[:80]!r}); known formats: "
        f"{', '.join(all_formats())}; any CSV, Parquet or JSON lines can be read with --map field=column"
    )
