"""Damaged files: a clear error or an accounted drop, never a traceback or a silent change."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

import pytest

from lumen_policy.errors import InputError
from lumen_policy.trace.arrivals import ArrivalProcess
from lumen_policy.trace.fault_log import read_fault_log
from lumen_policy.trace.inspect import inspect_file
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.read import read_trace
from lumen_policy.trace.source import TraceFile
from lumen_policy.trace.synthetic import built_in_trace
from lumen_policy.trace.table import Trace
from tests.trace.damage import damage

SAMPLES = Path(__file__).resolve().parents[2] / "traces"
CASES = 180
LINES = 30
NAMES = (
    "azure.csv",
    "bailian.jsonl",
    "bench_result.json",
    "burstgpt.csv",
    "burstgpt_sessions.csv",
    "generic.csv",
    "generic.jsonl",
    "generic.parquet",
    "lengths.csv",
    "mooncake.jsonl",
    "servegen.csv",
    "splitwise.csv",
    "vidur.csv",
)
BY_LINE = {
    "azure.csv",
    "burstgpt.csv",
    "generic.csv",
    "generic.jsonl",
    "lengths.csv",
    "vidur.csv",
    "splitwise.csv",
}


def _content(name: str) -> bytes:
    content = (SAMPLES / name).read_bytes()
    if name.endswith((".parquet", ".json")):
        return content
    return b"\n".join(content.split(b"\n")[:LINES])


def _options(name: str, drop_unreadable: bool) -> ReadOptions:
    return ReadOptions(
        drop_unreadable=drop_unreadable,
        arrivals=ArrivalProcess.parse("poisson:5") if name == "lengths.csv" else None,
        lengths=built_in_trace(requests=50) if name == "servegen.csv" else None,
    )


def _read(path: Path, options: ReadOptions) -> Trace | str:
    """The trace, or the message it was refused with."""
    try:
        return read_trace(path, options=options)
    except InputError as error:
        return str(error)


def _pairs(path: Path, name: str) -> Counter[tuple[int, int]]:
    trace = read_trace(path, options=_options(name, False))
    return Counter(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_damage_is_refused_or_accounted(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    content = _content(name)
    path = tmp_path / name
    outcomes: Counter[str] = Counter()
    lines = content.split(b"\n")
    head = lines[0]
    for case in range(CASES):
        broken = damage(content, rng)
        path.write_bytes(broken)
        drop = case % 2 == 1
        trace = _read(path, _options(name, drop))
        if isinstance(trace, str):
            assert "\n" not in trace
            assert name in trace
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        accounting = trace.accounting
        assert accounting.read == len(trace) + sum(accounting.dropped.values())
        broken_lines = broken.split(b"\n")
        if name in BY_LINE and (name.endswith("l") or broken_lines[0] == head):
            first = 0 if name.endswith("l") else 1
            rows = [line for line in broken_lines[first:] if line.strip(b"\r" if first else None)]
            assert accounting.read == len(rows)
            # Every line that was not touched is a request, unchanged.
            intact = Counter(lines[first:]) & Counter(broken_lines[first:])
            path.write_bytes(b"\n".join(([head] if first else []) + list(intact.elements())))
            found = Counter(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True))
            if any(line.strip() for line in intact):
                assert not _pairs(path, name) - found
    assert outcomes["refused"] > CASES // 20
    assert outcomes["read"] or name in ("generic.parquet", "servegen.csv")


def test_damaged_gzip_is_refused_or_read_whole(tmp_path: Path) -> None:
    rng = random.Random(1)
    plain = _content("azure.csv")
    content = gzip.compress(plain, mtime=0)
    path = tmp_path / "azure.csv.gz"
    path.write_bytes(content)
    whole = read_trace(path).digest()
    for _ in range(CASES):
        path.write_bytes(damage(content, rng))
        trace = _read(path, ReadOptions())
        # The check sum covers the content, not the header's file name and time.
        assert str(path) in trace if isinstance(trace, str) else trace.digest() == whole


def test_damaged_fault_log_is_refused_or_whole(tmp_path: Path) -> None:
    rng = random.Random(2)
    content = (SAMPLES / "faults.json").read_bytes()
    path = tmp_path / "faults.json"
    refused: list[str] = []
    for _ in range(CASES):
        path.write_bytes(damage(content, rng))
        try:
            document = inspect_file(path, nodes=50)
        except InputError as error:
            refused.append(str(error))
        else:
            assert document["kind"] == "faults"
            assert document["faults"] == len(read_fault_log(TraceFile(path)))
    assert refused
    assert not any("\n" in message for message in refused)
