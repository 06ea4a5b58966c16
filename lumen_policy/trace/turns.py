"""Whether the prompts of a multi-turn session hold the turns before them."""

from __future__ import annotations

import numpy as np

from lumen_policy.errors import InputError
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.table import IntArray

__all__ = ["resolve_turns"]

_CERTAIN = 0.9


def resolve_turns(
    file: TraceFile, rows: Rows, session: IntArray, options: ReadOptions
) -> tuple[IntArray, str | None]:
    """Prompt tokens as served, and how that was decided.

    A follow-up turn holds its history if its prompt is at least the prompt and output of the turn before it.
    If 90 % of the follow-up turns do, prompts are cumulative and stay as they are; otherwise the file is
    refused unless ``--turns`` says what the lengths mean.

    Args:
        rows: in file order.
        session: int64, shape (n,): number of the session, −1 for none.

    Returns:
        int64, shape (n,), and a note (None where no session has two turns).
    """
    prompt, output = rows.prompt_tokens, rows.output_tokens
    served = np.flatnonzero((session >= 0) & (prompt > 0) & (output > 0))
    # By session, then time, then row: consecutive entries of one session are consecutive turns.
    order = served[np.lexsort((served, rows.arrival_ps[served], session[served]))]
    follows = session[order[1:]] == session[order[:-1]]
    later, earlier = order[1:][follows], order[:-1][follows]
    if not len(later):
        return prompt, None
    holds = prompt[later] >= prompt[earlier] + output[earlier]
    share = float(holds.mean())
    evidence = f"{int(holds.sum())} of {len(later)} follow-up turns are at least as long as the turn before"
    if options.turns == "as_is" or (options.turns is None and share >= _CERTAIN):
        reason = "as told" if options.turns else evidence
        return prompt, f"session prompts taken as they are ({reason})"
    if options.turns is None:
        raise InputError(
            f"{file.path}: it is not certain that prompts hold their session's history ({evidence}); "
            "say --turns as_is or --turns accumulate"
        )
    new = prompt[order] + output[order]
    start = np.concatenate([[True], ~follows])
    total = np.cumsum(new) - new
    history = total - np.maximum.accumulate(np.where(start, total, 0))
    served_prompt = prompt.copy()
    served_prompt[order] += history
    return served_prompt, f"earlier turns of a session added to {len(later)} prompts (as told)"
