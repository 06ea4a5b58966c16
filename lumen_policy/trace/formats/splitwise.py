"""CSV of the Splitwise simulator: ``request_id,…,arrival_timestamp,batch_size,prompt_size,token_size``,
seconds.

Source: github.com/Mutinifni/splitwise-sim (MIT); Patel et al., ISCA 2024.
"""

from __future__ import annotations

from lumen_policy.trace.named_csv import NamedCsv

__all__ = ["FORMAT"]

FORMAT = NamedCsv(
    name="splitwise",
    summary="Splitwise simulator CSV: arrival_timestamp,prompt_size,token_size",
    arrival="arrival_timestamp",
    prompt="prompt_size",
    output="token_size",
)
