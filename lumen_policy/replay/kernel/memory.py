"""How compiled code gets at the arrays of a replay: one address instead of twenty arrays.

A function that takes all arrays of a ``State`` as arguments costs a compiler more than its body. So compiled code takes
the address of a table of words, (address, shape) of one array after the other, and an access such as ``s.requests`` is
two loads that never change. With numba switched off (``NUMBA_DISABLE_JIT=1``) ``s`` is the ``State`` itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import llvmlite.ir
import numba
import numpy as np
from numba.core import cgutils, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model
from numba.np import arrayobj

__all__ = ["as_state", "declare", "handle", "words"]

_config: Any = numba.config
_TYPES: dict[str, types.Array] = {}
_FIRST_WORD: dict[str, int] = {}


def declare(fields: Mapping[str, tuple[Any, int]]) -> None:
    """State the dtype and the number of dimensions of every array, in order."""
    word = 0
    for name, (dtype, dimensions) in fields.items():
        _TYPES[name] = types.Array(numba.from_dtype(np.dtype(dtype)), dimensions, "C")
        _FIRST_WORD[name] = word
        word += 1 + dimensions


def words(state: Any) -> Any:
    """The table of a state: for each array its address and its shape; both must outlive its use."""
    table: list[int] = []
    for name, kind in _TYPES.items():
        array = getattr(state, name)
        if (
            not array.flags.c_contiguous
            or array.ndim != kind.ndim
            or numba.from_dtype(array.dtype) != kind.dtype
        ):
            raise TypeError(f"{name}: {array.dtype} of {array.ndim} dimensions is not what was declared")
        table += [array.ctypes.data, *array.shape]
    return np.array(table, np.int64)


class _StateType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="lumen_policy.ReplayState")


_STATE = _StateType()
register_model(_StateType)(models.OpaqueModel)


@intrinsic
def _from_address(typing_context: Any, address: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(_STATE))

    return _STATE(types.int64), build


@infer_getattr
class _Attributes(AttributeTemplate):
    key = _StateType

    def generic_resolve(self, typ: Any, attr: str) -> Any:  # type: ignore[override]
        return _TYPES.get(attr)


@lower_getattr_generic(_StateType)  # type: ignore[no-untyped-call, untyped-decorator]
def _array(context: Any, builder: Any, typ: Any, value: Any, name: str) -> Any:
    kind = _TYPES[name]
    word_type = llvmlite.ir.IntType(64)
    table = builder.bitcast(value, word_type.as_pointer())

    def word(number: int) -> Any:
        place = builder.gep(table, [context.get_constant(types.intp, number)])
        load = builder.load(place)
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
        return load

    first = _FIRST_WORD[name]
    numpy_arrays: Any = arrayobj
    tools: Any = cgutils
    array = numpy_arrays.make_array(kind)(context, builder)
    data_type = context.get_data_type(kind.dtype).as_pointer()
    item_bytes = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    shape = [word(first + 1 + axis) for axis in range(kind.ndim)]
    strides: list[Any] = []
    stride = context.get_constant(types.intp, item_bytes)
    for length in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, length)
    numpy_arrays.populate_array(
        array,
        data=builder.inttoptr(word(first), data_type),
        shape=tools.pack_array(builder, shape, ty=word_type),
        strides=tools.pack_array(builder, strides, ty=word_type),
        itemsize=context.get_constant(types.intp, item_bytes),
        meminfo=None,
    )
    return array._getvalue()


def handle(state: Any, table: Any) -> Any:
    """What compiled code takes for a state: the address of its table; interpreted code takes the state."""
    return state if _config.DISABLE_JIT else table.ctypes.data


def _same(state: Any) -> Any:
    return state


as_state: Any = _same if _config.DISABLE_JIT else _from_address
"""The state behind an address, in compiled code."""
