"""Where a request goes: plain functions over sequences of ints, indexed by worker (see ``placement``)."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "least_kv",
    "least_loaded",
    "power_of_two",
    "prefer_holder",
    "round_robin",
    "shortest_queue",
]


def shortest_queue(live: Sequence[int], queue: Sequence[int]) -> int:
    """Join the shortest queue: the believed-live worker with the smallest Q, ties lowest index; -1 if none."""
    best = -1
    for w in range(len(live)):
        if live[w] != 0 and (best < 0 or queue[w] < queue[best]):
            best = w
    return best


def least_kv(live: Sequence[int], kv_tokens: Sequence[int]) -> int:
    """The believed-live worker with the fewest prompt + delivered tokens routed and not finished; -1 if none."""
    best = -1
    for w in range(len(live)):
        if live[w] != 0 and (best < 0 or kv_tokens[w] < kv_tokens[best]):
            best = w
    return best


def round_robin(live: Sequence[int], last: int) -> int:
    """The next believed-live worker after ``last`` (-1 before the first); -1 if none."""
    workers = len(live)
    for step in range(1, workers + 1):
        w = last + step
        while w >= workers:
            w -= workers
        if live[w] != 0:
            return w
    return -1


def power_of_two(live: Sequence[int], queue: Sequence[int], first_draw: int, second_draw: int) -> int:
    """The less queued of two distinct believed-live workers, ties lowest index; -1 if none is live.

    Args:
        live, queue: shape (W,).
        first_draw, second_draw: independent uniform integers in [0, 2**32). With m live workers the first pick is
            number floor(first_draw · m / 2**32) of them, the second number floor(second_draw · (m - 1) / 2**32) of
            the others.
    """
    count = 0
    for w in range(len(live)):
        if live[w] != 0:
            count += 1
    if count == 0:
        return -1
    first_rank = (first_draw * count) >> 32
    second_rank = -1
    if count > 1:
        second_rank = (second_draw * (count - 1)) >> 32
        if second_rank >= first_rank:
            second_rank += 1
    best = -1
    rank = 0
    for w in range(len(live)):
        if live[w] != 0:
            picked = rank in (first_rank, second_rank)
            if picked and (best < 0 or queue[w] < queue[best]):
                best = w
            rank += 1
    return best


def prefer_holder(holder_live: int, holder_load: int, saved_tokens: int, theta: int, tau_tokens: int) -> bool:
    """Whether an interrupted request goes to its holder to restore: L ≤ θ or saved tokens > τ.

    Args:
        holder_live: 1 if there is a holder and it is believed live.
        holder_load: its scaled L, this request's own copy included.
        saved_tokens: whole-page tokens a restore would bring; 0 means there is nothing to prefer the holder for.
        theta: scaled θ, -1 = never, 2**63 - 1 = always.
        tau_tokens: τ, 2**63 - 1 = infinity.

    Source: LUMEN (arXiv 2606.17787), routing rule.
    """
    return holder_live != 0 and saved_tokens > 0 and (holder_load <= theta or saved_tokens > tau_tokens)


def least_loaded(
    live: Sequence[int],
    held_tokens: Sequence[int],
    queue: Sequence[int],
    token_weight: int,
    request_weight: int,
) -> int:
    """The believed-live worker with the smallest L, ties lowest index; -1 if none."""
    best = -1
    best_load = 0
    for w in range(len(live)):
        if live[w] != 0:
            load = token_weight * held_tokens[w] + request_weight * queue[w]
            if best < 0 or load < best_load:
                best = w
                best_load = load
    return best
