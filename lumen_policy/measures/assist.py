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
        draft_busy_s: the drafters' work: drafting and draft prefill.
        retargets: times a drafter left its target for another one.
        ping_pong_passes: passes that overlapped with the drafting for the other half.
    """

    tokens_per_pass: float | None
    seconds: float
    vetoed: float | None
    acceptance: float | None
    draft_busy_s: float
    retargets: int
    ping_pong_passes: int


def assist(out: ReplayOutput) -> Assist:
    """The assist's figures from the replay's counters."""
    counters = out.counters
    vetoed, drafted = counters["vetoed_passes"], counters["assisted_passes"]
    return Assist(
        tokens_per_pass=_ratio(counters["verified_tokens"], counters["verified_sequences"]),
        seconds=seconds(counters["assisted_ps"]),
        vetoed=_ratio(vetoed, vetoed + drafted),
        acceptance=_ratio(counters["accepted_tokens"], counters["drafted_tokens"]),
        draft_busy_s=seconds(counters["draft_busy_ps"]),
        retargets=counters["retargets"],
        ping_pong_passes=counters["ping_pong_passes"],
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
