"""No checkpoints: interrupted requests go to the shortest queue and recompute; the worker idles while reloading."""

from __future__ import annotations

from lumen_policy.policies.spec import RecoveryPolicy

__all__ = ["stop_and_restart"]


def stop_and_restart() -> RecoveryPolicy:
    """The baseline without any mechanism."""
    return RecoveryPolicy(name="stop_and_restart")
