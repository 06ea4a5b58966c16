"""The shipped profiles, and profiles that must be refused with one clear line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cost_models.errors import CostModelError
from cost_models.hardware import _FIRST_VERSION, BUILT_IN_PROFILES, HardwareProfile, load_hardware


def shipped(name: str) -> dict[str, Any]:
    text = resources.files("cost_models").joinpath(f"profiles/{name}.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", BUILT_IN_PROFILES)
def test_shipped_profiles_load_and_name_themselves(name: str) -> None:
    profile = load_hardware(name)
    assert profile.name == name
    for field in set(profile.__struct_fields__[3:]) - {"calibrations", "residual_scale", "device_to_host"}:
        assert len(getattr(profile, field).source) > 10, field


def test_every_shipped_profile_is_listed() -> None:
    files = {entry.name for entry in resources.files("cost_models").joinpath("profiles").iterdir()}
    assert files == {f"{name}.json" for name in BUILT_IN_PROFILES}


def test_data_sheet_values() -> None:
    peaks = {
        name: (p.peak_flop_per_s.value, p.hbm_bytes_per_s.value, p.hbm_bytes.value)
        for name, p in ((n, load_hardware(n)) for n in BUILT_IN_PROFILES)
    }
    assert peaks == {
        "a100-80g": (312e12, 2.039e12, 80e9),
        "h100-sxm": (989e12, 3.35e12, 80e9),
        "h200-sxm": (989e12, 4.8e12, 141e9),
    }


def test_h200_differs_from_h100_only_in_its_memory() -> None:
    h100, h200 = load_hardware("h100-sxm"), load_hardware("h200-sxm")
    differing = set()
    for field in HardwareProfile.__struct_fields__[3:]:
        a, b = getattr(h100, field), getattr(h200, field)
        figures = ("value", "values", "points", "latency_s")
        if [getattr(a, f, None) for f in figures] != [getattr(b, f, None) for f in figures]:
            differing.add(field)
    assert differing == {"hbm_bytes", "hbm_bytes_per_s"}


def test_a_file_is_read_like_a_shipped_profile(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(shipped("h100-sxm")), encoding="utf-8")
    assert load_hardware(str(path)) == load_hardware("h100-sxm")


NEW_IN_VERSION_3 = [name for name, first in _FIRST_VERSION.items() if first == 3]


@pytest.mark.parametrize("version", [1, 2])
def test_profiles_of_earlier_versions_get_the_shipped_figures(tmp_path: Path, version: int) -> None:
    profile = shipped("h100-sxm")
    given = [profile.pop(field) for field in NEW_IN_VERSION_3 if field in profile]
    assert len(given) == 8
    path = tmp_path / "old.json"
    path.write_text(json.dumps({**profile, "schema_version": version}), encoding="utf-8")
    old = load_hardware(str(path))
    assert msgspec.structs.replace(old, schema_version=3) == load_hardware("h100-sxm")


@pytest.mark.parametrize("field", NEW_IN_VERSION_3)
def test_figures_of_version_3_need_it(tmp_path: Path, field: str) -> None:
    profile = shipped("h100-sxm")
    kept = profile.get(field, profile["host_link"])
    profile = {name: value for name, value in profile.items() if name not in NEW_IN_VERSION_3}
    path = tmp_path / "old.json"
    path.write_text(json.dumps({**profile, "schema_version": 2, field: kept}), encoding="utf-8")
    with pytest.raises(CostModelError, match=rf"old\.json: {field} needs schema_version 3, this file has 2"):
        load_hardware(str(path))
    path.write_text(json.dumps({**profile, "schema_version": 3, field: kept}), encoding="utf-8")
    assert getattr(load_hardware(str(path)), field).source == kept["source"]


def set_value(field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(profile: dict[str, Any]) -> None:
        profile[field]["value"] = value

    return edit


def set_unit(profile: dict[str, Any]) -> None:
    profile["hbm_bytes"]["unit"] = "GB"


def set_unknown_key(profile: dict[str, Any]) -> None:
    profile["clock_mhz"] = 1980


def set_unknown_inner_key(profile: dict[str, Any]) -> None:
    profile["hbm_bytes"]["note"] = "x"


def drop_source(profile: dict[str, Any]) -> None:
    del profile["hbm_bytes"]["source"]


def drop_field(profile: dict[str, Any]) -> None:
    del profile["linear_mfu"]


def set_kind(profile: dict[str, Any]) -> None:
    profile["hbm_bytes"]["kind"] = "guessed"


def set_share(profile: dict[str, Any]) -> None:
    profile["linear_mfu"]["values"]["2"] = 53


def set_link(profile: dict[str, Any]) -> None:
    profile["host_link"]["points"] = [[65536, 5e10], [1048576, 5e14]]


def set_version(profile: dict[str, Any]) -> None:
    profile["schema_version"] = 4


def drop_version(profile: dict[str, Any]) -> None:
    del profile["schema_version"]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (
            set_value("hbm_bytes_per_s", 3.35e15),
            r"hbm_bytes_per_s: value is 3.35e\+15 byte/s, allowed: .*1e\+14",
        ),
        (set_value("storage_bytes_per_s", 2e14), "storage_bytes_per_s"),
        (set_value("storage_bytes_per_s", 0), r"storage_bytes_per_s: value is 0 byte/s, allowed: > 0"),
        (set_value("engine_init_s", -1), r"engine_init_s: value is -1 s, allowed: ≥ 0"),
        (set_value("nic_bytes_per_s", 0), r"nic_bytes_per_s: value is 0 byte/s, allowed: > 0"),
        (set_value("standby_switch_s", -1), r"standby_switch_s: value is -1 s, allowed: ≥ 0"),
        (set_value("snapshot_bytes_per_s", 2e14), "snapshot_bytes_per_s"),
        (set_value("peak_flop_per_s", -989e12), "peak_flop_per_s"),
        (set_value("attention_mfu", 1.2), r"attention_mfu: value is 1.2 1, allowed: > 0 and ≤ 1"),
        (set_value("hbm_bytes", "80e9"), "Expected `float`"),
        (set_value("hbm_bytes", None), "Expected `float`"),
        (set_unit, r"hbm_bytes: unit is 'GB', allowed: 'byte'"),
        (set_unknown_key, "unknown field `clock_mhz`"),
        (set_unknown_inner_key, r"unknown field `note` - at `\$.hbm_bytes`"),
        (drop_source, "missing required field `source`"),
        (drop_field, "missing required field `linear_mfu`"),
        (set_kind, "Invalid enum value 'guessed'"),
        (set_share, "linear_mfu: value is 53"),
        (set_link, "would take less time|host_link"),
        (set_version, "schema_version is 4, this release reads 1, 2, 3"),
        (drop_version, "missing required field `schema_version`"),
    ],
)
def test_a_wrong_profile_is_refused_in_one_line(
    tmp_path: Path, edit: Callable[[dict[str, Any]], None], words: str
) -> None:
    profile = shipped("h100-sxm")
    edit(profile)
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(profile), encoding="utf-8")
    with pytest.raises(CostModelError) as caught:
        load_hardware(str(path))
    message = str(caught.value)
    assert re.search(words, message), message
    assert message.startswith(f"hardware profile {path}: ")
    assert "\n" not in message


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999"])
def test_non_finite_numbers_are_refused(tmp_path: Path, value: str) -> None:
    text = json.dumps(shipped("h100-sxm")).replace("80000000000.0", value)
    assert value in text
    path = tmp_path / "wrong.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CostModelError, match=r"hardware profile .*wrong\.json"):
        load_hardware(str(path))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        CostModelError, match="unknown hardware profile 'h100', known: a100-80g, h100-sxm, h200-sxm"
    ):
        load_hardware("h100")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="cannot be read"):
        load_hardware(str(tmp_path / "absent.json"))
