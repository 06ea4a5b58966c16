"""Schedules of checkpoint copies, worked out by hand: links, holders, full memory, restores.

Each docstring draws its time line. Unless said, worker 0 serves request 0 from 0 on and a copy lies at the next
worker of the ring.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lumen_policy.replay.contract import (
    EvictionOrder,
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
    check_tokens,
    costs,
    fault,
    faults,
    flat,
    gaps,
    interruptions,
    ints,
    policy,
    transfers,
)

Replay = Callable[[ReplayInput], ReplayOutput]

CRASH, RUNNING = FaultKind.CRASH, Interruption.RUNNING
TO_HOLDER = policy(placement=Placement.RING, routing=Routing.HOLDER)
NEVER_TO_HOLDER = policy(placement=Placement.RING, routing=Routing.LOAD_AWARE, theta=-1)
AGE = 2**30  # picoseconds in which a copy ages by one


@BOTH
class TestLinks:
    @pytest.mark.parametrize("arrived", [False, True], ids=["in flight", "just arrived"])
    def test_a_crash_with_bytes_in_flight(self, replay: Replay, arrived: bool) -> None:
        """INV-35: Iterations of 100; egress 2 + 1 a token, ingress 1 a token.

        100  w0 sends 32 tokens: off the egress link at 134, at w1 at 166
        165  w0 crashes: all lost; 170 detected; w1: prefill of 33 → 270, → 370
        or 166: there, before the crash; 171 detected; restore → 178, the missing token is decoded → 278, → 378
        """
        links = transfers(egress_latency_ps=2, egress_token_ps=1, ingress_token_ps=1)
        crash_ps = 165 + arrived
        output = replay(
            case(
                [(0, 32, 3)],
                costs(flat(100), transfers=links),
                workers=2,
                policy=TO_HOLDER,
                faults=faults(fault(CRASH, crash_ps, delay_ps=5)),
            )
        )
        end_ps = 278 if arrived else 270
        assert gaps(output) == [(end_ps, end_ps - 100), (end_ps + 100, 100)]
        assert interruptions(output) == [(0, RUNNING, crash_ps, crash_ps + 5, 1, int(arrived), end_ps)]
        assert output.recomputed_tokens[0] == (0 if arrived else 32)
        assert output.crash_saved_tokens.tolist() == [32 * arrived]
        check_tokens(output, sent=32, arrived=32 * arrived, lost=32 * (not arrived))

    def test_what_has_left_is_lost_too(self, replay: Replay) -> None:
        """As above, and the third token's KV is between the links when w0 crashes.

        200  sent 1: off at 203, there at 204 (33)
        300  sent 1: off at 303
        303  w0 crashes: lost; 310 detected: w1 restores 32 → 317, 3 tokens (2 known) → 417, the last
        """
        links = transfers(egress_latency_ps=2, egress_token_ps=1, ingress_token_ps=1)
        output = replay(
            case(
                [(0, 32, 4)],
                costs(flat(100), transfers=links),
                workers=2,
                policy=TO_HOLDER,
                snapshot_ps=ints(165, 166, 203, 204, 309),
                faults=faults(fault(CRASH, 303, delay_ps=7)),
            )
        )
        assert gaps(output) == [(200, 100), (300, 100), (417, 117)]
        assert output.snapshot_held_tokens[:, 1].tolist() == [0, 32, 32, 33, 33]
        assert output.recomputed_tokens[0] == 2
        check_tokens(output, sent=34, arrived=33, lost=1, released=33)

    def test_the_egress_link_backs_up(self, replay: Replay) -> None:
        """INV-35: Iterations of 100; egress 10 + 5 a token, ingress 1 a token. Request 2 is admitted at 100.

        100  request 0: 32 tokens sent, off at 270, there at 302
        200  request 2: 16 sent, off at 270 + 10 + 80 = 360 (70 late), there at 376; request 0's are under way
        300  both under way
        400  3 tokens of request 0 and 2 of request 2: off at 435, there at 440
        """
        links = transfers(egress_latency_ps=10, egress_token_ps=5, ingress_token_ps=1)
        output = replay(
            case(
                [(0, 32, 5), (50, 1, 1), (50, 16, 4)],
                costs(flat(100), transfers=links),
                workers=2,
                router=Router.ROUND_ROBIN,
                policy=TO_HOLDER,
                snapshot_ps=ints(301, 302, 375, 376, 439, 440),
            )
        )
        assert output.worker.tolist() == [0, 1, 0]
        assert output.snapshot_held_tokens[:, 1].tolist() == [0, 32, 32, 48, 48, 53]
        assert (output.counters["egress_wait_ps"], output.counters["ingress_wait_ps"]) == (70, 0)
        check_tokens(output, sent=53, arrived=53, released=53)

    def test_two_servers_share_an_ingress_link(self, replay: Replay) -> None:
        """w0 and w1 are one domain, both copies go to w2; ingress 1 a token.

        100  32 tokens each: there at 132 and, 32 late, at 164
        200  a token each: at 201 and 202
        """
        output = replay(
            case(
                [(0, 32, 3), (0, 32, 3), (0, 1, 1)],
                costs(flat(100), transfers=transfers(ingress_token_ps=1)),
                workers=3,
                policy=TO_HOLDER,
                rules=RecoveryRules(anti_affinity=True, domain=ints(0, 0, 1)),
                snapshot_ps=ints(131, 132, 163, 164, 200, 201, 202),
            )
        )
        assert output.holder.tolist() == [2, 2, 0]
        assert output.snapshot_held_tokens[:, 2].tolist() == [0, 32, 32, 64, 64, 65, 66]
        assert output.counters["ingress_wait_ps"] == 32

    def test_what_is_under_way_for_a_finished_request_is_lost(self, replay: Replay) -> None:
        """A latency of 150: sent at 100, the request ends at 200."""
        output = replay(
            case(
                [(0, 32, 2)],
                costs(flat(100), transfers=transfers(egress_latency_ps=150)),
                workers=2,
                policy=TO_HOLDER,
            )
        )
        assert (output.last_ps[0], output.end_ps, output.held_integral) == (200, 200, 0)
        check_tokens(output, sent=32, arrived=0, lost=32)


@BOTH
class TestHolders:
    def test_a_second_replica_saves_the_day(self, replay: Replay) -> None:
        """INV-35: Copies at w1 and w2; server and first holder die together.

        35   w0 and w1 crash with 34 tokens at each holder; 40 detected
        40   w2: restore of 32 → 47, 3 tokens → 57, → 67
        """
        output = replay(
            case(
                [(0, 32, 5)],
                costs(flat(10)),
                workers=3,
                policy=TO_HOLDER,
                rules=RecoveryRules(second_replica=True),
                snapshot_ps=ints(34),
                faults=faults(fault(CRASH, 35, 0, delay_ps=5), fault(CRASH, 35, 1, delay_ps=5)),
            )
        )
        assert (output.last_ps[0], output.worker[0]) == (67, 2)
        assert output.snapshot_held_tokens.tolist() == [[0, 34, 34]]
        assert interruptions(output) == [(0, RUNNING, 35, 40, 3, 1, 57)]
        assert output.crash_saved_tokens.tolist() == [32]
        check_tokens(output, sent=68, arrived=68, released=68)

    def test_a_second_replica_avoids_the_domain_of_the_first(self, replay: Replay) -> None:
        """w1 holds the first copy; w2 shares its domain, so the second goes to w3."""
        output = replay(
            case(
                [(0, 32, 3)],
                costs(flat(10)),
                workers=4,
                policy=TO_HOLDER,
                rules=RecoveryRules(second_replica=True, domain=ints(0, 1, 1, 2)),
                snapshot_ps=ints(10),
            )
        )
        assert output.snapshot_held_tokens.tolist() == [[0, 32, 0, 32]]

    def test_re_replicate(self, replay: Replay) -> None:
        """INV-35: The holder dies; the copy is made anew before the server dies.

        10   32 tokens to w1; 15 w1 crashes; 18 detected: the new holder is w2
        20   all 33 tokens to w2; 30: the 34th
        35   w0 crashes; 40 detected: w2 restores 32 → 47, 3 tokens → 57, → 67
        """
        output = replay(
            case(
                [(0, 32, 5)],
                costs(flat(10)),
                workers=3,
                policy=TO_HOLDER,
                rules=RecoveryRules(re_replicate=True),
                snapshot_ps=ints(19, 20),
                faults=faults(fault(CRASH, 15, 1, delay_ps=3), fault(CRASH, 35, delay_ps=5)),
            )
        )
        assert (output.last_ps[0], output.worker[0], output.holder[0]) == (67, 2, 2)
        assert output.snapshot_held_tokens.tolist() == [[0, 0, 0], [0, 0, 33]]
        check_tokens(output, sent=66, arrived=66, released=66)

    def test_the_second_takes_the_place_of_a_lost_first(self, replay: Replay) -> None:
        """Copies at w1 and w2; w1 dies at 15, known at 18: w2's is the first, a new second goes to w3.

        20   33 tokens at w2, 33 at w3
        """
        output = replay(
            case(
                [(0, 32, 5)],
                costs(flat(10)),
                workers=4,
                policy=TO_HOLDER,
                rules=RecoveryRules(second_replica=True, re_replicate=True),
                snapshot_ps=ints(17, 19, 20),
                faults=faults(fault(CRASH, 15, 1, delay_ps=3)),
            )
        )
        assert output.snapshot_held_tokens.tolist() == [[0, 32, 32, 0], [0, 0, 32, 0], [0, 0, 33, 33]]

    def test_old_load_reports(self, replay: Replay) -> None:
        """Holders by H alone; reports at 0, 25, 50, ...; requests 0 to 3 on w0, w1, w2, w2.

        0    request 0 to hold at w1 (lowest of none); 3: request 1 at w0
        10   w1 holds 16; 13: w0 holds 32
        20   request 2: w0 and w1 both hold 0 as last reported: w0 (exactly: w1)
        25   report: w0 holds 33, w1 17
        31   request 3: w1
        """
        least_held = policy(
            placement=Placement.LOAD_AWARE, routing=Routing.LOAD_AWARE, token_weight=1, request_weight=0
        )
        inputs = case(
            [(0, 16, 9), (3, 32, 9), (20, 16, 1), (31, 16, 1)],
            costs(flat(10)),
            workers=3,
            policy=least_held,
        )
        exact, stale = replay(inputs), replay(replace(inputs, rules=RecoveryRules(load_report_ps=25)))
        assert exact.worker.tolist() == stale.worker.tolist() == [0, 1, 2, 2]
        assert exact.holder.tolist() == [1, 0, 1, 1]
        assert stale.holder.tolist() == [1, 0, 0, 1]
        assert stale.end_ps == exact.end_ps


def three_copies_at_one_holder(order: EvictionOrder) -> ReplayInput:
    """Five pages at w3 for requests 0, 1, 2 of w0, w1, w2; instants in units of 2³⁰ ps.

    Request 0 (prompt 16): 16 at 10, then 17, 18 at 20, 30. Request 1 (32): at 13, 23, 33. Request 2 (31): at 16,
    26, 36. At 16 they take 1 + 2 + 2 pages.
    """
    return case(
        [(0, 16, 4), (3 * AGE, 32, 4), (6 * AGE, 31, 4), (6 * AGE, 1, 1)],
        costs(flat(10 * AGE)),
        workers=4,
        policy=policy(placement=Placement.RING, routing=Routing.HOLDER, budget_pages=5),
        rules=RecoveryRules(eviction=int(order), anti_affinity=True, domain=ints(0, 0, 0, 1)),
        snapshot_ps=ints(16 * AGE, 24 * AGE, 37 * AGE),
    )


@BOTH
class TestFullCheckpointMemory:
    def test_refuse(self, replay: Replay) -> None:
        """Request 0 stays at 16 tokens and request 1 at 32, whose pages are full; request 2 fills its page to 32."""
        output = replay(three_copies_at_one_holder(EvictionOrder.REFUSE))
        assert output.snapshot_held_tokens[:, 3].tolist() == [79, 79, 80]
        check_tokens(output, sent=80, refused=0, evicted=0)

    def test_least_recent(self, replay: Replay) -> None:
        """INV-35: At 20 request 0 wants a page: of 13 and 16, the copy that grew at 13 goes (32 tokens).

        24   17 + 31; 26: 32; 30: 18; 36: 33 with the free page
        """
        output = replay(three_copies_at_one_holder(EvictionOrder.LEAST_RECENT))
        assert output.snapshot_held_tokens[:, 3].tolist() == [79, 48, 51]
        assert output.counters["evictions"] == 1
        check_tokens(output, sent=83, refused=0, evicted=32, released=51)

    def test_shortest(self, replay: Replay) -> None:
        """INV-35: At 20 none is shorter than 17 tokens: one refused. At 23 request 1 (33) evicts the 16 of 0.

        26   request 2: 32; 33: request 1: 34
        36   request 2 wants 33, but 34 is not shorter: one refused
        """
        output = replay(three_copies_at_one_holder(EvictionOrder.SHORTEST))
        assert output.snapshot_held_tokens[:, 3].tolist() == [79, 33 + 31, 34 + 32]
        assert output.counters["evictions"] == 1
        check_tokens(output, sent=84, refused=2, evicted=16, released=66)

    def test_weighted(self, replay: Replay) -> None:
        """INV-35: Tokens by age, a copy's age counting from 1 at 0, 3, 6.

        20   17/21 for request 0 against 32/18 and 31/15: one refused
        23   33/21 for request 1 against 16/24: evicted (31/18 is not less)
        36   33/31 for request 2 against 34/34: evicted
        """
        output = replay(three_copies_at_one_holder(EvictionOrder.WEIGHTED))
        assert output.snapshot_held_tokens[:, 3].tolist() == [79, 33 + 31, 33]
        assert output.counters["evictions"] == 2
        check_tokens(output, sent=84, refused=1, evicted=16 + 34, released=33)


@BOTH
class TestRestores:
    @pytest.mark.parametrize("source_dies", [False, True], ids=["done", "source dies"])
    def test_from_another_worker(self, replay: Replay, source_dies: bool) -> None:
        """INV-35: Request 0 on w0, copy at w1, where request 1 runs until 50; restored over the network at the idle w2.

        35   w0 crashes; 40 detected: L is 34 + 16 at w1, 11 at w2, which restores two pages from w1 → 70
        70   3 tokens → 80, → 90
        or   60 w1 crashes: nothing restored; w2: prefill of 35 → 70, → 80
        """
        crashes = [fault(CRASH, 35, delay_ps=5)]
        if source_dies:
            crashes.append(fault(CRASH, 60, 1, delay_ps=5))
        output = replay(
            case(
                [(0, 32, 5), (0, 8, 5)],
                costs(flat(10), transfers=transfers()),
                workers=3,
                policy=NEVER_TO_HOLDER,
                rules=RecoveryRules(remote_restore=True),
                faults=faults(*crashes),
            )
        )
        first_ps = 70 if source_dies else 80
        assert output.last_ps.tolist() == [first_ps + 10, 50]
        assert output.worker.tolist() == [2, 1]
        assert interruptions(output) == [(0, RUNNING, 35, 40, 3, 1, first_ps)]
        assert output.restored_tokens[0] == (0 if source_dies else 32)
        assert output.recomputed_tokens[0] == (34 if source_dies else 2)
        assert output.counters["restores"] == (not source_dies)
        check_tokens(output)

    def test_over_the_network_one_after_the_other(self, replay: Replay) -> None:
        """Requests 0 and 3 on w0, copies at w1: w2's host link and w1's NIC carry one restore at a time.

        35   w0 crashes; 40 detected: L is 68 + 32 at w1, 22 and then 38 at w2: both go to w2
        40   restore of request 0 → 70, then of request 3 → 100
        70   request 0: 3 tokens → 80, → 90; 100: request 3: 3 tokens → 110, → 120
        """
        output = replay(
            case(
                [(0, 32, 5), (0, 8, 30), (0, 4, 1)] * 2,
                costs(flat(10), transfers=transfers()),
                workers=3,
                router=Router.ROUND_ROBIN,
                policy=NEVER_TO_HOLDER,
                rules=RecoveryRules(remote_restore=True),
                faults=faults(fault(CRASH, 35, delay_ps=5)),
            )
        )
        assert output.worker[[0, 3]].tolist() == [2, 2]
        assert output.last_ps[[0, 3]].tolist() == [90, 120]
        assert output.restored_tokens[[0, 3]].tolist() == [32, 32]

    def test_one_source_restores_at_two_workers(self, replay: Replay) -> None:
        """Requests 0 and 4 on w0, copies at w1; L is Q: 2 on w1, 0 on w2 and w3.

        35   w0 crashes; 40 detected: request 0 to w2, request 4 to w3
        40   w2 restores two pages from w1 → 70; then w1's NIC is free for w3 → 100
        70   w2: 3 tokens → 80, → 90; 100: w3: 3 tokens → 110, → 120
        """
        by_queue = replace(NEVER_TO_HOLDER, token_weight=0, request_weight=1)
        output = replay(
            case(
                [(0, 32, 5), (0, 8, 30), (0, 4, 1), (0, 4, 1)] * 2,
                costs(flat(10), transfers=transfers()),
                workers=4,
                router=Router.ROUND_ROBIN,
                policy=by_queue,
                rules=RecoveryRules(remote_restore=True),
                faults=faults(fault(CRASH, 35, delay_ps=5)),
            )
        )
        assert output.worker[[0, 4]].tolist() == [2, 3]
        assert output.last_ps[[0, 4]].tolist() == [90, 120]
        assert output.counters["remote_restores"] == 2

    def test_from_the_store(self, replay: Replay) -> None:
        """INV-35: Iterations of 100; the store takes 4 + 1 a token and gives two pages in 35.

        100  32 tokens, there at 136; 200 and 300: one each, there 5 later
        340  w0 crashes; 350 detected: w1 restores from the store → 385
        385  3 tokens → 485: 35 tokens sent anew, there at 524; → 585
        """
        output = replay(
            case(
                [(0, 32, 5)],
                costs(flat(100), transfers=transfers(store_latency_ps=4, store_token_ps=1)),
                workers=2,
                policy=policy(placement=Placement.STORE, routing=Routing.ANYWHERE),
                snapshot_ps=ints(340),
                faults=faults(fault(CRASH, 340, delay_ps=10)),
            )
        )
        assert gaps(output) == [(200, 100), (300, 100), (485, 185), (585, 100)]
        assert output.restored_tokens[0] == 32
        assert output.snapshot_held_tokens.tolist() == [[0, 0]]
        check_tokens(output, sent=69, arrived=69, released=69)

    def test_that_fails(self, replay: Replay) -> None:
        """As soon as it ends: 40 → 47, nothing; prefill of all 35 → 57 (34 known), → 67; the copy is gone."""
        output = replay(
            case(
                [(0, 32, 5)],
                costs(flat(10)),
                workers=2,
                policy=TO_HOLDER,
                rules=RecoveryRules(restore_failure=ALWAYS),
                faults=faults(fault(CRASH, 35, delay_ps=5)),
            )
        )
        assert gaps(output) == [(20, 10), (30, 10), (57, 27), (67, 10)]
        assert (output.restored_tokens[0], output.recomputed_tokens[0]) == (0, 34)
        assert (output.counters["restores"], output.counters["failed_restores"]) == (0, 1)
        assert output.held_integral == 32 * 10 + 33 * 10 + 34 * 17
