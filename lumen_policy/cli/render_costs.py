"""The tables of ``lumen-tune costs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lumen_policy.cli.render import number, print_lines, print_table

__all__ = ["print_costs"]


def print_costs(document: Mapping[str, Any]) -> None:
    """Prefill, restore, decode, verify, reload, checkpoint transfers and memory of one worker."""
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
        ("tokens", "prefill s", "restore s", "from another worker s", "from a store s", "KV GB"),
        [
            (
                f"{row['tokens']:,}" + ("" if row["fits"] else " (does not fit)"),
                number(row["duration_s"]),
                *(number(restore[row["tokens"]][name], 4) for name in ("duration_s", "remote_s", "store_s")),
                number(restore[row["tokens"]]["kv_bytes"] / 1e9),
            )
            for row in document["prefill"]
        ],
    )
    _print_decode(document["decode"])
    if document["verify"]:
        _print_verify(document["verify"], document["draft"])
    _print_reload(document["reload_paths"])
    _print_transfers(document["transfers"], document["egress_bound"])


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


def _print_reload(rows: list[dict[str, Any]]) -> None:
    print_table(
        "reload after detection, s (* = after a crash of the process alone)",
        ("path", "parts", "in all", "draft ready after", "in all with the draft"),
        [
            (
                row["path"] + (" *" if row["needs_memory"] else ""),
                " + ".join(f"{name} {number(seconds, 2)}" for name, seconds, _ in row["parts"]),
                number(row["total_s"], 2),
                number(row["draft_ready_s"], 2),
                number(row["rejoin_with_draft_s"], 2),
            )
            for row in rows
        ],
    )


def _print_transfers(rows: list[dict[str, Any]], bound: str) -> None:
    print_table(
        f"checkpoint transfers on the links, ms ({bound.replace('_', ' ')} limits the server's)",
        ("tokens", "server's link", "holder's link", "store's link", "GB/s"),
        [
            (
                f"{row['tokens']:,}",
                *(number(row[name] * 1e3) for name in ("egress_s", "ingress_s", "store_s")),
                number(row["bytes_per_s"] / 1e9, 1),
            )
            for row in rows
        ],
    )
