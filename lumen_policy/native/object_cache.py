"""Machine code kept between runs: one checked file a module, in a folder that is the user's alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ObjectCache", "Stored", "fitting_folder"]

_MAGIC = b"lumen-tune object 1\n"
_KEPT = 8
"""Files of other versions that are kept beside the newest."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A module's machine code and what is to know of it; ``facts`` is what JSON can say."""

    code: bytes
    facts: dict[str, Any]


class _DamagedError(Exception):
    """Why a file is not used."""


def fitting_folder(folder: Path) -> str:
    """Why machine code in a folder cannot be trusted; empty if it can, or if the folder is not there."""
    for place in (folder, folder.parent):
        try:
            found = os.stat(place, follow_symlinks=place != folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{place}: {error.strerror}"
        if not stat.S_ISDIR(found.st_mode):
            return f"{place} is not a folder"
        owners = {os.geteuid()} if place == folder else {os.geteuid(), 0}
        if found.st_uid not in owners:
            return f"{place} is not yours"
        if found.st_mode & 0o022 and not (place != folder and found.st_mode & stat.S_ISVTX):
            return f"others may write in {place}"
    return ""


class ObjectCache:
    """Files ``<key>.object`` in a folder.

    Args:
        folder: where; made when the first file is written, for the owner alone.
        say: takes one line for the user.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say

    def path(self, key: str) -> Path:
        return self._folder / f"{key[:32]}.object"

    def get(self, key: str, make: Callable[[], Stored]) -> Stored:
        """What lies under a key, made and kept at first; of several processes at once one makes it.

        A file that is damaged, cut off, of another key or not the user's alone is made anew, and said. Where nothing
        can be kept, it is made and not kept.
        """
        unfit = fitting_folder(self._folder)
        if unfit:
            self._say(f"{unfit}: compiled code is not kept there")
            return make()
        found = self._read(key)
        if found is not None:
            return found
        with self._alone(key) as may_write:
            if may_write:
                found = self._read(key)
            if found is None:
                found = make()
                if may_write:
                    self._write(key, found)
        return found

    def forget(self, key: str, why: str) -> None:
        """Drop a file that could not be used."""
        self._say(f"{self.path(key)} {why}: compiling anew")
        with contextlib.suppress(OSError):
            self.path(key).unlink()

    def _read(self, key: str) -> Stored | None:
        path = self.path(key)
        try:
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._say(f"{path}: {error.strerror}: compiling anew")
            return None
        try:
            with os.fdopen(handle, "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                    raise _DamagedError("is not yours alone")
                return _parse(file.read(), key)
        except _DamagedError as error:
            self.forget(key, str(error))
        except OSError as error:
            self._say(f"{path}: {error.strerror}: compiling anew")
        return None

    @contextlib.contextmanager
    def _alone(self, key: str) -> Iterator[bool]:
        """Hold the lock of a key; False where nothing can be written."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._folder / f"{key[:32]}.lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError:
            yield False
            return
        try:
            with contextlib.suppress(ImportError, OSError):  # without locks both compile, and the last one's is kept
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
            yield True
        finally:
            os.close(lock)

    def _write(self, key: str, stored: Stored) -> None:
        header = json.dumps({"key": key, "facts": stored.facts}, sort_keys=True).encode() + b"\n"
        content = header + stored.code
        digest = hashlib.sha256(content).hexdigest().encode() + b"\n"
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=".")
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + digest + content)
            os.replace(temporary, self.path(key))
            self._prune()
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def _prune(self) -> None:
        def age(path: Path) -> float:
            return -path.stat().st_mtime

        for path in sorted(self._folder.glob("*.object"), key=age)[_KEPT:]:
            for old in (path, path.with_suffix(".lock")):
                with contextlib.suppress(OSError):
                    old.unlink()


def _parse(content: bytes, key: str) -> Stored:
    if not content.startswith(_MAGIC):
        raise _DamagedError("is damaged")
    digest, _, rest = content[len(_MAGIC) :].partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != digest:
        raise _DamagedError("is damaged")
    header, _, code = rest.partition(b"\n")
    try:
        stated = json.loads(header)
        found, facts = stated["key"], stated["facts"]
    except (ValueError, KeyError, TypeError):
        raise _DamagedError("is damaged") from None
    if found != key:
        raise _DamagedError("is of another version or machine")
    return Stored(code, facts)
