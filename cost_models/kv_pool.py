"""How many KV pages fit beside the weights."""

from __future__ import annotations

from fractions import Fraction

from cost_models.errors import CostModelError
from cost_models.hardware import HardwareProfile
from cost_models.model_spec import ModelSpec
from cost_models.serving_costs import PAGE_TOKENS

__all__ = ["draft_pool_pages", "pool_pages"]


def _page_bytes(model: ModelSpec, tensor_parallel: int) -> int:
    return model.kv_bytes_per_token * model.kv_copies(tensor_parallel) * PAGE_TOKENS


def _free_bytes(hardware: HardwareProfile, tensor_parallel: int, models: list[ModelSpec]) -> Fraction:
    per_gpu = hardware.hbm_bytes.exact() * hardware.memory_share.exact()
    reserve = hardware.activation_reserve_bytes.exact()
    weights = sum(model.resident_weight_bytes(tensor_parallel) for model in models)
    return tensor_parallel * (per_gpu - reserve) - weights


def pool_pages(
    model: ModelSpec, hardware: HardwareProfile, tensor_parallel: int, max_context_tokens: int
) -> int:
    """floor((TP · (HBM · memory_share − reserve) − weights) / page bytes).

    Args:
        model, hardware, tensor_parallel: the worker.
        max_context_tokens: tokens of the longest request (prompt + output) that must fit.

    Raises:
        CostModelError: that request does not fit; says how many GB are missing.
    """
    page_bytes = _page_bytes(model, tensor_parallel)
    free = _free_bytes(hardware, tensor_parallel, [model])
    pages = max(0, int(free // page_bytes))
    need_pages = -(-max_context_tokens // PAGE_TOKENS)
    if pages < need_pages:
        missing_gb = float(need_pages * page_bytes - free) / 1e9
        raise CostModelError(
            f"{model.name} on {tensor_parallel} GPU(s) of {hardware.name}: no room for one request of "
            f"{max_context_tokens} tokens, {missing_gb:.1f} GB short (weights "
            f"{model.resident_weight_bytes(tensor_parallel) / 1e9:.1f} GB, memory "
            f"{tensor_parallel * hardware.hbm_bytes.value / 1e9:.0f} GB); raise tensor_parallel"
        )
    return pages


def draft_pool_pages(
    model: ModelSpec, draft: ModelSpec, hardware: HardwareProfile, tensor_parallel: int
) -> int:
    """Pages of the draft's KV beside both models' weights during a reload; 0 if none fit.

    floor((TP · (HBM · memory_share − reserve) − weights − draft weights) / draft page bytes)

    The full model's weights count from the start: their load runs while the draft helps. The served model's KV
    does not exist yet, so its pool is the draft's room; it is given up before engine init.
    Ignores: a second reserve for the draft's own activations and graphs, fragmentation.
    """
    free = _free_bytes(hardware, tensor_parallel, [model, draft])
    return max(0, int(free // _page_bytes(draft, tensor_parallel)))
