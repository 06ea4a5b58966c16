"""What a file does not say is found in the file, or asked for: never guessed in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.errors import InputError
from lumen_policy.trace.arrivals import ArrivalProcess
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.read import read_trace

MS = 10**9


def mooncake(path: Path, times: list[Any], **more: Any) -> Path:
    rows = [
        {"timestamp": t, "input_length": 600, "output_length": 5, "hash_ids": [0, 1], **more} for t in times
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def hashed(path: Path, rows: list[tuple[int, list[Any]]]) -> Path:
    records = [
        {"timestamp": 100 * i, "input_length": n, "output_length": 5, "hash_ids": ids}
        for i, (n, ids) in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_seconds_in_a_millisecond_format_are_refused(tmp_path: Path) -> None:
    # 100 requests in 50 "ms" are 2,000 a second; in seconds they are 2.
    path = mooncake(tmp_path / "m.jsonl", [i / 2 for i in range(100)])
    with pytest.raises(InputError, match="--time-unit ms or --time-unit s"):
        read_trace(path)
    assert read_trace(path, options=ReadOptions(time_unit="s")).span_s == 49.5
    told = read_trace(path, options=ReadOptions(time_unit="ms"))
    assert told.span_s == 0.0495
    assert "times read as ms (as told)" in told.accounting.notes


def test_the_documented_unit_is_said(tmp_path: Path) -> None:
    trace = read_trace(mooncake(tmp_path / "m.jsonl", [0, 500, 1000]))
    assert trace.accounting.notes[0] == "times read as ms (the format's documented unit; 3 requests/s)"


@pytest.mark.parametrize(
    ("column", "value", "unit_ps"),
    [
        ("t_s", "3", 1000 * MS),
        ("t_ms", "3", MS),
        ("t_us", "3", MS // 1000),
        ("t_ns", "3", 1000),
        ("epoch", "1700000003", 1000 * MS),
        ("epoch", "1700000000003", MS),
        ("epoch", "1700000000000003", MS // 1000),
        ("epoch", "1700000000000000003", 1000),
        ("time", "3", None),
        ("time", "3.5", None),
    ],
)
def test_unit_of_a_mapped_column(column: str, value: str, unit_ps: int | None, tmp_path: Path) -> None:
    path = tmp_path / "g.csv"
    later = str(int(float(value)) + 1) if "." in value else str(int(value) + 1)
    path.write_text(f"{column},prompt_tokens,output_tokens\n{value},1,1\n{later},1,1\n")
    options = {"columns": {"arrival_s": column}}
    if unit_ps is None:
        with pytest.raises(InputError, match=f"unit of the times in '{column}' is not certain.*--time-unit"):
            read_trace(path, options=ReadOptions(**options))  # type: ignore[arg-type]
        assert read_trace(path, options=ReadOptions(**options, time_unit="ms"))  # type: ignore[arg-type]
        return
    trace = read_trace(path, options=ReadOptions(**options))  # type: ignore[arg-type]
    assert trace.span_ps == unit_ps


@pytest.mark.parametrize(("column", "value"), [("arrival_s", 1700000000000), ("t_ms", 1700000000000000000)])
def test_a_wall_clock_finer_than_its_column_says_is_refused(column: str, value: int, tmp_path: Path) -> None:
    path = tmp_path / "g.csv"
    path.write_text(f"{column},prompt_tokens,output_tokens\n{value},1,1\n{value + 5000},1,1\n")
    columns = {"arrival_s": column}
    with pytest.raises(InputError, match="beyond the year 2052; say --time-unit"):
        read_trace(path, options=ReadOptions(columns=columns))
    assert read_trace(path, options=ReadOptions(columns=columns, time_unit="ms")).span_s == 5


def test_a_deeply_nested_line_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text('{"a":' * 5000 + "1" + "}" * 5000 + "\n")
    with pytest.raises(InputError, match="line 1: not a readable record"):
        read_trace(path)
    good = '{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\n'
    path.write_text(good + path.read_text() + good)
    with pytest.raises(InputError, match="line 2: not a readable record"):
        read_trace(path)
    assert read_trace(path, options=ReadOptions(drop_unreadable=True)).accounting.dropped == {
        "unreadable row": 1
    }


def test_block_size_from_the_lengths(tmp_path: Path) -> None:
    # 100 tokens with 4 ids: 32-token blocks, the only size that fits.
    trace = read_trace(hashed(tmp_path / "h.jsonl", [(100, [1, 2, 3, 4]), (33, [1, 5])]))
    assert trace.prefix is not None
    assert trace.prefix.block_tokens == 32
    assert "the only size all rows fit" in trace.accounting.notes[-1]


def test_ids_of_full_blocks_alone_fit_too(tmp_path: Path) -> None:
    trace = read_trace(hashed(tmp_path / "h.jsonl", [(1200, [1, 2]), (500, [])]))
    assert trace.prefix is not None
    assert trace.prefix.block_tokens == 512


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [(100, [1, 2, 3, 4, 5])],
            "line 1: 5 hash ids for 100 prompt tokens; no usual block size fits; say --block-tokens",
        ),
        ([(5, [1])], None),
        ([(600, [1, 2]), (600, [1])], "no usual block size fits"),
    ],
)
def test_block_size_that_is_not_certain(
    rows: list[tuple[int, list[int]]], message: str | None, tmp_path: Path
) -> None:
    path = hashed(tmp_path / "h.jsonl", rows)
    if message is None:
        assert read_trace(path).prefix is not None
        return
    with pytest.raises(InputError, match=message):
        read_trace(path)
    assert read_trace(path, options=ReadOptions(prefix_ids="ignore")).prefix is None


def test_generic_lines_with_several_possible_sizes(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    row = {"arrival_s": 0, "prompt_tokens": 5, "output_tokens": 1, "hash_ids": [3]}
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(
        InputError, match="sizes 8, 16, 32, 64, 128, 256, 512, 1024, 2048 fit; say --block-tokens N"
    ):
        read_trace(path)
    prefix = read_trace(path, options=ReadOptions(block_tokens=64)).prefix
    assert prefix is not None
    assert prefix.block_tokens == 64
    path.write_text(json.dumps({**row, "block_tokens": 128}) + "\n")
    prefix = read_trace(path).prefix
    assert prefix is not None
    assert prefix.block_tokens == 128
    with pytest.raises(InputError, match="1 hash ids do not fit 5 prompt tokens in blocks of 2"):
        read_trace(path, options=ReadOptions(block_tokens=2))


def test_rows_without_ids_among_rows_with_ids(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    row = {"timestamp": 0, "input_length": 600, "output_length": 5}
    path.write_text(json.dumps({**row, "hash_ids": [0, 1]}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(InputError, match="line 2: no hash ids, though other rows have some"):
        read_trace(path)


@given(st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=7))
def test_large_ids_stay_exact(tmp_path_factory: pytest.TempPathFactory, ids: list[int]) -> None:
    path = hashed(tmp_path_factory.mktemp("h") / "h.jsonl", [(512 * len(ids), ids)])
    prefix = read_trace(path).prefix
    assert prefix is not None
    assert [i % 2**64 for i in prefix.ids.tolist()] == [i % 2**64 for i in ids]


def test_ids_that_passed_through_floats_are_refused(tmp_path: Path) -> None:
    rounded = [int(float((1 << 60) + 1_234_567 * i)) for i in range(9)]
    path = hashed(tmp_path / "h.jsonl", [(512 * 9, rounded)])
    with pytest.raises(InputError, match="no longer exact"):
        read_trace(path)
    path = hashed(tmp_path / "h.jsonl", [(512, [float(1 << 60)])])
    with pytest.raises(InputError, match="no longer exact"):
        read_trace(path)
    exact = [(1 << 60) + 1_234_567 * i for i in range(9)]
    assert read_trace(hashed(tmp_path / "h.jsonl", [(512 * 9, exact)])).prefix is not None
    small_floats = hashed(tmp_path / "h.jsonl", [(1024, [1.0, 2.0])])
    assert read_trace(small_floats).prefix is not None


def test_ids_outside_64_bits_are_refused(tmp_path: Path) -> None:
    for bad in (2**64, -(2**63) - 1):
        path = hashed(tmp_path / "h.jsonl", [(512, [bad])])
        with pytest.raises(InputError, match="line 1"):
            read_trace(path)


def test_missing_times_in_some_rows(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    row = {"input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
    rows = [{**row, "timestamp": 0}, row, {**row, "timestamp": None}, {**row, "timestamp": 700}]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    with pytest.raises(InputError, match=r"line 2: 'timestamp' is missing.*--drop-unreadable"):
        read_trace(path)
    trace = read_trace(path, options=ReadOptions(drop_unreadable=True))
    assert trace.accounting.dropped == {"missing time": 2}
    assert trace.arrival_ps.tolist() == [0, 700 * MS]


SESSIONS = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def test_cumulative_prompts_are_found_by_evidence(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text(
        SESSIONS
        + "0.0,a,1,GPT-4,10,5,15,Conversation log\n1.0,b,1,GPT-4,7,5,12,Conversation log\n"
        + "2.0,a,1,GPT-4,20,5,25,Conversation log\n3.0,,1,GPT-4,3,5,8,API log\n"
    )
    trace = read_trace(path)
    assert trace.prompt_tokens.tolist() == [10, 7, 20, 3]
    assert "1 of 1 follow-up turns" in trace.accounting.notes[-1]


def test_prompts_without_their_history_are_refused_or_accumulated(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text(
        SESSIONS
        + "0.0,a,1,GPT-4,10,5,15,Conversation log\n1.0,b,1,GPT-4,7,4,11,Conversation log\n"
        + "2.0,a,1,GPT-4,3,6,9,Conversation log\n3.0,a,1,GPT-4,2,1,3,Conversation log\n"
        + "4.0,b,1,GPT-4,0,0,0,Conversation log\n5.0,b,1,GPT-4,5,1,6,Conversation log\n"
    )
    with pytest.raises(InputError, match="--turns as_is or --turns accumulate"):
        read_trace(path)
    as_is = read_trace(path, options=ReadOptions(turns="as_is"))
    assert as_is.prompt_tokens.tolist() == [10, 7, 3, 2, 5]
    # a: 10, 10 + 5 + 3, 18 + 6 + 2; b: 7, then the failed turn adds nothing, 7 + 4 + 5.
    summed = read_trace(path, options=ReadOptions(turns="accumulate"))
    assert summed.prompt_tokens.tolist() == [10, 7, 18, 26, 16]
    assert summed.accounting.dropped == {"zero prompt tokens": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_unit": "min"}, "time unit 'min': allowed are s, ms, us, ns"),
        ({"columns": {"prompt": "x"}}, "--map prompt=…: unknown field; allowed: arrival_s"),
        ({"prefix_ids": "drop"}, "allowed are keep, ignore"),
        ({"turns": "sum"}, "allowed are as_is, accumulate"),
        ({"block_tokens": 0}, "at least 1"),
        ({"window_s": (5.0, 1.0)}, "0 ≤ start < end"),
    ],
)
def test_senseless_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ReadOptions(**options)


@pytest.mark.parametrize(
    "text", ["poisson", "poisson:0", "gamma:5", "gamma:5:nan", "pareto:5", "at_once:3", "poisson:x"]
)
def test_senseless_arrivals_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="arrivals"):
        ArrivalProcess.parse(text)
