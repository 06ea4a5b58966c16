"""Whole tuning runs on a small cluster: bytes, interruption, the exported policy, one worker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from lumen_policy.errors import InputError
from lumen_policy.policy_file.load import load_policy_file
from lumen_policy.policy_file.reader import parse_policy
from lumen_policy.settings import settings_from
from lumen_policy.tune.objective import Evaluator
from lumen_policy.tune.output import POLICY, RESULT, TRIALS
from lumen_policy.tune.report import policy_document, result_document, run_files, verdict_lines
from lumen_policy.tune.search import Trial
from lumen_policy.tune.study import LUMEN_DEFAULT, LUMEN_TUNED, Study, TuneResult, prepare_study, tune

SMALL: Mapping[str, Any] = {
    "workers": 3,
    "limit": 1500,
    "horizon_s": 40,
    "warmup_s": 20,
    "detection_s": 1,
    "trials": 8,
    "scenarios": 2,
    "validation_scenarios": 3,
}


def small_study(**changes: Any) -> Study:
    """A cluster of three workers with short scenarios, changed as asked."""
    return prepare_study(settings_from({**SMALL, **changes}), [])


@cache
def small_result() -> TuneResult:
    """A finished run, shared by the tests that only read it."""
    return tune(small_study())


def without_cost(files: Mapping[str, bytes | None]) -> dict[str, Any]:
    """The files with `cost` taken out of the result."""
    document = json.loads(files[RESULT] or b"")
    del document["cost"]
    return {**files, RESULT: json.dumps(document)}


def test_jobs_change_no_byte() -> None:
    """Two runs, one of them on two processes, agree byte for byte but for what they cost."""
    again = tune(small_study(), jobs=2)
    assert again.jobs == 2
    assert without_cost(run_files(again, [])) == without_cost(run_files(small_result(), []))


def test_another_seed_is_another_run() -> None:
    """The seed moves scenarios and search: the comparison above can fail."""
    other = tune(small_study(seed=1, trials=3), random_search=False)
    assert [t.request_ps for t in other.trials] != [t.request_ps for t in small_result().trials[:3]]


def test_documents_are_complete_and_consistent() -> None:
    """The files say what the run found."""
    result = small_result()
    files = run_files(result, ["tune"])
    document = json.loads(files[RESULT] or b"")
    assert document["interrupted"] is False
    assert document["manifest"]["argv"] == ["tune"]
    assert document["trials"]["done"] == 8
    assert [entry["policy"]["name"] for entry in document["validation"]["policies"]] == [
        "stop_and_restart",
        "fixed_checkpointing",
        LUMEN_DEFAULT,
        LUMEN_TUNED,
        "random search",
    ]
    for entry in document["validation"]["policies"]:
        assert entry["unfinished_requests"] == 0
        parts = entry["mean_ttft_part_request_s"] + entry["mean_decode_part_request_s"]
        assert parts == pytest.approx(entry["mean_request_s"])
        assert entry["low_request_s"] <= entry["mean_request_s"] <= entry["high_request_s"]
    rows = [json.loads(line) for line in (files[TRIALS] or b"").splitlines()]
    assert [row["search"] for row in rows] == ["surrogate"] * 8 + ["random"] * 8
    assert [row["origin"] for row in rows[:2]] == ["default", "always the holder"]
    policy, problems = parse_policy(files[POLICY] or b"")
    assert problems == []
    assert policy is not None
    assert policy.evidence.chosen_trial == document["choice"]["trial"]
    assert policy.metadata.cluster_digest == document["manifest"]["digests"]["cluster"]
    assert set(document["cost"]["cpu_s"]) >= {"optimizer", "trials", "random_search", "validation"}


def test_validation_is_not_used_to_choose() -> None:
    """More or other validation scenarios leave trials and choice as they are."""
    other = tune(small_study(validation_scenarios=2, trials=3), random_search=False)
    same = tune(small_study(validation_scenarios=4, trials=3), random_search=False)
    assert [t.request_ps for t in other.trials] == [t.request_ps for t in same.trials]
    assert other.choice == same.choice


def test_exported_policy_gives_what_the_tuner_measured(tmp_path: Any) -> None:
    """The policy read back from its file scores the same integers in the same scenarios."""
    result = small_result()
    path = tmp_path / POLICY
    path.write_bytes(run_files(result, [])[POLICY] or b"")
    exported = load_policy_file(path)
    study = result.study
    assert result.validation is not None
    assert exported.policy == result.validation.policies[LUMEN_TUNED]
    assert exported.check(study.cluster, study.base) != []  # the trace's own rate is not the load tuned for
    with Evaluator(study.plan, study.validation, jobs=1) as evaluator:
        evaluator.baselines(study.validation, exported.policy)
        scores = evaluator.scores(study.validation, exported.policy)
    assert [score.excess for score in scores] == [
        score.excess for score in result.validation.scores[LUMEN_TUNED]
    ]


class Interrupting:
    """Ctrl-C when a stage begins or a trial ends."""

    def __init__(self, *, stage: str | None = None, trial: int | None = None) -> None:
        self.at_stage, self.at_trial = stage, trial

    def stage(self, text: str) -> None:
        if text == self.at_stage:
            raise KeyboardInterrupt

    def trial(self, trial: Trial, best: Trial, total: int) -> None:
        if trial.number == self.at_trial:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("when", "trials", "random_trials"),
    [
        (Interrupting(trial=2), 3, 0),
        (Interrupting(stage="random search"), 8, 0),
        (Interrupting(stage="validation"), 8, 8),
    ],
    ids=["while tuning", "before the random search", "before validation"],
)
def test_ctrl_c_keeps_what_was_done(when: Interrupting, trials: int, random_trials: int) -> None:
    """The trials done are those of the whole run, a policy is chosen from them, and the files are valid."""
    result = tune(small_study(), progress=when)
    assert result.interrupted
    assert (len(result.trials), len(result.random_trials)) == (trials, random_trials)
    whole = small_result()
    assert [t.request_ps for t in result.trials] == [t.request_ps for t in whole.trials[:trials]]
    document = result_document(result, [])
    assert document["validation"] is None
    assert document["interrupted"] is True
    assert verdict_lines(result) == ["interrupted before validation: no verdict"]
    files = run_files(result, [])
    assert parse_policy(files[POLICY] or b"")[1] == []


@pytest.mark.parametrize("stage", ["fault-free runs", "tuning"])
def test_ctrl_c_before_the_first_trial(stage: str) -> None:
    """No policy then, but a valid result."""
    result = tune(small_study(), progress=Interrupting(stage=stage))
    assert result.interrupted
    assert policy_document(result) is None
    assert run_files(result, [])[POLICY] is None
    assert result_document(result, [])["choice"] is None


def test_one_worker_makes_no_difference() -> None:
    """Nobody holds, restores or drafts: every policy gives the same replay, and the verdict says so."""
    notices: list[str] = []
    study = prepare_study(settings_from({**SMALL, "workers": 1, "trials": 7, "load": 0.5}), notices)
    assert notices == ["one worker: nobody to assist, so k = 0 throughout"]
    result = tune(study)
    assert result.validation is not None
    for entry in result.validation.comparisons:
        assert entry.verdict == "no difference"
        assert (entry.saves.low_s, entry.saves.high_s) == (0, 0)
    assert "no difference; the same result in all 3 validation scenarios" in verdict_lines(result)[0]


def test_no_draft_leaves_k_out() -> None:
    """Without a draft model every policy of the search has k = 0."""
    result = tune(small_study(draft="none", trials=7), random_search=False)
    assert {trial.policy.k for trial in result.trials} == {0}
    assert result.validation is not None
    assert "random search" not in result.validation.policies


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"alpha": "1"}, "alpha: tune searches it"),
        ({"k": 2}, "k: tune searches it"),
        ({"placement": False}, "placement: tune needs"),
        ({"policy": "stop_and_restart"}, "policy: tune searches lumen's"),
        ({"crash": ["30:1"]}, "crash: tune draws its own"),
        ({"rate_scale": 2}, "rate_scale: tune reaches"),
        ({"limit": 500}, "too short for its scenarios: it must span 160 s"),
        ({"victims": 4}, "victims: 4 is not a whole number from 1 to 3"),
    ],
)
def test_bad_set_ups_are_refused(changes: dict[str, Any], says: str) -> None:
    """One clear line each, before anything is replayed."""
    with pytest.raises(InputError) as caught:
        small_study(**changes)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_jobs_must_be_positive() -> None:
    """Zero processes do nothing."""
    study = small_study()
    with pytest.raises(InputError, match="jobs"):
        tune(study, jobs=0)
