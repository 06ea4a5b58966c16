"""Write, then read: the same requests, for every writable format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumen_policy.errors import InputError
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.read import read_trace
from lumen_policy.trace.rows import Rows
from lumen_policy.trace.synthetic import built_in_trace
from lumen_policy.trace.table import MAX_SPAN_PS, MAX_TOKENS, PrefixBlocks, Trace
from lumen_policy.trace.write import WRITABLE, write_trace

TICK_PS = 100_000


@st.composite
def traces(draw: st.DrawFn, tick_ps: int) -> Trace:
    """Up to 30 requests anywhere in 90 days, with colliding times; sometimes with hash ids."""
    n = draw(st.integers(1, 30))
    times = st.one_of(st.sampled_from([0, 1, 7, 10**7, 12_345_678]), st.integers(0, MAX_SPAN_PS // tick_ps))
    arrival = np.sort(np.array(draw(st.lists(times, min_size=n, max_size=n)), np.int64)) * tick_ps
    counts = st.one_of(st.integers(1, 5000), st.just(MAX_TOKENS))
    prompt, output = (np.array(draw(st.lists(counts, min_size=n, max_size=n)), np.int64) for _ in range(2))
    prefix = None
    if draw(st.booleans()):
        prompt = np.minimum(prompt, 5000)
        offsets = np.concatenate([[0], np.cumsum(-(-prompt // 512))])
        ids = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=7)
        prefix = PrefixBlocks(
            block_tokens=512, offsets=offsets, ids=np.resize(np.array(draw(ids), np.int64), offsets[-1])
        )
    return Rows(arrival_ps=arrival, prompt_tokens=prompt, output_tokens=output, prefix=prefix).trace("t", "t")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("format", WRITABLE)
def test_same_requests(format: str, packed: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    if packed and format == "parquet":
        pytest.skip("Parquet packs its own pages")
    folder = tmp_path_factory.mktemp("round")

    @settings(max_examples=40)
    @given(traces(TICK_PS if format == "azure" else 1))
    def check(trace: Trace) -> None:
        path = folder / f"t.{format}{'.gz' if packed else ''}"
        lost = write_trace(trace, path, format)
        first = path.read_bytes()
        # Random ids may all be floats' values, and a random span may make an odd rate: both are told.
        options = ReadOptions(time_unit="ms" if format == "mooncake" else None)
        if trace.prefix is not None and format in ("jsonl", "mooncake") and _rounded(trace.prefix):
            options = ReadOptions(time_unit=options.time_unit, prefix_ids="ignore")
        back = read_trace(path, format=format, options=options)
        assert back.arrival_ps.tolist() == trace.arrival_ps.tolist()
        assert back.prompt_tokens.tolist() == trace.prompt_tokens.tolist()
        assert back.output_tokens.tolist() == trace.output_tokens.tolist()
        assert back.accounting.read == len(trace)
        if lost is None and options.prefix_ids == "keep":
            assert back.digest() == trace.digest()
        else:
            assert trace.prefix is not None
            assert back.prefix is None
        write_trace(trace, path, format)
        assert path.read_bytes() == first

    check()


def _rounded(prefix: PrefixBlocks) -> bool:
    large = [i % 2**64 for i in prefix.ids.tolist() if not -(2**53) < i <= 2**53]
    return bool(large) and all(int(float(i)) == i for i in large)


def test_what_a_format_cannot_hold_is_refused_or_said(tmp_path: Path) -> None:
    fine = Rows(arrival_ps=np.array([0, 1]), prompt_tokens=np.array([1, 1]), output_tokens=np.array([1, 1]))
    with pytest.raises(InputError, match="ticks of 100 ns"):
        write_trace(fine.trace("t", "t"), tmp_path / "a.csv", "azure")
    assert not list(tmp_path.iterdir())
    prefix = PrefixBlocks(block_tokens=16, offsets=np.array([0, 1]), ids=np.array([5]))
    one = Rows(
        arrival_ps=np.array([0]), prompt_tokens=np.array([9]), output_tokens=np.array([1]), prefix=prefix
    )
    with pytest.raises(InputError, match="blocks of 512 tokens, not 16; write jsonl"):
        write_trace(one.trace("t", "t"), tmp_path / "a", "mooncake")
    lost = write_trace(one.trace("t", "t"), tmp_path / "a.csv", "csv")
    assert lost is not None
    assert "prefix hash ids" in lost
    for name, format, message in (
        ("a.csv", "sql", "cannot write format 'sql'; writable: csv"),
        ("a.csv.zst", "csv", "not written"),
        ("a.parquet.gz", "parquet", "packs its own pages"),
        ("no/such/folder.csv", "csv", "cannot be written"),
    ):
        with pytest.raises(InputError, match=message):
            write_trace(built_in_trace(requests=3), tmp_path / name, format)
