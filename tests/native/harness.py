"""A layout with every kind of array, states of it, and compiled modules to call."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from lumen_policy.native.layout import Layout
from lumen_policy.native.machine import Loaded, compile_object
from lumen_policy.native.module import Entry, Module

RECORD = np.dtype(
    [
        ("wide", np.int64),
        ("middle", np.int32),
        ("short", np.int16),
        ("tiny", np.int8),
        ("share", np.float64),
        ("word", np.uint64),
        ("parts", np.int64, (3,)),
        ("bits", np.int8, (2, 3)),
    ],
    align=True,
)
LAYOUT = Layout(
    {
        "row": (np.int64, 1),
        "grid": (np.int64, 2),
        "cube": (np.int64, 3),
        "fixed": (np.int64, 2, 3),
        "singles": (np.int32, 1, 4),
        "middles": (np.int32, 1),
        "shorts": (np.int16, 2),
        "tinies": (np.int8, 1),
        "words": (np.uint64, 1),
        "floats": (np.float64, 1),
        "records": (RECORD, 1),
        "others": (RECORD, 1),
        "pairs": (RECORD, 2),
        "none": (np.int64, 1),
        "hollow": (np.int64, 2),
    }
)
SHAPES: Mapping[str, tuple[int, ...]] = {
    "row": (8,),
    "grid": (4, 5),
    "cube": (2, 3, 4),
    "fixed": (3, 6),
    "singles": (4,),
    "middles": (8,),
    "shorts": (2, 4),
    "tinies": (8,),
    "words": (8,),
    "floats": (8,),
    "records": (4,),
    "others": (4,),
    "pairs": (2, 3),
    "none": (0,),
    "hollow": (0, 3),
}
_GUARD = 64
"""Bytes around each array that nobody may touch."""


def fresh(seed: int | None = None) -> SimpleNamespace:
    """A state of zeros, or of random numbers; around each array lies memory that ``untouched`` looks at."""
    state = SimpleNamespace(guards=[])
    random = np.random.default_rng(seed)
    for name, field in LAYOUT.fields.items():
        shape = SHAPES[name]
        size = int(np.prod(shape)) * field.dtype.itemsize
        whole = np.full(size + 2 * _GUARD, 0xA5, np.uint8)
        array = whole[_GUARD : _GUARD + size].view(field.dtype).reshape(shape)
        array[...] = np.zeros((), field.dtype)
        if seed is not None:
            _fill(array, random)
        state.guards.append((whole, size))
        setattr(state, name, array)
    return state


def _fill(array: Any, random: np.random.Generator) -> None:
    if array.dtype.fields is not None:
        for name in array.dtype.names:
            _fill(array[name], random)
    elif array.dtype == np.float64:
        array[...] = np.round(random.normal(size=array.shape) * 100) / 8
    else:
        limits = np.iinfo(array.dtype)
        near = random.integers(0, 100, array.shape, dtype=array.dtype)
        far = random.integers(limits.min, limits.max, array.shape, dtype=array.dtype, endpoint=True)
        array[...] = np.where(random.random(array.shape) < 0.5, near, far)


def untouched(state: SimpleNamespace) -> bool:
    """Whether nothing was written around the arrays."""
    return all(
        (whole[:_GUARD] == 0xA5).all() and (whole[_GUARD + size :] == 0xA5).all()
        for whole, size in state.guards
    )


def same_numbers(a: Any, b: Any) -> bool:
    """Equal arrays: a NaN equals a NaN, 0.0 is not -0.0, padding does not count."""
    if a.dtype.fields is not None:
        return all(same_numbers(a[name], b[name]) for name in a.dtype.names)
    if a.dtype != np.float64:
        return bool((a == b).all())
    nan = np.isnan(a)
    return bool((nan == np.isnan(b)).all() and ((a.view(np.int64) == b.view(np.int64)) | nan).all())


def differences(a: SimpleNamespace, b: SimpleNamespace) -> list[str]:
    """Names of the arrays that differ."""
    return [name for name in LAYOUT.fields if not same_numbers(getattr(a, name), getattr(b, name))]


def wrapped(number: int, bits: int = 64) -> int:
    """The low bits as a signed number."""
    return (int(number) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


_numbers = itertools.count()


def load(folder: Path, text: str) -> ModuleType:
    """A module from source text, which is kept as a file."""
    name = f"native_test_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


class Compiled:
    """Functions in one module; each takes the state and ints."""

    def __init__(
        self,
        functions: Sequence[Callable[..., Any]],
        substitutes: Mapping[FunctionType, FunctionType] | None = None,
        *,
        checked: bool = False,
    ) -> None:
        entries = [Entry(function, function.__code__.co_argcount - 1) for function in functions]
        module = Module(LAYOUT, entries, substitutes, checked=checked)
        self.text = module.text()
        self.sites = module.sites
        self._loaded = Loaded(
            compile_object(self.text),
            {entry.name: (entry.ints, module.returns[entry.name]) for entry in entries},
        )
        self.trouble = ""
        """What went wrong in the last call."""

    def __call__(self, name: str, state: SimpleNamespace, *numbers: int) -> Any:
        table = LAYOUT.words(state)
        result = self._loaded.calls[name](table.ctypes.data, *numbers)
        code = int(table[LAYOUT.trouble_word])
        self.trouble = self.sites[code - 1] if code else ""
        return result
