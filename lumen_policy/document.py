"""JSON documents on stdout and in files: sorted keys, finite numbers only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from lumen_policy.errors import ReplayError

__all__ = ["SCHEMA_VERSION", "encode_document"]

SCHEMA_VERSION = 1
"""Version of every document the command line prints."""


def encode_document(document: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys, two spaces of indent and one final newline; decimals as numbers.

    Bytes of file names that are not UTF-8 are written as ``\\xff``.

    Raises:
        ReplayError: a number that is not finite, which JSON cannot hold.
    """
    plain = msgspec.to_builtins(document, builtin_types=(Decimal,), order="sorted")
    plain = _checked(plain, "")
    encoder = msgspec.json.Encoder(order="sorted", decimal_format="number")
    return msgspec.json.format(encoder.encode(plain), indent=2) + b"\n"


def _checked(value: Any, where: str) -> Any:
    """The value with texts that UTF-8 can hold; no number that is not finite."""
    if isinstance(value, dict):
        return {name: _checked(item, f"{where}.{name}") for name, item in value.items()}
    if isinstance(value, list):
        return [_checked(item, f"{where}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        raise ReplayError(f"result{where}: {value} is not a finite number")
    return value
