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
    if not verified:
        return 0
    sequences = len(verified)
    context = sum(request.context for request in verified)
    return sum(
        inputs.costs.draft.duration_ps(sequences, sequences, 0, context + step * sequences, sequences)
        for step in range(drafts)
    )


def pass_times(inputs: ReplayInput, iteration: Iteration, verify_ps: int, *, primed: bool) -> tuple[int, int]:
    """The drafter's part and the duration of a drafted pass."""
    round_trip = inputs.costs.draft_round_trip_ps
    draft_ps = draft_duration_ps(inputs, iteration.verified, iteration.drafts)
    if iteration.ahead is None:
        return draft_ps, verify_ps + draft_ps + round_trip
    ahead_draft_ps = draft_duration_ps(inputs, iteration.ahead, iteration.drafts)
    together = max(verify_ps, ahead_draft_ps + round_trip if iteration.ahead else 0)
    if primed:
        return ahead_draft_ps, together
    return draft_ps + ahead_draft_ps, draft_ps + round_trip + together


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
        self.turn = 0  # ping-pong: the parity of the half that is verified next
        self.primed = False  # its drafts were made during the pass before

    def forget(self, request: Request) -> None:
        """The request left the target's batch."""
        if request in self.draft_kv:
            self.draft_kv.remove(request)

    def _pass_row(self, request: Request) -> int:
        return min(self.passes[request], len(self.inputs.expected_tokens) - 1)

    def accept(self, request: Request, drafts: int) -> int:
        """Accepted drafts of the pass that ends now, before its tokens are delivered."""
        thresholds = self.inputs.acceptance_threshold
        rows, columns = thresholds.shape
        row = min(self.passes[request], rows - 1)
        self.passes[request] += 1
        for j in range(drafts):
            threshold = int(thresholds[row, min(j, columns - 1)])
            if draw(self.inputs.seed, ACCEPTANCE, request.index, request.delivered + j) >= threshold:
                return j
        return drafts

    def started(self, iteration: Iteration) -> None:
        """The target starts an iteration: a ping-pong pass changes the turn and primes the next."""
        self.primed = iteration.ahead is not None
        if self.primed:
            self.turn = 1 - self.turn

    def plan(self, iteration: Iteration, now: int) -> None:
        """Queue draft prefills, then split the iteration's decodes into plain and verified ones."""
        iteration.assist = self
        self._queue_prefills(iteration.plain, now)
        if self.busy_until_ps > now:
            return
        verified = [request for request in iteration.plain if request in self.draft_kv]
        plain = [request for request in iteration.plain if request not in self.draft_kv]
        ahead = None
        if self.inputs.rules.ping_pong:
            halves = [[request for request in verified if request.index % 2 == half] for half in (0, 1)]
            if halves[0] and halves[1]:
                verified, ahead = halves[self.turn], halves[1 - self.turn]
        if not verified:
            return
        reserved = self.inputs.min_prefill_tokens if self.target.admitted(Stage.PREFILL) else 0
        drafts = drafts_per_pass(
            self.inputs.policy.k, len(plain), len(verified), self.inputs.token_budget, reserved
        )
        if drafts < 1:
            return
        drafted = Iteration(plain=plain, verified=verified, drafts=drafts, ahead=ahead)
        if self.inputs.policy.guard and not self._worth_it(iteration.plain, drafted):
            iteration.vetoed = True
            return
        iteration.plain, iteration.verified, iteration.drafts = plain, verified, drafts
        iteration.ahead = ahead

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

    def _worth_it(self, decoding: list[Request], drafted: Iteration) -> bool:
        inputs = self.inputs
        target = inputs.costs.target
        expected = float(len(drafted.plain))
        for request in drafted.verified:
            expected += float(inputs.expected_tokens[self._pass_row(request), drafted.drafts])
        rows = drafted.decode_rows
        context = drafted.context_tokens(inputs.costs.verify_context_ppm)
        verify_ps = target.duration_ps(rows, rows, 0, context, drafted.sequences)
        primed = self.primed and drafted.ahead is not None
        _, pass_ps = pass_times(inputs, drafted, verify_ps, primed=primed)
        sequences = len(decoding)
        context = sum(request.context for request in decoding)
        plain_ps = target.duration_ps(sequences, sequences, 0, context, sequences)
        return worth_drafting(expected, pass_ps, sequences, plain_ps)
