"""``config``: a file that loads back to the same set-up, and docs that say what is true."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lumen_policy.config_file import config_toml, read_config
from lumen_policy.defaults_table import defaults_markdown
from lumen_policy.settings import Settings, keys, settings_from

from .conftest import Run

DEFAULTS = Path(__file__).resolve().parents[2] / "docs/defaults.md"


def test_printed_file_loads_back(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "setup.toml"
    flags = ("--workers", "5", "--theta", "inf", "--tau", "inf", "--crash", "3:1", "--crash", "9:0,1")
    path.write_text(run("config", "--toml", *flags).out)
    assert settings_from(read_config(path)) == Settings(
        workers=5, theta="inf", tau="inf", crash=("3:1", "9:0,1")
    )
    assert run("config", "--toml", "--config", path).out == path.read_text()


def test_every_key_is_printed_with_unit_and_meaning(run: Run) -> None:
    out = run("config", "--toml").out
    assert set(tomllib.loads(out)) == {key.name for key in keys()}
    joined = " ".join(out.replace("\n# ", " ").split())
    for key in keys():
        assert key.meaning in joined, key.name
        assert key.reason in joined, key.name
        assert not key.unit or f"[{key.unit}]" in joined, key.name
    shown = run("config").out
    assert all(key.name in shown for key in keys())


def test_flags_win_over_the_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "setup.toml"
    path.write_text("workers = 5\nmin_prefill_tokens = 100\n")
    settings = run("config", "--json", "--config", path, "--workers", "6").document["settings"]
    assert (settings["workers"], settings["min_prefill_tokens"]) == (6, 100)


def test_replay_reads_the_lesser_keys(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "setup.toml"
    path.write_text('checkpoint_budget_gb = 3\ncrash = ["2:1"]\nslo_ttft_s = 0.5\n')
    ran = run("replay", "--limit", "60", "--config", path, "--json")
    cluster = ran.document["cluster"]
    assert cluster["checkpoint_budget_pages"] == 3 * 10**9 // (16 * 262144)
    assert cluster["slo_ttft_s"] == 0.5
    assert [(crash["time_s"], crash["worker"]) for crash in cluster["faults"]] == [(2.0, 1)]


def test_docs_hold_the_defaults() -> None:
    text = DEFAULTS.read_text(encoding="utf-8")
    table = text.split("<!-- begin -->\n")[1].split("<!-- end -->")[0]
    assert table == defaults_markdown(), (
        "run `lumen-tune config --markdown` and paste it into docs/defaults.md"
    )


@settings(max_examples=40)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "workers": st.integers(1, 4096),
            "load": st.floats(0.01, 10, allow_nan=False),
            "model": st.text(min_size=1),
            "alpha": st.decimals(0, 1000, allow_nan=False, allow_infinity=False),
            "theta": st.sampled_from(["inf", "never", "12.5"]),
            "tau": st.one_of(st.just("inf"), st.integers(0, 10**6)),
            "crash": st.lists(st.text(), max_size=3),
            "guard": st.booleans(),
            "fault": st.lists(st.text(), max_size=3),
            "acceptance_rates": st.lists(st.floats(0.01, 1), max_size=4),
            "assist_retarget_s": st.one_of(st.just("inf"), st.floats(0.01, 100)),
            "detection": st.sampled_from(["auto", "hang", "refused"]),
            "spare_s": st.one_of(st.just("auto"), st.floats(0, 100)),
            "kv_pages": st.none(),
        },
    )
)
def test_any_settings_survive_toml(values: dict[str, object]) -> None:
    stated = settings_from(values)
    assert settings_from(tomllib.loads(config_toml(stated), parse_float=str)) == stated
