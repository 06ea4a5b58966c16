"""Published traces: their figures as measured independently on the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lumen_policy.trace.arrivals import ArrivalProcess
from lumen_policy.trace.inspect import inspect_file
from lumen_policy.trace.options import ReadOptions
from lumen_policy.trace.read import read_trace
from lumen_policy.trace.synthetic import built_in_trace
from tests.conftest import shared_path

CONV = "azure2023/AzureLLMInferenceTrace_conv.csv"
CODE = "azure2023/AzureLLMInferenceTrace_code.csv"
MOONCAKE = "mooncake/conversation_trace.jsonl.gz"
BURSTGPT = "burstgpt/BurstGPT_1_first400.csv"
LENGTHS = "lengths/sharegpt_val_10k_llama2.csv"

ARRIVALS = {
    # rows, span s, requests/s, CV of counts in 10 s, busiest, empty %, gap CV, longest gap s
    CONV: (19_366, 3_501.7, 5.530, 0.264, 98, 0.0, 1.094, 4.3),
    CODE: (8_819, 3_435.9, 2.567, 1.677, 327, 56.3, 13.152, 217.2),
    MOONCAKE: (12_031, 3_537.0, 3.402, 0.249, 67, 0.0, 3.034, 3.0),
    BURSTGPT: (400, 37_269, 0.0107, 3.393, 3, 91.0, 4.567, 6_651),
}
LENGTH = {
    # prompt mean p50 p90 p99 max, output mean p50 p90 p99 max, Pearson, Spearman, > 8K %, > 32K %
    CONV: ((1154.7, 1020, 2735, 4142, 14050), (211.1, 129, 424, 601, 1000), -0.112, 0.073, 0.01, 0),
    CODE: ((2047.8, 1469, 5186, 7436, 7437), (27.9, 13, 55, 252, 1899), 0.001, -0.021, 0, 0),
    MOONCAKE: (
        (12035.1, 6909, 27367, 85401, 126195),
        (342.6, 350, 597, 1120, 2000),
        0.072,
        0.072,
        44.98,
        6.88,
    ),
    BURSTGPT: ((520.5, 320, 1416, 1958, 2126), (276.5, 230, 570, 1421, 2019), 0.244, 0.364, 0, 0),
    LENGTHS: ((245.8, 35, 761, 2862, 3973), (325.6, 286, 681, 1000, 1734), 0.032, 0.138, 0, 0),
}


def figures(name: str) -> dict[str, Any]:
    """Figures over every row, failed requests included."""
    document: dict[str, Any] = inspect_file(shared_path(f"traces/{name}"))["all_rows"]
    return document


def close(value: float, printed: float) -> bool:
    """Whether a value rounds to the printed figure: half a unit of its last digit."""
    digits = len(str(printed).partition(".")[2])
    return abs(value - printed) <= 0.5 * 10.0**-digits + 1e-9


@pytest.mark.parametrize("name", ARRIVALS)
def test_arrivals(name: str) -> None:
    found = figures(name)
    count, span, rate, window_cv, busiest, empty, gap_cv, longest = ARRIVALS[name]
    assert found["count"] == count
    assert found["window_count_max"] == busiest
    # The published rate of the Mooncake trace was rounded up from 3.4015.
    assert abs(found["rate_per_s"] - rate) < 0.001
    for key, printed, factor in (
        ("span_s", span, 1),
        ("window_count_cv", window_cv, 1),
        ("window_empty_share", empty, 100),
        ("gap_cv", gap_cv, 1),
        ("gap_max_s", longest, 1),
    ):
        assert close(factor * found[key], printed), key


@pytest.mark.parametrize("name", LENGTH)
def test_lengths(name: str) -> None:
    found = figures(name)
    prompt, output, pearson, spearman, over_8k, over_32k = LENGTH[name]
    for key, printed in (("prompt_tokens", prompt), ("output_tokens", output)):
        ours = [found[key][part] for part in ("mean", "p50", "p90", "p99", "max")]
        assert close(ours[0], printed[0])
        assert ours[1:] == list(printed[1:])
    assert close(found["correlation"]["pearson"], pearson)
    assert close(found["correlation"]["spearman"], spearman)
    assert abs(100 * found["prompt_tokens"]["share_over_8192"] - over_8k) <= 0.005
    assert abs(100 * found["prompt_tokens"]["share_over_32768"] - over_32k) <= 0.005


def test_azure_times_are_exact_to_the_tick() -> None:
    trace = read_trace(shared_path(f"traces/{CONV}"))
    # 18:15:46.6805900 → 18:15:50.9951690 → 18:15:51.2224670; the last row is 19:14:08.4025270.
    assert trace.arrival_ps[:3].tolist() == [0, 4_314_579_000_000, 4_541_877_000_000]
    assert trace.arrival_ps[-1] == 3_501_721_937_000_000
    assert (trace.prompt_tokens[-1], trace.output_tokens[-1]) == (197, 183)
    assert trace.accounting.read == trace.accounting.kept == 19_366
    assert trace.accounting.notes == ()


def test_mooncake_blocks_times_and_duplicates() -> None:
    path = shared_path(f"traces/{MOONCAKE}")
    document = inspect_file(path, cache_blocks=50_000)
    prefix = document["prefix"]
    assert prefix["block_tokens"] == 512
    assert round(100 * prefix["reuse_unlimited"], 1) == 36.6
    assert 0 < prefix["reuse_limited"] < prefix["reuse_unlimited"]
    assert document["one_token_outputs"] == 72
    assert document["equal_rows"] == 1
    trace = read_trace(path)
    assert trace.prefix is not None
    assert (np.diff(trace.prefix.offsets) == -(-trace.prompt_tokens // 512)).all()
    assert len(np.unique(trace.arrival_ps)) == 1_180
    assert (trace.arrival_ps % 10**9 == 0).all()


def test_burstgpt_keeps_what_did_not_fail() -> None:
    document = inspect_file(shared_path(f"traces/{BURSTGPT}"))
    assert document["rows"] == {"read": 400, "kept": 383, "dropped": {"zero prompt tokens": 17}}


def test_lengths_need_an_arrival_process() -> None:
    path = shared_path(f"traces/{LENGTHS}")
    trace = read_trace(path, options=ReadOptions(arrivals=ArrivalProcess.parse("poisson:2", seed=4)))
    assert len(trace) == 10_000
    assert trace.rate_per_s == pytest.approx(2.0, rel=0.04)
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == (3742, 284)
    assert inspect_file(path)["kind"] == "lengths"
    assert inspect_file(path)["rate_per_s"] is None


def test_servegen_windows() -> None:
    path = shared_path("traces/servegen/m-large_chunk-0-trace.csv")
    document = inspect_file(path)
    assert document["kind"] == "rate_windows"
    assert (document["windows"], document["empty_windows"], document["window_s"]) == (2_016, 715, 600.0)
    donor = built_in_trace(requests=500)
    trace = read_trace(path, options=ReadOptions(lengths=donor, seed=3))
    # Heavy-tailed gaps: the count of two weeks still lies within a few percent of its expectation.
    assert len(trace) == pytest.approx(document["expected_requests"], rel=0.03)
    lengths = set(zip(donor.prompt_tokens.tolist(), donor.output_tokens.tolist(), strict=True))
    assert set(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)) <= lengths


def test_fault_log() -> None:
    path = shared_path("traces/failures/infinitehbd_faults_before_day200.json")
    document = inspect_file(path, nodes=400, watched_days=200 - 3.8955)
    assert (document["faults"], document["nodes_hit"], document["zero_length"]) == (333, 169, 14)
    assert document["unrepaired"] == 0
    assert document["faults_per_1000_node_days"] == pytest.approx(4.25, abs=0.006)
    repair = document["repair_h"]
    assert close(repair["p50"], 35.0)
    assert close(repair["mean"], 179.8)
    assert close(repair["p90"], 496.2)
    assert round(repair["max"]) == 3_143
