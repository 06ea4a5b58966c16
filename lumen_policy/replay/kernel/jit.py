"""How the kernel is compiled: numba options and a cache that notices every edit.

numba's own cache watches only the file of the function it compiled, not the decision functions it pulled in from other
files. So the cache directory is keyed by a digest of all kernel and decision sources, the numba version and the CPU.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba

from lumen_policy.digests import cache_root

__all__ = [
    "cache_directory",
    "compile_cached",
    "compile_inline",
    "compile_plain",
    "forget",
    "is_compiled",
    "source_digest",
]

_PACKAGE = Path(__file__).resolve().parent.parent.parent
_SOURCES = ("decide/*.py", "digests.py", "replay/kernel/*.py", "replay/draws.py", "replay/contract.py")
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "fastmath": False,
    "_nrt": False,  # the kernel allocates nothing; without this every s.array[...] counts references, atomically
}


_config: Any = numba.config
_config.OPT = type(_config.OPT)(
    1
)  # with more, and with vectorizers, half as long again to compile, no faster
_config.LOOP_VECTORIZE = 0
_config.SLP_VECTORIZE = 0

_INNER = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Of functions that only compiled code calls: without entries from outside a quarter less compile time."""


def source_digest() -> str:
    """SHA-256 over every kernel and decision source, the numba version and the CPU (name and features)."""
    digest = hashlib.sha256()
    for pattern in _SOURCES:
        for path in sorted(_PACKAGE.glob(pattern)):
            digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(f"{numba.__version__} {llvm.get_host_cpu_name()}".encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    return digest.hexdigest()


def cache_directory() -> Path:
    """Where this version of the kernel is kept."""
    return cache_root() / "kernel" / source_digest()[:24]


def forget() -> None:
    """Drop this version's compiled kernel."""
    shutil.rmtree(cache_directory(), ignore_errors=True)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def is_compiled() -> bool:
    """Whether a compiled kernel of this version lies in the cache."""
    return any(cache_directory().rglob("*.nbc"))


def compile_inline(function: Callable[..., Any]) -> Any:
    """Compile a small function that is copied into its compiled callers."""
    return numba.njit(forceinline=True, **_INNER)(function)


def compile_plain(function: Callable[..., Any]) -> Any:
    """Compile a function that compiled code calls."""
    return numba.njit(**_INNER)(function)


def compile_cached(function: Callable[..., Any]) -> Any:
    """Compile an entry point whose machine code is kept on disk, or nowhere where that folder cannot be written.

    numba would fall back to a folder beside the sources, whose watch misses edits of other files.
    """
    if not _writable(cache_directory()):
        return numba.njit(**_OPTIONS)(function)
    previous = _config.CACHE_DIR
    _config.CACHE_DIR = str(cache_directory())
    try:
        return numba.njit(cache=True, **_OPTIONS)(function)
    finally:
        _config.CACHE_DIR = previous
