"""Faults, one object each."""

from __future__ import annotations

from dataclasses import dataclass, fields

from lumen_policy.replay.contract import NONE, FaultKind, FaultTable

__all__ = ["Fault", "read_faults"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A row of the fault table."""

    ps: int
    worker: int
    kind: FaultKind
    delay_ps: int
    length_ps: int
    factor_ppm: int
    keeps_copies: bool
    refusals: int
    restart_ps: int
    draft_ps: int
    load_ps: int
    init_ps: int

    @property
    def back_before_detection(self) -> bool:
        """Whether a silent worker speaks again before anybody noticed."""
        assert self.kind in (FaultKind.HANG, FaultKind.UNREACHABLE)
        return self.length_ps != NONE and self.length_ps < self.delay_ps

    @property
    def end_ps(self) -> int:
        assert self.length_ps != NONE
        return self.ps + self.length_ps


def read_faults(table: FaultTable) -> list[Fault]:
    """The rows in their order: by start, kind, worker."""
    names = [field.name for field in fields(table)]
    rows = []
    for values in zip(*(getattr(table, name).tolist() for name in names), strict=True):
        row = dict(zip(names, values, strict=True))
        row["kind"] = FaultKind(row["kind"])
        row["keeps_copies"] = bool(row["keeps_copies"])
        rows.append(Fault(**row))
    order = [(fault.ps, fault.kind, fault.worker) for fault in rows]
    assert order == sorted(set(order))
    return rows
