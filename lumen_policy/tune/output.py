"""The folder a tuning run writes: three files, each whole or absent."""

from __future__ import annotations

import os
from pathlib import Path

from lumen_policy.errors import InputError

__all__ = ["POLICY", "RESULT", "TRIALS", "OutputFolder"]

POLICY = "policy.json"
TRIALS = "trials.jsonl"
RESULT = "result.json"


class OutputFolder:
    """Checked when made, written at the end; touches no file but its own three."""

    def __init__(self, path: Path, *, force: bool) -> None:
        """
        Args:
            path: created if absent.
            force: overwrite an earlier run's files.

        Raises:
            InputError: a file of that name, or a folder that is not empty, without `force`; not writable.
        """
        self.path = path
        if path.exists() and not path.is_dir():
            raise InputError(f"out: {path} is a file, not a folder")
        if path.is_dir() and any(path.iterdir()) and not force:
            raise InputError(
                f"out: {path} is not empty; --force overwrites {TRIALS}, {POLICY} and {RESULT} in it"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"out: {path} cannot be created ({error.strerror})") from None
        if not os.access(path, os.W_OK):
            raise InputError(f"out: {path} cannot be written to")

    def write(self, files: dict[str, bytes | None]) -> None:
        """Write each file to a temporary name and move it into place, in order; None removes an older one."""
        for name, content in files.items():
            target = self.path / name
            if content is None:
                target.unlink(missing_ok=True)
                continue
            temporary = self.path / f".{name}.{os.getpid()}.tmp"
            try:
                temporary.write_bytes(content)
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)
