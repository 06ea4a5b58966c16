"""Recognition and reading of every format, from small texts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from lumen_policy.errors import InputError
from lumen_policy.trace.arrivals import ArrivalProcess
from lumen_policy.trace.formats import all_formats, by_name, recognise
from lumen_policy.trace.formats.servegen import RateWindows
from lumen_policy.trace.inspect import inspect_file
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.read import read_trace
from lumen_policy.trace.source import BLOCK_BYTES, TraceFile
from lumen_policy.trace.synthetic import built_in_trace
from lumen_policy.trace.table import PS_PER_S

SAMPLES = Path(__file__).resolve().parents[2] / "traces"
MS = 10**9
OF_SAMPLE = {
    "azure.csv": "azure",
    "bailian.jsonl": "bailian",
    "bench_result.json": "bench_result",
    "burstgpt.csv": "burstgpt",
    "burstgpt_sessions.csv": "burstgpt",
    "generic.csv": "csv",
    "generic.jsonl": "jsonl",
    "generic.parquet": "parquet",
    "lengths.csv": "lengths",
    "mooncake.jsonl": "mooncake",
    "servegen.csv": "servegen",
    "splitwise.csv": "splitwise",
    "vidur.csv": "vidur",
}


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def stored_zstd(content: bytes) -> bytes:
    """A Zstandard frame (RFC 8878) of one raw block: magic, single segment of 256 … 65,791 bytes, last
    block.
    """
    size = len(content)
    return (
        b"\x28\xb5\x2f\xfd\x60"
        + (size - 256).to_bytes(2, "little")
        + (1 | size << 3).to_bytes(3, "little")
        + content
    )


def test_every_format_has_a_sample_and_every_sample_is_recognised() -> None:
    assert set(OF_SAMPLE.values()) == set(all_formats())
    for name, expected in OF_SAMPLE.items():
        assert recognise(TraceFile(SAMPLES / name), ReadOptions()).name == expected, name


@pytest.mark.parametrize("name", OF_SAMPLE)
def test_samples_hold_the_generated_requests(name: str) -> None:
    options = ReadOptions(
        arrivals=ArrivalProcess.parse("at_once") if name == "lengths.csv" else None,
        lengths=built_in_trace(requests=30) if name == "servegen.csv" else None,
    )
    trace = read_trace(SAMPLES / name, options=options)
    made = built_in_trace(requests=120)
    assert trace.accounting.read == len(trace) + sum(trace.accounting.dropped.values())
    if name == "servegen.csv":
        return
    pairs = list(zip(made.prompt_tokens.tolist(), made.output_tokens.tolist(), strict=True))
    found = list(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True))
    if name == "burstgpt.csv":
        pairs = [pair for i, pair in enumerate(pairs) if i % 15 != 7]
    elif name == "bench_result.json":
        del pairs[5]
    if name == "burstgpt_sessions.csv":
        assert [o for _, o in found] == [o for _, o in pairs]
        assert all(now >= own for (now, _), (own, _) in zip(found, pairs, strict=True))
    else:
        assert found == pairs
    if name in ("azure.csv", "generic.csv", "generic.jsonl", "generic.parquet", "vidur.csv", "splitwise.csv"):
        assert trace.digest() == made.digest()


def test_azure_2023_as_published(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "2023-11-16 18:15:46.6805901,374,44\r\n"
        "2023-11-16 18:15:46.6805902,396,109",
    )
    trace = read_trace(path)
    assert trace.arrival_ps.tolist() == [0, 100_000]
    assert trace.prompt_tokens.tolist() == [374, 396]
    assert trace.output_tokens.tolist() == [44, 109]


def test_azure_2024_has_zones_and_fewer_digits(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-05-10 00:00:00.009930+00:00,2162,5\n"
        "2024-05-10 00:00:01+00:00,2399,6\n"
        "2024-05-10 02:00:01.5+02:00,76,15\n",
    )
    assert read_trace(path).arrival_ps.tolist() == [0, 990_070 * 10**6, 1_490_070 * 10**6]


def test_extra_columns_in_any_order(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv",
        "GeneratedTokens,Model,TIMESTAMP,ContextTokens\n"
        '5,"a, b",2024-05-10 00:00:00,7\n6,c,2024-05-10 00:00:02,8\n',
    )
    trace = read_trace(path)
    assert trace.format == "azure"
    assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ([7, 8], [5, 6])


def test_mooncake_milliseconds_and_blocks(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]},
        {"timestamp": 250, "input_length": 512, "output_length": 6, "hash_ids": [0]},
    ]
    path = write(tmp_path / "m.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    trace = read_trace(path)
    assert trace.arrival_ps.tolist() == [0, 250 * MS]
    assert trace.prefix is not None
    assert trace.prefix.block_tokens == 512
    assert trace.prefix.offsets.tolist() == [0, 2, 3]
    assert trace.prefix.ids.tolist() == [0, 1, 0]


def test_bailian_seconds_and_blocks(tmp_path: Path) -> None:
    row = {"chat_id": 1, "parent_chat_id": -1, "type": "text", "turn": 1, "output_length": 3}
    rows = [
        {**row, "timestamp": 61.114, "input_length": 33, "hash_ids": [7, 8, 9]},
        {**row, "timestamp": 61.2, "input_length": 16, "hash_ids": [7]},
    ]
    path = write(tmp_path / "b.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    trace = read_trace(path)
    assert trace.format == "bailian"
    assert trace.arrival_ps.tolist() == [0, 86 * MS]
    assert trace.prefix is not None
    assert trace.prefix.block_tokens == 16


def test_burstgpt_failed_rows_are_dropped_and_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "b.csv",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n6,ChatGPT,0,0,0,API log\n7,GPT-4,9,0,9,API log\n",
    )
    trace = read_trace(path)
    assert len(trace) == 1
    assert trace.accounting.dropped == {"zero output tokens": 1, "zero prompt tokens": 1}


def test_benchmark_results_with_and_without_times(tmp_path: Path) -> None:
    result = {"total_input_tokens": 9, "request_rate": 4.0, "input_lens": [5, 4], "output_lens": [2, 3]}
    path = write(
        tmp_path / "r.json", json.dumps({**result, "start_times": [812.25, 812.5], "ttfts": [0.1, 0.2]})
    )
    assert read_trace(path).arrival_ps.tolist() == [0, 250 * MS]
    path = write(tmp_path / "s.jsonl", json.dumps(result) + "\n")
    with pytest.raises(InputError, match=r"no start_times; .*--arrivals poisson:4\.0"):
        read_trace(path)
    trace = read_trace(path, options=ReadOptions(arrivals=ArrivalProcess.parse("uniform:4")))
    assert trace.arrival_ps.tolist() == [0, 250 * MS]
    write(path, (json.dumps(result) + "\n") * 2)
    with pytest.raises(InputError, match="holds 2 benchmark results"):
        read_trace(path)
    write(path, json.dumps({"total_input_tokens": 9}))
    with pytest.raises(InputError, match="--save-detailed"):
        read_trace(path)


def test_rate_windows_continue_a_gap_over_their_edges() -> None:
    # Equal gaps: 0.15/s for 20 s, nothing for 10 s, then 0.3/s.
    windows = RateWindows(
        start_s=np.array([0.0, 10.0, 20.0, 30.0]),
        rate_per_s=np.array([0.15, 0.15, 0.0, 0.3]),
        shape=np.ones(4),
        family=["uniform", "uniform", "", "uniform"],
        window_s=10.0,
    )
    times = windows.arrivals(0) / PS_PER_S
    # Expected requests pass 1, 2 | 3, 4, 5 at the times 1/0.15, 2/0.15 | 30, 30 + 1/0.3, 30 + 2/0.3.
    assert times == pytest.approx([1 / 0.15, 2 / 0.15, 30.0, 30 + 1 / 0.3, 30 + 2 / 0.3])


def test_generic_columns_are_mapped(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", "when_ms,in,out\n1500,7,2\n1750,8,3\n")
    columns = {"arrival_s": "when_ms", "prompt_tokens": "in", "output_tokens": "out"}
    trace = read_trace(path, options=ReadOptions(columns=columns))
    assert trace.arrival_ps.tolist() == [0, 250 * MS]
    lines = '{"when_ms": 1500, "in": 7, "out": 2}\n{"when_ms": 1750.5, "in": 8, "out": 3}\n'
    trace = read_trace(write(tmp_path / "g.jsonl", lines), options=ReadOptions(columns=columns))
    assert trace.arrival_ps.tolist() == [0, 250_500_000_000]
    import polars as pl

    pl.DataFrame({"when_ms": [1500, 1750], "in": [7.0, 8.0], "out": [2, 3]}).write_parquet(
        tmp_path / "g.parquet"
    )
    trace = read_trace(tmp_path / "g.parquet", options=ReadOptions(columns=columns))
    assert trace.arrival_ps.tolist() == [0, 250 * MS]
    assert trace.prompt_tokens.tolist() == [7, 8]


def test_wall_clock_columns_of_parquet(tmp_path: Path) -> None:
    import polars as pl

    times = pl.Series(["2024-05-10 00:00:00.25", "2024-05-10 00:00:01"]).str.to_datetime("%F %T%.f")
    pl.DataFrame({"at": times, "prompt_tokens": [7, 8], "output_tokens": [2, 3]}).write_parquet(
        tmp_path / "g.parquet"
    )
    trace = read_trace(tmp_path / "g.parquet", options=ReadOptions(columns={"arrival_s": "at"}))
    assert trace.arrival_ps.tolist() == [0, 750 * MS]


def test_times_are_decimals_not_floats(tmp_path: Path) -> None:
    # Seconds since 1970 with 100 ns are beyond what a float64 holds.
    text = "1700000000.1234567,1,1\n1700000000.1234568,1,1\n1.7000000002e9,1,1\n"
    text = "arrival_s,prompt_tokens,output_tokens\n" + text
    assert read_trace(write(tmp_path / "g.csv", text)).arrival_ps.tolist() == [0, 100_000, 76_543_300_000]


def test_whole_numbers_written_as_floats(tmp_path: Path) -> None:
    text = "arrival_s,prompt_tokens,output_tokens\n0.5, 7.0 ,2.\n1,8,3.000\n"
    trace = read_trace(write(tmp_path / "g.csv", text))
    assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ([7, 8], [2, 3])


def test_packed_files_and_byte_order_marks(tmp_path: Path) -> None:
    text = (SAMPLES / "generic.csv").read_bytes()
    whole = read_trace(SAMPLES / "generic.csv").digest()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    (tmp_path / "b.csv").write_bytes(b"\xef\xbb\xbf" + text)
    (tmp_path / "c.csv.zst").write_bytes(stored_zstd(text))
    (tmp_path / "d.csv").write_bytes(text.replace(b"\n", b"\r\n"))
    (tmp_path / "e.csv").write_bytes(text.replace(b"\n", b"\n\n"))
    for path in sorted(tmp_path.iterdir()):
        trace = read_trace(path)
        assert trace.digest() == whole, path.name
        assert trace.accounting.read == 120, path.name


def test_blocks_cut_at_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BLOCK_BYTES > 1 << 20
    for name in ("generic.csv", "generic.jsonl", "azure.csv"):
        whole = read_trace(SAMPLES / name).digest()
        for size in (7, 64, 1000):
            monkeypatch.setattr("lumen_policy.trace.source.BLOCK_BYTES", size)
            assert read_trace(SAMPLES / name).digest() == whole
    bad = (SAMPLES / "generic.csv").read_text().splitlines()
    bad[100] = "x,1,1"
    path = write(tmp_path / "g.csv", "\n".join(bad))
    with pytest.raises(InputError, match="line 101: arrival_s is 'x'"):
        read_trace(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("arrival_s,prompt_tokens,output_tokens\n", "no rows below the header"),
        (
            "arrival_s,prompt_tokens,output_tokens\n1,0,4\n",
            "no requests left of 1 rows .1 zero prompt tokens.",
        ),
        (
            "arrival_s,prompt,output_tokens\n1,2,3\n",
            "missing column 'prompt_tokens'; found 'arrival_s', 'prompt'",
        ),
        (
            "arrival_s,prompt_tokens,output_tokens\n1,2,3\n1,2.5,3\n",
            "line 3: prompt_tokens is '2.5'; expected a whole",
        ),
        (
            "arrival_s,prompt_tokens,output_tokens\n1,2,-3\n",
            "line 2: output_tokens is '-3'; expected a whole number",
        ),
        ("arrival_s,prompt_tokens,output_tokens\n1,2,1e10\n", "line 2: output_tokens is '1e10'"),
        (
            "arrival_s,prompt_tokens,output_tokens\n1,2,3\nnan,2,3\n",
            "line 3: arrival_s is 'nan'; expected a number",
        ),
        ("arrival_s,prompt_tokens,output_tokens\n1,2,3\n,2,3\n", "line 3: arrival_s is missing"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2,3\n2,2\n", "line 3: output_tokens is missing"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2,3\n2,2,2,2\n", "line 3: 4 fields, but the header has 3"),
        ("arrival_s,prompt_tokens,prompt_tokens,output_tokens\n1,2,3,4\n", "'prompt_tokens' appears twice"),
        ('arrival_s,prompt_tokens,output_tokens\n1,2,"3\n4,5,6\n', "line 2: a quoted field does not end"),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-13-10 00:00:00,1,2\n",
            "line 2: TIMESTAMP is '2024-13-10",
        ),
        ('{"arrival_s": 1, "prompt_tokens": 2}\n', "line 1: 'output_tokens' is missing; found 'arrival_s'"),
        ('{"arrival_s": 1, "prompt_tokens": 2, "output_tokens": 3}\n[1]\n', "line 2: not a readable record"),
        ('{"arrival_s": 1, "prompt_tokens": 2.5, "output_tokens": 3}\n', "line 1: prompt_tokens is '2.5'"),
        ("hello\n", "format not recognised"),
        ("0,1.5,1,Gamma,1,1\n600,1.5,1,Pareto,1,1\n", "line 2: family is 'Pareto'"),
        (
            "0,1.5,1,Gamma,1,1\n600,1.5,1,Gamma,1,1\n900,1.5,1,Gamma,1,1\n",
            "line 3: window starts must rise in equal",
        ),
    ],
)
def test_bad_files_are_refused_with_their_place(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t", text)
    with pytest.raises(InputError, match=message):
        read_trace(path, options=ReadOptions(lengths=built_in_trace(requests=5)))


def test_unreadable_rows_are_dropped_only_when_told(tmp_path: Path) -> None:
    text = "arrival_s,prompt_tokens,output_tokens\n0,5,6\nx,5,6\n2,,6\n3,5,six\n4,5,6,7\n5,5,6\n"
    path = write(tmp_path / "g.csv", text)
    with pytest.raises(InputError, match="line "):
        read_trace(path)
    trace = read_trace(path, options=ReadOptions(drop_unreadable=True))
    assert trace.arrival_ps.tolist() == [0, 5 * PS_PER_S]
    assert trace.accounting.read == 6
    assert trace.accounting.dropped == {
        "unreadable output tokens": 1,
        "unreadable prompt tokens": 1,
        "unreadable row": 1,
        "unreadable time": 1,
    }


def test_unknown_format_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown trace format 'sql'; known: azure, "):
        by_name("sql")
    with pytest.raises(InputError, match="no such file"):
        read_trace(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="is a directory"):
        read_trace(tmp_path)


def test_fault_logs_are_inspected_like_traces(tmp_path: Path) -> None:
    def event(node: str, time: float, kind: str) -> dict[str, object]:
        return {
            "node_id": node,
            "event_time": time,
            "event_type": f"fault_{kind}",
            "fault_type": {"Class": "GPU"},
        }

    events = [event("a", 1, "start"), event("a", 1, "start"), event("b", 3, "start"), event("a", 2, "end")]
    path = write(tmp_path / "f.json", json.dumps([*events, event("a", 5, "end"), event("b", 3, "end")]))
    document = inspect_file(path, nodes=10, watched_days=6.0)
    # Repairs of 1, 4 and 0 days; the older open fault ends first.
    assert document["repair_h"] == {"mean": 40.0, "p50": 24.0, "p90": 96.0, "max": 96.0}
    assert (document["faults"], document["nodes_hit"], document["zero_length"]) == (3, 2, 1)
    assert document["faults_per_1000_node_days"] == 50.0
    with pytest.raises(InputError, match="the log names 2 nodes"):
        inspect_file(path, nodes=1)
    write(path, json.dumps([event("a", 1, "end")]))
    with pytest.raises(InputError, match="without a start"):
        inspect_file(path)


def test_more_than_90_days_are_read_by_a_window(tmp_path: Path) -> None:
    days = [0, 1, 50, 104, 105, 107, 110]
    rows = "".join(f"{86_400 * day},{day + 1},1\n" for day in days)
    path = write(tmp_path / "g.csv", f"arrival_s,prompt_tokens,output_tokens\n{rows}")
    for window in (None, (0.0, 1e9), (86_400.0 * 105, float("inf"))):
        with pytest.raises(InputError, match=r"g\.csv: .*--window START:END"):
            read_trace(path, options=ReadOptions(window_s=window))
    trace = read_trace(path, options=ReadOptions(window_s=(86_400.0 * 50, 86_400.0 * 106)))
    assert trace.prompt_tokens.tolist() == [51, 105, 106]
    assert trace.accounting.dropped == {"outside the window": 4}
    assert trace.span_s == 55 * 86_400
    document = inspect_file(path, options=ReadOptions(window_s=(86_400.0 * 50, 86_400.0 * 106)))
    assert (document["span_s"], document["all_rows"]) == (55 * 86_400, None)
    clock = write(
        tmp_path / "a.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2000-01-01 00:00:00,1,1\n2023-01-01 00:00:00,1,1\n",
    )
    with pytest.raises(InputError, match="more than 106 days"):
        read_trace(clock)
