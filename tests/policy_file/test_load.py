"""A policy file against the cluster it is used on."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from lumen_policy.errors import InputError
from lumen_policy.policy_file.load import lengths_of, load_policy_file, reload_s
from lumen_policy.settings import settings_from
from lumen_policy.workload import Workload, prepare
from tests.policy_file.documents import as_json, example_policy


@pytest.fixture(scope="module")
def workload() -> Workload:
    """The default cluster on its trace's own rate."""
    return prepare(settings_from({}), [])


@pytest.fixture(scope="module")
def fitting(workload: Workload) -> dict[str, Any]:
    """A document tuned for exactly that cluster and trace."""
    cluster, trace = workload.cluster, workload.trace
    found = as_json()
    found["validity"] |= {
        "workers": cluster.workers,
        "arrivals_per_s": trace.rate_per_s,
        "reload_s": reload_s(cluster),
        "reload_with_draft_s": reload_s(cluster, draft=True),
    }
    found["validity"]["prompt_tokens"]["mean"] = float(trace.prompt_tokens.mean())
    found["validity"]["output_tokens"]["mean"] = float(trace.output_tokens.mean())
    return found


def _check(found: dict[str, Any], workload: Workload, folder: Path) -> list[str]:
    path = folder / "policy.json"
    path.write_text(json.dumps(found))
    exported = load_policy_file(path)
    assert exported.policy == example_policy()
    return [line.removeprefix(f"{path}: ") for line in exported.check(workload.cluster, workload.trace)]


def test_where_it_was_tuned_nothing_is_said(
    fitting: dict[str, Any], workload: Workload, tmp_path: Path
) -> None:
    """No warning on the very cluster and trace."""
    assert _check(fitting, workload, tmp_path) == []


@pytest.mark.parametrize(
    ("part", "key", "value", "says"),
    [
        ("validity", "workers", 4, "tuned for workers 4, here 8"),
        ("validity", "arrivals_per_s", 20.0, "tuned for load: arrivals/s a worker 2.5, here 0.6913"),
        ("validity", "reload_s", 400.0, "tuned for reload seconds 400, here"),
        ("metadata", "draft_model", "none", "tuned for draft model none, here qwen3-1.7b"),
        ("metadata", "hardware", "a100-80g", "tuned for hardware a100-80g, here h100-sxm"),
        ("metadata", "gpus_per_worker", 4, "tuned for GPUs per worker 4, here 2"),
    ],
)
def test_other_conditions_warn(
    fitting: dict[str, Any], workload: Workload, tmp_path: Path, part: str, key: str, value: Any, says: str
) -> None:
    """One line for what differs."""
    changed = copy.deepcopy(fitting)
    changed[part][key] = value
    lines = _check(changed, workload, tmp_path)
    assert says in lines[0]


@pytest.mark.parametrize("column", ["prompt_tokens", "output_tokens"])
def test_other_lengths_warn(fitting: dict[str, Any], workload: Workload, tmp_path: Path, column: str) -> None:
    """A mean beyond a quarter off is outside the validity; a tenth is not."""
    for factor, expected in ((1.1, 0), (2.0, 1)):
        changed = copy.deepcopy(fitting)
        changed["validity"][column]["mean"] *= factor
        assert len(_check(changed, workload, tmp_path)) == expected


@pytest.mark.parametrize(
    ("key", "value"), [("model", "qwen3-14b"), ("kv_bytes_per_token", 163840), ("page_tokens", 32)]
)
def test_what_the_numbers_mean_must_agree(
    fitting: dict[str, Any], workload: Workload, tmp_path: Path, key: str, value: Any
) -> None:
    """Another model, KV size or page size is refused."""
    changed = copy.deepcopy(fitting)
    changed["metadata"][key] = value
    with pytest.raises(InputError, match=f"tuned for {key}"):
        _check(changed, workload, tmp_path)


def test_lengths_by_hand(workload: Workload) -> None:
    """Nearest rank: of 1 … 10 the 50 % is 5, the 90 % is 9, the 99 % is 10."""
    tokens = workload.trace.prompt_tokens[:10].copy()
    tokens[:] = [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    lengths = lengths_of(tokens)
    assert (lengths.mean, lengths.p50, lengths.p90, lengths.p99) == (5.5, 5, 9, 10)
