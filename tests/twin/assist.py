"""A reloading worker that drafts for a survivor."""

from __future__ import annotations

from collections import Counter

from lumen_policy.decide.assist import drafts_per_pass, worth_drafting
from lumen_policy.replay.contract import ReplayInput
from lumen_policy.replay.draws import ACCEPTANCE, draw

from .request import Request, Stage, pages_of
from .worker import Iteration, Worker

__all__ = ["Assist", "draft_duration_ps"]


def draft_duration_ps(inputs: ReplayInput, verified: list[Request], drafts: int) -> int:
    """`drafts` decode steps of the draft model over the verified sequences."""
    assert inputs.costs.draft is not None
    sequences = len(verified)
    context = sum(request.context for request in verified)
    return sum(
        inputs.costs.draft.duration_ps(sequences, sequences, 0, context + step * sequences, sequences)
        for step in range(drafts)
    )


class Assist:
    """One drafter, one target, from draft ready to the end of the help."""

    def __init__(
        self, inputs: ReplayInput, drafter: Worker, target: Worker, now: int, counters: Counter[str]
    ) -> None:
        self.inputs = inputs
        self.drafter = drafter
        self.target = target
        self.counters = counters
        self.busy_until_ps = now
        self.draft_kv: list[Request] = []
        self.passes: Counter[Request] = Counter()  # s: drafted passes of a request under this help

    def forget(self, request: Request) -> None:
        """The request left the target's batch."""
        if request in self.draft_kv:
            self.draft_kv.remove(request)

    def _acceptance_row(self, request: Request) -> int:
        return min(self.passes[request], len(self.inputs.acceptance_threshold) - 1)

    def accept(self, request: Request, drafts: int) -> int:
        """Accepted drafts of the pass that ends now, before its tokens are delivered."""
        threshold = int(self.inputs.acceptance_threshold[self._acceptance_row(request)])
        self.passes[request] += 1
        for j in range(drafts):
            if draw(self.inputs.seed, ACCEPTANCE, request.index, request.delivered + j) >= threshold:
                return j
        return drafts

    def plan(self, iteration: Iteration, now: int) -> None:
        """Queue draft prefills, then split the iteration's decodes into plain and verified ones."""
        iteration.assist = self
        self._queue_prefills(iteration.plain, now)
        if self.busy_until_ps > now:
            return
        verified = [request for request in iteration.plain if request in self.draft_kv]
        plain = [request for request in iteration.plain if request not in self.draft_kv]
        if not verified:
            return
        reserved = self.inputs.min_prefill_tokens if self.target.admitted(Stage.PREFILL) else 0
        drafts = drafts_per_pass(
            self.inputs.policy.k, len(plain), len(verified), self.inputs.token_budget, reserved
        )
        if drafts < 1:
            return
        if self.inputs.policy.guard and not self._worth_it(plain, verified, drafts):
            iteration.vetoed = True
            return
        iteration.plain, iteration.verified, iteration.drafts = plain, verified, drafts

    def _queue_prefills(self, decoding: list[Request], now: int) -> None:
        assert all(request in decoding for request in self.draft_kv)
        room = self.inputs.costs.draft_pool_pages
        used = 0
        for request in decoding:
            if request in self.draft_kv:
                if used + pages_of(request.context) <= room:
                    used += pages_of(request.context)
                else:
                    self.draft_kv.remove(request)
        for request in decoding:
            if request not in self.draft_kv and used + pages_of(request.context) <= room:
                used += pages_of(request.context)
                self.draft_kv.append(request)
                self._prefill(request.context, now)
        assert used == sum(pages_of(request.context) for request in self.draft_kv) <= room

    def _prefill(self, tokens: int, now: int) -> None:
        assert self.inputs.costs.draft is not None
        duration = self.inputs.costs.draft.duration_ps(tokens, 0, tokens * (tokens + 1) // 2, 0, 0)
        self.busy_until_ps = max(self.busy_until_ps, now) + duration
        self.counters["draft_busy_ps"] += duration

    def _worth_it(self, plain: list[Request], verified: list[Request], drafts: int) -> bool:
        inputs = self.inputs
        target = inputs.costs.target
        expected = float(len(plain))
        for request in verified:
            expected += float(inputs.expected_tokens[self._acceptance_row(request), drafts])
        drafted = Iteration(plain=plain, verified=verified, drafts=drafts)
        sequences = drafted.sequences
        pass_ps = (
            target.duration_ps(
                drafted.decode_rows,
                drafted.decode_rows,
                0,
                drafted.context_tokens(inputs.costs.verify_context_ppm),
                sequences,
            )
            + draft_duration_ps(inputs, verified, drafts)
            + inputs.costs.draft_round_trip_ps
        )
        context = sum(request.context for request in plain + verified)
        plain_ps = target.duration_ps(sequences, sequences, 0, context, sequences)
        return worth_drafting(expected, pass_ps, sequences, plain_ps)
