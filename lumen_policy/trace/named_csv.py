"""A CSV format that is known by the names of its three columns."""

from __future__ import annotations

from dataclasses import dataclass

from lumen_policy.trace.csv_rows import csv_rows
from lumen_policy.trace.csv_text import header
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile

__all__ = ["NamedCsv"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCsv:
    """A reader (see `formats.Format`) of CSV files with three columns among others; seconds or wall clock.

    Attributes:
        arrival, prompt, output: names of the columns.
    """

    name: str
    summary: str
    arrival: str
    prompt: str
    output: str
    kind: str = "requests"
    generic: bool = False

    def recognises(self, file: TraceFile) -> bool:
        """Whether the header has the three columns."""
        return not file.is_parquet and {self.arrival, self.prompt, self.output} <= set(header(file))

    def read(self, file: TraceFile, options: ReadOptions) -> Rows:
        """All rows."""
        return csv_rows(
            file,
            header(file),
            arrival=self.arrival,
            prompt=self.prompt,
            output=self.output,
            unit=options.time_unit or "s",
            drop_unreadable=options.drop_unreadable,
        )
