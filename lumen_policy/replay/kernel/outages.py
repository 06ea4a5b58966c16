"""The life of a worker: crash, detection, reload with or without a draft, rejoin."""

from __future__ import annotations

from typing import Any

from lumen_policy.replay.contract import Interruption
from lumen_policy.replay.kernel.checkpoints import arrived_tokens, follow, freeze, refresh_hot
from lumen_policy.replay.kernel.decisions import choose_target
from lumen_policy.replay.kernel.decoding import settle_decode_clock
from lumen_policy.replay.kernel.gateway import flush, recover
from lumen_policy.replay.kernel.jit import compile_plain
from lumen_policy.replay.kernel.state import (
    ALIVE,
    ASSISTING,
    COMPLETIONS,
    CRASH_AT,
    CRASH_WORKER,
    DECODE,
    DETECTION,
    DONE,
    ENDS,
    FAR,
    FREE,
    HAS_DRAFTER,
    HELD,
    IDLE,
    KV_TOKENS,
    LEAP,
    LIVE,
    LOADING,
    LOADING_DRAFT,
    NEXT_END,
    NEXT_RESTORE,
    NO_COPY,
    PREFILLS,
    QUEUE,
    QUEUED,
    RESTORES,
    SHOT_EXISTING,
    SHOT_HELD,
    SHOT_LIVE,
    SHOT_QUEUE,
    SHOT_SAVED,
    STRANDED,
    SYNC_NEXT,
    SYNCS,
    UNDETECTED,
    UP,
)
from lumen_policy.replay.kernel.stretch import boundary, close_run, look
from lumen_policy.replay.kernel.structures import tree_update

__all__ = ["crash", "life_events", "snapshot"]

_RUNNING, _QUEUED = int(Interruption.RUNNING), int(Interruption.QUEUED)


@compile_plain
def _next_life(s: Any) -> None:
    g = s.g[0]
    g.life_next = FAR
    for i in range(g.workers):
        if s.workers[i].life_at < g.life_next:
            g.life_next = s.workers[i].life_at


@compile_plain
def _skip_done(s: Any) -> None:
    g = s.g[0]
    while g.oldest < g.next_arrival and s.requests[g.oldest].state == DONE:
        g.oldest += 1


@compile_plain
def _existing_tokens(s: Any, r: int, i: int, t: int) -> int:
    """KV tokens an admitted request has on its server at t."""
    q = s.requests[r]
    w = s.workers[i]
    if q.state == DECODE:
        ahead = 0
        if w.mode == LEAP:
            count, end = boundary(w, t)
            ahead = count if end <= t else count - 1
        return q.offset + w.steps + ahead - 1
    return q.kv


@compile_plain
def _saved_tokens(s: Any, r: int, existing: int) -> int:
    """How many of them a holder that is alive could restore."""
    q = s.requests[r]
    if q.holder < 0 or q.growth == NO_COPY or s.by_worker[ALIVE, q.holder] == 0:
        return 0
    return min(arrived_tokens(s, q) & ~15, existing)


@compile_plain
def _end_assist(s: Any, target: int) -> None:
    w = s.workers[target]
    if w.drafter >= 0:
        s.workers[w.drafter].target = -1
        w.drafter = -1
        s.by_worker[HAS_DRAFTER, target] = 0


@compile_plain
def _start_reload(s: Any, i: int, since: int) -> None:
    """The reload of worker i, counted from its detection or from a crash in mid-reload."""
    g = s.g[0]
    w = s.workers[i]
    if w.target >= 0:
        _end_assist(s, w.target)
    record = s.outages[w.outage]
    record.ready = -1
    record.target = -1
    record.assist_end = -1
    if g.has_draft != 0:
        w.life = LOADING_DRAFT
        w.life_at = since + g.restart_ps + g.draft_load_ps + g.draft_init_ps
    else:
        w.life = LOADING
        w.life_at = since + g.restart_ps + g.full_load_ps + g.init_ps


@compile_plain
def _stop_run(s: Any, i: int, t: int) -> None:
    """The iteration in flight is lost; those that ended by t are booked."""
    w = s.workers[i]
    if w.mode == LEAP:
        count, end = boundary(w, t)
        done = count if end <= t else count - 1
        if done > 0:
            if end > t:
                end = w.run_start + done * w.run_first + w.run_growth * ((done * (done - 1)) >> 1)
            close_run(s, i, done, end)
    w.mode = IDLE
    w.pass_k = 0
    w.plain_assisted = 0
    w.vetoed = 0
    s.by_worker[NEXT_END, i] = FAR
    tree_update(s.trees[ENDS], s.by_worker[NEXT_END], i)
    s.by_worker[NEXT_RESTORE, i] = FAR
    tree_update(s.trees[RESTORES], s.by_worker[NEXT_RESTORE], i)
    s.by_worker[SYNC_NEXT, i] = FAR
    tree_update(s.trees[SYNCS], s.by_worker[SYNC_NEXT], i)
    w.sync_steps = w.steps


@compile_plain
def _strand(s: Any, r: int) -> None:
    """A request of a worker that has just gone down waits there until the gateway notices."""
    q = s.requests[r]
    q.origin = _QUEUED if q.state == QUEUED else _RUNNING
    freeze(s, r)
    if q.state == DECODE:
        settle_decode_clock(s, q.server, r)
    q.kv = 0
    q.chunk = 0
    q.draft_kv = 0
    q.verify = 0
    q.old_saved = -1
    q.old_arrived = 0
    q.state = STRANDED


@compile_plain
def crash(s: Any, t: int) -> None:
    """All crashes of instant t."""
    g = s.g[0]
    if g.tracking != 0:
        follow(s, t)
    first = g.next_crash
    fallen = 0
    while g.next_crash < s.crashes.shape[1] and s.crashes[CRASH_AT, g.next_crash] == t:
        i = s.crashes[CRASH_WORKER, g.next_crash]
        w = s.workers[i]
        if w.life == UP:
            s.by_worker[ALIVE, i] = 0
            fallen += 1
            w.life = UNDETECTED
            w.life_at = t + s.crashes[DETECTION, g.next_crash]
            w.outage = g.outages
            record = s.outages[g.outages]
            g.outages += 1
            record.worker = i
            record.crash = t
            record.detection = -1
            record.ready = -1
            record.target = -1
            record.assist_end = -1
            record.rejoin = -1
            refresh_hot(s, i)
            _stop_run(s, i, t)
        elif w.life != UNDETECTED:
            _start_reload(s, i, t)
        g.next_crash += 1
    _next_life(s)
    if fallen == 0:
        g.coverages += 1
        return
    _skip_done(s)
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state != DONE and q.holder >= 0 and s.by_worker[ALIVE, q.holder] == 0:
            freeze(s, r)
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state > QUEUED and q.state < STRANDED and s.by_worker[ALIVE, q.server] == 0:
            existing = _existing_tokens(s, r, q.server, t)
            s.coverage[g.coverages, 0] += existing
            s.coverage[g.coverages, 1] += _saved_tokens(s, r, existing)
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state >= QUEUED and q.state < STRANDED and s.by_worker[ALIVE, q.server] == 0:
            _strand(s, r)
    g.coverages += 1
    for c in range(first, g.next_crash):
        i = s.crashes[CRASH_WORKER, c]
        w = s.workers[i]
        if s.by_worker[ALIVE, i] == 0 and w.life == UNDETECTED and s.outages[w.outage].crash == t:
            _empty(s, i)


@compile_plain
def _empty(s: Any, i: int) -> None:
    """Worker i has lost everything."""
    w = s.workers[i]
    _end_assist(s, i)
    if w.by_number != 0:
        w.by_number = 0
        s.g[0].by_number -= 1
    w.decoding = 0
    w.prefilling = 0
    w.restoring = 0
    w.restored = 0
    w.context = 0
    w.used = 0
    w.head = -1
    w.tail = -1
    w.link_free = 0
    w.odd = 0
    w.irregular = 0
    for phase in range(16):
        w.page_phase[phase] = 0


@compile_plain
def _detect(s: Any, t: int) -> None:
    """All detections of instant t: mark, forget, then send the interrupted requests on, oldest first."""
    g = s.g[0]
    if g.tracking != 0:
        follow(s, t)
    for i in range(g.workers):
        w = s.workers[i]
        if w.life == UNDETECTED and w.life_at == t:
            s.by_worker[LIVE, i] = 0
            s.by_worker[QUEUE, i] = 0
            s.by_worker[KV_TOKENS, i] = 0
            g.integral_high += s.by_worker[HELD, i] * (t >> 31)
            g.integral_low += s.by_worker[HELD, i] * (t & 0x7FFFFFFF)
            s.by_worker[HELD, i] = 0
            s.by_worker[FREE, i] = g.budget_pages
            w.head = -1
            w.tail = -1
            s.outages[w.outage].detection = t
            _start_reload(s, i, t)
    _skip_done(s)
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state != DONE and q.holder >= 0 and s.by_worker[LIVE, q.holder] == 0:
            q.holder = -1
            q.growth = NO_COPY
            q.arrived = 0
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state == STRANDED and s.by_worker[LIVE, q.server] == 0:
            q.log = g.interruptions
            g.interruptions += 1
            record = s.interruptions[q.log]
            record.request = r
            record.origin = q.origin
            record.crash = s.outages[s.workers[q.server].outage].crash
            record.redispatch = -1
            record.next = -1
            record.delivered = q.delivered
            record.restored = 0
            q.interruptions += 1
            recover(s, r, t)


@compile_plain
def _draft_ready(s: Any, i: int, t: int) -> None:
    g = s.g[0]
    w = s.workers[i]
    w.life = ASSISTING
    w.life_at = t + g.full_load_ps
    w.draft_until = 0
    if g.tracking != 0:
        follow(s, t)
    target = choose_target(
        s.by_worker[LIVE],
        s.by_worker[HAS_DRAFTER],
        s.by_worker[HELD],
        s.by_worker[QUEUE],
        g.token_weight,
        g.request_weight,
    )
    s.outages[w.outage].ready = t
    s.outages[w.outage].target = target
    if target >= 0 and s.by_worker[ALIVE, target] != 0:
        w.target = target
        s.by_worker[HAS_DRAFTER, target] = 1
        helped = s.workers[target]
        helped.drafter = i
        g.episode += 1
        helped.episode = g.episode
        if helped.mode == LEAP:
            look(s, target)


@compile_plain
def life_events(s: Any, t: int) -> None:
    """Detections, rejoins, drafts ready and assist ends of instant t, in this order."""
    g = s.g[0]
    while g.life_next == t:
        detected = False
        for i in range(g.workers):
            w = s.workers[i]
            if w.life_at == t and w.life == UNDETECTED:
                detected = True
        if detected:
            _detect(s, t)
        rejoined = False
        for i in range(g.workers):
            w = s.workers[i]
            if w.life_at == t and (w.life == LOADING or (w.life == ASSISTING and g.init_ps == 0)):
                rejoined = True
                if w.life == ASSISTING:  # no engine init: back at the instant its help ends
                    s.outages[w.outage].assist_end = t
                    if w.target >= 0:
                        _end_assist(s, w.target)
                w.life = UP
                w.life_at = FAR
                s.by_worker[LIVE, i] = 1
                s.by_worker[ALIVE, i] = 1
                refresh_hot(s, i)
                s.outages[w.outage].rejoin = t
        if rejoined:
            flush(s, t)
        for i in range(g.workers):
            w = s.workers[i]
            if w.life_at == t and w.life == LOADING_DRAFT:
                _draft_ready(s, i, t)
        for i in range(g.workers):
            w = s.workers[i]
            if w.life_at == t and w.life == ASSISTING:
                w.life = LOADING
                w.life_at = t + g.init_ps
                s.outages[w.outage].assist_end = t
                if w.target >= 0:
                    _end_assist(s, w.target)
        _next_life(s)


@compile_plain
def snapshot(s: Any, t: int) -> None:
    """Record loads and coverage at t."""
    g = s.g[0]
    if g.tracking != 0:
        follow(s, t)
    row = g.next_snapshot
    for i in range(g.workers):
        s.snapshots[row, SHOT_QUEUE, i] = s.by_worker[QUEUE, i]
        s.snapshots[row, SHOT_HELD, i] = s.by_worker[HELD, i]
        s.snapshots[row, SHOT_LIVE, i] = s.by_worker[ALIVE, i]
        if s.by_worker[ALIVE, i] == 0:
            continue
        w = s.workers[i]
        for j in range(w.decoding + w.prefilling):
            if j < w.decoding:
                r = s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF
            else:
                r = s.batches[PREFILLS, i, j - w.decoding]
            existing = _existing_tokens(s, r, i, t)
            s.snapshots[row, SHOT_EXISTING, i] += existing
            s.snapshots[row, SHOT_SAVED, i] += _saved_tokens(s, r, existing)
    g.next_snapshot += 1
