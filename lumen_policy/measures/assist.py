"""What speculation-assisted recovery did."""

from __future__ import annotations

from dataclasses import dataclass

from lumen_policy.measures.exact import seconds
from lumen_policy.replay.contract import ReplayOutput

__all__ = ["Assist", "assist"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assist:
    """Figures of the drafted passes; None where there was none.

    Attributes:
        tokens_per_pass: tokens delivered per verified sequence and pass, the bonus token included.
        seconds: total duration of drafted passes.
        vetoed: passes the guard refused / (those + drafted passes).
        acceptance: accepted / drafted tokens; drafts after a rejection count as drafted.
    """

    tokens_per_pass: float | None
    seconds: float
    vetoed: float | None
    acceptance: float | None


def assist(out: ReplayOutput) -> Assist:
    """The assist's figures from the replay's counters."""
    counters = out.counters
    vetoed, drafted = counters["vetoed_passes"], counters["assisted_passes"]
    return Assist(
        tokens_per_pass=_ratio(counters["verified_tokens"], counters["verified_sequences"]),
        seconds=seconds(counters["assisted_ps"]),
        vetoed=_ratio(vetoed, vetoed + drafted),
        acceptance=_ratio(counters["accepted_tokens"], counters["drafted_tokens"]),
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
