"""Policy documents for the tests."""

from __future__ import annotations

import json
from typing import Any

from lumen_policy.policies.lumen import lumen
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.policy_file.document import (
    API_VERSION,
    Evidence,
    Excess,
    Gain,
    Lengths,
    Metadata,
    PolicyDocument,
    ReferenceSummary,
    Validity,
    document_bytes,
    spec_of,
)


def example_policy() -> RecoveryPolicy:
    """A policy with every parameter away from its default."""
    return lumen(name="lumen tuned", alpha="0.01417", theta="21.43", tau=640, k=3)


def document(policy: RecoveryPolicy | None = None) -> PolicyDocument:
    """A complete document."""
    policy = policy or example_policy()
    lengths = Lengths(mean=1155.0, p50=1020.0, p90=2734.0, p99=4142.5)
    return PolicyDocument(
        api_version=API_VERSION,
        kind="RecoveryPolicy",
        metadata=Metadata(
            name=policy.name,
            model="qwen3-32b",
            kv_bytes_per_token=262144,
            page_tokens=16,
            draft_model="qwen3-1.7b",
            hardware="h100-sxm",
            gpus_per_worker=2,
            trace="built-in",
            trace_digest="a" * 64,
            profile_digest="b" * 64,
            cluster_digest="c" * 64,
            seed=0,
            toolkit_version="0.1.0",
        ),
        spec=spec_of(policy, checkpoint_bytes_per_worker=20_000_000_000),
        evidence=Evidence(
            source="simulated",
            objective="excess_e2e_request_s",
            horizon_s=300.0,
            tuning_scenarios=8,
            trials=40,
            chosen_trial=17,
            tuning_mean_request_s=812.5,
            validation_scenarios=16,
            confidence=0.95,
            excess=[
                Excess(policy="lumen tuned", mean_request_s=800.25, low_request_s=700.0, high_request_s=900.0)
            ],
            gains=[
                Gain(
                    against="lumen default",
                    mean_request_s=12.5,
                    low_request_s=-3.0,
                    high_request_s=30.0,
                    verdict="no difference",
                )
            ],
            reference=ReferenceSummary(
                mean_held_pages=900.0,
                mean_queue_requests=12.5,
                load_deciles=[float(i) for i in range(11)],
                saved_tokens_deciles=[16.0 * i for i in range(11)],
            ),
        ),
        validity=Validity(
            workers=8,
            crashed_workers=1,
            load_of_capacity=0.7,
            arrivals_per_s=20.25,
            prompt_tokens=lengths,
            output_tokens=lengths,
            reload_s=62.5,
            reload_with_draft_s=80.5,
        ),
    )


def as_json(policy: RecoveryPolicy | None = None) -> dict[str, Any]:
    """A complete document as decoded JSON."""
    decoded: dict[str, Any] = json.loads(document_bytes(document(policy)))
    return decoded
