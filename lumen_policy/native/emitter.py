"""Writes the body of one function as LLVM text: instructions, blocks, memory for names."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Emitter"]


class Emitter:
    """Instructions in blocks; once a block has ended nothing is written until another begins."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.ended = False
        self._count = 0

    def _number(self) -> int:
        self._count += 1
        return self._count

    def do(self, text: str) -> None:
        """One instruction without a result."""
        if not self.ended:
            self.lines.append("  " + text)

    def op(self, text: str) -> str:
        """One instruction; returns the register of its result."""
        register = f"%v{self._number()}"
        self.do(f"{register} = {text}")
        return register

    def slot(self, types: Sequence[str]) -> tuple[str, ...]:
        """Memory for a value, at the function's entry."""
        made = tuple(f"%m{self._number()}" for _ in types)
        self.slots += [f"  {name} = alloca {kind}" for name, kind in zip(made, types, strict=True)]
        return made

    def label(self) -> str:
        return f"b{self._number()}"

    def begin(self, label: str) -> None:
        """Go on in a block that others jump to."""
        self.jump(label)
        self.lines.append(f"{label}:")
        self.ended = False

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")
        self.ended = True

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")
        self.ended = True

    def give(self, text: str) -> None:
        """Return from the function."""
        self.do(text)
        self.ended = True
