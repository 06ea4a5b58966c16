"""Read a fault schedule: CSV, JSON, or a log of fault events in days."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from lumen_policy.errors import InputError
from lumen_policy.fault_schedule.schedule import DAY_S, FaultSchedule, ScheduledFault
from lumen_policy.trace.fault_log import is_fault_log, read_fault_log
from lumen_policy.trace.source import TraceFile

__all__ = ["COLUMNS", "read_schedule"]

COLUMNS = ("time_s", "worker", "node", "kind", "scope", "duration_s", "factor", "mode")
"""Columns of a CSV schedule and fields of a JSON fault; ``time_s`` and one of worker, node are needed."""


class _JsonFault(msgspec.Struct, forbid_unknown_fields=True):
    time_s: float
    worker: int | None = None
    node: str | None = None
    kind: str = "crash"
    scope: str | None = None
    duration_s: float | None = None
    factor: float | None = None
    mode: str | None = None


class _JsonSchedule(msgspec.Struct, forbid_unknown_fields=True):
    schema_version: int
    kind: str
    faults: list[_JsonFault]


def read_schedule(path: str | Path) -> FaultSchedule:
    """The faults of a file, its format recognised from its content.

    * CSV: a header with columns out of ``COLUMNS``; empty cells are not stated.
    * JSON: ``{"kind": "FaultSchedule", "schema_version": 1, "faults": [{"time_s": …, "worker": …}, …]}``.
    * JSON: a list of fault_start and fault_end events in days (``lumen_policy.trace.fault_log``); every fault
      becomes a crash of scope gpu of its node, whatever its class.

    Raises:
        InputError: not readable as any of them; with line or number of the fault, field and value.
    """
    file = TraceFile(Path(path))
    if is_fault_log(file):
        return _from_log(file)
    if file.head.lstrip().startswith((b"{", b"[")):
        return _from_json(file)
    return _from_csv(file)


def _from_log(file: TraceFile) -> FaultSchedule:
    faults = (
        ScheduledFault(
            time_s=fault.start_days * DAY_S,
            node=fault.node,
            duration_s=math.inf if fault.repair_days is None else fault.repair_days * DAY_S,
            place=f"{file.path}: fault of node {fault.node} on day {fault.start_days:g}",
        )
        for fault in read_fault_log(file)
    )
    return FaultSchedule.of(faults, source=str(file.path), format="infinitehbd", clock="days")


def _from_json(file: TraceFile) -> FaultSchedule:
    try:
        document = msgspec.json.decode(file.all(), type=_JsonSchedule)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file.path}: not a readable fault schedule: {error}") from None
    if document.kind != "FaultSchedule" or document.schema_version != 1:
        raise InputError(
            f"{file.path}: kind {document.kind!r}, schema_version {document.schema_version}; this program "
            "reads kind 'FaultSchedule', schema_version 1"
        )
    faults = (
        ScheduledFault(**msgspec.structs.asdict(fault), place=f"{file.path}: faults[{number}]")
        for number, fault in enumerate(document.faults)
    )
    return FaultSchedule.of(faults, source=str(file.path), format="schedule")


def _from_csv(file: TraceFile) -> FaultSchedule:
    try:
        text = file.all().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file.path}: not UTF-8 text: {error}") from None
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    faults = []
    try:
        header = [name.strip() for name in next(rows)]
        _check_header(file.path, header)
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            place = f"{file.path}: line {rows.line_num}"
            if len(row) != len(header):
                raise InputError(f"{place}: {len(row)} cells, the header has {len(header)} columns")
            cells = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
            faults.append(_from_cells(cells, place))
    except csv.Error as error:
        raise InputError(f"{file.path}: line {rows.line_num}: {error}") from None
    return FaultSchedule.of(faults, source=str(file.path), format="schedule")


def _check_header(path: Path, header: list[str]) -> None:
    unknown = [name for name in header if name not in COLUMNS]
    if unknown or len(set(header)) != len(header) or "time_s" not in header:
        raise InputError(
            f"{path}: columns {', '.join(repr(name[:40]) for name in header[:12])}; a fault schedule has time_s "
            f"and worker or node, and may have kind, scope, duration_s, factor, mode, each once"
        )


def _from_cells(cells: Mapping[str, str], place: str) -> ScheduledFault:
    stated: dict[str, Any] = {name: cell for name, cell in cells.items() if cell}
    if "time_s" not in stated:
        raise InputError(f"{place}: time_s is empty")
    for name in ("time_s", "duration_s", "factor"):
        if name in stated:
            stated[name] = _number(stated[name], name, place)
    if "worker" in stated:
        if not stated["worker"].isdecimal():
            raise InputError(f"{place}: worker {stated['worker']!r} is not a whole number ≥ 0")
        stated["worker"] = int(stated["worker"])
    return ScheduledFault(**stated, place=place)


def _number(text: str, name: str, place: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{place}: {name} {text!r} is not a number") from None
