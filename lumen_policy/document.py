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

    Raises:
        ReplayError: a number that is not finite, which JSON cannot hold.
    """
    plain = msgspec.to_builtins(document, builtin_types=(Decimal,), order="sorted")
    _refuse_non_finite(plain, "")
    encoder = msgspec.json.Encoder(order="sorted", decimal_format="number")
    return msgspec.json.format(encoder.encode(plain), indent=2) + b"\n"


def _refuse_non_finite(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            _refuse_non_finite(item, f"{where}.{name}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _refuse_non_finite(item, f"{where}[{number}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ReplayError(f"result{where}: {value} is not a finite number")
