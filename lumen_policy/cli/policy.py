"""``lumen-tune validate``: is this a policy file?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lumen_policy.cli.options import Json

__all__ = ["register"]

_INVALID = 2

File = Annotated[str, typer.Argument(metavar="FILE", help="A policy file.")]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("validate")(_validate)


def _validate(file: File, *, json: Json = False) -> int:
    """Check a policy file and report every problem with its place."""
    import sys

    from lumen_policy.errors import InputError
    from lumen_policy.policy_file.reader import parse_policy

    try:
        raw = Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    document, problems = parse_policy(raw)
    if json:
        from lumen_policy.cli.report import write_document
        from lumen_policy.document import SCHEMA_VERSION

        found = [{"path": problem.path, "message": problem.message} for problem in problems]
        write_document({"schema_version": SCHEMA_VERSION, "valid": document is not None, "problems": found})
    for problem in problems:
        print(f"lumen-tune: {file}: {problem}", file=sys.stderr)
    if document is not None and not json:
        spec = document.spec
        print(
            f"{file}: a valid policy for {document.metadata.model}: "
            f"α = {spec.placement.alpha_per_page} a page, β = {spec.placement.beta_per_request} a request, "
            f"θ = {spec.routing.theta_load}, τ = {spec.routing.tau_tokens} tokens, "
            f"k = {spec.assist.k_drafts_per_pass}"
        )
    return 0 if document is not None else _INVALID
