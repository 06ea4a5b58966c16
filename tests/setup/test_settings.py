"""Keys: defaults pass their own checks, and nothing wrong gets through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.errors import InputError
from lumen_policy.measures.options import RecoveryOptions
from lumen_policy.settings import Settings, key_of, keys, settings_from

NUMBERS = [key for key in keys() if key.kind in ("int", "float", "decimal", "tokens")]


def test_defaults_of_the_main_command() -> None:
    settings = Settings()
    stated = {
        "workers": 8,
        "model": "qwen3-32b",
        "draft": "qwen3-1.7b",
        "hardware": "h100-sxm",
        "tp": 2,
        "policy": "lumen",
        "chunk_tokens": 2048,
        "max_batch": 256,
        "scheduler": "mixed",
        "router": "jsq",
        "seed": 0,
        "min_prefill_tokens": 256,
        "detection": None,
        "repair_s": 0.0,
        "links": "free",
        "trials": 40,
        "scenarios": 8,
        "validation_scenarios": 16,
    }
    assert {name: getattr(settings, name) for name in stated} == stated


def test_every_key_says_what_it_is() -> None:
    for key in keys():
        assert key.meaning, key.name
        assert key.reason, key.name
        assert key.checked(key.default) == key.default, key.name
        assert not key.optional or "auto:" in key.meaning, f"{key.name}: what does auto mean?"


@pytest.mark.parametrize("key", NUMBERS, ids=lambda key: key.name)
@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "-inf", -1, "x", "", True, [1], "1e400", "1e-400", "1e999999999", "0x10"],
    ids=repr,
)
def test_no_number_is_nonsense(key: object, value: object) -> None:
    if value == float("inf") and "inf" in getattr(key, "words", ()):
        return
    with pytest.raises(InputError) as caught:
        key.checked(value)  # type: ignore[attr-defined]
    assert str(caught.value).startswith(f"{key.name}: ")  # type: ignore[attr-defined]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", [key for key in NUMBERS if key.at_most is not None], ids=lambda key: key.name)
def test_bounds_are_the_bounds(key: object) -> None:
    most = key.at_most  # type: ignore[attr-defined]
    assert key.checked(most) == most  # type: ignore[attr-defined]
    with pytest.raises(InputError):
        key.checked(most * 2)  # type: ignore[attr-defined]


@given(st.text())
def test_an_unknown_key_is_refused_by_name(name: str) -> None:
    if name in {key.name for key in keys()}:
        return
    with pytest.raises(InputError, match="unknown key"):
        key_of(name)


def test_near_match() -> None:
    with pytest.raises(InputError, match="did you mean 'max_batch'"):
        settings_from({"max-batsh": 3})


def test_auto_is_the_default_of_derived_keys_only() -> None:
    derived = {key.name: "auto" for key in keys() if key.optional}
    assert settings_from(derived) == Settings()
    with pytest.raises(InputError):
        settings_from({"workers": "auto"})


def test_recovery_defaults_stand_for_the_library_too() -> None:
    """The measures' own defaults are those of the keys, so a library call judges as the command does."""
    stated = Settings()
    for name in RecoveryOptions.__dataclass_fields__:
        if name == "grid_s":  # fixed: the grid is part of the definition
            continue
        key = name if name.startswith("in_system") else f"recovery_{name}"
        assert getattr(RecoveryOptions(), name) == getattr(stated, key), name
