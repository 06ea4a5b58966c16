"""Where a checkpoint goes: plain functions over sequences of ints, indexed by worker.

The replay kernel compiles these very functions; the twin and a live gateway call them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["choose_holder", "kv_load", "next_on_ring"]


def kv_load(token_weight: int, held_tokens: int, request_weight: int, queue: int) -> int:
    """L(w) = α·Σ|KV|/page + β·Q as a scaled integer: token_weight · held_tokens + request_weight · queue.

    Args:
        token_weight: scaled α / page tokens.
        held_tokens: arrived checkpoint tokens held at the worker.
        request_weight: scaled β.
        queue: requests routed to the worker and not finished.

    Source: LUMEN (arXiv 2606.17787) Eq. 4, with α on pages.
    """
    return token_weight * held_tokens + request_weight * queue


def choose_holder(
    server: int,
    need_pages: int,
    live: Sequence[int],
    free_pages: Sequence[int],
    held_tokens: Sequence[int],
    queue: Sequence[int],
    token_weight: int,
    request_weight: int,
) -> int:
    """The believed-live worker other than the server, with room, that has the smallest L; -1 if none.

    Args:
        server: the worker that serves the request.
        need_pages: pages of prompt + delivered tokens; a worker with fewer free checkpoint pages has no room.
        live: shape (W,), 1 where believed live.
        free_pages, held_tokens, queue: shape (W,).
        token_weight, request_weight: see ``kv_load``.

    Ties go to the lowest index.
    """
    best = -1
    best_load = 0
    for w in range(len(live)):
        if live[w] != 0 and w != server and free_pages[w] >= need_pages:
            load = token_weight * held_tokens[w] + request_weight * queue[w]
            if best < 0 or load < best_load:
                best = w
                best_load = load
    return best


def next_on_ring(server: int, live: Sequence[int]) -> int:
    """The next believed-live worker after the server on the ring of workers; -1 if there is no other."""
    workers = len(live)
    for step in range(1, workers):
        w = server + step
        if w >= workers:
            w -= workers
        if live[w] != 0:
            return w
    return -1
