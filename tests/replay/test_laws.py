"""Laws of the kernel: what must not change, what may only change one way, what must add up."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from crash_table import Reload, crash_table
from hypothesis import given
from hypothesis import strategies as st
from twin import compare
from twin.strategies import PLAIN_PLACEMENTS, PLAIN_ROUTINGS, random_input
from twin.test_laws import check_conservation, scalable, scaled

from cost_models.serving_costs import IterationCosts
from lumen_policy.cluster import resolve_cluster
from lumen_policy.faults import parse_crashes
from lumen_policy.policies.fixed_checkpointing import fixed_checkpointing
from lumen_policy.policies.lumen import lumen
from lumen_policy.policies.spec import RecoveryPolicy
from lumen_policy.policies.stop_and_restart import stop_and_restart
from lumen_policy.policies.weights import scaled_weights
from lumen_policy.replay.contract import (
    EvictionOrder,
    ReplayInput,
    ReplayOutput,
    Router,
    Status,
)
from lumen_policy.replay.engine import replay
from lumen_policy.settings import settings_from
from lumen_policy.trace.synthetic import built_in_trace
from lumen_policy.workload import longest_tokens

from .inputs import (
    RELOAD,
    calm,
    draft_as_init,
    joined_faults,
    linear,
    make_costs,
    make_input,
    make_policy,
    some_faults,
)

SEEDS = range(2000, 2040)
OF_THE_COPIES = (
    *("holder", "snapshot_held", "snapshot_saved", "held_integral"),
    *(f"counters[{name}" for name in ("sent_t", "arrived_t", "refused_t", "lost_t", "released_t", "evict")),
    *("counters[egress_wait_ps]", "counters[ingress_wait_ps]"),
)
EACH_SEED = pytest.mark.parametrize("seed", SEEDS)


@cache
def configuration(seed: int) -> ReplayInput:
    """``random_input``, drawn once."""
    return random_input(seed)


def under(inputs: ReplayInput, policy: RecoveryPolicy, budget_pages: int | None = None) -> ReplayOutput:
    """The replay under another policy."""
    budget = inputs.policy.budget_pages if budget_pages is None else budget_pages
    return replay(replace(inputs, policy=policy.codes(budget_pages=budget)))


def differences(a: ReplayOutput, b: ReplayOutput, *, apart_from: tuple[str, ...]) -> list[str]:
    """The fields and counters in which two outputs differ, without those that begin with one of ``apart_from``."""
    return [line for line in compare(a, b) if not line.startswith(apart_from)]


def rising(costs: IterationCosts, more_ps: int = 0) -> IterationCosts:
    """The same costs made monotone in tokens and rows, every iteration longer by ``more_ps``."""
    return replace(
        costs,
        token_ps=np.maximum.accumulate(costs.token_ps) + more_ps,
        lm_head_ps=np.maximum.accumulate(costs.lm_head_ps),
    )


class TestPoliciesThatCoincide:
    @EACH_SEED
    def test_names_do_not_matter(self, seed: int) -> None:
        """INV-14: two policies of equal content under two names give identical replays."""
        inputs = configuration(seed)
        policy = lumen(alpha="0.25", theta="3", tau=40, k=inputs.policy.k)
        assert compare(under(inputs, policy), under(inputs, replace(policy, name="another"))) == []

    @EACH_SEED
    def test_all_mechanisms_off_is_fixed_checkpointing(self, seed: int) -> None:
        """INV-15: lumen without its three mechanisms equals fixed_checkpointing request for request."""
        inputs = configuration(seed)
        off = lumen(alpha="0.7", theta="2", tau=16, k=2, placement=False, routing=False, assist=False)
        assert compare(under(inputs, off), under(inputs, fixed_checkpointing())) == []

    @EACH_SEED
    @pytest.mark.parametrize("router", list(Router), ids=lambda router: router.name)
    def test_no_budget_and_no_drafts_is_stop_and_restart(self, seed: int, router: Router) -> None:
        """INV-16: lumen with no checkpoint room and k = 0 equals stop_and_restart (β > 0), under every router."""
        inputs = replace(configuration(seed), router=int(router))
        bare = lumen(alpha="0.7", theta="inf", tau=0, k=0)
        differing = compare(under(inputs, bare, 0), under(inputs, stop_and_restart(), 0))
        assert [line for line in differing if not line.startswith(OF_THE_COPIES)] == []
        if inputs.rules.eviction == EvictionOrder.REFUSE:
            assert differing == []

    @EACH_SEED
    def test_one_worker_leaves_no_choice(self, seed: int) -> None:
        """INV-17: with one worker every policy that loads no draft gives the same replay."""
        inputs = configuration(seed)
        alone = some_faults(inputs.faults, inputs.faults.worker == 0)
        inputs = replace(inputs, workers=1, faults=alone, rules=replace(inputs.rules, domain=None))
        stop = under(inputs, stop_and_restart())
        assert compare(under(inputs, fixed_checkpointing()), stop) == []
        assert compare(under(inputs, lumen(alpha="1", theta="5", k=0)), stop) == []
        drafting = lumen(alpha="1", theta="5", k=inputs.policy.k)
        assert compare(under(calm(inputs), drafting), under(calm(inputs), stop_and_restart())) == []
        slower = draft_as_init(inputs.faults) if inputs.policy.k else inputs.faults
        assert not differences(
            under(inputs, drafting),
            under(replace(inputs, faults=slower), stop_and_restart()),
            apart_from=("outage_draft_ready_ps", "outage_assist_"),
        )

    @EACH_SEED
    def test_no_drafted_tokens_is_no_draft(self, seed: int) -> None:
        """INV-18: k = 0 is no assist: a draft model in the costs changes nothing."""
        inputs = configuration(seed)
        inputs = replace(inputs, policy=replace(inputs.policy, k=0))
        without = replace(inputs, costs=replace(inputs.costs, draft=None))
        assert compare(replay(inputs), replay(without)) == []

    @EACH_SEED
    def test_policies_differ_only_by_crashes(self, seed: int) -> None:
        """INV-19: without a crash no request's time depends on the policy."""
        inputs = calm(configuration(seed))
        stop = under(inputs, stop_and_restart())
        for policy in (fixed_checkpointing(), lumen(alpha="1", theta="5", k=inputs.policy.k)):
            assert not differences(under(inputs, policy), stop, apart_from=OF_THE_COPIES)


class TestScaling:
    @given(
        st.decimals(0, 1000, places=4),
        st.decimals(0, 1000, places=3),
        st.decimals(0, 1000, places=5) | st.sampled_from(["inf", "never"]),
        st.decimals("0.0000001", 10**7, places=7),
    )
    def test_weights_by_a_decimal(
        self, alpha: Decimal, beta: Decimal, theta: Decimal | str, c: Decimal
    ) -> None:
        """INV-20: (α, β, θ) · c gives the same integers for every decimal c > 0."""
        if (alpha == 0 and beta == 0) or (beta and not 10**-6 <= alpha / beta <= 10**6):
            return
        times_c = theta if isinstance(theta, str) else str(theta * c)
        assert scaled_weights(str(alpha), str(beta), str(theta)) == scaled_weights(
            str(alpha * c), str(beta * c), times_c
        )

    @pytest.mark.parametrize("c", ["0.1", "3", "0.0000007", "123.456"])
    def test_replays_under_scaled_weights(self, c: str) -> None:
        """INV-20: and so the same replay."""
        for seed in SEEDS:
            inputs = configuration(seed)
            k = inputs.policy.k
            alpha, beta, theta = (str(Decimal(text) * Decimal(c)) for text in ("0.07", "1.5", "4.2"))
            once = under(inputs, lumen(alpha="0.07", beta="1.5", theta="4.2", k=k))
            assert compare(once, under(inputs, lumen(alpha=alpha, beta=beta, theta=theta, k=k))) == []

    @EACH_SEED
    @pytest.mark.parametrize("factor", [3, 4])
    def test_time(self, seed: int, factor: int) -> None:
        """INV-21: every duration and instant times an integer: every time times it, nothing else.

        The guard compares floats, which a power of two leaves exact and 3 need not: it is off for 3.
        """
        inputs = scalable(configuration(seed))
        if factor == 3:
            inputs = replace(inputs, policy=replace(inputs.policy, guard=False))
        assert compare(scaled(replay(inputs), factor), replay(scaled(inputs, factor))) == []

    @EACH_SEED
    def test_replays_repeat(self, seed: int) -> None:
        """INV-22: the same input gives the same output, the kernel's own counters included."""
        inputs = configuration(seed)
        once, again = replay(inputs), replay(inputs)
        assert compare(once, again) == []
        assert once.counters == again.counters


class TestCrashes:
    @EACH_SEED
    def test_a_crash_after_everything_changes_nothing(self, seed: int) -> None:
        """INV-23: crashes after the last event add outages, nothing else."""
        inputs = configuration(seed)
        before = replay(inputs)
        workers = np.arange(inputs.workers)
        late_ps = max([before.end_ps, *inputs.snapshot_ps.tolist()]) + 1
        late = crash_table(0 * workers + late_ps, workers, 0 * workers, RELOAD)
        after = replay(replace(inputs, faults=joined_faults(inputs.faults, late)))
        assert not differences(before, after, apart_from=("outage_", "crash_", "end_ps"))
        assert len(after.outage_worker) == len(before.outage_worker) + inputs.workers
        assert np.all(after.outage_rejoin_ps[-inputs.workers :] > before.end_ps)
        assert after.crash_existing_tokens[-1] == 0

    @EACH_SEED
    def test_what_was_restored_and_recomputed(self, seed: int) -> None:
        """INV-24: a request restores and recomputes at most what it had, exactly that if interrupted once."""
        inputs = configuration(seed)
        output = replay(inputs)
        prompt, disturbed = inputs.prompt_tokens, output.interruptions + output.preemptions
        assert np.all(output.recomputed_tokens <= disturbed * (prompt + inputs.output_tokens - 2))
        sent_to_restore = output.interruption_restored == 1
        restorable = (prompt[output.interruption_request] + output.interruption_delivered - 1) // 16 * 16
        bound = np.zeros_like(prompt)
        np.add.at(bound, output.interruption_request[sent_to_restore], restorable[sent_to_restore])
        assert np.all(output.restored_tokens <= bound)
        once = disturbed[output.interruption_request] == 1
        once &= output.interruption_delivered > 0
        request, delivered = output.interruption_request[once], output.interruption_delivered[once]
        lost = output.restored_tokens[request] + output.recomputed_tokens[request]
        kept = 0 if inputs.rules.regenerate else delivered - 1
        assert np.array_equal(lost, prompt[request] + kept)

    @pytest.mark.parametrize(
        "policy",
        [
            stop_and_restart(),
            fixed_checkpointing(),
            lumen(alpha="0.012", theta="20", k=2),
            lumen(alpha="0.012", theta="20", k=4, guard=False),
        ],
        ids=lambda policy: f"{policy.name}-{policy.k}",
    )
    def test_nothing_is_lost_on_a_busy_cluster(self, policy: RecoveryPolicy) -> None:
        """INV-25: requests, tokens, gaps and copies add up; tokens come in their order; none is left pending."""
        trace = built_in_trace(requests=2500)
        keys = {"workers": 8, "kv_pages": 4000, "detection_s": 1.5}
        cluster = resolve_cluster(settings_from(keys), longest_tokens=longest_tokens(trace), notices=[])
        crashes = parse_crashes(["40:0,1,2", "90:5", "130:5", "200:0,1,2,3,4,5,6,7"])
        inputs = cluster.replay_input(trace, faults=crashes, policy=policy)
        output = replay(inputs)
        check_conservation(inputs, output)
        assert output.counters["gateway_waited"] > 0
        assert (output.status == Status.FINISHED).all()
        assert (output.interruptions > 0).sum() > 50


class TestDraftsThatFail:
    @EACH_SEED
    def test_the_guard_leaves_plain_decode(self, seed: int) -> None:
        """INV-26: acceptance 0 with the guard on equals no assist, but for the draft's load in the rejoin.

        For costs that rise with tokens and a draft that takes time: every drafted pass would be slower, all are vetoed.
        Halves that take turns could still pay, where one reads less context.
        """
        inputs = configuration(seed)
        if inputs.costs.draft is None:
            inputs = replace(inputs, costs=replace(inputs.costs, draft=linear(1, 600)))
        assert inputs.costs.draft is not None
        costs = replace(
            inputs.costs,
            target=rising(inputs.costs.target),
            draft=rising(inputs.costs.draft, more_ps=1),
            verify_context_ppm=max(10**6, inputs.costs.verify_context_ppm),
        )
        hopeless = replace(
            inputs,
            costs=costs,
            policy=replace(inputs.policy, k=3, guard=True),
            acceptance_threshold=np.zeros((1, 1), np.uint64),
            expected_tokens=np.ones((1, 4)),
            rules=replace(inputs.rules, ping_pong=False),
        )
        plain = replace(
            hopeless,
            faults=draft_as_init(hopeless.faults),
            policy=replace(hopeless.policy, k=0),
        )
        output = replay(hopeless)
        assert output.counters["assisted_passes"] == 0
        of_the_assist = (
            "outage_draft_ready_ps",
            "outage_assist",
            "counters[plain_assisted_passes]",
            "counters[vetoed_passes]",
            "counters[draft_busy_ps]",
            "counters[retargets]",
        )
        assert not differences(output, replay(plain), apart_from=of_the_assist)

    @pytest.mark.parametrize("seed", range(25))
    def test_rejected_drafts_only_delay(self, seed: int) -> None:
        """INV-27: acceptance 0 with the guard off is never earlier, request for request.

        For costs that rise with tokens, and requests that are all in decode before the drafter is ready: then every
        pass, drafted or not, brings one token a sequence.
        """
        drafted, plain = assisted_pair(seed, acceptance=0)
        with_drafts, without = replay(drafted), replay(plain)
        assert with_drafts.counters["assisted_passes"] > 0
        assert with_drafts.counters["verified_tokens"] == with_drafts.counters["verified_sequences"]
        assert np.array_equal(with_drafts.first_ps, without.first_ps)
        assert np.all(with_drafts.last_ps >= without.last_ps)
        assert with_drafts.last_ps.sum() > without.last_ps.sum()

    @pytest.mark.parametrize("seed", range(25))
    def test_drafting_and_verifying_fit_in_the_time(self, seed: int) -> None:
        """INV-28: draft prefill, drafting, verification and round trips of one assist do not overlap.

        A draft iteration lasts 7 ps whatever it holds and every pass has k drafts, so the drafting of all passes is
        7·k·passes.
        """
        drafted, _ = assisted_pair(seed, acceptance=2**63)
        output = replay(drafted)
        passes = output.counters["assisted_passes"]
        assert passes > 0
        assert output.counters["drafted_tokens"] == drafted.policy.k * output.counters["verified_sequences"]
        drafting_ps = 7 * drafted.policy.k * passes
        prefill_ps = output.counters["draft_busy_ps"] - drafting_ps
        assert prefill_ps > 0
        assert prefill_ps % 7 == 0
        last_ps = output.last_ps[output.worker == output.outage_assist_target[0]].max()
        assert prefill_ps + output.counters["assisted_ps"] <= last_ps - output.outage_draft_ready_ps[0]
        assert output.counters["assisted_ps"] >= drafting_ps + passes * drafted.costs.draft_round_trip_ps

    @EACH_SEED
    def test_counts_of_any_assist(self, seed: int) -> None:
        """INV-28: assisted time fits between the outages' starts and the end; accepted ≤ drafted ≤ k a sequence."""
        inputs = configuration(seed)
        output = replay(inputs)
        counters = output.counters
        assert counters["assisted_ps"] <= (output.end_ps - output.outage_crash_ps).sum()
        assert counters["drafted_tokens"] <= inputs.policy.k * counters["verified_sequences"]
        assert counters["accepted_tokens"] <= counters["drafted_tokens"]
        assert counters["vetoed_passes"] <= counters["plain_assisted_passes"]
        if not inputs.acceptance_threshold.any():
            assert counters["verified_tokens"] == counters["verified_sequences"]


def assisted_pair(seed: int, acceptance: int) -> tuple[ReplayInput, ReplayInput]:
    """A crash whose drafter helps when all requests are in decode, and the same without a draft model.

    Both rejoin at the same instant.
    """
    random = np.random.default_rng(seed)
    workers = int(random.integers(2, 4))
    requests = int(random.integers(2, 9)) * workers
    target = IterationCosts(
        token_ps=np.cumsum(random.integers(0, 3, 2001)) + 20,
        lm_head_ps=np.cumsum(random.integers(0, 2, 2001)),
        prefill_pair_ps=int(random.integers(0, 2)),
        decode_context_ps=int(random.integers(0, 2)),
        decode_sequence_ps=int(random.integers(0, 3)),
    )
    k = int(random.integers(1, 5))
    plain = make_input(
        np.zeros(requests),
        random.integers(1, 60, requests),
        random.integers(150, 400, requests),
        make_costs(target, verify_context_ppm=1_200_000),
        workers=workers,
        policy=make_policy(
            placement=int(random.choice(PLAIN_PLACEMENTS)), routing=int(random.choice(PLAIN_ROUTINGS))
        ),
        acceptance_threshold=np.array([[acceptance]], dtype=np.uint64),
        seed=seed,
    )
    crash_ps = int(replay(plain).first_ps.max()) + int(random.integers(1, 500))
    crash = crash_table([crash_ps], [0], [40], RELOAD)
    load_ps = int(replay(replace(plain, faults=crash)).interruption_next_ps.max()) - crash_ps
    costs = replace(
        plain.costs,
        draft=linear(0, 2001, 7),
        draft_round_trip_ps=int(random.integers(0, 9)),
    )
    crash = crash_table([crash_ps], [0], [40], Reload(10, load_ps + 5, 10**6, 30))
    drafted = replace(plain, costs=costs, faults=crash, policy=replace(plain.policy, k=k))
    return drafted, replace(plain, faults=draft_as_init(crash))
