"""Checkpoints in a store beside the workers; interrupted requests restore from it wherever the queue is shortest."""

from __future__ import annotations

from lumen_policy.policies.spec import RecoveryPolicy

__all__ = ["remote_store"]


def remote_store() -> RecoveryPolicy:
    """A store behind a latency and a shared bandwidth, without limit of room; any worker restores.

    No placement and no holder to follow: what load-aware placement and routing are worth beside one shared copy.
    """
    return RecoveryPolicy(name="remote_store", placement="store", routing="anywhere")
