"""Digests of what a result depends on, so that a result says what it came from."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["cache_root", "code_digest", "content_digest", "library_versions", "replay_code_digest"]

_PACKAGE = Path(__file__).resolve().parent
_COST_MODELS = _PACKAGE.parent / "cost_models"
_LIBRARIES = ("llvmlite", "msgspec", "numpy", "polars", "scikit-optimize")


def content_digest(content: Any) -> str:
    """SHA-256 of anything msgspec can write, with sorted keys."""
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


@cache
def code_digest() -> str:
    """SHA-256 over every source and data file of both packages."""
    return _files_digest((_PACKAGE, _COST_MODELS), (".py", ".json"))


@cache
def replay_code_digest() -> str:
    """SHA-256 over the sources that decide what a replay does."""
    return _files_digest((_PACKAGE / "replay", _PACKAGE / "decide", _PACKAGE / "native"), (".py",))


def _files_digest(folders: tuple[Path, ...], suffixes: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in suffixes:
                digest.update(path.relative_to(folder.parent).as_posix().encode() + b"\0")
                digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def library_versions() -> dict[str, str]:
    """Version of Python, of this package and of the libraries that compute."""
    versions = {"python": platform.python_version()}
    for name in ("lumen-policy", *_LIBRARIES):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "unknown"
    return versions


def cache_root() -> Path:
    """The user's cache folder of this tool; ``LUMEN_TUNE_CACHE_DIR`` overrides it.

    Raises:
        OSError: the user has no folder for such things.
    """
    override = os.environ.get("LUMEN_TUNE_CACHE_DIR")
    if override:
        return Path(override)
    import platformdirs

    try:
        found = Path(platformdirs.user_cache_dir("lumen-tune"))
    except RuntimeError as error:
        raise OSError(str(error)) from None
    if not found.is_absolute():
        raise OSError(f"{found}: no home folder is known")
    return found
