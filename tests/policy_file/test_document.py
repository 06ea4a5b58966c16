"""A policy goes into a file and comes back bit for bit; schema and types accept the same documents."""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lumen_policy.errors import InputError
from lumen_policy.policies.fixed_checkpointing import fixed_checkpointing
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.policies.stop_and_restart import stop_and_restart
from lumen_policy.policy_file.document import PolicyDocument, document_bytes, recovery_policy
from lumen_policy.policy_file.reader import parse_policy, problems_of, read_policy
from lumen_policy.policy_file.schema import derived_schema, schema
from tests.policy_file.documents import as_json, document, example_policy

VALIDATOR = jsonschema.Draft202012Validator(schema())

weights = st.decimals(min_value=0, max_value=10**6, places=9, allow_nan=False).map(str)


@st.composite
def policies(draw: st.DrawFn) -> RecoveryPolicy:
    """Any policy whose weights fit 64-bit integers."""
    alpha, beta = draw(weights), draw(weights)
    assume(Decimal(alpha) > 0 or Decimal(beta) > 0)
    try:
        policy = RecoveryPolicy(
            name=draw(st.sampled_from(["lumen", "gewählt"])),
            placement=draw(st.sampled_from(["off", "ring", "load_aware"])),
            routing=draw(st.sampled_from(["shortest_queue", "holder", "load_aware"])),
            alpha=alpha,
            beta=beta,
            theta=draw(st.one_of(st.sampled_from(["inf", "never"]), weights)),
            tau=draw(st.one_of(st.just("inf"), st.integers(0, 10**6))),
            k=draw(st.integers(0, 64)),
            guard=draw(st.booleans()),
        )
        policy.codes(budget_pages=1)
    except InputError:
        assume(False)
    return policy


@given(policies())
def test_round_trip_is_exact(policy: RecoveryPolicy) -> None:
    """The loaded policy equals the exported one, and so do its integers and its bytes."""
    raw = document_bytes(document(policy))
    loaded, problems = parse_policy(raw)
    assert problems == []
    assert loaded is not None
    assert recovery_policy(loaded) == policy
    assert recovery_policy(loaded).codes(budget_pages=7) == policy.codes(budget_pages=7)
    assert document_bytes(loaded) == raw
    VALIDATOR.validate(json.loads(raw))


@pytest.mark.parametrize("policy", [stop_and_restart(), fixed_checkpointing()])
def test_baselines_have_files_too(policy: RecoveryPolicy) -> None:
    """The format carries every policy, not only LUMEN."""
    loaded, _ = parse_policy(document_bytes(document(policy)))
    assert loaded is not None
    assert recovery_policy(loaded) == policy


def test_published_schema_is_the_derived_one() -> None:
    """The shipped schema says what the types say (regenerate: python -m lumen_policy.policy_file.schema)."""
    assert schema() == derived_schema()
    jsonschema.Draft202012Validator.check_schema(schema())


def test_no_object_allows_additional_properties() -> None:
    """Every object of the schema is closed and requires all its keys."""
    for definition in schema()["$defs"].values():
        assert definition["additionalProperties"] is False
        assert set(definition["required"]) == set(definition["properties"])


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of every value inside a JSON value."""
    found = [prefix] if prefix else []
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, entry in entries:
        found += _paths(entry, (*prefix, key))
    return found


junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.just(2**53),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from(
        ["", "0", "0.0", "00", "1e3", "-1", ".5", "0.5\n", "inf", "never", "Infinity", "off", "a" * 64]
    ),
    st.sampled_from(["simulated", "better", "lumen-tune/v1", "RecoveryPolicy", "١"]),
    st.just([]),
    st.just({}),
)


@settings(max_examples=400)
@given(st.data())
def test_schema_and_types_agree_on_mutations(data: st.DataObject) -> None:
    """One to three edits of a valid document: both accept, or both reject and problems are named."""
    mutant = as_json()
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(_paths(mutant)))
        parent = mutant
        for step in path[:-1]:
            parent = parent[step]
        edit = data.draw(st.sampled_from(["replace", "delete", "add"]))
        if edit == "replace":
            parent[path[-1]] = data.draw(junk)
        elif edit == "delete":
            del parent[path[-1]]
        elif isinstance(parent, dict):
            parent["note"] = data.draw(junk)
        assume(_paths(mutant))
    by_schema = VALIDATOR.is_valid(mutant)
    decoded = _integral(copy.deepcopy(mutant))
    try:
        msgspec.convert(decoded, PolicyDocument)
        by_types = True
    except msgspec.ValidationError:
        by_types = False
    assert by_types == by_schema
    assert bool(problems_of(decoded)) != by_schema


def _integral(value: Any) -> Any:
    """1.0 and 1 are one number in JSON Schema; msgspec wants the latter."""
    if isinstance(value, dict):
        return {key: _integral(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_integral(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def test_both_weights_zero_is_refused_by_both() -> None:
    """α = β = 0 has no meaning; so do all ways to write zero."""
    for zero in ("0", "0.0", "0.000"):
        mutant = as_json()
        mutant["spec"]["placement"] |= {"alpha_per_page": zero, "beta_per_request": "0"}
        assert not VALIDATOR.is_valid(mutant)
        assert [p.path for p in problems_of(mutant)] == ["$.spec.placement"]


def test_every_problem_is_reported_with_its_path() -> None:
    """Several faults, several lines."""
    mutant = as_json()
    del mutant["metadata"]["model"]
    mutant["spec"]["routing"]["theta_load"] = None
    mutant["spec"]["assist"]["drafts"] = 3
    mutant["validity"]["workers"] = 0
    mutant["evidence"]["gains"][0]["verdict"] = "great"
    paths = [problem.path for problem in problems_of(mutant)]
    assert paths == [
        "$.metadata.model",
        "$.spec.routing.theta_load",
        "$.spec.assist.drafts",
        "$.evidence.gains[0].verdict",
        "$.validity.workers",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("[]", "Expected an object"),
        ('{"apiVersion": "lumen-tune/v2"}', "newer: update lumen-policy"),
        ('{"apiVersion": "lumen-tune/v0"}', "no published version"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": 1, "a": 2}', "stands twice"),
        ("{}", "missing"),
    ],
)
def test_bad_files_are_one_clear_line(text: str, says: str, tmp_path: Any) -> None:
    """InputError names the file and the fault in one line."""
    path = tmp_path / "policy.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_policy(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file(tmp_path: Any) -> None:
    """A file that is not there is bad input."""
    with pytest.raises(InputError, match="cannot be read"):
        read_policy(tmp_path / "none.json")


def test_ratio_out_of_range_is_a_problem() -> None:
    """Weights that no 64-bit integers can hold pass the schema but not the reader."""
    mutant = as_json()
    mutant["spec"]["placement"] |= {"alpha_per_page": "0." + "0" * 30 + "1", "beta_per_request": "9" * 20}
    loaded, problems = parse_policy(json.dumps(mutant).encode())
    assert loaded is None
    assert problems[0].path == "$.spec"


def test_integral_floats_are_integers() -> None:
    """640.0 is the integer 640, as in JSON Schema."""
    mutant = as_json()
    mutant["spec"]["routing"]["tau_tokens"] = 640.0
    loaded, problems = parse_policy(json.dumps(mutant).encode())
    assert problems == []
    assert loaded is not None
    assert recovery_policy(loaded) == example_policy()
