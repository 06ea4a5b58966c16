"""How long it takes to bring checkpointed KV from host memory back into the GPUs."""

from __future__ import annotations

from fractions import Fraction

from cost_models.hardware import HardwareProfile
from cost_models.model_spec import ModelSpec
from cost_models.serving_costs import PAGE_TOKENS

__all__ = ["restore_s", "restore_table_ps"]


def restore_s(model: ModelSpec, hardware: HardwareProfile, tensor_parallel: int, pages: int) -> Fraction:
    """Restore of whole pages: one transfer a GPU, all links at once.

    t = host_link(pages · page bytes · copies / TP); 0 for no pages.

    Args:
        model, hardware, tensor_parallel: the worker.
        pages: whole pages of ``PAGE_TOKENS`` tokens, ≥ 0.

    Valid for: links that do not share a switch's bandwidth. Ignores: other traffic on them.
    """
    if pages == 0:
        return Fraction(0)
    token_bytes = Fraction(model.kv_bytes_per_token * model.kv_copies(tensor_parallel), tensor_parallel)
    return hardware.host_link.seconds(pages * PAGE_TOKENS * token_bytes)


def restore_table_ps(
    model: ModelSpec,
    hardware: HardwareProfile,
    tensor_parallel: int,
    max_pages: int,
    latency_s: Fraction = Fraction(0),
) -> list[int]:
    """latency_s + ``restore_s`` of 0 … max_pages pages, picoseconds, each rounded once (half up); 0 for none.

    The curve is affine in the pages between its points, so each page is one exact integer division.
    """
    page_bytes = Fraction(
        model.kv_bytes_per_token * model.kv_copies(tensor_parallel) * PAGE_TOKENS, tensor_parallel
    )
    link = hardware.host_link
    last_pages = [int(size // page_bytes) for size, _ in link.knots()[1:]]
    table = [0]
    for last in [*last_pages, max_pages]:
        first, last = len(table), min(last, max_pages)
        if last < first:
            continue
        start = (latency_s + link.seconds(first * page_bytes)) * 10**12
        step = (
            ((latency_s + link.seconds(last * page_bytes)) * 10**12 - start) / (last - first)
            if last > first
            else Fraction(0)
        )
        denominator = start.denominator * step.denominator * 2
        base = int(start * denominator) + denominator // 2
        slope = int(step * denominator)
        table.extend((base + slope * page) // denominator for page in range(last - first + 1))
    return table
