"""Repeating a tuning run from its result and saying whether the bytes agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumen_policy.document import SCHEMA_VERSION
from lumen_policy.errors import InputError
from lumen_policy.settings import Settings, settings_from
from lumen_policy.tune.output import POLICY, RESULT, TRIALS

__all__ = ["EarlierRun", "differences", "read_result"]

_COST = "cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A result file and what it takes to repeat it.

    Attributes:
        path: of the file.
        document: its content.
        settings: the set-up it states.
        random_search: whether it had one.
        argv: its command line.
    """

    path: Path
    document: dict[str, Any]
    settings: Settings
    random_search: bool
    argv: list[str]

    def check_trace(self, digest: str) -> None:
        """Refuses to repeat it on a trace whose requests changed."""
        earlier = self.document["manifest"]["digests"]["trace"]
        if digest != earlier:
            raise InputError(
                f"{self.path}: the trace {self.settings.trace!r} is not the one of this result "
                f"(digest {digest[:12]}…, then {earlier[:12]}…)"
            )


def read_result(path: Path) -> EarlierRun:
    """A result that can be repeated.

    Raises:
        InputError: unreadable, not a tuning result of this version, or of an interrupted run.
    """
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("kind") != "tune":
        raise InputError(f"{path}: not a result of lumen-tune tune")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(f"{path}: schema_version {version!r}, this program reads {SCHEMA_VERSION}")
    if document.get("interrupted"):
        raise InputError(f"{path}: an interrupted run cannot be repeated to the same end; tune again")
    try:
        stated = document["manifest"]["settings"]
        return EarlierRun(
            path=path,
            document=document,
            settings=settings_from(stated),
            random_search=document["search"]["random_search"],
            argv=list(document["manifest"]["argv"]),
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: not a whole result, {error} is missing") from None


def differences(earlier: EarlierRun, files: dict[str, bytes | None]) -> list[str]:
    """Where a repetition differs from the earlier run, `cost` left out; empty where all bytes agree.

    Args:
        earlier: the run repeated; the policy and trials beside its result are compared where they exist.
        files: of the repetition.
    """
    result = files[RESULT]
    assert result is not None
    old = {key: value for key, value in earlier.document.items() if key != _COST}
    new = {key: value for key, value in json.loads(result).items() if key != _COST}
    found = list(_paths(RESULT, old, new))
    for name in (TRIALS, POLICY):
        beside = earlier.path.parent / name
        if beside.is_file() and beside.read_bytes() != files[name]:
            found.append(name)
    return found


def _paths(path: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _paths(f"{path}.{key}", old.get(key), new.get(key))
    elif json.dumps(old) != json.dumps(new):
        yield path
