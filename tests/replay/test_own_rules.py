"""Rules from outside: they decide in compiled code as in plain Python, and what is wrong with them is named."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crash_table import crash_table
from twin import compare, gateway
from twin import replay as twin
from twin.strategies import random_input

import lumen_policy
from lumen_policy.errors import InputError
from lumen_policy.replay.contract import Placement, ReplayInput, ReplayOutput, Router, Status
from lumen_policy.replay.engine import replay
from lumen_policy.replay.kernel import program
from lumen_policy.replay.own_rules import DECISIONS, STANDARD, OwnRules, load_rules

from .inputs import RELOAD, linear, make_costs, make_input, make_policy

SEEDS = range(200, 240)

FEWEST = '''
"""A holder by what it holds."""

from collections.abc import Sequence


def _better(held: int, best_held: int) -> bool:
    return held < best_held


def choose_holder(server, need_pages, live, free_pages, held_tokens, queue, token_weight, request_weight):
    best = -1
    for w in range(len(live)):
        if live[w] != 0 and w != server and free_pages[w] >= need_pages:
            if best < 0 or _better(held_tokens[w], held_tokens[best]):
                best = w
    return best
'''
BACKWARDS = """
def next_on_ring(server, live):
    for step in range(1, len(live)):
        w = (server + len(live) - step) % len(live)
        if live[w] != 0:
            return w
    return -1
"""
HIGHEST = '''
NOBODY = -1


def shortest_queue(live, queue):
    """Ties go to the highest index."""
    best = NOBODY
    for w in range(len(live)):
        if live[w] != 0 and (best < 0 or queue[w] <= queue[best]):
            best = w
    return best
'''
Rules = Callable[[str], OwnRules]


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    def write(text: str) -> OwnRules:
        path = tmp_path / "rules.py"
        path.write_text(text, encoding="utf-8")
        return load_rules(path)

    return write


@pytest.fixture(params=["compiled", "plain"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    monkeypatch.setenv("LUMEN_TUNE_INTERPRET", "1" if name == "plain" else "0")
    return name


def with_rules(seed: int, own: OwnRules) -> ReplayInput:
    return replace(random_input(seed), own_rules=own)


@pytest.mark.parametrize(
    ("name", "text"), [("choose_holder", FEWEST), ("shortest_queue", HIGHEST), ("next_on_ring", BACKWARDS)]
)
def test_a_rule_decides_everywhere_alike(
    name: str, text: str, rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INV-4: in compiled code, in plain Python, and put into the twin by hand: the same values."""
    own = rules(text)
    before: list[ReplayOutput] = [replay(random_input(seed)) for seed in SEEDS]
    compiled: list[ReplayOutput] = [replay(with_rules(seed, own)) for seed in SEEDS]
    assert sum(compare(a, b) != [] for a, b in zip(before, compiled, strict=True)) > 2
    assert compare(replay(random_input(200)), before[0]) == []
    monkeypatch.setenv("LUMEN_TUNE_INTERPRET", "1")
    monkeypatch.setattr(gateway, name, own.functions()[name])
    for seed, output in zip(SEEDS, compiled, strict=True):
        assert compare(replay(with_rules(seed, own)), output) == [], seed
        if seed % 2:
            assert compare(twin(random_input(seed)), output) == [], seed


def test_without_rules() -> None:
    """INV-4: nothing stands in for anything."""
    assert STANDARD.functions() == {}
    assert STANDARD.describe() is None
    assert STANDARD.substitutes() == {}


def test_what_results_say(rules: Rules) -> None:
    own = rules(FEWEST + HIGHEST)
    assert own.describe() == {
        "file": own.path,
        "digest": own.digest,
        "decisions": ["choose_holder", "shortest_queue"],
    }
    assert len(own.digest) == 64


def test_another_process_has_them_too(rules: Rules) -> None:
    """INV-4: an input with rules is pickled, and the file read anew where it is replayed."""
    inputs = with_rules(200, rules(HIGHEST))
    script = (
        "import pickle, sys\n"
        "from lumen_policy.replay.engine import replay\n"
        "print(replay(pickle.load(sys.stdin.buffer)).worker.tolist())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(inputs),
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(lumen_policy.__file__).parents[1])},
    )
    assert found.stdout.decode().strip() == str(replay(inputs).worker.tolist())


def test_a_wait_is_no_error(rules: Rules, mode: str) -> None:
    """INV-4: a rule may keep requests at the gateway; they wait there, and the replay ends."""
    own = rules("def round_robin(live, last):\n    return -1\n")
    inputs = make_input([0, 5], [4, 4], [2, 2], make_costs(linear(1, 64)), workers=2)
    output = replay(replace(inputs, router=Router.ROUND_ROBIN, own_rules=own))
    assert (output.status == Status.PENDING).all()


def test_every_decision_can_be_replaced(tmp_path: Path) -> None:
    """INV-4: the package's own functions, as a file from outside, change nothing."""
    path = tmp_path / "rules.py"
    texts = [inspect.getsource(function) for function in DECISIONS.values()]
    path.write_text("from collections.abc import Sequence\n\n" + "\n\n".join(texts))
    own = load_rules(path)
    assert own.functions().keys() == DECISIONS.keys()
    for seed in SEEDS:
        assert compare(replay(with_rules(seed, own)), replay(random_input(seed))) == [], seed


# --- files ------------------------------------------------------------------------------------------------------
WRONG_FILES = [
    ("def f(:\n", "rules.py:1: invalid syntax"),
    ("\n\nx = (1,\n", "rules.py:3: .* was never closed"),
    ("x = 1\n  y = 2\n", "rules.py:2: unexpected indent"),
    ("from lumen_policy.decide.routing import none\n", "rules.py:1: ImportError: cannot import name"),
    ("import lumen_policy.decide.none\n", "rules.py:1: ModuleNotFoundError"),
    ("\nimport os\n", "rules.py:2: it imports os; rules may import"),
    ("from . import other\n", r"rules.py:1: it imports \.; rules may import"),
    ("def f():\n    import json\n", "rules.py:2: it imports json"),
    ("x = 1\ny = x // 0\n", "rules.py:2: ZeroDivisionError"),
    ("raise SystemExit(3)\n", "rules.py:1: SystemExit: 3"),
    ("def f():\n    return f()\n\n\nf()\n", "rules.py:2: RecursionError"),
    ("", "has no function named choose_holder, choose_target"),
    ("def helper(a):\n    return a\n", "has no function named"),
    ("from lumen_policy.decide.routing import shortest_queue\n", "has no function named"),
    ("def shortest_queues(live, queue):\n    return 0\n", "rules.py:1: .* did you mean 'shortest_queue'"),
    (HIGHEST + "\n\ndef chose_holder(a):\n    return a\n", r"rules.py:\d+: .* mean 'choose_holder'"),
    ("\ndef shortest_queue(live):\n    return 0\n", r"rules.py:2: shortest_queue must take \(live, queue\)"),
    ("def shortest_queue(queue, live):\n    return 0\n", "rules.py:1: shortest_queue must take"),
    ("def shortest_queue(live, queue, *more):\n    return 0\n", "rules.py:1: shortest_queue must take"),
    ("def shortest_queue(live, queue, *, x=0):\n    return 0\n", "rules.py:1: shortest_queue must take"),
    ("shortest_queue = 5\n", "shortest_queue is not a function of this file"),
    ("from lumen_policy.decide.routing import least_kv as shortest_queue\n", "is not a function"),
    ("class shortest_queue:\n    pass\n", "shortest_queue is not a function"),
    ("def shortest_queue(live, queue):\n    queue[0] = 5\n    return 0\n", r"rules.py:2: queue\[0\] is not"),
    ("x = 'two\\nlines'\nraise ValueError(x)\n", "rules.py:2: ValueError: two lines"),
]


@pytest.mark.parametrize(("text", "message"), WRONG_FILES, ids=lambda value: repr(value)[:30])
def test_a_wrong_file(text: str, message: str, rules: Rules) -> None:
    """INV-8: an InputError of one line that names the file, and the line where there is one."""
    with pytest.raises(InputError, match=message) as refused:
        rules(text)
    said = str(refused.value)
    assert said.startswith("own_rules: ")
    assert "rules.py" in said
    assert "\n" not in said


def test_no_file(tmp_path: Path) -> None:
    """INV-8: a file that is not there, is none, or is no text."""
    cases: list[tuple[Any, str]] = [
        (tmp_path / "none.py", "No such file"),
        (tmp_path, "Is a directory"),
        ("", "a Python file, or none"),
        ("  ", "a Python file, or none"),
        ("a\0b", "null"),
        ("x" * 5000, "too long"),
    ]
    for path, message in cases:
        with pytest.raises(InputError, match=f"own_rules: .*{message}"):
            load_rules(path)
    for number, content in enumerate([b"x = 1\n\xff\xfe\n", b"\x00", b"x = '\xe4'\n"]):
        path = tmp_path / f"{number}.py"
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"own_rules: .*\.py"):
            load_rules(path)


def test_what_a_file_prints_is_no_output(rules: Rules, capsys: pytest.CaptureFixture[str]) -> None:
    rules("print('hello')\n" + HIGHEST)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")


def test_a_link_to_a_file(tmp_path: Path) -> None:
    """The file counts, not the name it is reached by."""
    (tmp_path / "real.py").write_text(HIGHEST)
    (tmp_path / "link.py").symlink_to(tmp_path / "real.py")
    assert load_rules(tmp_path / "link.py") == load_rules(tmp_path / "real.py")


@pytest.mark.parametrize("text", [HIGHEST.replace("<=", "<"), "\n" + HIGHEST, "", None], ids=repr)
def test_a_file_that_changes(text: str | None, tmp_path: Path, mode: str) -> None:
    """INV-3: what is compiled is what was loaded, or nothing."""
    path = tmp_path / "rules.py"
    path.write_text(HIGHEST + f"# {mode} {text!r}\n")
    own = load_rules(path)
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    elsewhere = OwnRules(own.path, own.digest[::-1])  # not loaded yet, as in another process
    for stated in (own, elsewhere):
        with pytest.raises(InputError, match=r"own_rules: .*(has changed since|No such file)"):
            replay(with_rules(200, stated))


def test_the_same_rules_elsewhere(tmp_path: Path) -> None:
    """INV-3: a copy of the file shares the compiled kernel, and its errors name the copy."""
    text = "def round_robin(live, last):\n    return live[len(live)]\n"
    keys = set()
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text(text)
        own = load_rules(tmp_path / name)
        keys.add(program.program_key(own))
        inputs = make_input([0], [4], [2], make_costs(linear(1, 64)), router=Router.ROUND_ROBIN)
        with pytest.raises(InputError, match=rf"{name}:2: an index out of range"):
            replay(replace(inputs, own_rules=own))
    assert len(keys) == 1


# --- what cannot be compiled ------------------------------------------------------------------------------------
QUEUE = "def shortest_queue(live, queue):\n"
OUTSIDE_THE_SUBSET = {
    "method": (QUEUE + "    return queue.index(0)\n", "rules.py:2: "),
    "list": (QUEUE + "    x = [1]\n    return 0\n", "rules.py:2: "),
    "float": (QUEUE + "    return 0.5\n", "rules.py:1: .*must return an int, not a float"),
    "nothing": (QUEUE + "    pass\n", "rules.py:1: "),
    "recursion": (QUEUE + "    return shortest_queue(live, queue)\n", "rules.py:2: "),
    "unknown": (QUEUE + "    return missing\n", "rules.py:2: missing is not known"),
    "in a circle": (
        f"def _a(x):\n    return _b(x)\n\n\ndef _b(x):\n    return _a(x)\n\n\n{QUEUE}    return _a(0)\n",
        r"rules.py:\d+: ",
    ),
    "lambda": ("shortest_queue = lambda live, queue: 0\n", "rules.py"),
}


@pytest.mark.parametrize("name", OUTSIDE_THE_SUBSET)
def test_what_cannot_be_compiled(name: str, rules: Rules, mode: str) -> None:
    """INV-8: refused with file and line before anything runs, in plain Python too."""
    text, message = OUTSIDE_THE_SUBSET[name]
    own = rules(text)
    with pytest.raises(InputError, match=f"^own_rules: .*{message}") as refused:
        replay(with_rules(200, own))
    assert "\n" not in str(refused.value)


# --- what goes wrong in a replay --------------------------------------------------------------------------------
FAULTY = """
def round_robin(live, last):
    return 99


def power_of_two(live, queue, first_draw, second_draw):
    return _at(live, first_draw - first_draw - 1)


def _at(live, w):
    return live[w]


def least_kv(live, kv_tokens):
    return 7 // (live[0] - live[0])


def choose_holder(server, need_pages, live, free_pages, held_tokens, queue, token_weight, request_weight):
    x = 1 << 62
    while token_weight == 2 and x != 0:
        x = x * 3
    return server


def next_on_ring(server, live):
    for w in range(len(live)):
        if live[w] == 0:
            return w
    return -1


def choose_target(live, has_drafter, held_tokens, queue, token_weight, request_weight):
    return -2 if token_weight == 1 else 1


def drafts_per_pass(k, plain, verified, token_budget, reserved):
    return k + 1
"""
LINES = {
    line.split("(")[0].removeprefix("def "): number
    for number, line in enumerate(FAULTY.splitlines(), 1)
    if line.startswith("def ")
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> OwnRules:
    """One file for all, so that it is compiled once."""
    path = tmp_path_factory.mktemp("faulty") / "rules.py"
    path.write_text(FAULTY)
    return load_rules(path)


def faulty_input(**changes: Any) -> ReplayInput:
    """Three workers, one of which crashes."""
    costs = make_costs(linear(1, 256), draft=linear(1, 256))
    inputs = make_input(
        [0, 5, 9, 30, 31],
        [16, 3, 4, 4, 4],
        [200, 200, 200, 150, 140],
        costs,
        workers=3,
        faults=crash_table([60], [0], [5], RELOAD._replace(load_ps=600)),
        acceptance_threshold=np.full((1, 1), 2**63, np.uint64),
        expected_tokens=np.full((1, 65), 2.0),
    )
    return replace(inputs, **changes)


BY_LOAD, RING = Placement.LOAD_AWARE, Placement.RING
HOLDERS = r"choose_holder or next_on_ring \(line \d+\) chose a holder that is no number of a worker"
WRONG: dict[str, tuple[dict[str, Any], str, int, str]] = {
    "worker": (
        {"router": Router.ROUND_ROBIN},
        "round_robin",
        0,
        "round_robin or .* chose a worker that is no",
    ),
    "index": ({"router": Router.POWER_OF_TWO}, "_at", 1, "an index out of range"),
    "zero": ({"router": Router.LEAST_KV}, "least_kv", 1, "a division by zero"),
    "overflow": (
        {"policy": make_policy(placement=BY_LOAD, token_weight=2)},
        "choose_holder",
        3,
        "a number beyond 64 bits",
    ),
    "own holder": ({"policy": make_policy(placement=BY_LOAD)}, "choose_holder", 0, HOLDERS),
    "dead holder": ({"policy": make_policy(placement=RING)}, "choose_holder", 0, HOLDERS),
    "target": ({"policy": make_policy(k=2)}, "choose_target", 0, "choose_target chose a worker that is no"),
    "drafts": ({"policy": make_policy(k=2, token_weight=2)}, "drafts_per_pass", 0, "drafts_per_pass chose"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_goes_wrong_is_named(name: str, faulty: OwnRules, mode: str) -> None:
    """INV-8: by file and line, in compiled code as in plain Python; what has no end in Python in the former alone."""
    if mode == "plain" and name == "overflow":
        pytest.skip("Python's numbers have no bounds")
    changes, where, line, message = WRONG[name]
    place = f"rules.py:{LINES[where] + line}: "
    with pytest.raises(InputError, match=f"^own_rules: .*{place}.*{message}") as refused:
        replay(faulty_input(**changes, own_rules=faulty))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", WRONG)
def test_the_input_above_is_good(name: str) -> None:
    """INV-8: without the rules every one of these replays."""
    inputs = faulty_input(**WRONG[name][0])
    assert compare(replay(inputs), twin(inputs)) == []
