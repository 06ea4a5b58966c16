"""The tables of ``lumen-tune costs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lumen_policy.cli.render import number, print_lines, print_table

__all__ = ["print_costs"]


def print_costs(document: Mapping[str, Any]) -> None:
    """Prefill, restore, decode, verify, reload and memory of one worker."""
    capacity = document["capacity"]
    print_lines(
        f"{document['model']} on {document['hardware']}, TP {document['tensor_parallel']}: "
        f"{capacity['weight_bytes'] / 1e9:.1f} GB weights of {capacity['memory_bytes'] / 1e9:.0f} GB, "
        f"{capacity['kv_bytes_per_token']:,} bytes of KV a token, "
        f"room for {capacity['pool_tokens']:,} tokens ({capacity['pool_pages']:,} pages)",
        "",
    )
    restore = {row["tokens"]: row for row in document["restore"]}
    print_table(
        f"prompts (chunks of {document['token_budget']:,} tokens) and restores",
        ("tokens", "prefill s", "restore s", "KV GB"),
        [
            (
                f"{row['tokens']:,}" + ("" if row["fits"] else " (does not fit)"),
                number(row["duration_s"]),
                number(restore[row["tokens"]]["duration_s"], 4),
                number(restore[row["tokens"]]["kv_bytes"] / 1e9),
            )
            for row in document["prefill"]
        ],
    )
    _print_decode(document["decode"])
    if document["verify"]:
        _print_verify(document["verify"], document["draft"])
    _print_reload(document["reload"], document["draft"])


def _print_decode(rows: list[dict[str, Any]]) -> None:
    contexts = sorted({row["context_tokens"] for row in rows})
    cells = {(row["batch"], row["context_tokens"]): row for row in rows}
    batches = sorted({row["batch"] for row in rows})

    def cell(row: Mapping[str, Any]) -> str:
        return number(row["duration_s"] * 1e3, 2) + ("" if row["fits"] else " *")

    print_table(
        "decode iteration, ms (* = does not fit)",
        ("batch", *(f"context {context:,}" for context in contexts)),
        [(str(batch), *(cell(cells[batch, context]) for context in contexts)) for batch in batches],
    )


def _print_verify(rows: list[dict[str, Any]], draft: str) -> None:
    print_table(
        f"drafted pass with {draft}, context {rows[0]['context_tokens']:,}",
        ("k, batch", "verify ms", "draft ms", "plain decode ms", "break-even tokens"),
        [
            (
                f"{row['k']}, {row['batch']}",
                number(row["verify_s"] * 1e3, 2),
                number(row["draft_s"] * 1e3, 2),
                number(row["plain_s"] * 1e3, 2),
                number(row["break_even_tokens"], 2),
            )
            for row in rows
        ],
    )


def _print_reload(reload: Mapping[str, Any], draft: str | None) -> None:
    rows = [
        ("process restart", reload["process_restart_s"]),
        ("weights from storage", reload["storage_read_s"]),
        ("weights to the GPUs", reload["host_to_device_s"]),
        ("engine init", reload["engine_init_s"]),
        ("in all", reload["total_s"]),
    ]
    if draft is not None:
        rows += [
            (f"{draft} load", reload["draft_load_s"]),
            (f"{draft} init", reload["draft_init_s"]),
            ("draft ready after", reload["draft_ready_s"]),
            ("in all with the draft first", reload["rejoin_with_draft_s"]),
        ]
    print_table(
        "reload after detection", ("part", "seconds"), [(name, number(value, 2)) for name, value in rows]
    )
