"""Read a trace file of any known format."""

from __future__ import annotations

from pathlib import Path

from lumen_policy.trace.formats import by_name, recognise
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.table import Trace
from lumen_policy.trace.transform import limit as first

__all__ = ["read_trace"]


def read_trace(
    path: str | Path,
    *,
    format: str | None = None,
    limit: int | None = None,
    options: ReadOptions | None = None,
) -> Trace:
    """Read a trace; its format is recognised from the content unless named.

    Args:
        path: the file; .gz and .zst are unpacked.
        format: a reader's name (see `formats.all_formats`).
        limit: keep the first so many requests.
        options: what the file does not say itself.

    Returns:
        Requests in stable order of arrival. Rows without prompt or output tokens are dropped and counted.

    Raises:
        InputError: with file, line and what is allowed.
    """
    file = TraceFile(Path(path))
    options = options or ReadOptions()
    reader = recognise(file, options) if format is None else by_name(format)
    rows = reader.read(file, options)
    trace = rows.trace(Path(path).name, reader.name, options.window_s)
    return trace if limit is None else first(trace, limit)
