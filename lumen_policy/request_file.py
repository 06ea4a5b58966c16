"""The per-request table of a replay as a file."""

from __future__ import annotations

import os
from pathlib import Path

from lumen_policy.errors import InputError
from lumen_policy.measures.per_request import per_request_frame
from lumen_policy.paired import Leg

__all__ = ["check_output", "write_per_request"]

_SUFFIXES = (".parquet", ".csv")


def check_output(path: str) -> None:
    """Refuses a path of another type, or in a folder that does not exist."""
    target = Path(path)
    if target.suffix not in _SUFFIXES:
        raise InputError(f"per_request: {path!r} does not end in {' or '.join(_SUFFIXES)}")
    if target.exists() and not target.is_file():
        raise InputError(f"per_request: {path!r} exists and is no regular file")
    if not target.parent.is_dir():
        raise InputError(f"per_request: {path!r}: the folder {str(target.parent)!r} does not exist")


def write_per_request(path: str, leg: Leg) -> None:
    """One row per request of the trace, written at once or not at all.

    Args:
        path: ends in ``.parquet`` or ``.csv``.
        leg: the replay.
    """
    check_output(path)
    target = Path(path)
    frame = per_request_frame(leg.inputs, leg.output)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        # an open file: polars takes no names that are not UTF-8
        with temporary.open("wb") as stream:
            if target.suffix == ".csv":
                frame.write_csv(stream)
            else:
                frame.write_parquet(stream)
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"per_request: {path!r} cannot be written: {error.strerror or error}") from error
