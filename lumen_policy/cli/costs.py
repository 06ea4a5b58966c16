"""``lumen-tune costs``: what a worker's operations take."""

from __future__ import annotations

import typer

from lumen_policy.cli.options import Json, Quiet, with_settings
from lumen_policy.settings import Settings

__all__ = ["register"]

_UNUSED = ("workers", "max_batch", "kv_pages", "scheduler", "router", "seed")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("costs")(_costs)


@with_settings("cluster", trace=False, without=_UNUSED)
def _costs(settings: Settings, *, json: Json = False, quiet: Quiet = False) -> None:
    """Print prefill, decode, verify, restore and reload times of one worker, and what its memory holds."""
    import msgspec

    from cost_models.cost_tables import cost_tables
    from cost_models.hardware import load_hardware
    from cost_models.hf_config import load_model
    from lumen_policy.cli.report import write_document, write_notices
    from lumen_policy.cluster import NO_DRAFT
    from lumen_policy.document import SCHEMA_VERSION

    notices: list[str] = []
    model = load_model(settings.model, notices)
    draft = None if settings.draft == NO_DRAFT else load_model(settings.draft, notices)
    write_notices(notices, quiet=quiet)
    tables = cost_tables(
        model=model,
        draft=draft,
        hardware=load_hardware(settings.hardware),
        tensor_parallel=settings.tp,
        token_budget=settings.chunk_tokens,
    )
    document = {"schema_version": SCHEMA_VERSION, **msgspec.to_builtins(tables)}
    if json:
        write_document(document)
        return
    from lumen_policy.cli.render_costs import print_costs

    print_costs(document)
