"""What a copy sends, and how it grows: as far as its holder's pages go, or others are evicted for it."""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.contract import EvictionOrder
from lumen_policy.replay.kernel.books import integrate, refresh_hot
from lumen_policy.replay.kernel.rows import arrived_tokens, has_partial_page, wrote_at
from lumen_policy.replay.kernel.slots import forget_slot
from lumen_policy.replay.kernel.state import COPIES, FREE, HELD, OWN, PARTIAL

__all__ = ["arrive", "send_up_to"]

_LEAST_RECENT, _SHORTEST = int(EvictionOrder.LEAST_RECENT), int(EvictionOrder.SHORTEST)


@inline
def send_up_to(s: Any, slot: Any, existing: int) -> int:
    """Up to where a copy sends: what exists, as far as its holder has room now unless it evicts."""
    g = s.g[0]
    if g.eviction != 0 or slot.holder == g.workers:
        return existing
    return min(existing, 16 * (((slot.arrived + 15) >> 4) + s.by_worker[FREE, slot.holder]))


@inline
def _goes_first(
    g: Any, a: int, a_opened: int, a_wrote: int, b: int, b_opened: int, b_wrote: int, now: int
) -> bool:
    """Whether a copy of ``a`` tokens goes before one of ``b``."""
    if g.eviction == _LEAST_RECENT:
        return a_wrote < b_wrote
    if g.eviction == _SHORTEST:
        return a < b
    age = 1 + ((now - a_opened) >> 30)
    other = 1 + ((now - b_opened) >> 30)
    return a * other < b * age


def _evict_one(s: Any, c: int, now: int) -> bool:
    """Evict the least copy at the holder of copy c, ties lowest number; False if there is none to evict."""
    g = s.g[0]
    slot = s.slots[c]
    holder = slot.holder
    best = -1
    best_arrived = 0
    best_opened = 0
    best_wrote = 0
    v = s.by_worker[COPIES, holder]
    while v >= 0:
        other = s.slots[v]
        if v != c:
            arrived = arrived_tokens(s, v)
            opened = other.opened
            wrote = wrote_at(s, v)
            if arrived > 0 and (
                g.eviction == _LEAST_RECENT
                or _goes_first(g, arrived, opened, wrote, slot.sent, slot.opened, 0, now)
            ):
                better = best < 0
                if not better:
                    better = _goes_first(
                        g, arrived, opened, wrote, best_arrived, best_opened, best_wrote, now
                    )
                if not better and v < best:
                    better = not _goes_first(
                        g, best_arrived, best_opened, best_wrote, arrived, opened, wrote, now
                    )
                if better:
                    best = v
                    best_arrived = arrived
                    best_opened = opened
                    best_wrote = wrote
        v = other.peer_next
    if best < 0:
        return False
    forget_slot(s, best)
    s.by_worker[HELD, holder] -= best_arrived
    s.by_worker[FREE, holder] += (best_arrived + 15) >> 4
    integrate(g, -best_arrived, now)
    g.evictions += 1
    g.evicted_tokens += best_arrived
    return True


def arrive(s: Any, c: int, now: int) -> None:
    """Grow a copy by what arrives."""
    g = s.g[0]
    slot = s.slots[c]
    holder = slot.holder
    pages = (slot.arrived + 15) >> 4
    upto = slot.sent
    if g.eviction != 0:
        while 16 * (pages + s.by_worker[FREE, holder]) < upto and _evict_one(s, c, now):
            pass
    grown = min(upto, 16 * (pages + s.by_worker[FREE, holder]))
    change = grown - slot.arrived
    s.by_worker[HELD, holder] += change
    s.by_worker[FREE, holder] -= ((grown + 15) >> 4) - pages
    if holder < g.workers:
        integrate(g, change, now)
    g.arrived_tokens += change
    g.refused_tokens += upto - grown
    partial = has_partial_page(slot)
    slot.arrived = grown
    slot.sent = grown
    slot.wrote = now
    if slot.growth == OWN:
        s.by_worker[PARTIAL, holder] += has_partial_page(slot) - partial
        refresh_hot(s, holder)
