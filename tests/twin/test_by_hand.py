"""The twin against schedules worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lumen_policy.replay.contract import NONE, Interruption, Placement, Routing, Scheduler

from .by_hand import case, costs, flat, gaps, ints, one_crash, policy, rising
from .simulation import replay


class TestByHand:
    def test_chunked_prefill(self) -> None:
        """Prompt 6 at a token budget of 4.

        0 → 150: 4 tokens, 10 pairs. → 286: 2 tokens, 2·4 + 3 = 11 pairs, 1 row, first token.
        → 411: a decode reading 7. → 537: a decode reading 8.
        """
        output = replay(case([(0, 6, 3)], costs(rising()), token_budget=4))
        assert (output.first_ps[0], output.last_ps[0]) == (286, 537)
        assert gaps(output) == [(411, 125), (537, 126)]
        assert output.counters["iterations"] == 4
        assert output.end_ps == 537

    def test_chunks_of_two_requests_share_the_budget(self) -> None:
        """As above, and a request of prompt 3 and output 1 that comes at 150.

        150 → 309: chunks of 2 and 2, 11 + 3 pairs, 1 row. → 452: a decode reading 7 and the last token of the
        second prompt (3 pairs), 2 rows. → 578: a decode reading 8.
        """
        output = replay(case([(0, 6, 3), (150, 3, 1)], costs(rising()), token_budget=4))
        assert output.first_ps.tolist() == [309, 452]
        assert output.last_ps.tolist() == [578, 452]

    def test_prefill_first(self) -> None:
        """As above with prefill alone first: the decode waits for the second prompt.

        309 → 427: 1 token after 2: 100 + 10 + 3 pairs + 5 = 118. → 552 and → 678: decodes reading 7 and 8.
        """
        output = replay(
            case(
                [(0, 6, 3), (150, 3, 1)],
                costs(rising()),
                token_budget=4,
                scheduler=Scheduler.PREFILL_FIRST,
            )
        )
        assert output.first_ps.tolist() == [309, 427]
        assert output.last_ps.tolist() == [678, 427]

    @pytest.mark.parametrize("crash_ps", [20, 25])
    def test_crash_in_decode_recomputes(self, crash_ps: int) -> None:
        """Iterations of 10: tokens at 10 and 20 (at the very crash too); the third in flight is lost.

        Detected at 30; worker 1 prefills 8 + 2 tokens → 40, whose KV had existed but for one; → 50.
        """
        output = replay(case([(0, 8, 4)], costs(flat(10)), workers=2, **one_crash(crash_ps, 30 - crash_ps)))
        assert (output.first_ps[0], output.last_ps[0], output.worker[0]) == (10, 50, 1)
        assert gaps(output) == [(20, 10), (40, 20), (50, 10)]
        assert output.recomputed_tokens[0] == 9
        assert output.interruption_class.tolist() == [Interruption.RUNNING]
        assert output.interruption_crash_ps.tolist() == [crash_ps]
        assert output.interruption_redispatch_ps.tolist() == [30]
        assert output.interruption_delivered.tolist() == [2]
        assert output.interruption_next_ps.tolist() == [40]
        assert output.outage_rejoin_ps.tolist() == [30 + 5 + 1000 + 50]
        assert output.end_ps == 1085
        assert (output.crash_existing_tokens.tolist(), output.crash_saved_tokens.tolist()) == ([9], [0])

    def test_crash_with_restore(self) -> None:
        """Tokens at 10, 20, 30; the copy at worker 1 grows 32, 33, 34. Crash at 35, detected at 40.

        Restore of 2 pages → 47; the other 3 tokens → 57, two of them known before; → 67.
        """
        output = replay(
            case(
                [(0, 32, 5)],
                costs(flat(10)),
                workers=2,
                policy=policy(placement=Placement.RING, routing=Routing.HOLDER),
                snapshot_ps=ints(30, 46),
                **one_crash(35, 5),
            )
        )
        assert gaps(output) == [(20, 10), (30, 10), (57, 27), (67, 10)]
        assert (output.restored_tokens[0], output.recomputed_tokens[0]) == (32, 2)
        assert output.interruption_restored.tolist() == [1]
        assert output.snapshot_held_tokens.tolist() == [[0, 34], [0, 34]]
        assert (output.crash_existing_tokens.tolist(), output.crash_saved_tokens.tolist()) == ([34], [32])
        assert (output.held_end, output.held_integral) == (0, 32 * 10 + 33 * 10 + 34 * 17)
        assert output.holder[0] == 1

    def test_restore_of_all_but_one_token_decodes_at_once(self) -> None:
        """One token at 10, copy 32; crash at 15, known at 20, restored at 27, decode → 37: no recompute."""
        output = replay(
            case(
                [(0, 32, 5)],
                costs(flat(10)),
                workers=2,
                policy=policy(placement=Placement.RING, routing=Routing.HOLDER),
                **one_crash(15, 5),
            )
        )
        assert gaps(output) == [(37, 27), (47, 10), (57, 10), (67, 10)]
        assert output.recomputed_tokens[0] == 0
        assert output.counters["prefill_tokens"] == 32

    def test_preemption(self) -> None:
        """Two requests of 16 + 20 tokens in 4 pages: at 17 tokens each (170) both want a third page.

        The second goes; the first ends at 200; the second prefills 33 tokens → 210, → 220, → 230.
        """
        output = replay(case([(0, 16, 20), (0, 16, 20)], costs(flat(10), pool_pages=4)))
        assert output.last_ps.tolist() == [200, 230]
        assert output.preemptions.tolist() == [0, 1]
        assert output.recomputed_tokens.tolist() == [0, 32]
        assert (210, 40) in gaps(output)

    def test_drafted_passes(self) -> None:
        """Worker 0 dies at 15, known at 20, and drafts from 30 on; every draft is accepted.

        Worker 1 runs request 1, and from 20 on request 0 too (9 tokens → 30). 30 → 40: plain, while the draft
        prefills both (3 + 3). 40 → 57: 10 + 2 · 3 + 1, three tokens each (7 and 6). → 74: three each, and
        request 1 is done. → 91: the last token of request 0, cut from three.
        """
        serving = costs(flat(10), draft=flat(3))
        output = replay(
            case([(0, 8, 10), (0, 8, 10)], serving, workers=2, policy=policy(k=2), **one_crash(15, 5))
        )
        assert output.last_ps.tolist() == [91, 74]
        assert output.outage_draft_ready_ps.tolist() == [30]
        assert output.outage_assist_target.tolist() == [1]
        assert output.outage_assist_end_ps.tolist() == [1030]
        assert output.outage_rejoin_ps.tolist() == [1080]
        expected = {
            "assisted_passes": 3,
            "plain_assisted_passes": 1,
            "drafted_tokens": 10,
            "accepted_tokens": 10,
            "verified_sequences": 5,
            "verified_tokens": 13,
            "assisted_ps": 51,
            "draft_busy_ps": 24,
        }
        assert {name: output.counters[name] for name in expected} == expected

    def test_rejected_drafts_bring_one_token_a_pass(self) -> None:
        """As above without any acceptance, and with a guard that knows: every pass is plain."""
        serving = costs(flat(10), draft=flat(3))
        hopeless = {
            "acceptance_threshold": np.array([[0]], dtype=np.uint64),
            "expected_tokens": np.array([[1.0, 1.0, 1.0]]),
        }
        inputs = case([(0, 8, 10), (0, 8, 10)], serving, workers=2, **one_crash(15, 5), **hopeless)
        drafted = replay(replace(inputs, policy=policy(k=2)))
        assert drafted.last_ps[1] == 40 + 6 * 17
        guarded = replay(replace(inputs, policy=policy(k=2, guard=True)))
        assert guarded.last_ps[1] == 40 + 6 * 10
        assert guarded.counters["vetoed_passes"] == guarded.counters["plain_assisted_passes"] - 1

    @pytest.mark.parametrize(("prompt", "holder", "held"), [(31, 1, 32), (32, 1, 32), (33, NONE, 0)])
    def test_budget_to_the_token(self, prompt: int, holder: int, held: int) -> None:
        """Two pages hold up to 32 tokens: a prompt of 33 finds no room, and a copy stops at 32."""
        output = replay(
            case(
                [(0, prompt, 9)],
                costs(flat(10)),
                workers=2,
                policy=policy(placement=Placement.LOAD_AWARE, budget_pages=2),
                snapshot_ps=ints(50),
            )
        )
        assert output.holder[0] == holder
        assert output.snapshot_held_tokens.tolist() == [[0, held]]

    def test_the_ring_does_not_ask_for_room(self) -> None:
        """A prompt of 33 tokens leaves its first two pages at the next worker."""
        output = replay(
            case(
                [(0, 33, 9)],
                costs(flat(10)),
                workers=2,
                policy=policy(placement=Placement.RING, budget_pages=2),
                snapshot_ps=ints(50),
            )
        )
        assert output.snapshot_held_tokens.tolist() == [[0, 32]]

    def test_a_dead_cluster_lets_requests_wait(self) -> None:
        """One worker, down at 15, known at 20, back at 1075: the request recomputes its 9 tokens → 1085.

        A request that came at 17 was sent to the dead worker; one at 30 waits behind both.
        """
        output = replay(
            case([(0, 8, 2), (17, 4, 1), (30, 4, 1)], costs(flat(10)), max_batch=1, **one_crash(15, 5))
        )
        assert output.first_ps.tolist() == [10, 1095, 1105]
        assert output.dispatch_ps.tolist() == [0, 17, 1075]
        assert output.interruption_class.tolist() == [Interruption.RUNNING, Interruption.SENT_AFTER_CRASH]
        assert output.counters["gateway_waited"] == 3
