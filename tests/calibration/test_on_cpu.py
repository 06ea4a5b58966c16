"""A calibration of the CPU from end to end, and what it keeps when it cannot end."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cost_models.calibration.microbenchmarks import ModelBench, Point
from cost_models.calibration.samples import KINDS, read_samples
from cost_models.hardware import load_hardware
from cost_models.hf_config import load_model
from cost_models.iteration import iteration_model
from tests.cli.conftest import Run

pytest.importorskip("torch", reason="torch is not installed (extra: calibrate)")


def arguments(configs: tuple[str, str], out: Path) -> tuple[str, ...]:
    served, draft = configs
    return ("--model", served, "--draft", draft, "--tp", "1", "--out", str(out))


def test_measured_profile_serves_a_replay(run: Run, configs: tuple[str, str], tmp_path: Path) -> None:
    profile = tmp_path / "cpu.json"
    ran = run("calibrate", "--device", "cpu", "--quick", *arguments(configs, profile), "--json")
    document = ran.document
    assert set(document["fit"]) == {
        "linear",
        "lm_head",
        "attention_prefill",
        "attention_decode",
        "prefill",
        "decode",
    }
    assert all(fit["rows"] >= 8 and fit["median_error"] >= 0 for fit in document["fit"].values())

    hardware = load_hardware(str(profile))
    assert [item.model for item in hardware.calibrations] == ["served", "draft"]
    assert hardware.host_link.kind == "measured"
    assert "CPU" in hardware.host_link.source
    assert hardware.device_to_host is not None
    assert hardware.device_to_host.kind == "measured"
    assert hardware.engine_init_s.kind != "measured"
    assert "SDPA" in hardware.calibrations[0].attention_kernel

    samples = read_samples(str(tmp_path / "cpu.samples.parquet"))
    assert set(samples["model"]) == {"served", "draft"}
    assert set(samples["kind"]) - {"storage_read_warm"} <= set(KINDS)
    assert {"host_to_device", "host_to_device_pages", "device_to_host", "device_to_host_pages"} <= set(
        samples["kind"]
    )
    assert all("torch" in source for source in samples["source"])
    assert not list(tmp_path.glob("*.safetensors"))
    assert not list(tmp_path.glob(".*.safetensors"))

    # Prediction and measurement are of one size; a noisy machine allows no more.
    model = load_model(configs[0], [])
    iteration = iteration_model(model, hardware, 1)
    decode = samples.filter((pl.col("kind") == "decode") & (pl.col("model") == "served"))
    ratios = [
        float(iteration.seconds(batch, context_tokens=context, sequences=batch)) / seconds
        for batch, context, seconds in decode.select("sequences", "context_tokens", "seconds").iter_rows()
    ]
    assert 0.2 < statistics.median(ratios) < 5

    served, draft = configs
    replay = run(
        "replay", "--model", served, "--draft", draft, "--tp", "1", "--hardware", str(profile),
        "--limit", "40", "--crash", "5:0", "--workers", "2", "--json",
    )  # fmt: skip
    assert replay.document["requests"]["finished"] == 40
    assert replay.document["cluster"]["hardware"] == "cpu"
    assert 0 < replay.document["calibrated_range"]["outside_share"] <= 1
    assert replay.err.count("beyond the calibrated range") == 1

    again = run(
        "calibrate", "--from-samples", str(tmp_path / "cpu.samples.parquet"),
        *arguments(configs, tmp_path / "again.json"), "--json",
    )  # fmt: skip
    for part in ("fit", "coefficients", "range"):
        assert again.document[part] == document[part], part


def test_interrupted_and_short_of_memory(
    run: Run, configs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[Point] = []

    def seconds(_: ModelBench, point: Point) -> tuple[str, float]:
        measured.append(point)
        if len(measured) == 3:
            raise MemoryError
        if len(measured) == 12:
            raise KeyboardInterrupt
        return point.kind, 1e-3

    monkeypatch.setattr(ModelBench, "seconds", seconds)
    ran = run("calibrate", "--device", "cpu", *arguments(configs, tmp_path / "cpu.json"))
    assert ran.code == 130
    kept = read_samples(str(tmp_path / "cpu.samples.parquet"))
    assert len(kept) == 10
    assert "10 samples kept in" in ran.err
    assert not (tmp_path / "cpu.json").exists()


def test_a_failure_keeps_the_samples_too(
    run: Run, configs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ModelBench.seconds

    def seconds(bench: ModelBench, point: Point) -> tuple[str, float]:
        if point.kind == "lm_head":
            raise RuntimeError("the driver is gone")
        return real(bench, point)

    monkeypatch.setattr(ModelBench, "seconds", seconds)
    ran = run("calibrate", "--device", "cpu", "--quick", *arguments(configs, tmp_path / "cpu.json"))
    assert ran.code == 1
    assert "the driver is gone" in ran.err
    assert len(read_samples(str(tmp_path / "cpu.samples.parquet"))) == 14


def test_a_point_without_room_is_skipped_and_said(
    run: Run, configs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ModelBench.seconds

    def seconds(bench: ModelBench, point: Point) -> tuple[str, float]:
        if point.counts.get("tokens") == 256 and point.kind == "linear":
            raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate")
        return real(bench, point)

    monkeypatch.setattr(ModelBench, "seconds", seconds)
    served, _ = configs
    out = tmp_path / "cpu.json"
    ran = run(
        "calibrate", "--device", "cpu", "--quick", "--model", served, "--draft", "none", "--tp", "1",
        "--out", str(out), "--json",
    )  # fmt: skip
    assert ran.document["fit"]["linear"]["rows"] == 13
    assert "served: linear of tokens 256 skipped: out of memory" in ran.err


def test_all_layers_and_a_tensor_parallel_share(run: Run, configs: tuple[str, str], tmp_path: Path) -> None:
    served, _ = configs
    out = tmp_path / "cpu.json"
    ran = run(
        "calibrate", "--device", "cpu", "--quick", "--full", "--model", served, "--draft", "none",
        "--tp", "2", "--out", str(out), "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    calibration = load_hardware(str(out)).calibrations[0]
    assert calibration.communication is not None
    assert calibration.communication.kind == "published"
    assert calibration.linear.kind == "measured"


def test_layers_that_do_not_all_fit_are_measured_one_at_a_time(
    run: Run, configs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ModelBench.__init__

    def init(bench: ModelBench, *arguments: Any, full: bool) -> None:
        if full:
            raise MemoryError
        real(bench, *arguments, full=full)

    monkeypatch.setattr(ModelBench, "__init__", init)
    served, _ = configs
    out = str(tmp_path / "cpu.json")
    common = ("--device", "cpu", "--quick", "--model", served, "--draft", "none", "--tp", "1", "--out", out)
    ran = run("calibrate", "--full", *common)
    assert ran.code == 0, ran.err
    assert "served: no memory for all layers, one is measured" in ran.err


@pytest.mark.parametrize("command", ["calibrate", "replay"])
def test_help_loads_neither_torch_nor_scipy(command: str) -> None:
    script = (
        "import sys\n"
        "from lumen_policy.cli.main import main\n"
        f"main([{command!r}, '--help'])\n"
        "print({'torch', 'scipy', 'polars', 'numpy'} & set(sys.modules), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr == "set()\n"


def test_other_commands_load_no_torch() -> None:
    script = (
        "import sys\n"
        "from lumen_policy.cli.main import main\n"
        "sys.modules['torch'] = None\n"
        "code = main(['costs', '--json'])\n"
        "print(code, file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr.endswith("0\n")
    document: dict[str, Any] = json.loads(ran.stdout)
    assert document["prefill"]
