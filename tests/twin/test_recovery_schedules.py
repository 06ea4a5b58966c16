"""Schedules of recovery rules, worked out by hand: where interrupted requests go, rejoins, drafters.

Each docstring draws its time line. Unless said, an iteration lasts 10 and worker 0 serves request 0 from 0 on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lumen_policy.replay.contract import (
    FaultKind,
    Interruption,
    Placement,
    RecoveryRules,
    ReplayInput,
    ReplayOutput,
    Router,
    Routing,
)

from .by_hand import (
    ALWAYS,
    BOTH,
    case,
    costs,
    fault,
    faults,
    flat,
    gaps,
    interruptions,
    one_crash,
    outages,
    policy,
    transfers,
)

Replay = Callable[[ReplayInput], ReplayOutput]

CRASH, RUNNING = FaultKind.CRASH, Interruption.RUNNING
TO_HOLDER = policy(placement=Placement.RING, routing=Routing.HOLDER)
GRAIN = 2**20  # picoseconds in which a slow start is counted


@BOTH
class TestInterruptedRequests:
    @pytest.mark.parametrize("front", [False, True], ids=["tail", "front"])
    def test_front_or_tail(self, replay: Replay, front: bool) -> None:
        """INV-35: One place a batch, round robin: requests 0 and 2 on w0, 1 and 3 on w1.

        15   w0 crashes (request 0 has a token); 20 detected: both to w1, where 3 waits for 1 to end at 40
        tail:   3 → 50, 0 → 60, 2 → 70
        front:  0 → 50, 2 → 60, 3 → 70
        """
        output = replay(
            case(
                [(0, 8, 2), (0, 8, 4), (0, 8, 1), (0, 8, 1)],
                costs(flat(10)),
                workers=2,
                max_batch=1,
                router=Router.ROUND_ROBIN,
                rules=RecoveryRules(front=front),
                **one_crash(15, 5),
            )
        )
        assert output.last_ps.tolist() == ([50, 40, 60, 70] if front else [60, 40, 70, 50])

    @pytest.mark.parametrize("remote", [False, True], ids=["recompute", "remote restore"])
    def test_wait(self, replay: Replay, remote: bool) -> None:
        """INV-35: The request waits for its own worker, whose reload takes 5 + 20 + 5.

        35   w0 crashes; 40 detected, back at 70; 34 tokens lie at w1; request 1 (at 50) goes to w1 → 60
        70   w0: prefill of 35 → 80, → 90
        or, restoring from w1 over the network: 32 tokens → 100, 3 tokens → 110, → 120
        """
        crash = fault(CRASH, 35, delay_ps=5, load_ps=20, init_ps=5)
        output = replay(
            case(
                [(0, 32, 5), (50, 4, 1)],
                costs(flat(10), transfers=transfers()),
                workers=2,
                policy=TO_HOLDER,
                rules=RecoveryRules(wait=True, remote_restore=remote),
                faults=faults(crash),
            )
        )
        first_ps = 110 if remote else 80
        assert output.last_ps.tolist() == [first_ps + 10, 60]
        assert output.worker.tolist() == [0, 1]
        assert interruptions(output) == [(0, RUNNING, 35, 70, 3, int(remote), first_ps)]
        assert output.recomputed_tokens[0] == (2 if remote else 34)
        assert outages(output) == [(0, CRASH, 35, 35, 40, 70)]
        assert output.counters["gateway_waited"] == 0

    def test_regenerate(self, replay: Replay) -> None:
        """INV-35: The three tokens delivered before the crash are decoded again, unseen.

        35   w0 crashes; 40 detected: of a prompt of 32, a page is restored → 45
        45   the other 16 tokens and the first token again → 55; 65, 75: the second and the third
        85   the fourth, seen; 95
        """
        output = replay(
            case(
                [(0, 32, 5)],
                costs(flat(10)),
                workers=2,
                policy=TO_HOLDER,
                rules=RecoveryRules(regenerate=True),
                **one_crash(35, 5),
            )
        )
        assert gaps(output) == [(20, 10), (30, 10), (85, 55), (95, 10)]
        assert interruptions(output) == [(0, RUNNING, 35, 40, 3, 1, 85)]
        assert output.counters["regenerated_tokens"] == 3
        assert (output.restored_tokens[0], output.recomputed_tokens[0]) == (16, 16)
        assert (output.first_ps[0], output.last_ps[0]) == (10, 95)

    def test_load_aware_with_remote_restore(self, replay: Replay) -> None:
        """θ never prefers the holder; the least loaded worker restores from it.

        35   w0 crashes; 40 detected: L is 34 + 16 at w1 and 11 at w2
        40   w2: restore over the network → 70, 3 tokens → 80, → 90
        """
        never = policy(placement=Placement.RING, routing=Routing.LOAD_AWARE, theta=-1)
        output = replay(
            case(
                [(0, 32, 5), (0, 8, 30)],
                costs(flat(10), transfers=transfers()),
                workers=3,
                policy=never,
                rules=RecoveryRules(remote_restore=True),
                **one_crash(35, 5),
            )
        )
        assert (output.worker[0], output.last_ps[0], output.restored_tokens[0]) == (2, 90, 32)
        assert output.counters["remote_restores"] == 1


@BOTH
class TestRejoins:
    @pytest.mark.parametrize("slow", [False, True], ids=["herd", "slow start"])
    def test_the_herd(self, replay: Replay, slow: bool) -> None:
        """INV-35: w0 is down from 0 to 40 grains of 2²⁰ ps; w1 and w2 have Q = 4 each, for long.

        40   three requests: Q = 0, 4, 4: all to w0
        60   four: Q = 3, 4, 4: w0, w0 (tie), w1, w2
        With a slow start of 40 grains w0 counts m = 4 more at 40, 2 more at 60:
        40   4, 4, 4: w0; 5, 4, 4: w1; 5, 5, 4: w2
        60   3, 5, 5: w0; 4: w0; 5: w0 (tie); 6: w1
        """
        crash = fault(CRASH, 0, restart_ps=0, load_ps=40 * GRAIN, init_ps=0)
        arrivals = [0] * 8 + [40 * GRAIN] * 3 + [60 * GRAIN] * 4
        output = replay(
            case(
                [(at, 1, 100) for at in arrivals],
                costs(flat(100 * GRAIN)),
                workers=3,
                rules=RecoveryRules(slow_start_ps=40 * GRAIN * slow),
                faults=faults(crash),
            )
        )
        assert output.worker[:8].tolist() == [1, 2] * 4
        assert output.worker[8:11].tolist() == ([0, 1, 2] if slow else [0, 0, 0])
        assert output.worker[11:].tolist() == ([0, 0, 0, 1] if slow else [0, 0, 1, 2])
        assert output.outage_rejoin_ps.tolist() == [40 * GRAIN]


@BOTH
class TestDrafters:
    def test_retarget(self, replay: Replay) -> None:
        """INV-35: w0 is down from 0; requests 0 and 2 (5 tokens) on w1, request 1 (12 tokens) on w2; every 40.

        10   draft ready for w1 (Q = 2, 1): plain → 20 (draft prefill 3 + 3), pass → 37: three tokens each, done
        50   again: w2; plain → 60 (draft prefill 3), passes of 17: 6 tokens → 9 at 77 → 12 at 94
        90   again: w2 still; 110 assist end, 160 back
        """
        output = replay(
            case(
                [(0, 8, 5), (0, 8, 12), (0, 8, 5)],
                costs(flat(10), draft=flat(3)),
                workers=3,
                router=Router.ROUND_ROBIN,
                policy=policy(k=2),
                rules=RecoveryRules(retarget_ps=40),
                faults=faults(fault(CRASH, 0, load_ps=100)),
            )
        )
        assert output.last_ps.tolist() == [37, 94, 37]
        assert output.counters["retargets"] == 1
        assert output.outage_assist_target.tolist() == [2]
        assert output.outage_draft_ready_ps.tolist() == [10]
        assert output.outage_assist_end_ps.tolist() == [110]
        assert output.outage_rejoin_ps.tolist() == [160]
        assert output.counters["assisted_passes"] == 3
        assert output.counters["draft_busy_ps"] == 6 + 6 + 3 + 6 + 6

    def test_ping_pong(self, replay: Replay) -> None:
        """INV-35: w0 is down from 0 and drafts for w1 from 10 on; requests 0 and 1 there, 11 tokens each.

        10   plain → 20, both have two tokens; draft prefill 3 + 3
        20   drafts of request 0: 6 + 1; then its verification (10) beside the drafts of request 1 (7) → 37
        37   request 1 → 47 (max(10, 7)), request 0 → 57, request 1 → 67, request 0 → 77: done
        77   request 1 alone: 6 + 10 + 1 → 94: done
        """
        output = replay(
            case(
                [(0, 8, 11), (0, 8, 11)],
                costs(flat(10), draft=flat(3)),
                workers=2,
                policy=policy(k=2),
                rules=RecoveryRules(ping_pong=True),
                faults=faults(fault(CRASH, 0)),
            )
        )
        assert output.last_ps.tolist() == [77, 94]
        assert gaps(output) == sorted(
            [(20, 10), (37, 17), (57, 20), (77, 20), (20, 10), (47, 27), (67, 20), (94, 27)]
        )
        expected = {
            "assisted_passes": 6,
            "ping_pong_passes": 5,
            "plain_assisted_passes": 1,
            "verified_tokens": 18,
            "assisted_ps": 17 + 4 * 10 + 17,
            "draft_busy_ps": 6 + 12 + 4 * 6 + 6,
        }
        assert {name: output.counters[name] for name in expected} == expected

    def test_acceptance_by_position(self, replay: Replay) -> None:
        """First drafts are always accepted, second ones never: two tokens a pass.

        10   draft ready for w1, whose request has one of six tokens; plain → 20 (draft prefill 3)
        20   passes of 17: four tokens at 37, six at 54
        """
        output = replay(
            case(
                [(0, 8, 6)],
                costs(flat(10), draft=flat(3)),
                workers=2,
                policy=policy(k=2),
                acceptance_threshold=np.array([[ALWAYS, 0]], dtype=np.uint64),
                faults=faults(fault(CRASH, 0)),
            )
        )
        assert gaps(output) == [(20, 10), (37, 17), (54, 17)]
        assert (output.counters["drafted_tokens"], output.counters["accepted_tokens"]) == (4, 2)

    @pytest.mark.parametrize("again", [False, True], ids=["idles", "retargets"])
    def test_a_silent_target_is_not_helped(self, replay: Replay, again: bool) -> None:
        """w1 hangs from 5 to 30, unnoticed, as the draft of w0 becomes ready at 10: the drafter idles.

        35   w1: the prefill begun at 0 ends; plain → 45 → 55
        or, choosing again at 35: draft prefill of 3, plain → 45, a pass of 17 for the last token → 62
        """
        output = replay(
            case(
                [(0, 8, 3)],
                costs(flat(10), draft=flat(3)),
                workers=2,
                policy=policy(k=2),
                rules=RecoveryRules(retarget_ps=25 * again),
                faults=faults(fault(CRASH, 0), fault(FaultKind.HANG, 5, 1, delay_ps=90, length_ps=25)),
            )
        )
        assert (output.first_ps[0], output.last_ps[0]) == (35, 62 if again else 55)
        assert output.outage_assist_target[0] == 1
        assert output.counters["draft_busy_ps"] == (3 + 6 if again else 0)
        assert output.counters["retargets"] == 0
