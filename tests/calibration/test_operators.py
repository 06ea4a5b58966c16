"""Operator tables: by hand on a small one, against the accuracy targets on the published ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from cost_models.calibration.operators import OperatorTables, operator_samples
from cost_models.calibration.samples import of_kind
from cost_models.errors import CostModelError
from cost_models.model_spec import ModelSpec
from tests.cli.conftest import Run
from tests.conftest import shared_path

MODEL = ModelSpec(
    name="two-layers",
    layers=2,
    hidden=8,
    q_heads=4,
    kv_heads=2,
    head_dim=2,
    ffn=16,
    vocab=10,
    tied=False,
)
OPERATORS = (
    "input_layernorm",
    "attn_pre_proj",
    "attn_rope",
    "attn_post_proj",
    "post_attention_layernorm",
    "mlp_up_proj",
    "mlp_act",
    "mlp_down_proj",
    "add",
)
LLAMA_2_70B = """{"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "head_dim": 128,
"num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 32000,
"torch_dtype": "float16"}"""


def linear_table(path: Path, rows: list[tuple[int, int, float]], *, heads: int = 4) -> str:
    """(tokens, TP, ms of every operator)."""
    columns = [f"time_stats.{name}.median" for name in OPERATORS]
    text = ",".join(
        [*columns, "time_stats.emb.median", "n_head", "num_tokens", "num_tensor_parallel_workers"]
    )
    for tokens, tp, ms in rows:
        cells = [str(ms)] * 9 + ["99", str(heads), str(tokens), str(tp)]
        text += "\n" + ",".join(cells)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


@pytest.mark.parametrize("name", ["mlp.csv", "mlp.csv.gz"])
def test_linear_is_nine_operators_of_each_layer(tmp_path: Path, name: str) -> None:
    tables = OperatorTables(linear=linear_table(tmp_path / name, [(64, 1, 0.5), (64, 2, 0.3)]))
    notes: list[str] = []
    samples = operator_samples(tables, MODEL, 2, notes)
    assert samples["seconds"].to_list() == pytest.approx([2 * 9 * 0.3e-3])
    assert samples["tokens"].to_list() == [64]
    assert any("all-reduce" in note and "left out" in note for note in notes)
    assert any("no attention table" in note for note in notes)


def test_attention_counts_pairs_and_contexts(tmp_path: Path) -> None:
    path = tmp_path / "attention.csv"
    path.write_text(
        "time_stats.attn_prefill.median,time_stats.attn_decode.median,batch_size,prefill_chunk_size,"
        "kv_cache_size,num_tensor_parallel_workers\n"
        "0.5,,1,4,10,1\n"
        "0.9,,2,4,10,1\n"
        ",0.25,8,0,32,1\n"
        ",0,8,0,64,1\n"
    )
    linear = linear_table(tmp_path / "mlp.csv", [(64, 1, 0.5)])
    notes: list[str] = []
    samples = operator_samples(OperatorTables(linear=linear, attention=str(path)), MODEL, 1, notes)
    prefill, decode = of_kind(samples, "attention_prefill"), of_kind(samples, "attention_decode")
    assert prefill.select("tokens", "pairs").rows() == [(4, 4 * 10 + 4 * 5 // 2)]
    assert prefill["seconds"].to_list() == pytest.approx([1e-3])
    assert notes == [
        "1 attention rows of several prompts at once are not used",
        "1 attention rows of 0 ms, below the profiler's resolution, are not used",
    ]
    assert decode.select("sequences", "context_tokens").rows() == [(8, 256)]
    assert decode["seconds"].to_list() == pytest.approx([0.5e-3])


def test_all_reduce_is_of_one_node_and_a_median_over_rows(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.csv"
    path.write_text(
        "time_stats.all_reduce.median,num_workers,devices_per_node,size\n"
        "0.1,2,2,4096\n0.3,2,2,4096\n0.2,2,2,4096\n9,2,1,4096\n9,4,4,4096\n"
    )
    linear = linear_table(tmp_path / "mlp.csv", [(64, 2, 0.5)])
    samples = operator_samples(OperatorTables(linear=linear, all_reduce=str(path)), MODEL, 2, [])
    rows = of_kind(samples, "all_reduce")
    assert rows.select("bytes", "seconds").rows() == [(4096, pytest.approx(0.2e-3))]


@pytest.mark.parametrize(
    ("rows", "heads", "words"),
    [
        ([(64, 1, 0.5)], 4, "no rows with num_tensor_parallel_workers 2, there are: 1"),
        ([(64, 2, 0.5)], 8, "n_head is 8, but two-layers has 4"),
        ([(64, 2, -0.5)], 4, r"input_layernorm.median is -0.5, allowed"),
        ([(64, 2, float("nan"))], 4, "is nan, allowed"),
        ([(64, 2, 1e7)], 4, "allowed: a finite number of ms"),
        ([(-64, 2, 0.5)], 4, "tokens is -64"),
    ],
)
def test_a_wrong_table_is_refused(
    tmp_path: Path, rows: list[tuple[int, int, float]], heads: int, words: str
) -> None:
    tables = OperatorTables(linear=linear_table(tmp_path / "mlp.csv", rows, heads=heads))
    with pytest.raises(CostModelError, match=words):
        operator_samples(tables, MODEL, 2, [])


def calibrate(run: Run, tmp_path: Path, gpu: str, model: str, tp: int, *, attention: bool) -> dict:
    config = tmp_path / "llama-2-70b.json"
    config.write_text(LLAMA_2_70B)
    folder = shared_path(f"data/vidur-profiles/{gpu}/{model}")
    arguments = ["--from-operators", str(folder / "mlp.csv.gz"), "--model", str(config), "--tp", str(tp)]
    if attention:
        arguments += ["--attention", str(folder / "attention_tp2_early.csv.gz")]
    if tp > 1:
        reduce = shared_path(f"data/vidur-profiles/network/{gpu}_dgx/all_reduce.csv.gz")
        arguments += ["--allreduce", str(reduce)]
    return run("calibrate", *arguments, "--out", str(tmp_path / "p.json"), "--json").document["fit"]


def test_whole_layer_stack_of_a100(run: Run, tmp_path: Path) -> None:
    fit = calibrate(run, tmp_path, "a100", "Llama-2-70b-hf", 2, attention=True)
    assert set(fit) == {"linear", "all_reduce", "attention_prefill", "attention_decode", "prefill", "decode"}
    assert fit["prefill"]["rows"] == 4418
    assert fit["prefill"]["median_error"] <= 0.025
    assert fit["prefill"]["p90_error"] <= 0.07
    assert fit["decode"]["median_error"] <= 0.02
    assert fit["decode"]["p90_error"] <= 0.045
    for form in ("prefill", "decode"):
        assert fit[form]["extrapolated_median_error"] <= 0.04
        assert fit[form]["extrapolated_p90_error"] <= 0.09


@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_linear_layers_and_all_reduce(run: Run, tmp_path: Path, gpu: str, tp: int) -> None:
    """Without attention data a prefill is linear layers + all-reduces."""
    fit = calibrate(run, tmp_path, gpu, "Llama-2-70b-hf", tp, attention=False)
    for form in ("linear", "prefill"):
        assert fit[form]["median_error"] <= 0.03
        assert fit[form]["p90_error"] <= 0.08
        assert fit[form]["extrapolated_median_error"] <= 0.04
        assert fit[form]["extrapolated_p90_error"] <= 0.09
