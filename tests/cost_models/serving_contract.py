"""What the costs of every worker must satisfy, whatever model and profile they come from."""

from __future__ import annotations

import numpy as np

from cost_models.serving_costs import IterationCosts, ServingCosts


def check_iteration(costs: IterationCosts) -> None:
    for table in (costs.token_ps, costs.lm_head_ps):
        assert table.dtype == np.int64
        assert (table >= 0).all()
        assert (np.diff(table) >= 0).all()
    assert costs.token_ps[1] > 0
    assert costs.lm_head_ps[0] == 0
    assert costs.lm_head_ps[1] > 0
    for coefficient in (costs.prefill_pair_ps, costs.decode_context_ps, costs.decode_sequence_ps):
        assert type(coefficient) is int
        assert coefficient >= 0
    assert costs.prefill_pair_ps > 0
    assert costs.decode_context_ps > 0


def check_serving(costs: ServingCosts, *, n_max: int, longest_tokens: int, max_batch: int) -> None:
    check_iteration(costs.target)
    assert costs.target.token_ps.shape == costs.target.lm_head_ps.shape == (n_max + 1,)
    if costs.draft is not None:
        check_iteration(costs.draft)
        assert len(costs.draft.token_ps) > longest_tokens
        assert len(costs.draft.lm_head_ps) > max_batch
        # The draft is there to be quicker than what it drafts for.
        assert costs.draft.duration_ps(1, 1, 0, 512, 1) < costs.target.duration_ps(1, 1, 0, 512, 1)
    pages = -(-longest_tokens // 16)
    assert costs.restore_ps.dtype == np.int64
    assert costs.restore_ps.shape == (pages + 1,)
    assert costs.restore_ps[0] == 0
    assert (np.diff(costs.restore_ps) > 0).all()
    assert costs.pool_pages >= pages
    assert costs.draft_pool_pages >= 0
    assert type(costs.draft_round_trip_ps) is int
    assert costs.draft_round_trip_ps >= 0
