"""What a fault does to its worker at once: the batch is lost, stands still, slows down or is drained."""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.contract import NONE, FaultKind, Interruption
from lumen_policy.replay.kernel.books import skip_done
from lumen_policy.replay.kernel.checkpoints import follow
from lumen_policy.replay.kernel.decoding import settle_decode_clock
from lumen_policy.replay.kernel.gateway import believed_dead
from lumen_policy.replay.kernel.holders import close_books, forget_holder, reopen
from lumen_policy.replay.kernel.reload import end_assist, next_life, start_reload
from lumen_policy.replay.kernel.rows import arrived_tokens, freeze_copies
from lumen_policy.replay.kernel.slots import take_old_slot
from lumen_policy.replay.kernel.state import (
    ALIVE,
    COMPLETIONS,
    DECODE,
    ENDS,
    FAR,
    FAULT_AT,
    FAULT_DELAY,
    FAULT_FACTOR,
    FAULT_KEEPS,
    FAULT_KIND,
    FAULT_LENGTH,
    FAULT_WORKER,
    IDLE,
    KV_TOKENS,
    LEAP,
    LIVE,
    NEXT_END,
    NEXT_RESTORE,
    PREFILLS,
    QUEUE,
    QUEUED,
    RESTORES,
    RESTORINGS,
    SILENT,
    SINGLE,
    STRANDED,
    SYNC_NEXT,
    SYNCS,
    TO_SEND,
    UNDETECTED,
    UP,
)
from lumen_policy.replay.kernel.stretch import boundary, close_run, existing_tokens, look
from lumen_policy.replay.kernel.structures import tree_update

__all__ = [
    "empty",
    "interrupt",
    "resume",
    "saved_tokens",
    "stop_run",
    "strand",
    "strike",
]

_CRASH, _UNREACHABLE, _SLOW, _DRAIN, _MIGRATE = (
    int(FaultKind.CRASH),
    int(FaultKind.UNREACHABLE),
    int(FaultKind.SLOW),
    int(FaultKind.DRAIN),
    int(FaultKind.MIGRATE),
)
_RUNNING, _QUEUED = int(Interruption.RUNNING), int(Interruption.QUEUED)
_FALLEN, _FELL_SILENT, _MOVING = 1, 2, 3
"""Worker.marked at an instant of faults."""


def saved_tokens(s: Any, r: int, existing: int) -> int:
    """How many of them a holder that is alive could restore."""
    g = s.g[0]
    saved = 0
    for c in range(r * g.replicas, (r + 1) * g.replicas):
        holder = s.slots[c].holder
        if holder >= 0 and s.by_worker[ALIVE, holder] != 0:
            saved = max(saved, arrived_tokens(s, c) & ~15)
    return min(saved, existing)


def _book_leap(s: Any, i: int, t: int) -> bool:
    """Book the iterations of a leap that ended by t; True if one is under way."""
    w = s.workers[i]
    count, end = boundary(w, t)
    done = count if end <= t else count - 1
    if done > 0:
        if end > t:
            end = w.run_start + done * w.run_first + w.run_growth * ((done * (done - 1)) >> 1)
        close_run(s, i, done, end)
        w.run_start = end
        w.run_first += done * w.run_growth
    w.run_growth = 0
    w.run_count = 1
    return done < count


def _hold_links(s: Any, i: int) -> None:
    """Nothing that was due at worker i comes on its own."""
    s.by_worker[NEXT_END, i] = FAR
    tree_update(s.trees[ENDS], s.by_worker[NEXT_END], i)
    s.by_worker[NEXT_RESTORE, i] = FAR
    tree_update(s.trees[RESTORES], s.by_worker[NEXT_RESTORE], i)
    s.by_worker[SYNC_NEXT, i] = FAR
    tree_update(s.trees[SYNCS], s.by_worker[SYNC_NEXT], i)
    s.g[0].sync_min = s.by_worker[SYNC_NEXT, s.trees[SYNCS, 1]]
    s.workers[i].sync_steps = s.workers[i].steps


def stop_run(s: Any, i: int, t: int) -> None:
    """The iteration in flight is lost; those that ended by t are booked."""
    w = s.workers[i]
    if w.mode == LEAP:
        _book_leap(s, i, t)
    w.mode = IDLE
    w.pass_k = 0
    w.pass_halves = 0
    w.plain_assisted = 0
    w.vetoed = 0
    _hold_links(s, i)


def _pause(s: Any, i: int, t: int) -> None:
    """The iteration in flight stands still; those that ended by t are booked."""
    w = s.workers[i]
    if w.mode == LEAP:
        w.mode = SINGLE if _book_leap(s, i, t) else IDLE
    _hold_links(s, i)


def resume(s: Any, i: int, t: int) -> None:
    """Worker i goes on where it stood still."""
    g = s.g[0]
    w = s.workers[i]
    late = t - w.silent_at
    if w.mode == SINGLE:
        w.run_first += late
        end = w.run_start + w.run_first
        s.by_worker[NEXT_END, i] = end
        tree_update(s.trees[ENDS], s.by_worker[NEXT_END], i)
        if g.tracking != 0:
            w.sync_left = 1
            w.sync_duration = w.run_first
            w.sync_growth = 0
            s.by_worker[SYNC_NEXT, i] = end
            tree_update(s.trees[SYNCS], s.by_worker[SYNC_NEXT], i)
            g.sync_min = min(g.sync_min, end)
    else:
        for j in range(w.decoding):
            q = s.requests[s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF]
            if q.odd == 0:
                q.odd = 1
                w.odd += 1
                q.last = max(q.last, w.last_decode_end)
        look(s, i)
    if w.link_free > w.silent_at:
        w.link_free += late
    for j in range(w.restoring):
        s.recovery[s.batches[RESTORINGS, i, j]].until += late
    if w.restoring > 0:
        s.by_worker[NEXT_RESTORE, i] = s.recovery[s.batches[RESTORINGS, i, 0]].until
        tree_update(s.trees[RESTORES], s.by_worker[NEXT_RESTORE], i)
    r = w.head
    while r >= 0:
        s.requests[r].late = 0
        r = s.requests[r].link


def strand(s: Any, r: int) -> None:
    """A request of a worker that has just gone down waits there until the gateway notices."""
    q = s.requests[r]
    if q.late == 0:
        q.origin = _QUEUED if q.state == QUEUED else _RUNNING
    q.late = 0
    freeze_copies(s, r)
    if q.state == DECODE:
        settle_decode_clock(s, q.server, r)
    q.kv = 0
    q.chunk = 0
    q.draft_kv = 0
    q.verify = 0
    q.odd = 0
    q.state = STRANDED


@inline
def _batch(w: Any) -> int:
    """How many requests a worker has in its batch."""
    return w.decoding + w.prefilling + w.restoring


@inline
def _in_batch(s: Any, i: int, j: int) -> int:
    """Request number j of the batch of worker i."""
    w = s.workers[i]
    if j < w.decoding:
        return s.batches[COMPLETIONS, i, j] & 0xFFFFFFFF
    if j < w.decoding + w.prefilling:
        return s.batches[PREFILLS, i, j - w.decoding]
    return s.batches[RESTORINGS, i, j - w.decoding - w.prefilling]


def empty(s: Any, i: int) -> None:
    """Worker i has lost everything."""
    w = s.workers[i]
    w.by_number = 0
    w.decoding = 0
    w.prefilling = 0
    w.restoring = 0
    w.restored = 0
    w.context = 0
    w.used = 0
    w.head = -1
    w.tail = -1
    w.front_at = -1
    w.link_free = 0
    w.odd = 0
    w.irregular = 0
    for phase in range(16):
        w.page_phase[phase] = 0


def _open_outage(s: Any, i: int, f: int, t: int) -> None:
    g = s.g[0]
    w = s.workers[i]
    w.outage = g.outages
    record = s.outages[g.outages]
    g.outages += 1
    record.worker = i
    record.kind = s.faults[FAULT_KIND, f]
    record.crash = t
    record.stop = t
    record.detection = -1
    record.ready = -1
    record.target = -1
    record.assist_end = -1
    record.rejoin = -1


def _crash(s: Any, i: int, f: int, t: int) -> None:
    w = s.workers[i]
    keeps = s.faults[FAULT_KEEPS, f]
    if w.life in (UP, SILENT):
        if w.life == UP:
            _open_outage(s, i, f, t)
            s.by_worker[ALIVE, i] = 0
            end_assist(s, i)
        stop_run(s, i, t)
        w.keeps = keeps
        w.detect_at = min(w.detect_at, t + s.faults[FAULT_DELAY, f])
        w.life = UNDETECTED
        w.life_at = w.detect_at
        w.fault = f
        w.marked = _FALLEN
    elif w.life == UNDETECTED:
        w.keeps = min(w.keeps, keeps)
    else:
        if keeps == 0 and w.keeps != 0:
            w.keeps = 0
            if w.refuse_left == 0:
                forget_holder(s, i)
                reopen(s, i, False, t)
        w.fault = f
        start_reload(s, i, t)


def _fall_silent(s: Any, i: int, f: int, t: int) -> None:
    w = s.workers[i]
    length = s.faults[FAULT_LENGTH, f]
    _open_outage(s, i, f, t)
    s.by_worker[ALIVE, i] = 0
    end_assist(s, i)
    _pause(s, i, t)
    w.life = SILENT
    w.silent_at = t
    w.detect_at = t + s.faults[FAULT_DELAY, f]
    w.back_at = FAR if length == NONE else t + length
    w.life_at = min(w.detect_at, w.back_at)
    w.fault = f
    w.keeps = 1 if s.faults[FAULT_KIND, f] == _UNREACHABLE else s.faults[FAULT_KEEPS, f]
    w.marked = _FELL_SILENT


def _drain(s: Any, i: int, f: int, t: int) -> None:
    w = s.workers[i]
    _open_outage(s, i, f, t)
    s.outages[w.outage].stop = -1
    s.outages[w.outage].detection = t
    s.by_worker[LIVE, i] = 0
    w.draining = 1
    w.drain_fault = f
    w.drain_outage = w.outage
    if s.faults[FAULT_KIND, f] == _MIGRATE:
        w.marked = _MOVING


def interrupt(s: Any, r: int, crash_at: int) -> None:
    """Log the interruption of a stranded request; with ``regenerate`` it starts over."""
    g = s.g[0]
    q = s.requests[r]
    q.seen = max(q.seen, q.delivered)
    q.log = g.interruptions
    g.interruptions += 1
    record = s.interruptions[q.log]
    record.request = r
    record.origin = q.origin
    record.crash = crash_at
    record.redispatch = -1
    record.next = -1
    record.delivered = q.seen
    record.restored = 0
    s.recovery[r].interruptions += 1
    if g.regenerate != 0:
        q.delivered = 0
    else:
        q.seen = 0


def _migrate(s: Any, t: int) -> None:
    """Workers marked as moving send their requests on, all in order of arrival."""
    g = s.g[0]
    for i in range(g.workers):
        w = s.workers[i]
        if w.marked == _MOVING:
            end_assist(s, i)
            stop_run(s, i, t)
            s.by_worker[QUEUE, i] = 0
            s.by_worker[KV_TOKENS, i] = 0
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state >= QUEUED and q.state < STRANDED and s.workers[q.server].marked == _MOVING:
            strand(s, r)
    for i in range(g.workers):
        if s.workers[i].marked == _MOVING:
            empty(s, i)
    for r in range(g.oldest, g.next_arrival):
        q = s.requests[r]
        if q.state == STRANDED and s.workers[q.server].marked == _MOVING:
            take_old_slot(s, r)
            interrupt(s, r, t)
            g.migrated += 1
            q.state = TO_SEND
            g.to_send += 1


def _stop(s: Any, i: int, t: int) -> None:
    """A drained worker stops; what it holds is lost."""
    w = s.workers[i]
    s.by_worker[ALIVE, i] = 0
    end_assist(s, i)
    stop_run(s, i, t)
    close_books(s, i, t)
    w.keeps = 0
    believed_dead(s, i, t)
    w.draining = 0
    w.fault = w.drain_fault
    s.outages[w.outage].stop = t
    empty(s, i)
    start_reload(s, i, t + s.faults[FAULT_LENGTH, w.fault])


def strike(s: Any, t: int) -> None:
    """All faults of instant t, then the stops of drained workers.

    Requests of migrations are left to be sent (``sending.send_on``).
    """
    g = s.g[0]
    if g.tracking != 0:
        follow(s, t)
    g.drained = 0
    first = g.next_fault
    skip_done(s)
    while g.next_fault < s.faults.shape[1] and s.faults[FAULT_AT, g.next_fault] == t:
        f = g.next_fault
        i = s.faults[FAULT_WORKER, f]
        kind = s.faults[FAULT_KIND, f]
        w = s.workers[i]
        if kind == _CRASH:
            _crash(s, i, f, t)
        elif kind == _SLOW:
            w.slow_ppm = s.faults[FAULT_FACTOR, f]
            w.slow_until = t + s.faults[FAULT_LENGTH, f]
            if w.mode == LEAP:
                look(s, i)
        elif w.life != UP or (kind == _DRAIN and w.draining != 0):
            g.ignored_faults += 1
        elif kind < _SLOW:
            _fall_silent(s, i, f, t)
        else:
            _drain(s, i, f, t)
        g.next_fault += 1
    if g.next_fault > first:
        _clear_away(s, t)
        g.coverages += 1
    for i in range(g.workers):
        w = s.workers[i]
        if w.draining != 0 and w.life == UP and s.by_worker[QUEUE, i] == 0:
            _stop(s, i, t)
    next_life(s)


def _clear_away(s: Any, t: int) -> None:
    """What the faults of this instant leave behind: coverage, lost batches, closed books, migrated requests."""
    g = s.g[0]
    for i in range(g.workers):
        if s.workers[i].marked in (_FALLEN, _FELL_SILENT):
            for j in range(_batch(s.workers[i])):
                r = _in_batch(s, i, j)
                existing = existing_tokens(s, r, i, t)
                s.coverage[g.coverages, 0] += existing
                s.coverage[g.coverages, 1] += saved_tokens(s, r, existing)
    for i in range(g.workers):
        if s.workers[i].marked in (_FALLEN, _FELL_SILENT):
            close_books(s, i, t)
    moving = False
    for i in range(g.workers):
        w = s.workers[i]
        if w.marked == _FALLEN:
            for j in range(_batch(w)):
                strand(s, _in_batch(s, i, j))
            r = w.head
            while r >= 0:
                strand(s, r)
                r = s.requests[r].link
            empty(s, i)
        if w.marked == _MOVING:
            moving = True
        else:
            w.marked = 0
    if moving:
        _migrate(s, t)
        for i in range(g.workers):
            s.workers[i].marked = 0
