"""The holder is the next worker on a ring; interrupted requests go to it, whatever its load."""

from __future__ import annotations

from lumen_policy.policies.spec import RecoveryPolicy

__all__ = ["fixed_checkpointing"]


def fixed_checkpointing() -> RecoveryPolicy:
    """Checkpoints on the next live worker, always restored there; where it is dead, JSQ and recompute.

    Source: DéjàVu (arXiv 2403.01876), read at the level of replicas: its own ring runs over pipeline stages.
    """
    return RecoveryPolicy(name="fixed_checkpointing", placement="ring", routing="holder")
