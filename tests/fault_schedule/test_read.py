"""Files of faults: every format, every way to be wrong, and back again after writing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumen_policy.errors import InputError
from lumen_policy.fault_schedule.figures import schedule_figures
from lumen_policy.fault_schedule.read import read_schedule
from lumen_policy.fault_schedule.schedule import FaultSchedule, ScheduledFault
from lumen_policy.fault_schedule.write import write_schedule
from lumen_policy.faults import DEFAULT_SCOPES, KINDS, MODES, SCOPES
from tests.conftest import shared_path


def faults(*, on_nodes: bool) -> st.SearchStrategy[ScheduledFault]:
    times = st.decimals(0, 10**6, places=6).map(float)

    @st.composite
    def fault(draw: st.DrawFn) -> ScheduledFault:
        kind = draw(st.sampled_from(KINDS))
        scope = draw(st.sampled_from([None, *SCOPES])) if kind in DEFAULT_SCOPES else None
        lengths = st.decimals("0.001", 900_000, places=3).map(float)
        if kind not in ("slow", "unreachable", "false_alarm"):
            lengths = st.one_of(st.none(), lengths)
        if kind == "crash" and scope == "process":
            lengths = st.none()
        return ScheduledFault(
            time_s=draw(times),
            worker=None if on_nodes else draw(st.integers(0, 9)),
            node=draw(st.sampled_from(["a", "b-1", "rack 2"])) if on_nodes else None,
            kind=kind,
            scope=scope,
            duration_s=draw(lengths),
            factor=draw(st.floats(1.01, 9)) if kind == "slow" else None,
            mode=draw(st.sampled_from(MODES)) if kind == "drain" else None,
        )

    return fault()


def plain(schedule: FaultSchedule) -> list[tuple[object, ...]]:
    names = ("time_s", "worker", "node", "kind", "scope", "duration_s", "factor", "mode")
    return sorted(str([getattr(fault, name) for name in names]) for fault in schedule.faults)


@pytest.mark.parametrize("suffix", [".csv", ".json"])
@pytest.mark.parametrize("on_nodes", [False, True])
def test_what_is_written_reads_the_same(
    suffix: str, on_nodes: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("faults") / f"faults{suffix}"

    @given(st.lists(faults(on_nodes=on_nodes), min_size=1, max_size=8))
    def check(listed: list[ScheduledFault]) -> None:
        schedule = FaultSchedule.of(listed, source="made", format="schedule")
        write_schedule(schedule, path)
        again = read_schedule(path)
        assert plain(again) == plain(schedule)
        assert again.on_nodes == on_nodes
        times = [fault.time_s for fault in again.faults]
        assert times == sorted(times)

    check()


def test_the_shortest_file(tmp_path: Path) -> None:
    path = tmp_path / "faults.csv"
    path.write_text("time_s,worker\n300,2\n\n10.5,0\n")
    read = read_schedule(path)
    assert [(fault.time_s, fault.worker, fault.kind, fault.scope) for fault in read.faults] == [
        (10.5, 0, "crash", "gpu"),
        (300.0, 2, "crash", "gpu"),
    ]
    assert read.faults[0].place.endswith("line 4")


CSV = {
    "no header": ("300,2\n", "'300', '2'"),
    "unknown column": ("time_s,worker,gpu\n1,2,3\n", "'gpu'"),
    "column twice": ("time_s,worker,worker\n1,2,3\n", "each once"),
    "no time": ("time_s,worker\n,2\n", "line 2: time_s is empty"),
    "time in words": ("time_s,worker\nsoon,2\n", "line 2: time_s 'soon'"),
    "time that is none": ("time_s,worker\nnan,2\n", "nan"),
    "negative time": ("time_s,worker\n-1,2\n", "-1.0"),
    "half a worker": ("time_s,worker\n1,0.5\n", "worker '0.5'"),
    "negative worker": ("time_s,worker\n1,-1\n", "worker '-1'"),
    "neither worker nor node": ("time_s,worker\n1,\n", "either a worker or a node"),
    "worker and node": ("time_s,worker,node\n1,0,a\n", "either a worker or a node"),
    "workers here, nodes there": ("time_s,worker,node\n1,0,\n2,,a\n", "some faults name a worker"),
    "unknown kind": ("time_s,worker,kind\n1,0,flood\n", "'flood'"),
    "unknown scope": ("time_s,worker,scope\n1,0,rack\n", "'rack'"),
    "negative duration": ("time_s,worker,duration_s\n1,0,-5\n", "-5.0"),
    "factor of a crash": ("time_s,worker,factor\n1,0,2\n", "factor 2.0"),
    "slow without factor": ("time_s,worker,kind,duration_s\n1,0,slow,9\n", "factor None"),
    "slow without end": ("time_s,worker,kind,factor\n1,0,slow,2\n", "duration_s is missing"),
    "unreachable without end": ("time_s,worker,kind\n1,0,unreachable\n", "duration_s is missing"),
    "alarm of a moment": ("time_s,worker,kind,duration_s\n1,0,false_alarm,0\n", "> 0"),
    "endless drain": ("time_s,worker,kind,duration_s\n1,0,drain,inf\n", "11 days"),
    "repair of a process": ("time_s,worker,scope,duration_s\n1,0,process,9\n", "has no repair"),
    "scope of a slow fault": (
        "time_s,worker,kind,scope,factor,duration_s\n1,0,slow,gpu,2,9\n",
        "scope 'gpu'",
    ),
    "mode of a crash": ("time_s,worker,mode\n1,0,migrate\n", "mode 'migrate'"),
    "unknown mode": ("time_s,worker,kind,mode\n1,0,drain,run\n", "mode 'run'"),
    "cell too many": ("time_s,worker\n1,0,9\n", "3 cells"),
    "header alone": ("time_s,worker\n", "no fault"),
    "quote without end": ('time_s,worker\n"1,0\n', "line"),
}


@pytest.mark.parametrize("case", CSV)
def test_csv_that_is_refused(case: str, tmp_path: Path) -> None:
    text, expected = CSV[case]
    path = tmp_path / "faults.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_schedule(path)
    assert expected in str(refused.value)
    assert "faults.csv" in str(refused.value)
    assert "\n" not in str(refused.value)


JSON = {
    "unknown field": ({"faults": [{"time_s": 1, "worker": 0, "rack": 1}]}, "rack"),
    "text as time": ({"faults": [{"time_s": "1", "worker": 0}]}, "float"),
    "another kind": ({"kind": "RecoveryPolicy", "faults": []}, "RecoveryPolicy"),
    "another version": ({"schema_version": 2, "faults": []}, "schema_version 2"),
    "empty": ({"faults": []}, "no fault"),
    "no worker": ({"faults": [{"time_s": 1}]}, "faults[0]"),
}


@pytest.mark.parametrize("case", JSON)
def test_json_that_is_refused(case: str, tmp_path: Path) -> None:
    document, expected = JSON[case]
    path = tmp_path / "faults.json"
    path.write_text(json.dumps({"kind": "FaultSchedule", "schema_version": 1} | document))
    with pytest.raises(InputError) as refused:
        read_schedule(path)
    assert expected in str(refused.value)


def test_other_suffixes_and_folders_are_refused(tmp_path: Path) -> None:
    schedule = FaultSchedule.of([ScheduledFault(time_s=1.0, worker=0)], source="made", format="schedule")
    for name in ("faults.parquet", "absent/faults.csv"):
        with pytest.raises(InputError, match="faults"):
            write_schedule(schedule, tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        read_schedule(tmp_path / "absent.csv")


def test_an_event_log_in_days() -> None:
    """The repository's made-up log: each fault a crash of scope gpu, days times 86,400."""
    read = read_schedule(Path(__file__).resolve().parents[2] / "traces/faults.json")
    assert (read.format, read.clock, read.on_nodes) == ("infinitehbd", "days", True)
    assert read.faults[0].time_s == 4.746 * 86_400
    assert {(fault.kind, fault.scope) for fault in read.faults} == {("crash", "gpu")}


def test_published_figures_of_the_real_log() -> None:
    """333 faults on 169 servers, 14 of length 0, p50 35.0 h; 33 bursts, the largest of 14 nodes, with 32.1 %
    of the faults; 70.6 % on servers with more than one: counted independently of this code.
    """
    figures = schedule_figures(
        read_schedule(shared_path("traces/failures/infinitehbd_faults_before_day200.json")), watched=400
    )
    assert (figures["faults"], figures["hit"], figures["zero_length"]) == (333, 169, 14)
    assert figures["repair_h"]["p50"] == pytest.approx(35.0, abs=0.05)
    assert figures["repair_h"]["mean"] == pytest.approx(179.8, abs=0.05)
    assert figures["repair_h"]["p90"] == pytest.approx(496, abs=0.5)
    assert (figures["bursts"], figures["largest_burst"]) == (33, 14)
    assert figures["burst_share"] == pytest.approx(0.321, abs=0.0005)
    assert figures["repeated_share"] == pytest.approx(0.706, abs=0.0005)
