"""What a value of the subset can be: a number, a record, a row, the handle of a state, or several of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lumen_policy.native.layout import Layout

__all__ = [
    "FLOAT",
    "INT",
    "NOTHING",
    "UNSIGNED",
    "Handle",
    "Kind",
    "Record",
    "Rows",
    "Scalar",
    "Several",
    "Value",
]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number in a register; ``llvm`` is its type there."""

    name: str
    llvm: str


INT = Scalar("an int", "i64")
"""int64; bools are ints 0 and 1, as in Python."""
UNSIGNED = Scalar("an unsigned int", "i64")
FLOAT = Scalar("a float", "double")
NOTHING = Scalar("nothing", "void")


@dataclass(frozen=True, slots=True)
class Record:
    """A reference to one record of a structured dtype; ``tag`` names the memory it lies in."""

    dtype: Any
    tag: str

    @property
    def name(self) -> str:
        return f"a record of {self.tag}"


@dataclass(frozen=True, slots=True)
class Rows:
    """A C-contiguous array, or rows of one.

    Attributes:
        dtype: numpy dtype of the elements: int64, int32, int16, int8, uint64, float64, or a structured one.
        axes: number of axes left.
        tag: names the memory it lies in; memories of different tags never overlap.
        by_pointer: its first axis is a table of addresses, one for each row.
    """

    dtype: Any
    axes: int
    tag: str
    by_pointer: bool = False

    @property
    def name(self) -> str:
        return f"rows of {self.tag}"


@dataclass(frozen=True, slots=True)
class Handle:
    """The handle of a state: its attributes are the arrays of the layout."""

    layout: Layout

    @property
    def name(self) -> str:
        return "the state"


@dataclass(frozen=True, slots=True)
class Several:
    """What a function with several results returns."""

    kinds: tuple[Scalar, ...]

    @property
    def name(self) -> str:
        return f"{len(self.kinds)} values"

    @property
    def llvm(self) -> str:
        return "{" + ", ".join(kind.llvm for kind in self.kinds) + "}"


Kind = Scalar | Record | Rows | Handle | Several


@dataclass(frozen=True, slots=True)
class Value:
    """A value under way: its kind and what it consists of in registers.

    Attributes:
        kind: see above.
        parts: operands of LLVM: one for a number, a record or a handle; for rows the address and the length of each
            axis; empty for an array of a state that nobody has looked at yet.
        constant: the number, where it is known.
        source: for an array of a state: the handle's operand and the array's name.
    """

    kind: Kind
    parts: tuple[str, ...] = ()
    constant: int | float | None = None
    source: tuple[str, str] | None = None


def registers(kind: Kind) -> tuple[str, ...]:
    """LLVM types of the parts of a value of this kind."""
    if isinstance(kind, Rows):
        return ("ptr", *("i64",) * kind.axes)
    if isinstance(kind, (Record, Handle)):
        return ("ptr",)
    if isinstance(kind, Several):
        raise TypeError("several values are taken apart where they are returned")
    return (kind.llvm,)
