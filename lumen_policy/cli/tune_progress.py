"""How far a tuning run is: a bar on a terminal, plain lines elsewhere, always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lumen_policy.tune.search import Trial
from lumen_policy.tune.study import Progress

__all__ = ["progress"]


@contextmanager
def progress(*, quiet: bool) -> Iterator[Progress | None]:
    """The progress of one run."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _Bar() as bar:
            yield bar
    else:
        yield _Lines()


class _Lines:
    def stage(self, text: str) -> None:
        print(f"lumen-tune: {text}", file=sys.stderr)

    def trial(self, trial: Trial, best: Trial, total: int) -> None:
        print(f"lumen-tune: trial {trial.number + 1}/{total}: {_score(trial, best)}", file=sys.stderr)


class _Bar:
    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._bar: Any = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[score]}"),
            console=Console(stderr=True),
        )
        self._task: Any = None

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def stage(self, text: str) -> None:
        self._task = self._bar.add_task(text, total=None, score="")

    def trial(self, trial: Trial, best: Trial, total: int) -> None:
        self._bar.update(self._task, completed=trial.number + 1, total=total, score=_score(trial, best))


def _score(trial: Trial, best: Trial) -> str:
    policy = best.policy
    known = "" if trial.same_as is None else f" (as trial {trial.same_as + 1})"
    return (
        f"{trial.mean_request_s:,.1f} request-s{known}; best {best.mean_request_s:,.1f}: "
        f"α {policy.alpha}, θ {policy.theta}, τ {policy.tau}, k {policy.k}"
    )
