"""The bytes of a trace file: opened, unpacked, cut into blocks of whole lines."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from lumen_policy.errors import InputError

__all__ = ["BLOCK_BYTES", "TraceFile"]

BLOCK_BYTES = 32 << 20
"""Size of a block of lines: large enough for vectorised parsing, small beside a 10M-row file."""
HEAD_BYTES = 64 << 10
"""What a reader may look at to recognise a format."""
_GZIP, _ZSTD, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file of a trace, read as often as needed.

    Attributes:
        path: where it lies.
        head: its first 64 KiB, unpacked, without a byte order mark.
    """

    path: Path
    head: bytes = field(init=False)

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise InputError(f"{self.path}: no such file")
        if self.path.is_dir():
            raise InputError(f"{self.path}: is a directory, not a trace file")
        with self._open() as stream:
            head = self._read(stream, HEAD_BYTES)
        if not head:
            raise InputError(f"{self.path}: the file is empty")
        object.__setattr__(self, "head", head.removeprefix(_BOM))
        if not self.is_parquet and b"\0" in head:
            raise InputError(
                f"{self.path}: holds NUL bytes; traces are UTF-8 text or Parquet, .gz and .zst included"
            )

    @property
    def is_parquet(self) -> bool:
        """Whether the content begins as a Parquet file does."""
        return self.head.startswith(_PARQUET)

    def first_line(self) -> str:
        """The first line without its end, invalid UTF-8 replaced."""
        line = self.head.split(b"\n", 1)[0].rstrip(b"\r")
        return line.decode("utf-8", "replace")

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Blocks of whole lines, each with the number of its first line (from 1); the last line may lack its
        end.
        """
        line = 1
        with self._open() as stream:
            rest = self._read(stream, len(_BOM)).removeprefix(_BOM)
            while True:
                data = self._read(stream, BLOCK_BYTES)
                if not data:
                    if rest:
                        yield line, rest
                    return
                cut = data.rfind(b"\n") + 1
                if not cut:
                    rest += data
                    continue
                block = rest + data[:cut]
                rest = data[cut:]
                yield line, block
                line += block.count(b"\n")

    def all(self) -> bytes:
        """The whole unpacked content."""
        with self._open() as stream:
            return self._read(stream, -1).removeprefix(_BOM)

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            with self.path.open("rb") as raw:
                magic = raw.read(4)
                raw.seek(0)
                if magic.startswith(_GZIP):
                    with gzip.open(raw, "rb") as stream:
                        yield stream  # type: ignore[misc]
                elif magic == _ZSTD:
                    yield _zstd(raw, self.path)
                else:
                    yield raw
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    def _read(self, stream: BinaryIO, size: int) -> bytes:
        try:
            return stream.read(size)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{self.path}: damaged gzip data: {error}") from error


def _zstd(raw: BinaryIO, path: Path) -> BinaryIO:
    """Unpacked stream. The standard library has zstd from 3.14 on; polars unpacks it everywhere, line by
    line.
    """
    import io

    import polars as pl

    try:
        lines = pl.read_csv(
            raw.read(),
            has_header=False,
            separator="\x01",
            quote_char=None,
            infer_schema=False,
            new_columns=["line"],
        )["line"]
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: damaged zstd data: {_first_line(error)}") from error
    return io.BytesIO("\n".join(lines.fill_null("")).encode())


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
