"""Machine code for other platforms: an object that needs nothing else, with every operation rounded by itself."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from lumen_policy.native.machine import compile_assembly, compile_object, machine_name
from lumen_policy.native.module import Entry, Module
from lumen_policy.replay.kernel import program
from lumen_policy.replay.kernel.state import LAYOUT as STATE
from native.harness import LAYOUT, load
from native.random_programs import random_program

TRIPLES = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-apple-darwin",
    "arm64-apple-darwin",
)
ELF, MACH = b"\x7fELF", struct.pack("<I", 0xFEEDFACF)

SUMS = """\
import numpy as np


def sums(s, a):
    x = s.floats[0]
    s.floats[1] = x * s.floats[2] + s.floats[3]
    s.floats[4] = s.floats[3] - x * x
    for i in range(len(s.floats) - 1):
        s.floats[i] = s.floats[i] * x + s.floats[i + 1]
    s.floats[5] = x / 3.0 + x / 7.0


def clear(s, a):
    for i in range(len(s.row)):
        s.row[i] = 0
    for i in range(len(s.tinies)):
        s.tinies[i] = -1
    for i in range(s.grid.shape[1]):
        s.row[i] = s.grid[0, i]
    s.records[0] = s.records[1]
    for i in range(4):
        s.records[i] = s.records[3 - i]
        s.others[i].wide = 0
        s.others[i].word = np.uint64(0)
        s.others[i].parts[0] = 0
        s.others[i].parts[1] = 0
        s.others[i].parts[2] = 0


def numbers(s, a):
    x = float(np.uint64(a)) + float(a)
    y = (x < a) + (a // 10) % 7 + a // (a - 3) + int(x * 0.5)
    return abs(y) * min(a, y) + int(abs(x)) + np.int64(np.uint64(y) // np.uint64(a))
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    module = load(tmp_path_factory.mktemp("machine"), SUMS)
    return Module(LAYOUT, [Entry(module.sums), Entry(module.clear), Entry(module.numbers)]).text()


def undefined(code: bytes, folder: Path) -> list[str]:
    """Symbols that an object file takes from elsewhere."""
    tool = shutil.which("llvm-nm") or shutil.which("nm")
    if tool is None:
        pytest.skip("neither llvm-nm nor nm is here")
    path = folder / "code.o"
    path.write_bytes(code)
    listed = subprocess.run([tool, "-u", path], capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip(f"{tool} does not read this platform's objects")
    names = [line.split()[-1] for line in listed.stdout.splitlines()]
    return [name for name in names if name != "_GLOBAL_OFFSET_TABLE_"]  # the linker's own


def fused(assembly: str) -> list[str]:
    """Instructions that multiply and add with one rounding."""
    return re.findall(r"\b(?:v?fn?m(?:add|sub)\w*|fml[as]\w*)\b", assembly)


def called(assembly: str) -> set[str]:
    """Functions of other objects that are called or jumped to."""
    lines = [line.strip() for line in assembly.splitlines()]
    own = {
        line.partition(":")[0].strip('"') for line in lines if not line.startswith((".", "#")) and ":" in line
    }
    targets = set(re.findall(r'\n\s+(?:call[ql]?|jmp[ql]?|bl?)\s+"?([A-Za-z_$][\w.$@]*)', assembly))
    return {name.removesuffix("@PLT") for name in targets} - own


@pytest.mark.parametrize("triple", TRIPLES)
def test_objects_of_other_platforms(text: str, triple: str, tmp_path: Path) -> None:
    """An object in the platform's format that calls nobody: no memset, no memcpy, no arithmetic of a runtime."""
    code = compile_object(text, triple)
    assert code[:4] == (MACH if "apple" in triple else ELF)
    assert called(compile_assembly(text, triple)) == set()
    assert undefined(code, tmp_path) == []


@pytest.mark.parametrize("triple", TRIPLES)
def test_nothing_is_contracted(text: str, triple: str) -> None:
    """``a * b + c`` is rounded twice everywhere, as in Python; no flag allows other mathematics."""
    assembly = compile_assembly(text, triple)
    assert fused(assembly) == []
    assert len(re.findall(r"\b(?:mulsd|fmul)\b", assembly)) >= 3
    assert not re.search(r"\b(?:fast|contract|reassoc|arcp|afn|nnan|ninf|nsz|fmuladd)\b", text)


def test_the_checks_would_see_it() -> None:
    """What the tests above look for, where it is allowed."""
    text = """
define double @sum(double %a, double %b, double %c) {
  %p = fmul contract double %a, %b
  %s = fadd contract double %p, %c
  ret double %s
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @clear(ptr %p, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %n, i1 false)
  ret void
}
"""
    assembly = compile_assembly(text, "aarch64-unknown-linux-gnu")
    assert fused(assembly) == ["fmadd"]
    assert called(assembly) == {"memset"}


@pytest.mark.parametrize("triple", TRIPLES)
def test_random_programs_need_nothing_else(triple: str, tmp_path: Path) -> None:
    """As above for programs that nobody thought of, checked and not."""
    text, names = random_program(77, 3)
    module = load(tmp_path, text)
    for checked in (False, True):
        entries = [Entry(getattr(module, name), 2) for name in names]
        assembly = compile_assembly(Module(LAYOUT, entries, checked=checked).text(), triple)
        assert called(assembly) == set()
        assert fused(assembly) == []


def test_the_same_text_and_code_every_time(text: str) -> None:
    """Compiling twice gives the same object; the platform's name says what it depends on."""
    assert compile_object(text) == compile_object(text)
    assert "LLVM" in machine_name()


@pytest.mark.integration
@pytest.mark.parametrize("triple", TRIPLES)
def test_the_kernel_on_other_platforms(triple: str, tmp_path: Path) -> None:
    """The kernel compiles for each platform, needs nothing else and fuses nothing."""
    text = Module(STATE, program.ENTRIES).text()
    code = compile_object(text, triple)
    assert code[:4] == (MACH if "apple" in triple else ELF)
    assembly = compile_assembly(text, triple)
    assert fused(assembly) == []
    assert called(assembly) == set()
    assert undefined(code, tmp_path) == []
