"""Every key of a set-up, once: flags, config files and docs/defaults.md all come from here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from lumen_policy.errors import InputError
from lumen_policy.recovery_settings import RecoverySettings
from lumen_policy.setting_key import AUTO, Group, Key, key_field, near_match

__all__ = ["GROUPS", "Settings", "key_of", "keys", "settings_from"]

GROUPS: tuple[Group, ...] = get_args(Group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(RecoverySettings):
    """A whole set-up as the user states it; ``lumen_policy.cluster`` resolves it.

    Each field's metadata is a ``Key``; construction checks every value against it.
    """

    # fmt: off
    workers: int = key_field(
        8, "int", "cluster", "full model replicas (TP groups) behind the gateway",
        unit="workers", at_least=1, at_most=4096,
        reason="the larger set-up of LUMEN's testbed (arXiv 2606.17787)",
    )
    model: str = key_field(
        "qwen3-32b", "text", "cluster", "served model: a built-in name or a Hugging Face config.json",
        reason="served model of LUMEN's testbed (arXiv 2606.17787)",
    )
    draft: str = key_field(
        "qwen3-1.7b", "text", "cluster", "draft model of a recovering worker: a name, a config.json, or none",
        reason="the pairing with published acceptance figures (tomasruizt.github.io, 06_vllm-spec-decode)",
    )
    hardware: str = key_field(
        "h100-sxm", "text", "cluster", "hardware profile: a built-in name or a JSON file",
        reason="project's choice",
    )
    tp: int = key_field(
        2, "int", "cluster", "tensor-parallel GPUs of one worker",
        unit="GPUs", at_least=1, at_most=64,
        reason="65.5 GB of BF16 weights leave no useful KV room on one 80 GB GPU",
    )
    chunk_tokens: int = key_field(
        2048, "int", "cluster", "token budget of one iteration (decodes first, then prefill chunks)",
        unit="tokens", at_least=1, at_most=1 << 20,
        reason="vLLM's max_num_batched_tokens for online serving",
    )
    max_batch: int = key_field(
        256, "int", "cluster", "requests admitted on one worker at most",
        unit="requests", at_least=1, at_most=1 << 16,
        reason="vLLM's max_num_seqs",
    )
    kv_pages: int | None = key_field(
        None, "int", "cluster", "KV pages of one worker; auto: what its memory leaves",
        unit="16-token pages", at_least=1, at_most=1 << 31,
        reason="derived from HBM, weights and reserve of the profile",
    )
    max_context_tokens: int | None = key_field(
        None, "int", "cluster", "request a worker must hold; auto: the trace's longest, at most 32768",
        unit="tokens", flag=False, at_least=16, at_most=1 << 24,
        reason="32768 is the native context of the Qwen3 models; longer requests that do not fit are refused",
    )
    min_prefill_tokens: int = key_field(
        256, "int", "cluster", "kept free of verify rows while an admitted request is in prefill",
        unit="tokens", flag=False, at_least=0, at_most=1 << 20,
        reason="an eighth of the token budget, so that assisted decoding cannot starve prefill",
    )
    scheduler: str = key_field(
        "mixed", "text", "cluster", "iterations hold decodes and prefill chunks, or prefill alone first",
        choices=("mixed", "prefill_first"),
        reason="chunked prefill is the default of current engines",
    )
    router: str = key_field(
        "jsq", "text", "cluster", "how the gateway routes arrivals",
        choices=("jsq", "round_robin", "power_of_two", "least_kv"),
        reason="join the shortest queue, as LUMEN's gateway (arXiv 2606.17787)",
    )
    own_rules: str = key_field(
        "none", "text", "cluster", "Python file whose functions stand in for decisions of lumen_policy.decide, or none",
        reason="the decisions of the papers",
    )
    acceptance_start: float = key_field(
        0.4, "float", "cluster", "acceptance of a draft token in a request's first drafted pass",
        unit="probability", flag=False, at_least=0, at_most=1,
        reason="assumed: the acceptance LUMEN asks an operator to exceed (arXiv 2606.17787)",
    )
    acceptance_final: float = key_field(
        0.765, "float", "cluster", "acceptance of a draft token after many drafted passes",
        unit="probability", flag=False, at_least=0, at_most=1,
        reason="constant acceptance fitted to MT-Bench tokens per pass, k = 1…6, Qwen3-32B with "
        "Qwen3-1.7B: 1.77/2.35/2.80/3.13/3.40/3.58 (tomasruizt.github.io, 06_vllm-spec-decode); "
        "fits within 0.02",
    )
    acceptance_scale_passes: float = key_field(
        20.0, "float", "cluster", "passes s0 of a(s) = final - (final - start)·e^(-s/s0)",
        unit="passes", flag=False, at_least=0, at_most=3000,
        reason="assumed: warm after about a third of a mean answer of 211 tokens",
    )
    acceptance_rates: tuple[float, ...] = key_field(
        (), "numbers", "cluster",
        "acceptance of the 1st, 2nd, ... drafted token of a pass, the last for all later ones; none: the curve above",
        unit="probability", flag=False, at_least=0, at_most=1,
        reason="the acceptance curve; rates by position fit drafts that fall faster than geometric",
    )
    draft_round_trip_s: float | None = key_field(
        None, "float", "cluster", "network round trip of token ids per drafted pass; auto: the profile's",
        unit="s", flag=False, at_least=0, at_most=60,
        reason="hardware profile",
    )
    trace: str = key_field(
        "built-in", "text", "trace", "trace file (see trace info for the formats), or built-in",
        flag=False,
        reason="the main job needs no download",
    )
    format: str | None = key_field(
        None, "text", "trace", "format of the trace file; auto: recognised from its content",
        reason="the content says it",
    )
    limit: int | None = key_field(
        None, "int", "trace", "first N requests (the built-in trace: N requests, any number); auto: all",
        unit="requests", at_least=1, at_most=1 << 31,
        reason="a prefix is not like the whole, so all by default",
    )
    load: float | None = key_field(
        None, "float", "trace",
        "share of capacity, reached by superposing shifted copies; auto: own rate, 0.7 in tune",
        unit="of capacity", above=0, at_most=10,
        reason="0.7: busy, with room for one worker's share of eight",
    )
    rate_scale: float | None = key_field(
        None, "float", "trace", "compress time by this factor instead of superposing; auto: off",
        above=0, at_most=1000000.0,
        reason="changes burstiness, so never by default",
    )
    policy: str = key_field(
        "lumen", "text", "policy",
        "stop_and_restart, fixed_checkpointing, remote_store, lumen, or an exported policy file",
        reason="the policy under study",
    )
    alpha: str | None = key_field(
        None, "decimal", "policy", "placement weight of a held page; auto: 1 / mean pages of a request",
        unit="per page", at_least=0,
        reason="a full copy then weighs like one queued request",
    )
    beta: str | None = key_field(
        None, "decimal", "policy", "weight of a queued request; auto: 1",
        unit="per request", at_least=0,
        reason="sets the unit of L; only ratios matter",
    )
    theta: str | None = key_field(
        None, "decimal", "policy", "L up to which the holder is preferred; auto: 2 x time-mean fault-free L",
        unit="units of L", words=("inf", "never"), at_least=0,
        reason="any finite value below the usual load hurts, so well above it",
    )
    tau: int | str | None = key_field(
        None, "tokens", "policy", "saved tokens above which the holder is preferred at any load; auto: 512",
        unit="tokens", words=("inf",), at_least=0, at_most=2**62,
        reason="recomputing a quarter of an iteration's token budget costs little",
    )
    k: int | None = key_field(
        None, "int", "policy", "drafted tokens per assisted pass; auto: 2 with a draft model, 0 without",
        unit="tokens", at_least=0, at_most=64,
        reason="gains flatten after 2-3 at the published acceptance",
    )
    guard: bool = key_field(
        True, "bool", "policy", "skip drafted passes expected to be slower than plain decode",
        flag=False,
        reason="speculation loses at batch 128 and more (tomasruizt.github.io, 06_vllm-spec-decode)",
    )
    placement: bool = key_field(
        True, "bool", "policy", "lumen's load-aware placement; off: the ring of fixed_checkpointing",
        flag=False,
        reason="all three mechanisms on",
    )
    routing: bool = key_field(
        True, "bool", "policy", "lumen's load-aware routing; off: always the holder",
        flag=False,
        reason="all three mechanisms on",
    )
    assist: bool = key_field(
        True, "bool", "policy", "lumen's speculation-assisted recovery; off: no draft is loaded",
        flag=False,
        reason="all three mechanisms on",
    )
    crash: tuple[str, ...] = key_field(
        (), "texts", "faults", "crash as TIME:WORKERS, seconds and worker numbers, e.g. 300:2,5; repeatable",
        reason="without one the run is fault-free",
    )
    fault: tuple[str, ...] = key_field(
        (), "texts", "faults",
        "fault as KIND@TIME:WORKERS[:FIELD=VALUE,...], e.g. slow@300:2:factor=1.3,duration_s=60; repeatable",
        reason="without one the run is fault-free",
    )
    faults: str | None = key_field(
        None, "text", "faults",
        "file of faults, a schedule (CSV, JSON) or an event log in days; auto: none, see crash and fault",
        reason="without one the faults are those of crash and fault",
    )
    fault_days: str | None = key_field(
        None, "text", "faults", "window START:END of a log in days, mapped onto the trace; auto: all of it",
        unit="days",
        reason="the whole log, its acceleration said",
    )
    fault_nodes: str = key_field(
        "sample", "text", "faults",
        "which nodes of a file become workers: a drawn sample, those with most faults, or all folded",
        choices=("sample", "worst", "fold"),
        reason="a sample keeps the rate of a node",
    )
    fault_nodes_watched: int | None = key_field(
        None, "int", "faults", "nodes the file watched, failed or not, to sample from; auto: those it names",
        unit="nodes", at_least=1, at_most=10 ** 9,
        reason="a log names only nodes that failed",
    )
    horizon_s: float | None = key_field(
        None, "float", "measures", "window H after a crash; auto: max(300, longest reload + 180)",
        unit="s", above=0, at_most=10000000.0,
        reason="long enough for the rejoin and the queue it leaves; common to all policies",
    )
    mtbf_hours: float | None = key_field(
        None, "float", "measures", "mean time between crashes of a worker, for minutes lost a month; auto: off",
        unit="h", above=0, at_most=1e9,
        reason="e.g. 5616 h = 234 days a server (InfiniteHBD-Trace, arXiv 2502.03885)",
    )
    ttft_weight: float = key_field(
        1.0, "float", "measures", "weight of the TTFT part of excess E2E",
        flag=False, at_least=0, at_most=1000000.0,
        reason="both parts count as waiting",
    )
    decode_weight: float = key_field(
        1.0, "float", "measures", "weight of the decode part of excess E2E",
        flag=False, at_least=0, at_most=1000000.0,
        reason="both parts count as waiting",
    )
    slo_ttft_s: float = key_field(
        2.0, "float", "measures", "TTFT a request must meet",
        unit="s", flag=False, above=0, at_most=1000000.0,
        reason="project's choice: interactive chat",
    )
    slo_tpot_s: float = key_field(
        0.1, "float", "measures", "TPOT a request must meet",
        unit="s", flag=False, above=0, at_most=1000000.0,
        reason="project's choice: ten tokens a second, faster than reading",
    )
    recovery_window_s: float = key_field(
        60.0, "float", "measures", "rolling mean over which recovery is judged",
        unit="s", flag=False, above=0, at_most=1000000.0,
        reason="long enough that a run without a crash stays in band; `--placebo` measures it",
    )
    recovery_hold_s: float = key_field(
        60.0, "float", "measures", "time in band that counts as recovered",
        unit="s", flag=False, above=0, at_most=1000000.0,
        reason="long enough that a run without a crash stays in band; `--placebo` measures it",
    )
    recovery_min_samples: int = key_field(
        30, "int", "measures", "samples a window needs; fewer count as in band",
        unit="samples", flag=False, at_least=1, at_most=10 ** 9,
        reason="standard error of a mean below a fifth of the spread",
    )
    recovery_band_ratio: float = key_field(
        1.2, "float", "measures", "band: this factor on the fault-free run, plus the margins below",
        flag=False, at_least=1, at_most=1000000.0,
        reason="wide enough for a run without a crash; `--placebo` measures it",
    )
    recovery_ttft_margin_s: float = key_field(
        0.1, "float", "measures", "added to the band of TTFT",
        unit="s", flag=False, at_least=0, at_most=1000000.0,
        reason="so that a small base does not make noise an excursion; `--placebo` measures it",
    )
    recovery_gap_margin_s: float = key_field(
        0.005, "float", "measures", "added to the band of token gaps",
        unit="s", flag=False, at_least=0, at_most=1000000.0,
        reason="so that a small base does not make noise an excursion; `--placebo` measures it",
    )
    in_system_ratio: float = key_field(
        1.1, "float", "measures", "requests in the system are back within this factor of the fault-free run",
        flag=False, at_least=1, at_most=1e6,
        reason="project's choice: a second recovery measure without a latency band; first return, no hold",
    )
    in_system_margin_requests: float = key_field(
        2.0, "float", "measures", "added to the band of requests in the system",
        unit="requests", flag=False, at_least=0, at_most=1e6,
        reason="project's choice: a small system is not judged on one request",
    )

    seed: int = key_field(
        0, "int", "cluster", "seed of every draw",
        at_least=0, at_most=2 ** 63 - 1,
        reason="any; stated so that runs repeat",
    )
    trials: int = key_field(
        40, "int", "search", "policies the search tries",
        unit="trials", at_least=1, at_most=10 ** 5,
        reason="a Gaussian process needs about ten per dimension; the cube has four",
    )
    scenarios: int = key_field(
        8, "int", "search", "crash scenarios each trial is scored on",
        unit="scenarios", at_least=1, at_most=10 ** 5,
        reason="fits the time budget; the winner is judged on others",
    )
    validation_scenarios: int = key_field(
        16, "int", "search", "further scenarios that judge the choice",
        unit="scenarios", at_least=2, at_most=10 ** 5,
        reason="paired results vary strongly with the scenario: at least 16",
    )
    victims: int = key_field(
        1, "int", "search", "workers that crash together in a scenario",
        unit="workers", at_least=1, at_most=4096,
        reason="one crash, as in LUMEN's testbed",
    )
    victim_choice: str = key_field(
        "any", "text", "search", "victims drawn one by one, or a rack: a drawn block of neighbouring workers",
        choices=("any", "rack"),
        reason="independent faults; most large bursts are racks (Ford et al., OSDI 2010)",
    )
    victim_scope: str = key_field(
        "gpu", "text", "search", "what of the victims a scenario's crash takes down",
        choices=("process", "gpu", "node"),
        reason="the loss of a GPU worker with its checkpoint memory, as in LUMEN's testbed",
    )
    warmup_s: float = key_field(
        120.0, "float", "search", "time of a scenario before its crash",
        unit="s", flag=False, above=0, at_most=1000000.0,
        reason="several times the residence of a request",
    )
    # fmt: on

    def __post_init__(self) -> None:
        for key in keys():
            object.__setattr__(self, key.name, key.checked(getattr(self, key.name)))
        if self.load is not None and self.rate_scale is not None:
            raise InputError(
                "load and rate_scale exclude each other: one superposes copies, the other compresses time"
            )
        self.check_together()


_KEYS: dict[str, Key] = {
    f.name: Key(name=f.name, default=f.default, **f.metadata) for f in dataclasses.fields(Settings)
}


def keys() -> tuple[Key, ...]:
    """All keys, in the order they are printed."""
    return tuple(_KEYS.values())


def key_of(name: str) -> Key:
    """The key of that name; InputError with the nearest one otherwise."""
    if name not in _KEYS:
        raise InputError(f"unknown key {name!r}{near_match(name.lower().replace('-', '_'), _KEYS)}")
    return _KEYS[name]


def settings_from(values: Mapping[str, Any]) -> Settings:
    """Settings from parsed keys, the rest at their defaults.

    Args:
        values: key → value as a TOML file, JSON or the command line holds it; ``auto`` stands for the derived
            value of a key that has one.

    Raises:
        InputError: unknown key (with the nearest one), wrong type, value out of bounds.
    """
    given: dict[str, Any] = {}
    for name, value in values.items():
        key = key_of(name)
        given[name] = None if key.optional and value == AUTO else value
    return Settings(**given)
