"""What a holder has: held tokens, free pages, and the integral of all held tokens over time."""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline
from lumen_policy.replay.kernel.state import ALIVE, DONE, EXPLICIT_AT, FREE, HELD, HOT_HOLDER, OPEN, PARTIAL

__all__ = ["give_back", "integrate", "refresh_hot", "skip_done"]


@inline
def integrate(g: Any, change: int, t: int) -> None:
    """Add change·(-t) to the integral, split so that nothing overflows."""
    g.integral_high -= change * (t >> 31)
    g.integral_low -= change * (t & 0x7FFFFFFF)


@inline
def refresh_hot(s: Any, holder: int) -> None:
    """Recompute whether an OWN copy at the holder could grow."""
    g = s.g[0]
    hot = (
        1
        if s.by_worker[EXPLICIT_AT, holder] > 0
        and (s.by_worker[FREE, holder] > 0 or s.by_worker[PARTIAL, holder] > 0 or g.eviction != 0)
        and s.by_worker[ALIVE, holder] != 0
        else 0
    )
    g.hot += hot - s.by_worker[HOT_HOLDER, holder]
    s.by_worker[HOT_HOLDER, holder] = hot


@inline
def give_back(s: Any, holder: int, tokens: int, t: int) -> None:
    """Free a copy's pages, unless its holder's books are closed."""
    g = s.g[0]
    if tokens > 0 and s.by_worker[OPEN, holder] != 0:
        s.by_worker[HELD, holder] -= tokens
        s.by_worker[FREE, holder] += (tokens + 15) >> 4
        g.released_tokens += tokens
        if holder < g.workers:
            integrate(g, -tokens, t)
            refresh_hot(s, holder)


def skip_done(s: Any) -> None:
    """Move on to the oldest request that is not done."""
    g = s.g[0]
    while g.oldest < g.next_arrival and s.requests[g.oldest].state == DONE:
        g.oldest += 1
