"""The keys of detection, reload and recovery, beside the policy that is under study."""

from __future__ import annotations

from dataclasses import dataclass

from lumen_policy.errors import InputError
from lumen_policy.setting_key import key_field

__all__ = ["DEFAULT_BUDGET_GB", "RecoverySettings"]

DEFAULT_BUDGET_GB = 20.0
_PATHS = ("storage", "weight_cache", "snapshot", "standby")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySettings:
    """How faults are noticed and how workers, copies and requests come back; part of ``Settings``."""

    # fmt: off
    detection: str | None = key_field(
        None, "text", "faults",
        "how a fault is noticed: after a fixed delay, by health checks (hang_... keys), or, where a process or GPU "
        "crashed, by refused connections; auto: fixed if detection_s is stated, else hang",
        choices=("fixed", "hang", "refused"),
        reason="a hung worker is found by health checks only",
    )
    detection_s: float | None = key_field(
        None, "float", "faults", "fixed delay from fault to detection; auto: detection by health checks",
        unit="s", at_least=0, at_most=900000.0,
        reason="a hung worker is found by health checks only",
    )
    hang_interval_s: float = key_field(
        1.0, "float", "faults", "interval of health checks",
        unit="s", flag=False, above=0, at_most=100000.0,
        reason="DéjàVu's heartbeat (arXiv 2403.01876)",
    )
    hang_misses: int = key_field(
        3, "int", "faults", "missed checks until a worker is believed dead",
        unit="checks", flag=False, at_least=1, at_most=10 ** 6,
        reason="DéjàVu: dead after 3 missed heartbeats (arXiv 2403.01876)",
    )
    hang_timeout_s: float = key_field(
        1.0, "float", "faults", "timeout of one health check",
        unit="s", flag=False, at_least=0, at_most=100000.0,
        reason="fits measured gateways: U(0, interval) + (misses - 1)·interval + timeout",
    )
    breaker_threshold: int = key_field(
        5, "int", "faults", "with refused: refused requests until the gateway sends a worker no more",
        unit="requests", flag=False, at_least=1, at_most=10 ** 6,
        reason="vllm-router's --cb-failure-threshold",
    )
    false_alarms_per_hour: float = key_field(
        0.0, "float", "faults", "how often a healthy worker is taken for dead, a Poisson process for each worker",
        unit="per worker and hour", flag=False, at_least=0, at_most=3600.0,
        reason="none, so that a result shows the stated faults alone",
    )
    false_alarm_s: float = key_field(
        30.0, "float", "faults", "how long a false alarm keeps a worker away",
        unit="s", flag=False, above=0, at_most=900000.0,
        reason="vllm-router: an open breaker tries again after 30 s",
    )
    repair_s: float = key_field(
        0.0, "float", "faults", "repair of a crashed GPU or node, from detection, of faults that state no duration",
        unit="s", at_least=0, at_most=900000.0,
        reason="LUMEN's workers reload where they crashed (arXiv 2606.17787)",
    )
    spare_s: float | None = key_field(
        None, "float", "faults", "until a spare takes a crashed GPU or node's place, if sooner; auto: no spares",
        unit="s", at_least=0, at_most=900000.0,
        reason="LUMEN's testbed has none (arXiv 2606.17787)",
    )
    reload_path: str = key_field(
        "storage", "text", "faults", "how a worker comes back after its process alone crashed, hung or was stopped",
        choices=_PATHS,
        reason="a plain restart; the others need a weight cache, snapshots or a standby engine",
    )
    hardware_reload_path: str = key_field(
        "storage", "text", "faults", "how a worker comes back after a GPU or node was lost, once that is mended",
        choices=("storage", "snapshot"),
        reason="a plain restart; a weight cache or standby engine goes with the hardware",
    )
    rack_workers: int = key_field(
        1, "int", "recovery", "workers of a failure domain: worker w is in domain floor(w / this)",
        unit="workers", at_least=1, at_most=4096,
        reason="each worker its own domain",
    )
    load_report_interval_s: float = key_field(
        0.0, "float", "recovery", "age of the loads that the gateway decides by; 0: exact",
        unit="s", at_least=0, at_most=86400.0,
        reason="LUMEN's gateway sees every request (arXiv 2606.17787)",
    )
    slow_start_s: float = key_field(
        0.0, "float", "recovery",
        "how long a worker that came back counts as loaded like the others, less and less; 0: not at all",
        unit="s", at_least=0, at_most=86400.0,
        reason="an empty worker draws requests at once, as join-shortest-queue has it",
    )
    interrupted: str = key_field(
        "reroute", "text", "recovery", "interrupted requests go to other workers, or wait for their own to come back",
        choices=("reroute", "wait"),
        reason="LUMEN reroutes (arXiv 2606.17787)",
    )
    continuation: str = key_field(
        "resume", "text", "recovery",
        "interrupted requests go on after their delivered tokens, or decode these again unseen",
        choices=("resume", "regenerate"),
        reason="LUMEN resumes (arXiv 2606.17787)",
    )
    requeue: str = key_field(
        "tail", "text", "recovery", "where in a queue interrupted requests join",
        choices=("tail", "front"),
        reason="no request overtakes another",
    )
    checkpoint_budget_gb: float | None = key_field(
        None, "float", "recovery",
        "host memory of a worker for other workers' checkpoints; auto: 20, or the share below",
        unit="GB (10^9 bytes)", flag=False, at_least=0, at_most=1000000.0,
        reason="LUMEN's checkpoint budget a worker is 20 GB (arXiv 2606.17787)",
    )
    checkpoint_budget_share: float | None = key_field(
        None, "float", "recovery", "the same as a share of the worker's host memory; auto: checkpoint_budget_gb",
        unit="of host memory", flag=False, at_least=0, at_most=1,
        reason="a budget in bytes is LUMEN's (arXiv 2606.17787)",
    )
    host_memory_gb_per_gpu: float = key_field(
        250.0, "float", "recovery", "host memory for each GPU of a worker, of which the share is taken",
        unit="GB (10^9 bytes)", flag=False, above=0, at_most=100000.0,
        reason="2 TB for eight GPUs (NVIDIA DGX H100 user guide)",
    )
    eviction: str = key_field(
        "refuse", "text", "recovery",
        "what a full checkpoint memory does: refuse, or evict the least recently grown, the shortest, or the copy "
        "with the fewest tokens for its age",
        choices=("refuse", "lru", "shortest", "prefix_weighted"),
        reason="a copy that stops growing stays usable",
    )
    stream_from: str = key_field(
        "decode", "text", "recovery", "KV streams to the holder from the end of the prefill on, or chunk by chunk",
        choices=("decode", "prefill"),
        reason="LUMEN streams with decode (arXiv 2606.17787)",
    )
    anti_affinity: bool = key_field(
        False, "bool", "recovery", "no copy in the server's failure domain",
        flag=False,
        reason="LUMEN places by load alone (arXiv 2606.17787)",
    )
    second_replica: bool = key_field(
        False, "bool", "recovery", "a second copy, in another failure domain than the first",
        flag=False,
        reason="LUMEN keeps one copy (arXiv 2606.17787)",
    )
    re_replicate: bool = key_field(
        False, "bool", "recovery", "requests that lost a copy with its holder get a new holder at its detection",
        flag=False,
        reason="LUMEN leaves them unprotected (arXiv 2606.17787)",
    )
    remote_restore: bool = key_field(
        False, "bool", "recovery", "a request that does not go to its holder restores from it over the network",
        flag=False,
        reason="LUMEN recomputes there (arXiv 2606.17787)",
    )
    restore_failure_share: float = key_field(
        0.0, "float", "recovery", "share of the restores that fail at their end; the request then recomputes",
        unit="of restores", flag=False, at_least=0, at_most=1,
        reason="none, so that a result shows the stated faults alone",
    )
    links: str = key_field(
        "free", "text", "recovery",
        "checkpoint transfers take no time, or take their turn on the server's and the holder's link",
        choices=("free", "fifo"),
        reason="LUMEN's KV streams beside the decode at no cost (arXiv 2606.17787)",
    )
    store_latency_s: float | None = key_field(
        None, "float", "recovery", "latency of the store of remote_store; auto: the profile's",
        unit="s", flag=False, at_least=0, at_most=1,
        reason="hardware profile",
    )
    store_gb_per_s: float | None = key_field(
        None, "float", "recovery", "bandwidth of that store one way, for all workers together; auto: the profile's",
        unit="GB/s (10^9 bytes)", flag=False, above=0, at_most=100000.0,
        reason="hardware profile",
    )
    assist_retarget_s: float | str = key_field(
        "inf", "float", "recovery", "how often a drafting worker chooses its target anew",
        unit="s", flag=False, words=("inf",), above=0.000001, at_most=86400.0,
        reason="LUMEN chooses once (arXiv 2606.17787)",
    )
    ping_pong: bool = key_field(
        False, "bool", "recovery", "drafting for one half batch overlaps with the verification of the other",
        flag=False,
        reason="a draft needs the last verdict, so by default nothing overlaps",
    )
    # fmt: on

    def check_together(self) -> None:
        """Refuses keys that contradict one another."""
        if self.detection == "fixed" and self.detection_s is None:
            raise InputError("detection: fixed needs detection_s")
        if self.detection in ("hang", "refused") and self.detection_s is not None:
            raise InputError(f"detection_s: is the delay of detection fixed, not of {self.detection}")
        if self.checkpoint_budget_gb is not None and self.checkpoint_budget_share is not None:
            raise InputError("checkpoint_budget_gb and checkpoint_budget_share exclude each other: state one")
