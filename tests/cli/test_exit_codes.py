"""Exit codes of our own failures, Ctrl-C and a closed pipe."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lumen_policy.errors import ReplayError

from .conftest import Run

PROGRAM = [sys.executable, "-c", "import sys; from lumen_policy.cli.main import main; sys.exit(main())"]


def _raise(error: BaseException) -> object:
    def prepare(*_: object) -> None:
        raise error

    return prepare


def test_own_failure_is_one_line_and_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lumen_policy.workload.prepare", _raise(ReplayError("pages do not add up")))
    ran = run("replay")
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert "pages do not add up" in ran.err


def test_ctrl_c_is_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lumen_policy.workload.prepare", _raise(KeyboardInterrupt()))
    ran = run("replay")
    assert ran.code == 130
    assert ran.out == ""
    assert ran.err.count("\n") <= 1


def test_closed_pipe_is_quiet() -> None:
    process = subprocess.Popen([*PROGRAM, "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="file names are Unicode there")
@pytest.mark.skipif(os.name == "nt", reason="closes a descriptor the POSIX way")
def test_closed_standard_output_is_said() -> None:
    command = f"{shlex.join(PROGRAM)} config >&-"
    ended = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "lumen-tune: standard output is closed\n"


def test_file_names_that_are_not_utf8(tmp_path: Path) -> None:
    trace, table = (tmp_path / os.fsdecode(name) for name in (b"t\xff.csv", b"r\xff.csv"))
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n")

    def ran(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)

    replayed = ran("replay", trace, "--per-request", table, "--json", "--quiet")
    assert replayed.returncode == 0, replayed.stderr
    assert json.loads(replayed.stdout)["trace"]["source"] == "t\\xff.csv"
    assert table.read_text().count("\n") == 2
    assert json.loads(ran("trace", "info", trace, "--json").stdout)["source"] == "t\\xff.csv"
    absent = ran("replay", tmp_path / os.fsdecode(b"absent\xff.csv"))
    assert (absent.returncode, absent.stdout, absent.stderr.count("\n")) == (2, "", 1)


def test_real_process_reports_bad_input() -> None:
    ran = subprocess.run([*PROGRAM, "replay", "--workers", "-3"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr == "lumen-tune: workers: '-3' is not a whole number ≥ 1 and ≤ 4096\n"


def test_version_and_bare_call(run: Run) -> None:
    assert run("--version").out == "lumen-tune 0.1.0\n"
    bare = run()
    assert bare.code == 0
    assert "replay" in bare.out
