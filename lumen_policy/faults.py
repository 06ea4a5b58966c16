"""What happens to which worker when: the faults of a replay, as a set-up states them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal, get_args

from lumen_policy.clock import seconds_to_ps
from lumen_policy.errors import InputError
from lumen_policy.replay.contract import FULL_SPEED_PPM, PS_PER_S, FaultKind

__all__ = [
    "DEFAULT_SCOPES",
    "KINDS",
    "LONGEST_S",
    "MODES",
    "SCOPES",
    "Fault",
    "Kind",
    "Mode",
    "Scope",
    "check_faults",
    "check_fields",
    "fault_of",
    "outlasting",
    "parse_crashes",
    "parse_faults",
    "timeline_of",
]

Kind = Literal["crash", "slow", "hang", "unreachable", "drain", "false_alarm"]
Scope = Literal["process", "gpu", "node"]
Mode = Literal["finish", "migrate"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SCOPES: tuple[Scope, ...] = get_args(Scope)
MODES: tuple[Mode, ...] = get_args(Mode)

DEFAULT_SCOPES: dict[Kind, Scope] = {"crash": "gpu", "hang": "process", "drain": "node"}
"""Kinds whose worker reloads, and what of it is lost or stopped unless stated."""

LONGEST_S = 950_400
"""Longest duration of a fault, 11 days; a longer repair counts as this."""

_MOST_FACTOR = 1000
_CODES: dict[Kind, FaultKind] = {
    "crash": FaultKind.CRASH,
    "hang": FaultKind.HANG,
    "unreachable": FaultKind.UNREACHABLE,
    "false_alarm": FaultKind.UNREACHABLE,
    "slow": FaultKind.SLOW,
    "drain": FaultKind.DRAIN,
}
_NEEDS_DURATION = ("slow", "unreachable", "false_alarm")
_FIELDS = ("scope", "duration_s", "factor", "mode")


def check_fields(
    kind: str, *, scope: str | None, duration_s: float | None, factor: float | None, mode: str | None
) -> None:
    """Refuses fields that are out of range or that the kind does not have.

    Raises:
        InputError: names field, value and what is allowed; without a place.
    """
    for field, value, allowed in (("kind", kind, KINDS), ("scope", scope, SCOPES), ("mode", mode, MODES)):
        if value is not None and value not in allowed:
            raise InputError(f"{field} {value!r} is not one of {', '.join(allowed)}")
    if scope is not None and kind not in DEFAULT_SCOPES:
        raise InputError(f"scope {scope!r}: only {', '.join(DEFAULT_SCOPES)} have one, not {kind}")
    if mode is not None and kind != "drain":
        raise InputError(f"mode {mode!r}: only drain has one, not {kind}")
    if (factor is not None) != (kind == "slow") or (
        factor is not None and not 1 + 1 / FULL_SPEED_PPM <= factor <= _MOST_FACTOR
    ):
        raise InputError(
            f"factor {factor!r}: a slow fault has one from 1.000001 to {_MOST_FACTOR}, no other kind ({kind}) has one"
        )
    _check_duration(kind, scope, duration_s)


def _check_duration(kind: str, scope: str | None, duration_s: float | None) -> None:
    if duration_s is None:
        if kind in _NEEDS_DURATION:
            raise InputError(f"duration_s is missing: {kind} needs one, seconds > 0")
        return
    if not duration_s >= 0:
        raise InputError(f"duration_s {duration_s!r} is not a number ≥ 0")
    if kind == "crash":
        if scope == "process":
            raise InputError(f"duration_s {duration_s!r}: a process crash has no repair; leave it out")
    elif kind == "hang" and duration_s == math.inf:
        return
    elif not (kind == "drain" or duration_s > 0) or duration_s > LONGEST_S:
        raise InputError(f"duration_s {duration_s!r}: of {kind}, allowed: > 0 and ≤ {LONGEST_S} s (11 days)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of one worker.

    Attributes:
        time_ps: start, from the trace's first arrival.
        worker: 0-based.
        kind: ``crash``: lost at one instant; ``hang``: alive and silent; ``unreachable``: the network path is
            gone, the worker lives on alone; ``slow``: iterations take longer; ``drain``: taken out of service in
            order; ``false_alarm``: believed dead at once though nothing ails it.
        scope: of crash, hang and drain, what is lost or stopped: the engine ``process`` (host memory survives), a
            ``gpu`` or the ``node``. None: of the kind's default.
        duration_ps: crash: the repair; hang, unreachable, false_alarm, slow: how long; drain: work on the
            stopped worker. None: not stated; a hang then never ends.
        factor_ppm: of slow, millionths.
        mode: of drain: the requests ``finish`` there, or ``migrate`` at once.
    """

    time_ps: int
    worker: int
    kind: Kind = "crash"
    scope: Scope | None = None
    duration_ps: int | None = None
    factor_ppm: int | None = None
    mode: Mode | None = None

    def __post_init__(self) -> None:
        if self.scope is None:
            object.__setattr__(self, "scope", DEFAULT_SCOPES.get(self.kind))
        if self.mode is None and self.kind == "drain":
            object.__setattr__(self, "mode", "finish")

    @property
    def code(self) -> FaultKind:
        """What a replay knows it as."""
        return FaultKind.MIGRATE if self.mode == "migrate" else _CODES[self.kind]

    @property
    def order(self) -> tuple[int, int, int]:
        """Faults come in this order and each value once."""
        return (self.time_ps, int(self.code), self.worker)

    @property
    def time_s(self) -> float:
        """The start in seconds."""
        return self.time_ps / PS_PER_S

    def describe(self) -> dict[str, Any]:
        """For results; fields that the kind does not have are null."""
        return {
            "time_s": self.time_s,
            "worker": self.worker,
            "kind": self.kind,
            "scope": self.scope,
            "duration_s": None if self.duration_ps is None else self.duration_ps / PS_PER_S,
            "factor": None if self.factor_ppm is None else self.factor_ppm / FULL_SPEED_PPM,
            "mode": self.mode,
        }


def timeline_of(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """The faults in order.

    Raises:
        InputError: two of one kind hit one worker at one instant.
    """
    ordered = tuple(sorted(faults, key=lambda fault: fault.order))
    for before, after in pairwise(ordered):
        if before.order == after.order:
            raise InputError(f"{after.kind}: worker {after.worker} has it twice at {after.time_s:g} s")
    return ordered


def parse_crashes(texts: Iterable[str]) -> tuple[Fault, ...]:
    """``TIME:WORKERS`` texts as crashes of scope gpu, ordered by time and worker.

    Args:
        texts: e.g. ``300:2,5`` (workers 2 and 5 at 300 s); several texts form one timeline.

    Raises:
        InputError: not of that form, a negative or non-finite time, the same worker twice at one instant.
    """
    crashes: list[Fault] = []
    for text in texts:
        time_text, separator, workers_text = text.partition(":")
        if not separator or not time_text.strip() or not workers_text.strip():
            raise InputError(f"crash: {text!r} is not TIME:WORKERS, e.g. 300:2,5")
        time_ps = seconds_to_ps(f"crash {text!r}", time_text)
        crashes += [Fault(time_ps=time_ps, worker=worker) for worker in _workers("crash", text, workers_text)]
    return timeline_of(crashes)


def parse_faults(texts: Iterable[str]) -> tuple[Fault, ...]:
    """``KIND@TIME:WORKERS[:FIELD=VALUE,…]`` texts as one timeline.

    Args:
        texts: e.g. ``crash@300:2,5:scope=node``, ``slow@300:2:factor=1.34,duration_s=600``,
            ``drain@300:2:mode=migrate``; the fields are those of a schedule.

    Raises:
        InputError: not of that form; a field that is unknown, given twice, out of range or not of this kind.
    """
    faults: list[Fault] = []
    for text in texts:
        head, *rest = text.split(":")
        kind_text, at, time_text = head.partition("@")
        if not at or not rest or len(rest) > 2 or not rest[0].strip():
            raise InputError(
                f"fault: {text!r} is not KIND@TIME:WORKERS[:FIELD=VALUE,…], e.g. slow@300:2:factor=1.3,duration_s=60"
            )
        fields = _fields(text, rest[1]) if len(rest) == 2 else {}
        time_ps = seconds_to_ps(f"fault {text!r}", time_text)
        faults += [
            fault_of(f"fault {text!r}", time_ps, worker, kind_text.strip(), **fields)
            for worker in _workers("fault", text, rest[0])
        ]
    return timeline_of(faults)


def fault_of(
    place: str,
    time_ps: int,
    worker: int,
    kind: str,
    *,
    scope: str | None = None,
    duration_s: float | str | None = None,
    factor: float | str | None = None,
    mode: str | None = None,
) -> Fault:
    """A fault from checked or unchecked fields.

    Args:
        place: named in errors.
        duration_s, factor: a number or its decimal text; an endless duration means never.

    Raises:
        InputError: a field that is out of range or that the kind does not have.
    """
    duration, times = _number(place, "duration_s", duration_s), _number(place, "factor", factor)
    try:
        check_fields(kind, scope=scope, duration_s=duration, factor=times, mode=mode)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    duration_ps = None
    if duration is not None and not (kind == "hang" and duration == math.inf):
        limit = duration_s if duration <= LONGEST_S else LONGEST_S
        duration_ps = seconds_to_ps(f"{place}: duration_s", limit if limit is not None else 0)
    return Fault(
        time_ps=time_ps,
        worker=worker,
        kind=kind,  # type: ignore[arg-type]  # checked above
        scope=scope,  # type: ignore[arg-type]
        duration_ps=duration_ps,
        factor_ppm=None if factor is None else int(Decimal(str(factor)) * FULL_SPEED_PPM),
        mode=mode,  # type: ignore[arg-type]
    )


def check_faults(faults: Iterable[Fault], *, workers: int, span_ps: int) -> None:
    """Refuses faults of workers that do not exist and faults after the last arrival."""
    for fault in faults:
        if fault.worker >= workers:
            raise InputError(
                f"{fault.kind}: worker {fault.worker} does not exist, the {workers} workers are 0 to {workers - 1}"
            )
        if fault.time_ps > span_ps:
            raise InputError(
                f"{fault.kind}: {fault.time_s:g} s is after the end of the trace, whose last arrival is at "
                f"{span_ps / PS_PER_S:g} s"
            )


def outlasting(faults: Iterable[Fault], horizon_ps: int) -> list[str]:
    """A line where faults last longer than the window that is measured; else none."""
    long_ps = [fault.duration_ps for fault in faults if (fault.duration_ps or 0) > horizon_ps]
    if not long_ps:
        return []
    lasting = max(duration_ps for duration_ps in long_ps if duration_ps is not None) / PS_PER_S
    return [
        f"{len(long_ps):,} faults last longer than the window H of {horizon_ps / PS_PER_S:g} s, the longest "
        f"{lasting:g} s: what they cost after it is not measured (--horizon-s)"
    ]


def _workers(key: str, text: str, workers_text: str) -> list[int]:
    for worker_text in workers_text.split(","):
        if not worker_text.strip().isdecimal():
            raise InputError(f"{key}: {worker_text!r} in {text!r} is not a worker number ≥ 0")
    return [int(worker_text) for worker_text in workers_text.split(",")]


def _fields(text: str, fields_text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field_text in fields_text.split(","):
        name, equals, value = (part.strip() for part in field_text.partition("="))
        if not equals or name not in _FIELDS or name in fields or not value:
            raise InputError(
                f"fault: {field_text!r} in {text!r} is not FIELD=VALUE with a field of {', '.join(_FIELDS)}, each once"
            )
        fields[name] = value
    return fields


def _number(place: str, field: str, value: float | str | None) -> float | None:
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{place}: {field} {value!r} is not a number") from None
