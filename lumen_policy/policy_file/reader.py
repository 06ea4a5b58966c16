"""Reading a policy file: every problem with its path, then the document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec

from lumen_policy.errors import InputError
from lumen_policy.policy_file.document import API_VERSION, PolicyDocument, recovery_policy

__all__ = ["Problem", "parse_policy", "problems_of", "read_policy"]

_VERSION = re.compile(r"lumen-tune/v([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a document.

    Attributes:
        path: where, e.g. ``$.spec.routing.theta_load``.
        message: what was found and what is allowed.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def read_policy(path: Path) -> PolicyDocument:
    """The document of a file.

    Raises:
        InputError: one line naming the file, the first problem and how many more there are.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    document, problems = parse_policy(raw)
    if document is None:
        more = f" (and {len(problems) - 1} more: lumen-tune validate {path})" if len(problems) > 1 else ""
        raise InputError(f"{path}: {problems[0]}{more}")
    return document


def parse_policy(raw: bytes) -> tuple[PolicyDocument | None, list[Problem]]:
    """The document of a file's bytes, or None with every problem found."""
    try:
        data = json.loads(raw.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        return None, [Problem(path="$", message=f"not JSON: {error}")]
    except ValueError as error:
        return None, [Problem(path="$", message=str(error))]
    data = _integers(data)
    problems = problems_of(data)
    if problems:
        return None, problems
    document = msgspec.convert(data, PolicyDocument)
    try:
        recovery_policy(document)
    except InputError as error:
        return None, [Problem(path="$.spec", message=str(error))]
    return document, []


def problems_of(data: Any) -> list[Problem]:
    """What a decoded JSON value lacks to be a policy document; empty where it is one.

    A document of another version gets that one problem only.
    """
    if isinstance(data, Mapping) and (problem := _version_problem(data)):
        return [problem]
    problems: list[Problem] = []
    _walk("$", data, PolicyDocument, problems)
    return problems


def _version_problem(data: Mapping[str, Any]) -> Problem | None:
    version = data.get("apiVersion")
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match is None or version == API_VERSION:
        return None
    newer = int(match[1]) > int(API_VERSION.rsplit("v", 1)[1])
    advice = "it is newer: update lumen-policy" if newer else "it is no published version"
    return Problem(path="$.apiVersion", message=f"{version!r} is not {API_VERSION!r}; {advice}")


def _walk(path: str, value: Any, kind: Any, problems: list[Problem]) -> None:
    """Collect the problems of a value against a type, field by field."""
    struct = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if _is_struct(struct):
        _walk_struct(path, value, struct, problems)
        return
    if (item := _struct_item(kind)) is not None and isinstance(value, list):
        for index, entry in enumerate(value):
            _walk(f"{path}[{index}]", entry, item, problems)
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, inner = str(error).partition(" - at `$")
        problems.append(Problem(path=path + inner.rstrip("`"), message=f"{message}, got {_short(value)}"))


def _walk_struct(path: str, value: Any, struct: Any, problems: list[Problem]) -> None:
    if not isinstance(value, Mapping):
        problems.append(Problem(path=path, message=f"Expected an object, got {_short(value)}"))
        return
    before = len(problems)
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for name, field in fields.items():
        if name not in value:
            problems.append(Problem(path=f"{path}.{name}", message="missing"))
        else:
            _walk(f"{path}.{name}", value[name], field.type, problems)
    for name in value:
        if name not in fields:
            problems.append(Problem(path=f"{path}.{name}", message="unknown key"))
    if len(problems) == before:
        try:
            msgspec.convert(value, struct)
        except msgspec.ValidationError as error:
            problems.append(Problem(path=path, message=str(error).partition(" - at `")[0]))


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _struct_item(kind: Any) -> Any:
    """The item type of a list of structs, else None."""
    if get_origin(kind) is list and _is_struct(get_args(kind)[0]):
        return get_args(kind)[0]
    return None


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _integers(value: Any) -> Any:
    """JSON has one kind of number: 1.0 is the integer 1, as in JSON Schema."""
    if isinstance(value, dict):
        return {key: _integers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_integers(entry) for entry in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} stands twice in one object")
    return dict(pairs)
