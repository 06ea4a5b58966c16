"""What a command says: documents on stdout, everything else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["write_document", "write_notices"]


def write_document(document: Mapping[str, Any]) -> None:
    """One JSON document on stdout."""
    from lumen_policy.document import encode_document

    sys.stdout.write(encode_document(document).decode())
    sys.stdout.flush()


def write_notices(notices: Iterable[str], *, quiet: bool) -> None:
    """One line each on stderr."""
    if not quiet:
        for notice in notices:
            print(f"lumen-tune: {notice}", file=sys.stderr)
