"""Machine code from LLVM text, and its loading; the only file that knows llvmlite."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

__all__ = ["Loaded", "compile_assembly", "compile_object", "machine_name"]

_OPTIMISATION = 2


@cache
def _start() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def machine_name() -> str:
    """What compiled code depends on beside its source: the platform, and the compiler's version.

    Code is made for every processor of its architecture, not for this one, so a cache may be shared between machines.
    """
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{llvm.get_process_triple()} llvmlite {llvmlite.__version__} LLVM {version}"


def _machine(triple: str) -> Any:
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu="", features="", opt=_OPTIMISATION, reloc="pic", codemodel="jitdefault"
    )


def _optimised(text: str, triple: str | None) -> tuple[Any, Any]:
    """The platform's code generator, and the module that it takes."""
    _start()
    if triple is not None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    machine = _machine(triple or llvm.get_process_triple())
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=_OPTIMISATION)
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return machine, module


def compile_object(text: str, triple: str | None = None) -> bytes:
    """An object file of the module; no fast-math, nothing contracted, no vector units beyond the baseline.

    Args:
        text: LLVM assembly.
        triple: platform; by default this one.
    """
    machine, module = _optimised(text, triple)
    code: bytes = machine.emit_object(module)
    return code


def compile_assembly(text: str, triple: str | None = None) -> str:
    """As ``compile_object``, but readable."""
    machine, module = _optimised(text, triple)
    assembly: str = machine.emit_assembly(module)
    return assembly


class Loaded:
    """An object file in memory, ready to be called.

    Args:
        code: the object file.
        entries: for each entry its number of ints, and whether it returns one.
    """

    def __init__(self, code: bytes, entries: Mapping[str, tuple[int, bool]]) -> None:
        _start()
        module = llvm.parse_assembly("")
        module.triple = llvm.get_process_triple()
        self._engine: Any = llvm.create_mcjit_compiler(module, _machine(llvm.get_process_triple()))
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self.calls: dict[str, Callable[..., Any]] = {}
        for name, (ints, returns) in entries.items():
            address = self._engine.get_function_address(name)
            if not address:
                raise ValueError(f"no {name} in the object file")
            signature = ctypes.CFUNCTYPE(
                ctypes.c_int64 if returns else None, ctypes.c_void_p, *(ctypes.c_int64,) * ints
            )
            self.calls[name] = call = signature(address)
            call.engine = self._engine  # type: ignore[attr-defined]  # the code lives as long as what calls it
