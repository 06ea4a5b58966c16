"""Integer costs of one worker: what the replay kernel and its plain twin both read.

Every duration is int64 picoseconds, rounded once from exact rational arithmetic; an iteration is a sum of
table entries and integer products, so a replay is bit-identical on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["PAGE_TOKENS", "IterationCosts", "ServingCosts", "TransferCosts"]

PAGE_TOKENS = 16
"""Tokens of one KV page, everywhere in this project."""

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationCosts:
    """Duration of one iteration of one model on one worker, in integer picoseconds.

    duration = token_ps[n] + lm_head_ps[rows] + prefill_pair_ps·A + decode_context_ps·K
    + decode_sequence_ps·n_seq

    with n tokens in the iteration, rows sampled rows, A prefill attention pairs (a chunk of c tokens after s
    cached ones has c·s + c·(c+1)/2), K context tokens read by decoding (or verified) sequences and n_seq such
    sequences. Affine in K at fixed n, which the replay's leaps rely on.

    Attributes:
        token_ps: shape (n_max + 1,); engine overhead + linear layers + communication of n tokens.
        lm_head_ps: shape (rows_max + 1,); the LM head over sampled rows; entry 0 is 0.
        prefill_pair_ps: per prefill attention pair.
        decode_context_ps: per context token read in decode attention.
        decode_sequence_ps: per decoding sequence.
    """

    token_ps: IntArray
    lm_head_ps: IntArray
    prefill_pair_ps: int
    decode_context_ps: int
    decode_sequence_ps: int

    def duration_ps(self, tokens: int, rows: int, pairs: int, context_tokens: int, sequences: int) -> int:
        """One iteration, integer picoseconds (formula in the class docstring)."""
        return (
            int(self.token_ps[tokens])
            + int(self.lm_head_ps[rows])
            + self.prefill_pair_ps * pairs
            + self.decode_context_ps * context_tokens
            + self.decode_sequence_ps * sequences
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCosts:
    """What checkpoint traffic costs beside the iterations, in integer picoseconds.

    A transfer of n tokens occupies its server's egress link for egress_latency_ps + n·egress_token_ps and then the
    holder's ingress link for n·ingress_token_ps; the store's for store_latency_ps + n·store_token_ps. All zero: links
    are free, a transfer arrives at the instant it is made.

    Attributes:
        remote_restore_ps: shape (pages_max + 1,); whole pages from another worker's host memory over both NICs and
            the host links; entry 0 is 0. Empty: no remote restores.
        store_restore_ps: the same out of the store. Empty: no store.
    """

    egress_latency_ps: int = 0
    egress_token_ps: int = 0
    ingress_token_ps: int = 0
    store_latency_ps: int = 0
    store_token_ps: int = 0
    remote_restore_ps: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    store_restore_ps: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCosts:
    """Everything about one worker (a TP group) that costs time or room.

    Attributes:
        target: the served model.
        draft: the draft model, None when there is none.
        verify_context_ppm: c_v · 10⁶; a verify pass reads floor(K · c_v) context tokens.
        draft_round_trip_ps: network round trip of token ids between drafter and target, per drafted pass.
        restore_ps: shape (pages_max + 1,); restoring p whole pages over the host links; entry 0 is 0.
        pool_pages: KV pages of the worker for the served model.
        draft_pool_pages: KV pages (of the draft's own KV) free beside both weights while it reloads.
        page_bytes: bytes of one KV page of the served model, one copy over the whole worker.
        transfers: of checkpoint traffic.
    """

    target: IterationCosts
    draft: IterationCosts | None
    verify_context_ppm: int
    draft_round_trip_ps: int
    restore_ps: IntArray
    pool_pages: int
    draft_pool_pages: int
    page_bytes: int
    transfers: TransferCosts = field(default_factory=TransferCosts)
