"""Small integer data structures of the kernel: a binary heap, a winner tree, a sort."""

from __future__ import annotations

from typing import Any

from lumen_policy.native import inline

__all__ = ["heap_pop", "heap_push", "heap_remove", "heapify", "sort_keys", "tree_update"]


@inline
def _sift_down(heap: Any, start: int, count: int) -> None:
    key = heap[start]
    i = start
    while True:
        child = 2 * i + 1
        if child >= count:
            break
        if child + 1 < count and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = key


@inline
def _sift_up(heap: Any, start: int) -> None:
    key = heap[start]
    i = start
    while i > 0:
        parent = (i - 1) >> 1
        if heap[parent] <= key:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = key


@inline
def heap_push(heap: Any, count: int, key: int) -> None:
    """Add a key to a heap of ``count`` keys."""
    heap[count] = key
    _sift_up(heap, count)


@inline
def heap_pop(heap: Any, count: int) -> None:
    """Drop the smallest of ``count`` keys."""
    heap[0] = heap[count - 1]
    if count > 1:
        _sift_down(heap, 0, count - 1)


def heap_remove(heap: Any, count: int, index: int) -> None:
    """Drop the key at ``index``."""
    last = heap[count - 1]
    if index == count - 1:
        return
    heap[index] = last
    _sift_up(heap, index)
    _sift_down(heap, index, count - 1)


def heapify(heap: Any, count: int) -> None:
    """Turn ``count`` keys into a heap."""
    for i in range(count // 2 - 1, -1, -1):
        _sift_down(heap, i, count)


@inline
def tree_update(tree: Any, keys: Any, worker: int) -> None:
    """Repair a winner tree after the key of one worker changed; ties go to the lowest index."""
    node = (len(tree) // 2 + worker) >> 1
    while node > 0:
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = right if keys[right] < keys[left] else left
        node >>= 1


def sort_keys(keys: Any, start: int, count: int) -> None:
    """Shell sort of ``count`` keys from number ``start`` on, ascending."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(start + gap, start + count):
            key = keys[i]
            j = i
            while j >= start + gap and keys[j - gap] > key:
                keys[j] = keys[j - gap]
                j -= gap
            keys[j] = key
        gap //= 3
