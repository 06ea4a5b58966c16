"""Vidur-style CSV: ``arrived_at,num_prefill_tokens,num_decode_tokens``, arrivals in seconds.

Further columns (``num_total_tokens``, ``pd_ratio``) are ignored; pd_ratio means prefill/decode in some
copies and decode/prefill in others.

Source: github.com/microsoft/vidur, data/processed_traces (MIT).
"""

from __future__ import annotations

from lumen_policy.trace.named_csv import NamedCsv

__all__ = ["FORMAT"]

FORMAT = NamedCsv(
    name="vidur",
    summary="Vidur CSV: arrived_at,num_prefill_tokens,num_decode_tokens",
    arrival="arrived_at",
    prompt="num_prefill_tokens",
    output="num_decode_tokens",
)
