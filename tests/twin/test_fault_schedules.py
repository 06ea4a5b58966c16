"""Schedules of faults, worked out by hand to the picosecond: crashes, silent workers, slow ones and drains.

Each docstring draws its time line. Unless said, an iteration lasts 10, worker 0 serves request 0 from 0 on and a
copy lies at the next worker of the ring.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lumen_policy.replay.contract import (
    NONE,
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
    BOTH,
    case,
    check_tokens,
    costs,
    fault,
    faults,
    flat,
    gaps,
    interruptions,
    ints,
    outages,
    policy,
    rising,
)

Replay = Callable[[ReplayInput], ReplayOutput]

CRASH, HANG, UNREACHABLE = FaultKind.CRASH, FaultKind.HANG, FaultKind.UNREACHABLE
RUNNING, QUEUED, SENT = Interruption.RUNNING, Interruption.QUEUED, Interruption.SENT_AFTER_CRASH
TO_HOLDER = policy(placement=Placement.RING, routing=Routing.HOLDER)


@BOTH
class TestCrashes:
    def test_in_mid_prefill(self, replay: Replay) -> None:
        """INV-35: A prompt of 40 in chunks of 16: the second chunk is lost.

        0    w0: chunk of 16 → 10, chunk of 16 (lost)
        15   w0 crashes; 20 detected, nothing was ever copied
        20   w1: 16 → 30, 16 → 40, 8 and the first token → 50, decode → 60
        """
        output = replay(
            case(
                [(0, 40, 2)],
                costs(flat(10)),
                workers=2,
                token_budget=16,
                policy=TO_HOLDER,
                faults=faults(fault(CRASH, 15, delay_ps=5)),
            )
        )
        assert (output.first_ps[0], output.last_ps[0]) == (50, 60)
        assert interruptions(output) == [(0, RUNNING, 15, 20, 0, 0, 50)]
        assert output.recomputed_tokens[0] == 16
        assert (output.crash_existing_tokens.tolist(), output.crash_saved_tokens.tolist()) == ([16], [0])
        check_tokens(output, sent=0)

    def test_in_mid_prefill_with_a_streamed_copy(self, replay: Replay) -> None:
        """As above, but each chunk is sent at its end.

        10   w0: 16 tokens sent to w1, there at once
        15   w0 crashes; 20 detected, 16 saved
        20   w1: restore of a page → 25, 16 → 35, 8 and the first token → 45, decode → 55
        """
        output = replay(
            case(
                [(0, 40, 2)],
                costs(flat(10)),
                workers=2,
                token_budget=16,
                policy=TO_HOLDER,
                rules=RecoveryRules(stream_prefill=True),
                faults=faults(fault(CRASH, 15, delay_ps=5)),
            )
        )
        assert (output.first_ps[0], output.last_ps[0]) == (45, 55)
        assert interruptions(output) == [(0, RUNNING, 15, 20, 0, 1, 45)]
        assert (output.restored_tokens[0], output.recomputed_tokens[0]) == (16, 0)
        assert (output.held_integral, output.held_end) == (16 * 15, 0)
        check_tokens(output, sent=16, arrived=16, released=16)

    def test_the_holder_first(self, replay: Replay) -> None:
        """INV-35: The copy dies with its holder, and then the server dies.

        10   w0 sends 32 tokens to w1
        15   w1 crashes; 18 detected: no copy any more, and no new holder
        20, 30   w0: two more tokens, nothing sent
        35   w0 crashes; 40 detected
        40   w2: prefill of 35 tokens → 50 (34 known before), → 60
        """
        output = replay(
            case(
                [(0, 32, 5)],
                costs(flat(10)),
                workers=3,
                policy=TO_HOLDER,
                snapshot_ps=ints(17, 18),
                faults=faults(fault(CRASH, 15, 1, delay_ps=3), fault(CRASH, 35, delay_ps=5)),
            )
        )
        assert (output.last_ps[0], output.worker[0], output.holder[0]) == (60, 2, 1)
        assert interruptions(output) == [(0, RUNNING, 35, 40, 3, 0, 50)]
        assert output.recomputed_tokens[0] == 34
        assert output.snapshot_held_tokens.tolist() == [[0, 32, 0], [0, 0, 0]]
        assert (output.held_integral, output.held_end) == (32 * 8, 0)
        assert outages(output) == [
            (1, CRASH, 15, 15, 18, 18 + 1055),
            (0, CRASH, 35, 35, 40, 40 + 1055),
        ]
        check_tokens(output, sent=32, arrived=32, released=32)

    def test_server_and_holder_at_once(self, replay: Replay) -> None:
        """INV-35: Requests 0, 1, 2 on w0, w1, w2, copies at w1, w2, w0; w0 and w1 die together.

        10, 20, 30   a token each, copies of 32, 33, 34
        35   w0 and w1 crash; 40 detected: request 0 lost its copy, request 1 has its own at w2
        40   w2: prefill of request 0 (35 tokens) beside the last token of request 2 → 50;
             restore of request 1 → 47, for the next boundary
        50   w2: last token of request 0, chunk of 3 of request 1 → 60; last token of request 1 → 70
        """
        output = replay(
            case(
                [(0, 32, 5)] * 3,
                costs(flat(10)),
                workers=3,
                policy=TO_HOLDER,
                faults=faults(fault(CRASH, 35, 0, delay_ps=5), fault(CRASH, 35, 1, delay_ps=5)),
            )
        )
        assert output.last_ps.tolist() == [60, 70, 50]
        assert interruptions(output) == [(0, RUNNING, 35, 40, 3, 0, 50), (1, RUNNING, 35, 40, 3, 1, 60)]
        assert output.restored_tokens.tolist() == [0, 32, 0]
        assert output.recomputed_tokens.tolist() == [34, 2, 0]
        assert (output.crash_existing_tokens.tolist(), output.crash_saved_tokens.tolist()) == ([68], [32])

    def test_during_the_restore(self, replay: Replay) -> None:
        """INV-35: The holder dies while it restores.

        35   w0 crashes; 40 detected, 34 tokens at w1
        40   w1: restore → 47, a new copy to be at w2
        45   w1 crashes; 50 detected: the old copy is gone, the new one never got a token
        50   w2: prefill of 35 → 60, → 70
        """
        output = replay(
            case(
                [(0, 32, 5)],
                costs(flat(10)),
                workers=3,
                policy=TO_HOLDER,
                faults=faults(fault(CRASH, 35, delay_ps=5), fault(CRASH, 45, 1, delay_ps=5)),
            )
        )
        assert (output.last_ps[0], output.worker[0], output.holder[0]) == (70, 2, 2)
        assert interruptions(output) == [
            (0, RUNNING, 35, 40, 3, 1, NONE),
            (0, RUNNING, 45, 50, 3, 0, 60),
        ]
        assert (output.interruptions[0], output.restored_tokens[0]) == (2, 0)
        assert output.counters["restores"] == 0
        assert output.recomputed_tokens[0] == 34
        check_tokens(output, sent=34, released=34)

    def test_of_the_drafting_worker(self, replay: Replay) -> None:
        """INV-35: w0 drafts for w1 from 30 on and dies at 60; the pass under way ends as planned.

        15   w0 crashes; 20 detected, request 0 to w1; 30 draft ready
        30   w1: plain → 40 (draft prefill 3 + 3); passes of 10 + 2 · 3 + 1 with three tokens each → 57 → 74
        60   w0 crashes again: its reload begins anew, draft ready at 70, for w1 again
        74   w1: request 1 has all ten tokens; draft prefill of request 0, plain → 84: its last
        """
        output = replay(
            case(
                [(0, 8, 10), (0, 8, 10)],
                costs(flat(10), draft=flat(3)),
                workers=2,
                policy=policy(k=2),
                faults=faults(fault(CRASH, 15, delay_ps=5), fault(CRASH, 60, delay_ps=5)),
            )
        )
        assert output.last_ps.tolist() == [84, 74]
        assert outages(output) == [(0, CRASH, 15, 15, 20, 60 + 5 + 5 + 1000 + 50)]
        assert output.outage_draft_ready_ps.tolist() == [70]
        assert output.outage_assist_target.tolist() == [1]
        assert output.outage_assist_end_ps.tolist() == [1070]
        expected = {
            "assisted_passes": 2,
            "plain_assisted_passes": 2,
            "verified_sequences": 4,
            "verified_tokens": 12,
            "drafted_tokens": 8,
            "assisted_ps": 34,
            "draft_busy_ps": 6 + 6 + 6 + 3,
        }
        assert {name: output.counters[name] for name in expected} == expected

    def test_a_second_while_reloading(self, replay: Replay) -> None:
        """INV-35: The only worker; its second crash takes a repair of 100, a load of 200 and an init of 10.

        15    w0 crashes; 20 detected, would be back at 1075; request 0 (one token) waits at the gateway
        500   w0 crashes again: back at 500 + 310 = 810; request 1 came at 600
        810   both: 9 and 4 tokens → 820, the second token of request 0
        """
        second = fault(CRASH, 500, delay_ps=7, restart_ps=100, load_ps=200, init_ps=10)
        output = replay(
            case(
                [(0, 8, 2), (600, 4, 1)],
                costs(flat(10)),
                faults=faults(fault(CRASH, 15, delay_ps=5), second),
            )
        )
        assert output.last_ps.tolist() == [820, 820]
        assert outages(output) == [(0, CRASH, 15, 15, 20, 810)]
        assert interruptions(output) == [(0, RUNNING, 15, 810, 1, 0, 820)]
        assert output.counters["gateway_waited"] == 2
        assert (output.counters["ignored_faults"], output.end_ps) == (0, 820)

    def test_a_process_crash_keeps_the_copies_of_others(self, replay: Replay) -> None:
        """The holder's process dies and comes back with what it held.

        10   w0 sends 32 tokens to w1
        15   w1 crashes, keeps them; 18 detected, back at 30
        20, 30   w0: two tokens; w1 is dead, at 30 still
        40   w0 sends 3 tokens: 35
        45   w0 crashes; 50 detected: w1 restores 32 → 57, 4 tokens → 67, → 77
        """
        quick = fault(CRASH, 15, 1, delay_ps=3, keeps_copies=1, restart_ps=2, load_ps=5, init_ps=5)
        output = replay(
            case(
                [(0, 32, 6)],
                costs(flat(10)),
                workers=2,
                policy=TO_HOLDER,
                snapshot_ps=ints(17, 19, 30, 39, 41),
                faults=faults(quick, fault(CRASH, 45, delay_ps=5)),
            )
        )
        assert output.snapshot_held_tokens[:, 1].tolist() == [32, 32, 32, 32, 35]
        assert gaps(output) == [(20, 10), (30, 10), (40, 10), (67, 27), (77, 10)]
        assert (output.restored_tokens[0], output.recomputed_tokens[0]) == (32, 3)
        check_tokens(output, sent=35, arrived=35, released=35)

    def test_refused_connections(self, replay: Replay) -> None:
        """INV-35: The gateway notices at once that w0 refuses, but gives it up only after the second refusal.

        15   w0 crashes and reloads (→ 1070); Q = 0, 1: request 0 is refused there, goes to w1
        16   request 2: Q = 0, 2: refused at w0, which is given up; to w1
        17   request 3: to w1
        20   w1: prefill of 9, 4 and 4 beside a decode → 30; request 0 goes on → 40, 50, 60
        """
        output = replay(
            case(
                [(0, 8, 5), (0, 8, 20), (16, 4, 1), (17, 4, 1)],
                costs(flat(10)),
                workers=2,
                snapshot_ps=ints(16),
                faults=faults(fault(CRASH, 15, refusals=2)),
            )
        )
        assert output.counters["refused_sends"] == 2
        assert output.counters["sent_after_crash"] == 0
        assert output.worker.tolist() == [1, 1, 1, 1]
        assert output.dispatch_ps.tolist() == [0, 0, 16, 17]
        assert output.last_ps.tolist() == [60, 200, 30, 30]
        assert interruptions(output) == [(0, RUNNING, 15, 15, 1, 0, 30)]
        assert output.snapshot_queue.tolist() == [[0, 2]]
        assert outages(output) == [(0, CRASH, 15, 15, 15, 1070)]


@BOTH
class TestSilence:
    def test_a_hang_is_detected(self, replay: Replay) -> None:
        """INV-35: Request 0 on w0, request 1 on w1, both from 0; request 2 joins w0 at 17.

        10   w0 sends 32 tokens to w1
        15   w0 hangs for ever; 40 detected, killed, back at 40 + 1055
        40   w1: restore of request 0 → 47; prefill of request 2 → 50, its only token
        50   w1: request 0 decodes (one token was missing) → 60, 70, 80, 90; request 1 ends at 100
        """
        output = replay(
            case(
                [(0, 32, 5), (0, 8, 10), (17, 4, 1)],
                costs(flat(10)),
                workers=2,
                policy=TO_HOLDER,
                faults=faults(fault(HANG, 15, delay_ps=25, length_ps=NONE)),
            )
        )
        assert output.last_ps.tolist() == [90, 100, 50]
        assert interruptions(output) == [(0, RUNNING, 15, 40, 1, 1, 60), (2, SENT, 15, 40, 0, 0, 50)]
        assert outages(output) == [(0, HANG, 15, 15, 40, 1095)]
        assert output.counters["sent_after_crash"] == 1
        assert (output.crash_existing_tokens.tolist(), output.crash_saved_tokens.tolist()) == ([32], [32])
        assert output.recomputed_tokens.tolist() == [0, 0, 0]

    @pytest.mark.parametrize("kind", [HANG, UNREACHABLE])
    def test_back_before_its_detection(self, replay: Replay, kind: FaultKind) -> None:
        """INV-35: Request 0 on w0, request 1 on w1, both from 0; request 2 joins w0 at 17.

        10   each sends its first copy: 32 to w1, 8 to w0
        15   w0 is silent until 35; 45 would be its detection
        20, 30   w1: two tokens of request 1, not sent
        40   w0: the iteration begun at 10 ends 20 late; w1 sends 11 - 8 = 3
        40   w0: decode and prefill of request 2 → 50; → 60, 70
        """
        output = replay(
            case(
                [(0, 32, 5), (0, 8, 10), (17, 4, 1)],
                costs(flat(10)),
                workers=2,
                policy=TO_HOLDER,
                snapshot_ps=ints(25, 36, 41),
                faults=faults(fault(kind, 15, delay_ps=30, length_ps=20)),
            )
        )
        assert output.first_ps.tolist() == [10, 10, 50]
        assert output.last_ps.tolist() == [70, 100, 50]
        assert interruptions(output) == []
        assert (40, 30) in gaps(output)
        assert output.snapshot_held_tokens.tolist() == [[8, 32], [8, 32], [11, 33]]
        assert output.outage_detection_ps.tolist() == [NONE]
        assert output.end_ps == 100

    def test_unreachable_and_back(self, replay: Replay) -> None:
        """INV-35: The path to w0 is gone from 15 to 115; 25 detected; it keeps the copy of request 1.

        10   copies of 32 at w1 and of 16 at w0
        25   w0 is away: request 0 to w1, admitted at 30: restore → 37, decodes → 50, 60, 70, 80
        115  w0 is back, empty, with 16 tokens of request 1
        116  request 2 to w0 → 126
        120  w1 sends 27 - 16 = 11 tokens of request 1
        """
        output = replay(
            case(
                [(0, 32, 5), (0, 16, 20), (116, 4, 1)],
                costs(flat(10)),
                workers=2,
                policy=TO_HOLDER,
                snapshot_ps=ints(24, 60, 115, 120),
                faults=faults(fault(UNREACHABLE, 15, delay_ps=10, length_ps=100)),
            )
        )
        assert output.last_ps.tolist() == [80, 200, 126]
        assert output.worker.tolist() == [1, 1, 0]
        assert interruptions(output) == [(0, RUNNING, 15, 25, 1, 1, 50)]
        assert outages(output) == [(0, UNREACHABLE, 15, 15, 25, 115)]
        assert output.snapshot_held_tokens.tolist() == [[16, 32], [16, 0], [16, 0], [27, 0]]
        assert output.end_ps == 200

    def test_back_at_its_detection(self, replay: Replay) -> None:
        """Unreachable from 15 to 25, detected at 25: first its request is sent on, then it is back, empty.

        25   request 0 (9 tokens) to w1, where request 1 runs: admitted at 30 → 40, → 50
        25   request 2 to w0: Q = 0, 2 → 35
        """
        output = replay(
            case(
                [(0, 8, 3), (0, 8, 9), (25, 4, 1)],
                costs(flat(10)),
                workers=2,
                faults=faults(fault(UNREACHABLE, 15, delay_ps=10, length_ps=10)),
            )
        )
        assert output.last_ps.tolist() == [50, 90, 35]
        assert output.worker.tolist() == [1, 1, 0]
        assert outages(output) == [(0, UNREACHABLE, 15, 15, 25, 25)]

    def test_a_crash_of_an_absent_worker_reloads_it(self, replay: Replay) -> None:
        """Away from 20 on, until 1015 for itself; the crash at 100 starts a reload: back at 1155.

        15    silent; 20 detected: request 0 waits at the gateway
        1155  prefill of 9 tokens → 1165, the second of two
        """
        output = replay(
            case(
                [(0, 8, 2)],
                costs(flat(10)),
                faults=faults(
                    fault(UNREACHABLE, 15, delay_ps=5, length_ps=1000), fault(CRASH, 100, delay_ps=5)
                ),
            )
        )
        assert output.last_ps[0] == 1165
        assert outages(output) == [(0, UNREACHABLE, 15, 15, 20, 1155)]

    def test_faults_of_a_dead_worker_are_ignored(self, replay: Replay) -> None:
        """Of a reloading worker: a hang, a loss of its path and two drains, all counted, nothing else."""
        crash = fault(CRASH, 15, delay_ps=5)
        others = [fault(kind, 30, length_ps=5) for kind in (HANG, UNREACHABLE, FaultKind.DRAIN)]
        migrate = fault(FaultKind.MIGRATE, 1074)
        output = replay(case([(0, 8, 2)], costs(flat(10)), faults=faults(crash, *others, migrate)))
        assert output.last_ps[0] == 1085
        assert outages(output) == [(0, CRASH, 15, 15, 20, 1075)]
        assert output.counters["ignored_faults"] == 4


@BOTH
class TestSlowWorkers:
    def test_iterations_that_start_in_time_are_slow(self, replay: Replay) -> None:
        """INV-35: One and a half times as long from 15 to 35: 0 → 10 → 20 → 35 → 45."""
        slow = fault(FaultKind.SLOW, 15, length_ps=20, factor_ppm=1_500_000)
        output = replay(case([(0, 8, 4)], costs(flat(10)), faults=faults(slow)))
        assert output.first_ps[0] == 10
        assert gaps(output) == [(20, 10), (35, 15), (45, 10)]
        assert outages(output) == []

    def test_every_coefficient_is_rounded_down(self, replay: Replay) -> None:
        """Costs 100 + 10 a token + 5 a row + 1 a pair + 1 a context token + 3 a sequence, half as much again.

        0    6 tokens: 240, 21 pairs: 21, a row: 7 → 268
        268  a token: 165, a row: 7, 7 of context: 7, a sequence: 4 → 451; with 8 of context → 635
        """
        slow = fault(FaultKind.SLOW, 0, length_ps=1000, factor_ppm=1_500_000)
        output = replay(case([(0, 6, 3)], costs(rising()), faults=faults(slow)))
        assert output.first_ps[0] == 268
        assert gaps(output) == [(451, 183), (635, 184)]

    def test_a_later_slow_fault_replaces_an_earlier(self, replay: Replay) -> None:
        """Three times from 5 on, for long; twice from 35 to 45: 0 → 10 → 40 → 60 → 70: full speed at 60."""
        first = fault(FaultKind.SLOW, 5, length_ps=1000, factor_ppm=3_000_000)
        second = fault(FaultKind.SLOW, 35, length_ps=10, factor_ppm=2_000_000)
        output = replay(case([(0, 8, 4)], costs(flat(10)), faults=faults(first, second)))
        assert gaps(output) == [(40, 30), (60, 20), (70, 10)]


@BOTH
class TestDrains:
    def test_the_last_request_is_finished(self, replay: Replay) -> None:
        """INV-35: w0 takes nothing from 15 on, ends its request at 40, is worked on for 60 and reloads.

        20   request 2 to w1, though Q = 1, 1 → 30
        39   copies: 18 tokens of request 1 at w0, 18 of request 0 at w1
        40   request 0 ends, its copy goes; w0 stops, the copy there goes
        100  reload → 1155
        """
        output = replay(
            case(
                [(0, 16, 4), (0, 16, 8), (20, 16, 1)],
                costs(flat(10)),
                workers=2,
                policy=TO_HOLDER,
                snapshot_ps=ints(39, 40),
                faults=faults(fault(FaultKind.DRAIN, 15, length_ps=60)),
            )
        )
        assert output.last_ps.tolist() == [40, 80, 30]
        assert output.worker.tolist() == [0, 1, 1]
        assert interruptions(output) == []
        assert outages(output) == [(0, FaultKind.DRAIN, 15, 40, 15, 1155)]
        assert output.snapshot_held_tokens.tolist() == [[18, 18], [0, 0]]
        assert output.snapshot_live.tolist() == [[1, 1], [0, 1]]
        assert output.counters["migrated"] == 0
        check_tokens(output, sent=19 + 18, arrived=37, released=37)

    def test_an_idle_worker_stops_at_once(self, replay: Replay) -> None:
        """Nothing runs on w1 at 15: it stops, and is back 7 + 1055 later."""
        output = replay(
            case(
                [(0, 16, 4)],
                costs(flat(10)),
                workers=2,
                faults=faults(fault(FaultKind.DRAIN, 15, 1, length_ps=7)),
            )
        )
        assert outages(output) == [(1, FaultKind.DRAIN, 15, 15, 15, 15 + 7 + 1055)]
        assert output.last_ps[0] == 40

    def test_with_migration(self, replay: Replay) -> None:
        """INV-35: One place a batch, round robin: requests 0 and 2 on w0, request 1 on w1; w0 is emptied at 25.

        20   33 tokens of request 0 at w1
        25   request 0 to w1 to restore, request 2 there to begin; w0 stops, reloads from 65 on
        40   request 1 ends; restore → 47, 2 tokens → 57, → 67, 77; request 2 → 87
        """
        output = replay(
            case(
                [(0, 32, 5), (0, 16, 4), (0, 16, 1)],
                costs(flat(10)),
                workers=2,
                max_batch=1,
                router=Router.ROUND_ROBIN,
                policy=TO_HOLDER,
                faults=faults(fault(FaultKind.MIGRATE, 25, length_ps=40)),
            )
        )
        assert output.last_ps.tolist() == [77, 40, 87]
        assert interruptions(output) == [(0, RUNNING, 25, 25, 2, 1, 57), (2, QUEUED, 25, 25, 0, 0, 87)]
        assert output.counters["migrated"] == 2
        assert output.counters["sent_after_crash"] == 0
        assert outages(output) == [(0, FaultKind.MIGRATE, 25, 25, 25, 65 + 1055)]
        assert (output.restored_tokens[0], output.recomputed_tokens[0]) == (32, 1)
