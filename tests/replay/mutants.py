"""Kernel bugs as text patches, and the replays of a kernel that has one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from crash_table import crash_table
from twin import replay as twin
from twin.strategies import random_input

import lumen_policy
from cost_models.serving_costs import TransferCosts
from lumen_policy.replay.contract import (
    Placement,
    RecoveryRules,
    ReplayInput,
    ReplayOutput,
    Router,
    Routing,
)

from .inputs import RELOAD as WAY_BACK
from .inputs import crowded_input, linear, make_costs, make_input, make_policy

__all__ = ["MUTANTS", "Mutant", "copy_package", "kernel_with", "twin_output"]

PACKAGE = Path(lumen_policy.__file__).resolve().parent

PATCHABLE = ("lumen_policy.decide", "lumen_policy.replay.kernel", "lumen_policy.replay.engine")
"""What is imported anew around a bug; the rest of the package, its classes among it, stays."""


@dataclass(frozen=True)
class Mutant:
    """One bug: ``old`` stands once in ``file`` and becomes ``new``; the replays of ``seeds`` show it."""

    name: str
    file: str
    old: str
    new: str
    seeds: tuple[int, ...]
    inputs: Callable[[int], ReplayInput] = random_input

    def text(self) -> str:
        """The file with the bug."""
        text = (PACKAGE / self.file).read_text()
        assert text.count(self.old) == 1, (
            f"{self.name}: {self.file} holds the text {text.count(self.old)} times"
        )
        return text.replace(self.old, self.new)


def copy_package(folder: Path) -> Path:
    """A copy of the package to patch; returns its folder, whose parent goes on the path."""
    return Path(
        shutil.copytree(PACKAGE, folder / "lumen_policy", ignore=shutil.ignore_patterns("__pycache__"))
    )


class _Patched(MetaPathFinder, SourceLoader):
    """Imports one module from another text than its file's."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname == self._name else None

    def get_filename(self, fullname: str) -> str:
        return f"<{fullname} with a bug>"

    def get_data(self, path: str) -> bytes:
        return self._text.encode()


def _patchable() -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in sys.modules.items()
        if any(name == known or name.startswith(f"{known}.") for known in PATCHABLE)
    }


@contextmanager
def kernel_with(mutant: Mutant | None) -> Iterator[Callable[[ReplayInput], ReplayOutput]]:
    """``replay`` of a second import of kernel and decisions, as plain Python, with a bug or without."""
    before = _patchable()
    parents = [(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2]) for name in before]
    finders = []
    if mutant is not None:
        name = "lumen_policy." + mutant.file.removesuffix(".py").replace("/", ".")
        finders = [_Patched(name, mutant.text())]
    interpreted = os.environ.get("LUMEN_TUNE_INTERPRET")
    try:
        for name in before:
            del sys.modules[name]
        sys.meta_path[:0] = finders
        os.environ["LUMEN_TUNE_INTERPRET"] = "1"
        yield import_module("lumen_policy.replay.engine").replay
    finally:
        for finder in finders:
            sys.meta_path.remove(finder)
        for name in _patchable():
            del sys.modules[name]
        sys.modules.update(before)
        for (parent, child), module in zip(parents, before.values(), strict=True):
            setattr(parent, child, module)
        if interpreted is None:
            del os.environ["LUMEN_TUNE_INTERPRET"]
        else:
            os.environ["LUMEN_TUNE_INTERPRET"] = interpreted


@cache
def twin_output(inputs: Callable[[int], ReplayInput], seed: int) -> ReplayOutput:
    """What the twin, unpatched, makes of a seed."""
    return twin(inputs(seed))


def two_restores_from_one_source(workers: int) -> ReplayInput:
    """Two requests on worker 0 with copies at worker 1, restored at two others when worker 0 crashes."""
    costs = make_costs(linear(0, 512, 10))
    costs = replace(costs, transfers=TransferCosts(remote_restore_ps=20 * np.arange(len(costs.restore_ps))))
    least_queued = make_policy(
        placement=Placement.RING, routing=Routing.LOAD_AWARE, theta=-1, token_weight=0, request_weight=1
    )
    return make_input(
        np.zeros(8),
        [32, 8, 4, 4] * 2,
        [9, 30, 1, 1] * 2,
        costs,
        workers=3 + workers,
        router=Router.ROUND_ROBIN,
        policy=least_queued,
        rules=RecoveryRules(remote_restore=True),
        faults=crash_table([35], [0], [5], WAY_BACK),
    )


STRETCH = "replay/kernel/stretch.py"
ADMISSION = "replay/kernel/admission.py"
ARRIVALS = "replay/kernel/arrivals.py"
DECODING = "replay/kernel/decoding.py"
ASSISTED = "replay/kernel/assisted.py"
CHECKPOINTS = "replay/kernel/checkpoints.py"
GATEWAY = "replay/kernel/gateway.py"
OUTAGES = "replay/kernel/outages.py"
FAULTS = "replay/kernel/faults.py"
LINKS = "replay/kernel/links.py"
ROWS = "replay/kernel/rows.py"
SLOTS = "replay/kernel/slots.py"
RELOAD = "replay/kernel/reload.py"
SENDING = "replay/kernel/sending.py"
STRUCTURES = "replay/kernel/structures.py"
ROUTING = "decide/routing.py"
PLACEMENT = "decide/placement.py"
STRANDED = "        q = s.requests[r]\n        if q.state == STRANDED and"

MUTANTS = [
    Mutant(
        name="a leap is cut one iteration late",
        file=STRETCH,
        old="while end < t and count < 24:",
        new="while end <= t and count < 24:",
        seeds=(107, 293, 23, 60),
    ),
    Mutant(
        name="a leap lasts one growth too long",
        file=STRETCH,
        old="end = t + count * duration + growth * ((count * (count - 1)) >> 1)",
        new="end = t + count * duration + growth * ((count * (count + 1)) >> 1)",
        seeds=(183, 213, 377),
    ),
    Mutant(
        name="a leap ends one step after the pages do",
        file=STRETCH,
        old="if opened_pages(s, i, middle) <= free:",
        new="if opened_pages(s, i, middle) <= free + 1:",
        seeds=(265, 355, 218),
    ),
    Mutant(
        name="pages open one step early",
        file=DECODING,
        old="total += w.page_phase[(w.steps + j) & 15]",
        new="total += w.page_phase[(w.steps + j + 1) & 15]",
        seeds=(113, 296, 2),
    ),
    Mutant(
        name="completions out of order",
        file=STRUCTURES,
        old="heap[child + 1] < heap[child]",
        new="heap[child + 1] > heap[child]",
        seeds=(394, 62, 142),
    ),
    Mutant(
        name="restores do not wait for the link",
        file=ADMISSION,
        old="past.until = max(t, w.link_free) + s.tables",
        new="past.until = t + s.tables",
        seeds=(44, 352, 338),
    ),
    Mutant(
        name="no watermark",
        file=ADMISSION,
        old="reserve = g.watermark if admitted > 0 else 0",
        new="reserve = 0",
        seeds=(399, 55, 183),
        inputs=crowded_input,
    ),
    Mutant(
        name="recomputed tokens counted beyond what existed",
        file=STRETCH,
        old="min(q.kv, q.high) - before",
        new="q.kv - before",
        seeds=(358, 224, 59),
    ),
    Mutant(
        name="gaps without the stall of prefill first",
        file=STRETCH,
        old="stall = w.run_start - w.last_decode_end if g.prefill_first != 0 else 0",
        new="stall = 0",
        seeds=(22, 159, 0),
    ),
    Mutant(
        name="a restored copy gives back whole pages only",
        file=SENDING,
        old="s.recovery[r].old_arrived = arrived",
        new="s.recovery[r].old_arrived = saved",
        seeds=(97, 44, 352),
    ),
    Mutant(
        name="a copy outlives the recomputation",
        file=SENDING,
        old="    drop_copies(s, r, source, t)\n",
        new="    if source >= 0:\n        drop_copies(s, r, source, t)\n",
        seeds=(159, 139, 372),
    ),
    Mutant(
        name="a token of the crash's instant is lost",
        file=FAULTS,
        old="done = count if end <= t else count - 1",
        new="done = count if end < t else count - 1",
        seeds=(111, 197, 202),
    ),
    Mutant(
        name="interrupted requests handled youngest first",
        file=OUTAGES,
        old="for r in range(g.oldest, g.next_arrival):\n" + STRANDED,
        new="for r in range(g.next_arrival - 1, g.oldest - 1, -1):\n" + STRANDED,
        seeds=(104, 137, 360),
    ),
    Mutant(
        name="a copy's last page is not filled",
        file=ARRIVALS,
        old="grown = min(upto, 16 * (pages + s.by_worker[FREE, holder]))",
        new="grown = min(upto, slot.arrived + 16 * s.by_worker[FREE, holder])",
        seeds=(372, 14, 98),
    ),
    Mutant(
        name="the last free page is given twice",
        file=CHECKPOINTS,
        old="if opened <= by_worker[FREE, h] else 0",
        new="if opened <= by_worker[FREE, h] + 1 else 0",
        seeds=(213, 7, 9),
    ),
    Mutant(
        name="a drafter is idle one instant late",
        file=ASSISTED,
        old="if s.workers[w.drafter].draft_until <= t:",
        new="if s.workers[w.drafter].draft_until < t:",
        seeds=(139, 70, 5),
    ),
    Mutant(
        name="every draft of a pass has the same draw",
        file=ASSISTED,
        old="r, delivered + accepted)",
        new="r, delivered)",
        seeds=(212, 30, 5),
    ),
    Mutant(
        name="tau reached is tau exceeded",
        file=ROUTING,
        old="saved_tokens > tau_tokens",
        new="saved_tokens >= tau_tokens",
        seeds=(241, 169),
    ),
    Mutant(
        name="ties of the shortest queue go to the highest index",
        file=ROUTING,
        old="if live[w] != 0 and (best < 0 or queue[w] < queue[best]):",
        new="if live[w] != 0 and (best < 0 or queue[w] <= queue[best]):",
        seeds=(273, 358, 213),
    ),
    Mutant(
        name="ties of the holder go to the highest index",
        file=PLACEMENT,
        old="load < best_load",
        new="load <= best_load",
        seeds=(100, 213, 11),
    ),
    Mutant(
        name="the guard forgets the sequences that decode plainly",
        file=ASSISTED,
        old="expected = float(plain)",
        new="expected = 0.0",
        seeds=(133,),
    ),
    Mutant(
        name="a preempted restore keeps its old copy",
        file=ADMISSION,
        old="            release_old(s, victim, t)\n",
        new="",
        seeds=(103, 289, 311),
    ),
    Mutant(
        name="a sequence that leaves keeps its draft KV",
        file=DECODING,
        old="    q.draft_kv = 0\n    q.verify = 0\n",
        new="    q.verify = 0\n",
        seeds=(250, 98, 69),
    ),
    Mutant(
        name="the source's NIC carries any number of restores",
        file=ADMISSION,
        old="source.nic_free = past.until",
        new="source.nic_free = t",
        seeds=(1,),
        inputs=two_restores_from_one_source,
    ),
    Mutant(
        name="every restore of a request has the same draw",
        file=ADMISSION,
        old="RESTORE, r, s.recovery[r].interruptions)",
        new="RESTORE, r, 0)",
        seeds=(33, 84, 110),
    ),
    Mutant(
        name="what is under way stays behind when a copy leaves its row",
        file=ROWS,
        old="        put_behind(s, item, c)\n",
        new="        pass\n",
        seeds=(11, 24, 30),
    ),
    Mutant(
        name="members of a row open their pages a step late",
        file=ROWS,
        old="slot.phase = (1 - q.offset) & 15",
        new="slot.phase = (2 - q.offset) & 15",
        seeds=(0, 3, 7),
    ),
    Mutant(
        name="a copy joins a row that is under way",
        file=ROWS,
        old="elif row.place != NOWHERE or row.arrived != step:",
        new="elif row.arrived != step:",
        seeds=(11, 24, 147),
    ),
    Mutant(
        name="a copy that leaves its row is as old as when it joined",
        file=ROWS,
        old="    slot.wrote = wrote_at(s, c)\n",
        new="",
        seeds=(3560,),
    ),
    Mutant(
        name="a row does not say when it grew",
        file=LINKS,
        old="    row.wrote = now\n",
        new="",
        seeds=(275, 1278),
    ),
    Mutant(
        name="what leaves does not wait for evictions",
        file=LINKS,
        old="if g.sync_min == now or g.eviction != 0:",
        new="if g.sync_min == now:",
        seeds=(1102, 1477),
    ),
    Mutant(
        name="copies and rows share a page that is not there",
        file=CHECKPOINTS,
        old="        if wanted > s.by_worker[FREE, h]:\n            fits = False",
        new="        if wanted > s.by_worker[FREE, h] + 1:\n            fits = False",
        seeds=(10, 14, 66),
    ),
    Mutant(
        name="what arrives at the instant of a send comes before it",
        file=LINKS,
        old="_take_arrivals(s, now - 1)",
        new="_take_arrivals(s, now)",
        seeds=(11, 24, 73),
    ),
    Mutant(
        name="of two equal copies the later request's is evicted",
        file=ARRIVALS,
        old="if not better and v < best:",
        new="if not better and v > best:",
        seeds=(50, 275, 283),
    ),
    Mutant(
        name="a copy that holds nothing is evicted",
        file=ARRIVALS,
        old="if arrived > 0 and (",
        new="if arrived >= 0 and (",
        seeds=(13, 45, 71),
    ),
    Mutant(
        name="a transfer leaves without its latency",
        file=LINKS,
        old="leaves = begin + g.egress_latency_ps + tokens * g.egress_token_ps",
        new="leaves = begin + tokens * g.egress_token_ps",
        seeds=(24, 33, 40),
    ),
    Mutant(
        name="what is under way outlives its holder",
        file=SLOTS,
        old="(slot.holder == i or s.requests[r].server == i)",
        new="s.requests[r].server == i",
        seeds=(33, 312, 350),
    ),
    Mutant(
        name="the copy that grew last is evicted",
        file=ARRIVALS,
        old="return a_wrote < b_wrote",
        new="return a_wrote > b_wrote",
        seeds=(16, 275, 291),
    ),
    Mutant(
        name="a copy as short as another goes for it",
        file=ARRIVALS,
        old="return a < b\n",
        new="return a <= b\n",
        seeds=(102, 110, 144),
    ),
    Mutant(
        name="an unreachable worker loses what it holds",
        file=FAULTS,
        old="w.keeps = 1 if s.faults[FAULT_KIND, f] == _UNREACHABLE else",
        new="w.keeps = 0 if s.faults[FAULT_KIND, f] == _UNREACHABLE else",
        seeds=(11, 76, 81),
    ),
    Mutant(
        name="a silence of its detection's length goes unnoticed",
        file=OUTAGES,
        old="if w.life_at == t and w.detect_at == t and w.life in (UNDETECTED, SILENT):",
        new="if w.life_at == t and w.detect_at == t and w.back_at != t and w.life in (UNDETECTED, SILENT):",
        seeds=(2, 36, 81),
    ),
    Mutant(
        name="work on a drained worker takes no time",
        file=FAULTS,
        old="start_reload(s, i, t + s.faults[FAULT_LENGTH, w.fault])",
        new="start_reload(s, i, t)",
        seeds=(2, 8, 17),
    ),
    Mutant(
        name="a slow worker is slow for an instant too long",
        file=STRETCH,
        old="t < w.slow_until\n",
        new="t <= w.slow_until\n",
        seeds=(38,),
    ),
    Mutant(
        name="a worker is given up one refusal late",
        file=OUTAGES,
        old="w.refuse_left = s.faults[FAULT_REFUSALS, w.fault] if",
        new="w.refuse_left = s.faults[FAULT_REFUSALS, w.fault] + 1 if",
        seeds=(0, 2, 4),
    ),
    Mutant(
        name="a regenerated request restores all of its prompt",
        file=SENDING,
        old="tokens = min(tokens, (q.prompt - 1) & ~15)",
        new="tokens = min(tokens, q.prompt & ~15)",
        seeds=(187, 309, 386),
    ),
    Mutant(
        name="a slow start is a grain longer",
        file=GATEWAY,
        old="w.ramp_queue * (left >> 20) // whole",
        new="w.ramp_queue * ((left >> 20) + 1) // whole",
        seeds=(11, 84, 102),
    ),
    Mutant(
        name="second copies may share the first one's domain",
        file=GATEWAY,
        old="(h == first or domain == s.by_worker[DOMAIN, first])",
        new="h == first",
        seeds=(63, 93, 107),
    ),
    Mutant(
        name="a drafter that keeps its target begins anew",
        file=RELOAD,
        old="if target < 0 or target == own:",
        new="if target < 0:",
        seeds=(0, 5, 13),
    ),
    Mutant(
        name="both halves wait for their drafts",
        file=ASSISTED,
        old="            if primed == 0:\n",
        new="            if primed >= 0:\n",
        seeds=(0, 5, 22),
    ),
    Mutant(
        name="every draft of a pass is accepted as the first",
        file=ASSISTED,
        old="min(accepted, positions - 1)",
        new="0",
        seeds=(5, 51, 212),
    ),
]
