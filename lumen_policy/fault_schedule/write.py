"""Write a fault schedule: what is read back is the same schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lumen_policy.document import encode_document
from lumen_policy.errors import InputError
from lumen_policy.fault_schedule.read import COLUMNS
from lumen_policy.fault_schedule.schedule import FaultSchedule, ScheduledFault

__all__ = ["write_schedule"]


def write_schedule(schedule: FaultSchedule, path: Path) -> None:
    """A CSV or JSON file, by its suffix; columns that no fault states are left out of the CSV.

    Raises:
        InputError: another suffix, a folder that does not exist, a duration without end.
    """
    if path.suffix not in (".csv", ".json"):
        raise InputError(f"{path}: a fault schedule is written as .csv or .json")
    rows = [_stated(fault) for fault in schedule.faults]
    if path.suffix == ".json":
        content = encode_document({"kind": "FaultSchedule", "schema_version": 1, "faults": rows})
    else:
        columns = [name for name in COLUMNS if any(name in row for row in rows)]
        lines = [",".join(columns)]
        lines += [",".join(str(row.get(name, "")) for name in columns) for row in rows]
        content = ("\n".join(lines) + "\n").encode()
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def _stated(fault: ScheduledFault) -> dict[str, Any]:
    values = {name: getattr(fault, name) for name in COLUMNS}
    return {name: value for name, value in values.items() if value is not None}
