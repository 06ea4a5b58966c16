"""Azure LLM inference traces 2023 and 2024: wall-clock CSV.

``TIMESTAMP,ContextTokens,GeneratedTokens``; TIMESTAMP is ``YYYY-MM-DD HH:MM:SS.fffffff`` (2023: 7 fraction
digits, no zone, CRLF, no end of the last line; 2024: up to 6 digits and a zone). Further columns are ignored.

Source: github.com/Azure/AzurePublicDataset (CC-BY 4.0).
"""

from __future__ import annotations

from lumen_policy.trace.named_csv import NamedCsv

__all__ = ["FORMAT"]

FORMAT = NamedCsv(
    name="azure",
    summary="Azure/Splitwise CSV: TIMESTAMP,ContextTokens,GeneratedTokens",
    arrival="TIMESTAMP",
    prompt="ContextTokens",
    output="GeneratedTokens",
)
