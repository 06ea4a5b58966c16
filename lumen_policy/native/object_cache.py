"""Machine code kept between runs: one checked file a module, in a folder that is the user's alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ObjectCache", "Stored", "unfit"]

_MAGIC = b"lumen-tune object 1\n"
_KEPT = 12
"""Files that are kept: those used last."""
_LARGEST = 1 << 27
"""Bytes; a longer file is none of ours."""
_PATIENCE_S = 60
"""How long another process may compile; one that was stopped in between holds its lock for ever."""
_LEFT_OVER_S = 86_400
"""Age of a half-written file that nobody finishes any more."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A module's machine code and what is to know of it; ``facts`` is what JSON can say."""

    code: bytes
    facts: dict[str, Any]


class _DamagedError(Exception):
    """Why a file is not used."""


def unfit(folder: Path) -> str:
    """Why machine code in a folder cannot be trusted; empty if it can, or if the folder is not there.

    The folder must be the user's and nobody else may write in it. The one that it lies in may be root's, and writable
    by a group: files are used only if they are the user's own.
    """
    for place in (folder, folder.parent):
        inner = place == folder
        try:
            found = os.stat(place, follow_symlinks=not inner)
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{place}: {error.strerror}"
        if not stat.S_ISDIR(found.st_mode):
            return f"{place} is not a folder"
        if found.st_uid not in ((os.geteuid(),) if inner else (os.geteuid(), 0)):
            return f"{place} is not yours"
        sticky = bool(found.st_mode & stat.S_ISVTX)
        if found.st_mode & 0o022 if inner else found.st_mode & 0o002 and not sticky:
            return f"others may write in {place}"
    return ""


class ObjectCache:
    """Files ``<key>.object`` in a folder.

    Args:
        folder: where, an absolute path; made when the first file is written, for the owner alone.
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
        can be kept, it is made and not kept, and that is said.
        """
        why = unfit(self._folder)
        if why:
            self._not_kept(why)
            return make()
        found = self._read(key)
        if found is not None:
            return found
        with self._alone(key) as may_write:
            if may_write:
                found = self._read(key, again=True)
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

    def _not_kept(self, why: str) -> None:
        self._say(f"{why}: compiled code is not kept there")

    def _read(self, key: str, *, again: bool = False) -> Stored | None:
        path = self.path(key)
        try:
            content = _content(path)
            found = None if content is None else _parse(content, key)
        except _DamagedError as error:
            if not again:
                self.forget(key, str(error))
            return None
        except OSError as error:
            if not again:
                self._say(f"{path}: {error.strerror}: compiling anew")
            return None
        if found is not None:
            with contextlib.suppress(OSError):
                os.utime(path, follow_symlinks=False)  # used now: kept longest
        return found

    @contextlib.contextmanager
    def _alone(self, key: str) -> Iterator[bool]:
        """Hold the lock of a key; False where nothing can be written."""
        path = self._folder / f"{key[:32]}.lock"
        try:
            _make_folder(self._folder)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        except OSError as error:
            self._not_kept(f"{error.filename or path}: {error.strerror}")
            yield False
            return
        try:
            _wait_for(lock)
            yield True
        finally:
            os.close(lock)  # and the lock is gone, as it is when the process ends

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
        except OSError as error:
            self._not_kept(f"{self.path(key)}: {error.strerror}")
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        with contextlib.suppress(OSError):
            self._prune()

    def _prune(self) -> None:
        """Drop what was used longest ago, locks without a file, and what was never finished."""
        ages: dict[Path, float] = {}
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):
                ages[path] = time.time() - path.lstat().st_mtime
        objects = sorted((path for path in ages if path.suffix == ".object"), key=ages.__getitem__)
        old = objects[_KEPT:]
        old += [path.with_suffix(".lock") for path in old]
        for path, age in ages.items():
            unfinished = path.name.startswith(".")
            alone = path.suffix == ".lock" and path.with_suffix(".object") not in ages
            if age > _LEFT_OVER_S and (unfinished or alone):
                old.append(path)
        for path in old:
            with contextlib.suppress(OSError):
                path.unlink()


def _content(path: Path) -> bytes | None:
    """A file's bytes, None if there is none; not through a link, and not what others may write."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would be waited for
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise _DamagedError("is not yours alone")
        if found.st_size > _LARGEST:
            raise _DamagedError("is damaged")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def _wait_for(lock: int) -> None:
    """Take a lock, or go on without where there are none; then both compile, and the last one's file is kept."""
    try:
        import fcntl
    except ImportError:
        return
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:
            return


def _make_folder(folder: Path) -> None:
    """Make it, and the ones it lies in, for the owner alone whatever the umask."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)


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
    if found != key or not isinstance(facts, dict):
        raise _DamagedError("is of another version or machine")
    return Stored(code, facts)
