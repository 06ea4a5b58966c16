"""The JSON Schema (2020-12) of a policy file: shipped with the package, derived from the document's types."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import msgspec

from lumen_policy.policy_file.document import API_VERSION, PolicyDocument

__all__ = ["SCHEMA_FILE", "derived_schema", "schema", "schema_text"]

SCHEMA_FILE = "recovery_policy.schema.json"


def schema() -> dict[str, Any]:
    """The published schema."""
    text = files("lumen_policy.policy_file").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def derived_schema() -> dict[str, Any]:
    """The schema as the document's types state it; a test holds the published one to it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:lumen-policy:{API_VERSION}:RecoveryPolicy",
        "title": "LUMEN recovery policy",
    } | msgspec.json.schema(PolicyDocument)


def schema_text() -> str:
    """The text of the published file."""
    return json.dumps(derived_schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
