"""What a replay can hold: inputs that would break the kernel's integers are refused in words."""

from __future__ import annotations

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.replay.contract import (
    FULL_SPEED_PPM,
    NONE,
    EvictionOrder,
    FaultKind,
    FaultTable,
    Placement,
    ReplayInput,
    Router,
    Routing,
    Scheduler,
)

__all__ = ["check_input"]

_SPAN_LIMIT_PS = 90 * 86_400 * 10**12
_INT64_SAFE = 2**62
_MOST_WORKERS = 4096
_MOST_BATCH = 32_767
_MOST_TOKENS = 2**30
_LONGEST_ITERATION_PS = 2**58
_MOST_SLOWER_PPM = 10**12
_MOST_LINK_PS = 10**12
_MOST_REPORTS = 10**8
_LINK_COSTS = [
    "egress_latency_ps",
    "egress_token_ps",
    "ingress_token_ps",
    "store_latency_ps",
    "store_token_ps",
]


def check_input(inputs: ReplayInput) -> None:
    """Refuse what would break the kernel's integers.

    Raises:
        InputError: says which value, and what is allowed.
    """
    _check_trace(inputs)
    _check_worker(inputs)
    _check_costs(inputs)
    _check_faults(inputs)
    _check_policy(inputs)
    _check_rules(inputs)


def _check_trace(inputs: ReplayInput) -> None:
    n = len(inputs.arrival_ps)
    if n == 0:
        raise InputError("trace: no requests")
    if not len(inputs.prompt_tokens) == len(inputs.output_tokens) == n:
        raise InputError("trace: arrivals, prompts and outputs differ in number")
    if inputs.arrival_ps[0] < 0 or np.any(np.diff(inputs.arrival_ps) < 0):
        raise InputError("trace: arrivals must be non-negative and in order")
    if inputs.arrival_ps[-1] > _SPAN_LIMIT_PS:
        raise InputError("trace: spans more than 90 days, the longest a replay can hold")
    if inputs.prompt_tokens.min() < 1 or inputs.output_tokens.min() < 1:
        raise InputError("trace: prompt_tokens and output_tokens must be at least 1")
    if inputs.prompt_tokens.max() >= _MOST_TOKENS or inputs.output_tokens.max() >= _MOST_TOKENS:
        raise InputError(f"trace: a prompt or output of {_MOST_TOKENS} tokens or more")


def _check_worker(inputs: ReplayInput) -> None:
    for name, value, least, most in (
        ("workers", inputs.workers, 1, _MOST_WORKERS),
        ("max_batch", inputs.max_batch, 1, _MOST_BATCH),
        ("token_budget", inputs.token_budget, 1, _MOST_TOKENS),
        ("min_prefill_tokens", inputs.min_prefill_tokens, 0, _MOST_TOKENS),
        ("pool_pages", inputs.costs.pool_pages, 1, _INT64_SAFE),
        ("draft_pool_pages", inputs.costs.draft_pool_pages, 0, _INT64_SAFE),
        ("scheduler", inputs.scheduler, 0, max(Scheduler)),
        ("router", inputs.router, 0, max(Router)),
        ("seed", inputs.seed, 0, 2**64 - 1),
    ):
        if not least <= value <= most:
            raise InputError(f"{name}: {value} is not from {least} to {most}")


def _check_costs(inputs: ReplayInput) -> None:
    costs, target = inputs.costs, inputs.costs.target
    widest = max(inputs.token_budget, inputs.max_batch)
    for table in (target.token_ps, target.lm_head_ps):
        if len(table) <= widest:
            raise InputError(f"costs: an iteration table ends at {len(table) - 1}, below {widest} tokens")
    if np.any(target.token_ps[1:] < 1) or np.any(target.lm_head_ps < 0):
        raise InputError("costs: an iteration must last at least 1 ps, and the LM head no less than 0")
    durations = {
        "prefill_pair_ps": target.prefill_pair_ps,
        "decode_context_ps": target.decode_context_ps,
        "decode_sequence_ps": target.decode_sequence_ps,
        "verify_context_ppm": costs.verify_context_ppm,
        "draft_round_trip_ps": costs.draft_round_trip_ps,
        **{name: getattr(costs.transfers, name) for name in _LINK_COSTS},
        "restore_ps": int(costs.restore_ps.min()),
    }
    for name, value in durations.items():
        if not 0 <= value <= _SPAN_LIMIT_PS // 8:
            raise InputError(f"costs: {name} = {value} is negative or longer than 11 days")
    for table in (costs.restore_ps, costs.transfers.remote_restore_ps, costs.transfers.store_restore_ps):
        if len(table) and not 0 <= int(table.min()) <= int(table.max()) <= _SPAN_LIMIT_PS // 8:
            raise InputError("costs: a restore shorter than 0 or longer than 11 days")
    for name in _LINK_COSTS:
        if getattr(costs.transfers, name) > _MOST_LINK_PS:
            raise InputError(f"costs: {name} is longer than a second")
    context = min(_longest(inputs), _MOST_TOKENS)
    batch_context = min(costs.pool_pages * 16, inputs.max_batch * context)
    slowest = (
        int(target.token_ps.max())
        + int(target.lm_head_ps.max())
        + target.prefill_pair_ps * inputs.token_budget * context
        + target.decode_context_ps * batch_context
        + target.decode_sequence_ps * inputs.max_batch
    )
    slower = inputs.faults.factor_ppm[inputs.faults.kind == FaultKind.SLOW]
    slowest = slowest * max(FULL_SPEED_PPM, int(slower.max(initial=0))) // FULL_SPEED_PPM
    if slowest > _LONGEST_ITERATION_PS:
        raise InputError(f"costs: an iteration could last {slowest / 1e12:.3g} s, more than 3 days")


def _check_faults(inputs: ReplayInput) -> None:
    faults = inputs.faults
    columns = {name: getattr(faults, name) for name in FaultTable.__dataclass_fields__}
    if len({len(column) for column in columns.values()}) > 1:
        raise InputError("faults: the columns differ in length")
    if len(faults):
        _check_fault_columns(inputs, faults)
    shots = inputs.snapshot_ps
    if len(shots) and (shots[0] < 0 or np.any(np.diff(shots) <= 0)):
        raise InputError("snapshot: instants must be non-negative and increasing")


def _check_fault_columns(inputs: ReplayInput, faults: FaultTable) -> None:
    wrong = faults.worker[(faults.worker < 0) | (faults.worker >= inputs.workers)]
    if len(wrong):
        raise InputError(f"faults: worker {int(wrong[0])} is not from 0 to {inputs.workers - 1}")
    times = faults.ps
    if times[0] < 0 or np.any(np.diff(times) < 0) or times[-1] > _SPAN_LIMIT_PS:
        raise InputError("faults: times must be from 0 to 90 days and in order")
    longest = _SPAN_LIMIT_PS // 8
    kind = faults.kind
    needs_end = np.isin(kind, [FaultKind.UNREACHABLE, FaultKind.SLOW, FaultKind.DRAIN, FaultKind.MIGRATE])
    for name, column, least, most in (
        ("kind", kind, 0, max(FaultKind)),
        ("delay", faults.delay_ps, 0, longest),
        ("length", faults.length_ps, NONE, _SPAN_LIMIT_PS),
        ("length", faults.length_ps[needs_end], 0, _SPAN_LIMIT_PS),
        ("factor", faults.factor_ppm[kind == FaultKind.SLOW], FULL_SPEED_PPM, _MOST_SLOWER_PPM),
        ("refusals", faults.refusals, 0, 2**31),
        ("restart", faults.restart_ps, 0, _SPAN_LIMIT_PS),
        ("draft load", faults.draft_ps, 0, longest),
        ("load", faults.load_ps, 0, longest),
        ("init", faults.init_ps, 0, longest),
        ("load and init", (faults.load_ps + faults.init_ps)[kind != FaultKind.SLOW], 1, 2 * longest),
    ):
        bad = column[(column < least) | (column > most)]
        if len(bad):
            raise InputError(f"faults: {name} {int(bad[0])} is not from {least} to {most}")
    key = np.stack([times, kind, faults.worker])
    order = np.lexsort(key[::-1])
    same = np.all(key[:, order[1:]] == key[:, order[:-1]], axis=0)
    if np.any(order != np.arange(len(order))) or same.any():
        raise InputError("faults: at one instant they must ascend by kind and worker, each once")


def _check_policy(inputs: ReplayInput) -> None:
    costs, policy = inputs.costs, inputs.policy
    for name, value, most in (
        ("placement", policy.placement, max(Placement)),
        ("routing", policy.routing, max(Routing)),
        ("token_weight", policy.token_weight, _INT64_SAFE),
        ("request_weight", policy.request_weight, _INT64_SAFE),
        ("tau_tokens", policy.tau_tokens, 2**63 - 1),
        ("budget_pages", policy.budget_pages, _INT64_SAFE),
        ("k", policy.k, 64),
    ):
        if not 0 <= value <= most:
            raise InputError(f"{name}: {value} is not from 0 to {most}")
    longest = _longest(inputs)
    tables = [costs.restore_ps] if policy.placement else []
    remote = inputs.rules.remote_restore or policy.routing == Routing.ANYWHERE
    tables += [costs.transfers.remote_restore_ps] if remote and policy.placement else []
    if policy.placement == Placement.STORE and policy.routing in (Routing.HOLDER, Routing.LOAD_AWARE):
        raise InputError(
            "placement: no request can be sent to the store; its routing is to anywhere, or none"
        )
    tables += [costs.transfers.store_restore_ps] if policy.placement == Placement.STORE else []
    if any(len(table) <= longest // 16 for table in tables):
        raise InputError(f"costs: a restore table ends below {longest} tokens")
    if policy.k > 0:
        if costs.draft is None:
            raise InputError(f"k: {policy.k} drafted tokens need a draft model")
        if len(costs.draft.token_ps) <= max(longest, inputs.max_batch):
            raise InputError(f"costs: the draft's iteration table ends below {longest} tokens")
        if len(costs.draft.lm_head_ps) <= inputs.max_batch:
            raise InputError("costs: the draft's LM head table ends below the batch size")
        if inputs.expected_tokens.shape[1] <= policy.k or inputs.acceptance_threshold.size < 1:
            raise InputError(f"acceptance: no expected tokens for k = {policy.k}")
    total = int((inputs.prompt_tokens + inputs.output_tokens).sum(dtype=np.int64))
    most_held = min(policy.budget_pages * 16, total)
    if policy.token_weight * most_held + policy.request_weight * len(inputs.arrival_ps) > _INT64_SAFE:
        raise InputError("alpha/beta: so extreme that L does not fit 64 bits on this trace")


def _check_rules(inputs: ReplayInput) -> None:
    rules = inputs.rules
    for name, value, most in (
        ("eviction", rules.eviction, max(EvictionOrder)),
        ("retarget_ps", rules.retarget_ps, _SPAN_LIMIT_PS),
        ("load_report_ps", rules.load_report_ps, _SPAN_LIMIT_PS),
        ("slow_start_ps", rules.slow_start_ps, _SPAN_LIMIT_PS // 8),
        ("restore_failure", rules.restore_failure, 2**64 - 1),
    ):
        if not 0 <= value <= most:
            raise InputError(f"{name}: {value} is not from 0 to {most}")
    if rules.domain is not None and len(rules.domain) != inputs.workers:
        raise InputError(f"domain: {len(rules.domain)} failure domains for {inputs.workers} workers")
    if rules.load_report_ps and int(inputs.arrival_ps[-1]) // rules.load_report_ps > _MOST_REPORTS:
        raise InputError(f"load_report_ps: {rules.load_report_ps} is more than {_MOST_REPORTS} reports")


def _longest(inputs: ReplayInput) -> int:
    """Prompt + output of the longest request that fits a worker."""
    longest = int((inputs.prompt_tokens.astype(np.int64) + inputs.output_tokens).max())
    return min(longest, inputs.costs.pool_pages * 16)
