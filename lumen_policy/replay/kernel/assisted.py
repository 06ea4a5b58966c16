"""A worker helped by a drafter: stepped pass by pass, never leapt."""

from __future__ import annotations

from typing import Any

from lumen_policy.replay.draws import ACCEPTANCE
from lumen_policy.replay.kernel import decisions
from lumen_policy.replay.kernel.admission import plan_decodes, take_pages
from lumen_policy.replay.kernel.checkpoints import follow
from lumen_policy.replay.kernel.rows import grow_copies, join_row
from lumen_policy.replay.kernel.state import (
    COMPLETIONS,
    IDLE,
    KV_TOKENS,
    NOWHERE,
    ORDERING,
    OWN,
    SITTING_OUT,
    VERIFIED,
)
from lumen_policy.replay.kernel.stretch import chunk_and_run, deliver_odd, push_gap
from lumen_policy.replay.kernel.structures import heapify, sort_keys

__all__ = ["begin_assisted", "end_by_number", "finish_pass"]

_MILLION = 1_000_000


def _count_by_number(s: Any, i: int) -> None:
    """A pass adds a different number of tokens to each copy: record each by its own number."""
    w = s.workers[i]
    w.by_number = 1
    for j in range(w.decoding):
        grow_copies(s, s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF)


def end_by_number(s: Any, i: int) -> None:
    """The assist is over: copies that have caught up grow by count again."""
    w = s.workers[i]
    w.by_number = 0
    j = 0
    while j < w.own:
        c = s.own[i, j] & 0xFFFFFFFF
        if s.slots[c].place == NOWHERE:
            join_row(s, c)
        if s.slots[c].growth == OWN:
            j += 1


def _keep_draft_kv(s: Any, i: int, count: int, t: int) -> None:
    """Draft KV of the sequences in admission order: drop what overflows, queue what fits on the drafter."""
    g = s.g[0]
    w = s.workers[i]
    drafter = s.workers[w.drafter]
    total = 0
    for j in range(count):
        r = s.scratch[ORDERING, j] & 0xFFFFFFFF
        q = s.requests[r]
        past = s.recovery[r]
        if past.episode != w.episode:
            past.episode = w.episode
            past.passes = 0
            q.draft_kv = 0
        if q.draft_kv != 0:
            pages = (q.offset + w.steps + 15) >> 4
            if total + pages > g.draft_pool_pages:
                q.draft_kv = 0
            else:
                total += pages
    for j in range(count):
        q = s.requests[s.scratch[ORDERING, j] & 0xFFFFFFFF]
        if q.draft_kv == 0:
            n = q.offset + w.steps
            pages = (n + 15) >> 4
            if total + pages <= g.draft_pool_pages:
                total += pages
                q.draft_kv = 1
                cost = s.tables[g.at_draft_token + n] + g.draft_pair_ps * ((n * (n + 1)) >> 1)
                drafter.draft_until = max(drafter.draft_until, t) + cost
                g.draft_busy_ps += cost


def begin_assisted(s: Any, i: int, t: int) -> None:
    """Plan and start the next pass of a worker with a drafter and decoding requests."""
    g = s.g[0]
    w = s.workers[i]
    if w.by_number == 0 and g.placement != 0:
        _count_by_number(s, i)
    count = w.decoding
    for j in range(count):
        r = s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF
        s.scratch[ORDERING, j] = (s.requests[r].order << 32) | r
    sort_keys(s.scratch[ORDERING], 0, count)
    _keep_draft_kv(s, i, count, t)

    drafts = 0
    halves = False
    verified = 0
    if s.workers[w.drafter].draft_until <= t:
        for j in range(count):
            q = s.requests[s.scratch[ORDERING, j] & 0xFFFFFFFF]
            q.verify = VERIFIED if q.draft_kv != 0 else 0
            verified += q.verify
        if verified > 0:
            if g.ping_pong != 0:
                halves = _take_turns(s, i, count)
                verified = 0
                for j in range(count):
                    if s.requests[s.scratch[ORDERING, j] & 0xFFFFFFFF].verify == VERIFIED:
                        verified += 1
            drafts = _planned_drafts(s, i, count, verified)
    if drafts > 0:
        take_pages(s, i, drafts, t)
    else:
        for j in range(count):
            s.requests[s.scratch[ORDERING, j] & 0xFFFFFFFF].verify = 0
        plan_decodes(s, i, t)
    verified = 0
    verified_context = 0
    resting = 0
    resting_context = 0
    for j in range(w.decoding):
        q = s.requests[s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF]
        if q.verify == VERIFIED:
            verified += 1
            verified_context += q.offset + w.steps
        elif q.verify == SITTING_OUT:
            resting += 1
            resting_context += q.offset + w.steps
    if drafts > 0 and verified == 0:
        drafts = 0
        if resting > 0:
            for j in range(w.decoding):
                s.requests[s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF].verify = 0
            resting = 0
            resting_context = 0
            take_pages(s, i, 0, t)
    decodes = w.decoding - resting
    rows = decodes
    context = w.context - resting_context
    extra_ps = 0
    floor_ps = 0
    primed = w.primed
    w.primed = 0
    if drafts > 0:
        rows += verified * drafts
        context += g.verify_ppm * verified_context // _MILLION - verified_context
        w.pass_k = drafts
        draft_ps = _draft_ps(s, drafts, verified, verified_context)
        if halves:
            ahead_ps = _draft_ps(s, drafts, resting, resting_context) if resting > 0 else 0
            w.pass_draft_ps = ahead_ps
            floor_ps = ahead_ps + g.round_trip_ps if resting > 0 else 0
            if primed == 0:
                w.pass_draft_ps += draft_ps
                extra_ps = draft_ps + g.round_trip_ps
            w.turn = 1 - w.turn
            w.primed = 1
            w.pass_halves = 1
        else:
            w.pass_draft_ps = draft_ps
            extra_ps = draft_ps + g.round_trip_ps
    elif decodes > 0:
        w.plain_assisted = 1
    chunk_and_run(s, i, t, decodes, rows, context, extra_ps, floor_ps)
    if w.mode == IDLE:
        w.vetoed = 0
        w.primed = primed


def _take_turns(s: Any, i: int, count: int) -> bool:
    """Let the half of worker i whose turn it is not sit out; False if one half is empty and nobody does."""
    w = s.workers[i]
    resting = 0
    verified = 0
    for j in range(count):
        r = s.scratch[ORDERING, j] & 0xFFFFFFFF
        if s.requests[r].verify == VERIFIED:
            verified += 1
            if (r & 1) != w.turn:
                resting += 1
    if resting == 0 or resting == verified:
        return False
    for j in range(count):
        r = s.scratch[ORDERING, j] & 0xFFFFFFFF
        if s.requests[r].verify == VERIFIED and (r & 1) != w.turn:
            s.requests[r].verify = SITTING_OUT
    return True


def _planned_drafts(s: Any, i: int, count: int, verified: int) -> int:
    """Drafts of worker i's next pass, 0 if there is no room for one or the guard says no."""
    g = s.g[0]
    w = s.workers[i]
    verified_context = 0
    resting = 0
    resting_context = 0
    for j in range(count):
        q = s.requests[s.scratch[ORDERING, j] & 0xFFFFFFFF]
        if q.verify == VERIFIED:
            verified_context += q.offset + w.steps
        elif q.verify == SITTING_OUT:
            resting += 1
            resting_context += q.offset + w.steps
    plain = count - verified - resting
    reserved = g.min_prefill if w.prefilling > 0 else 0
    drafts = decisions.drafts_per_pass(g.k, plain, verified, g.token_budget, reserved)
    if drafts < 0 or drafts > g.k or (drafts > 0 and plain + verified * (drafts + 1) > g.token_budget):
        g.wrong_choice = decisions.DRAFTS
        drafts = 0
    if drafts < 1 or g.guard == 0:
        return drafts
    expected = float(plain)
    for j in range(count):
        r = s.scratch[ORDERING, j] & 0xFFFFFFFF
        if s.requests[r].verify == VERIFIED:
            expected += s.expected[min(s.recovery[r].passes, len(s.expected) - 1), drafts]
    rows = plain + verified * (drafts + 1)
    context = w.context - resting_context - verified_context + g.verify_ppm * verified_context // _MILLION
    pass_ps = (
        s.tables[g.at_token + rows]
        + s.tables[g.at_lm_head + rows]
        + g.context_ps * context
        + g.sequence_ps * (count - resting)
    )
    if resting > 0:
        pass_ps = max(pass_ps, _draft_ps(s, drafts, resting, resting_context) + g.round_trip_ps)
    if resting == 0 or w.primed == 0:
        pass_ps += _draft_ps(s, drafts, verified, verified_context) + g.round_trip_ps
    plain_ps = (
        s.tables[g.at_token + count]
        + s.tables[g.at_lm_head + count]
        + g.context_ps * w.context
        + g.sequence_ps * count
    )
    if decisions.worth_drafting(expected, pass_ps, count, plain_ps):
        return drafts
    w.vetoed = 1
    return 0


def _draft_ps(s: Any, drafts: int, sequences: int, context: int) -> int:
    """``drafts`` decode steps of the draft model over ``sequences`` with ``context`` tokens at the first."""
    g = s.g[0]
    step = (
        s.tables[g.at_draft_token + sequences]
        + s.tables[g.at_draft_lm_head + sequences]
        + g.draft_sequence_ps * sequences
    )
    return drafts * step + g.draft_context_ps * (
        drafts * context + sequences * ((drafts * (drafts - 1)) >> 1)
    )


def _accept(s: Any, r: int, delivered: int, drafts: int) -> int:
    """Tokens that a verified request delivers: accepted drafts and one more, cut at its length."""
    g = s.g[0]
    q = s.requests[r]
    accepted = 0
    row = min(s.recovery[r].passes, len(s.threshold) - 1)
    positions = s.threshold.shape[1]
    while (
        accepted < drafts
        and decisions.draw(g.seed, ACCEPTANCE, r, delivered + accepted)
        < s.threshold[row, min(accepted, positions - 1)]
    ):
        accepted += 1
    tokens = min(accepted + 1, q.output - delivered)
    s.recovery[r].passes += 1
    g.drafted_tokens += drafts
    g.accepted_tokens += accepted
    g.verified_sequences += 1
    g.verified_tokens += tokens
    return tokens


def finish_pass(s: Any, i: int, t: int) -> None:
    """Book a drafted pass: verified sequences deliver their accepted drafts and one token more."""
    g = s.g[0]
    w = s.workers[i]
    if g.tracking != 0:
        follow(s, t - 1)
    g.iterations += 1
    g.assisted_passes += 1
    g.assisted_ps += w.run_first
    g.draft_busy_ps += w.pass_draft_ps
    g.ping_pong_passes += w.pass_halves
    w.pass_halves = 0
    stall = w.run_start - w.last_decode_end if g.prefill_first != 0 else 0
    plain = 0
    for j in range(w.decoding):
        key = s.batches[COMPLETIONS, i, j]
        r = key & 0xFFFFFFFF
        q = s.requests[r]
        delivered = q.offset + w.steps - q.prompt
        tokens = 1
        if q.verify == SITTING_OUT:
            tokens = 0
            if g.placement != 0:
                q.rested = 1
            if q.odd == 0:
                q.odd = 1
                w.odd += 1
                q.last = max(q.last, w.last_decode_end)
        elif q.verify == VERIFIED:
            tokens = _accept(s, r, delivered, w.pass_k)
        q.verify = 0
        if tokens > 0:
            g.decode_tokens += tokens
            if q.odd != 0:
                deliver_odd(s, i, q, delivered + tokens, tokens, t)
            else:
                plain += 1
        w.context += tokens
        if tokens != 1:
            w.page_phase[(1 - q.offset) & 15] -= 1
            q.offset += tokens - 1
            w.page_phase[(1 - q.offset) & 15] += 1
            s.batches[COMPLETIONS, i, j] = key - ((tokens - 1) << 32)
            s.by_worker[KV_TOKENS, i] += max(0, tokens - 1)
    if plain > 0:
        push_gap(s, t, w.run_first + stall, 0, 1, plain)
    w.steps += 1
    w.last_decode_end = t
    heapify(s.batches[COMPLETIONS, i], w.decoding)
