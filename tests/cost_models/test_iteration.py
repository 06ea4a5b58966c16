"""Laws of the iteration model, and hand-computed values."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.calibrated import StepCurve
from cost_models.errors import CostModelError
from cost_models.hardware import BUILT_IN_PROFILES, load_hardware
from cost_models.iteration import CalibratedTokens, IterationModel, RooflineTokens, iteration_model, to_ps
from cost_models.model_spec import BUILT_IN_MODELS
from cost_models.verification import draft_s, verify_s

SECONDS = st.fractions(min_value=0, max_value=1, max_denominator=10**15)
ROOFLINES = st.builds(
    RooflineTokens,
    overhead_s=SECONDS,
    weights_s=SECONDS,
    linear_token_s=SECONDS,
    large_step_token_s=SECONDS,
    large_step_tokens=st.integers(1, 60),
    communication_token_s=SECONDS,
)
CURVES = st.builds(
    lambda counts, levels, beyond: StepCurve(
        points=list(zip(sorted(counts), sorted(levels), strict=False)),
        beyond_s=beyond,
        unit="token",
        kind="assumed",
        source="drawn",
    ),
    st.sets(st.integers(1, 90), min_size=1, max_size=6),
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
    st.floats(0, 1),
)
MEASURED = st.builds(
    CalibratedTokens,
    overhead_s=SECONDS,
    curves=st.lists(CURVES, min_size=1, max_size=2).map(tuple),
    scale=st.fractions(min_value=Fraction(1, 2), max_value=2, max_denominator=10**6),
)
MODELS = st.builds(
    IterationModel,
    tokens=st.one_of(ROOFLINES, MEASURED),
    head_weights_s=SECONDS,
    head_row_s=SECONDS,
    row_overhead_s=SECONDS,
    prefill_pair_s=SECONDS,
    decode_context_s=SECONDS,
    decode_sequence_s=SECONDS,
)
COUNTS = st.integers(0, 100)
REAL = [
    (name, profile, tp)
    for name, spec in BUILT_IN_MODELS.items()
    for profile in BUILT_IN_PROFILES
    for tp in (1, 2, 4, 8)
    if spec.q_heads % (2 * tp) == 0
]


@given(MODELS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, st.integers(0, 4))
def test_more_work_never_takes_less_time(
    model: IterationModel, n: int, rows: int, pairs: int, context: int, sequences: int, which: int
) -> None:
    work = [n, rows, pairs, context, sequences]
    more = list(work)
    more[which] += 1
    a, b = (
        model.seconds(w[0], rows=w[1], pairs=w[2], context_tokens=w[3], sequences=w[4]) for w in (work, more)
    )
    assert a <= b


@given(MODELS, COUNTS, COUNTS, COUNTS)
def test_affine_in_context_at_fixed_tokens(model: IterationModel, n: int, context: int, step: int) -> None:
    at = [model.seconds(n, rows=n, context_tokens=context + i * step, sequences=n) for i in range(3)]
    assert at[2] - at[1] == at[1] - at[0] == step * model.decode_context_s


@given(MODELS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
def test_integers_are_the_rational_formula_to_half_a_picosecond_a_coefficient(
    model: IterationModel, n: int, rows: int, pairs: int, context: int, sequences: int
) -> None:
    costs = model.integer_costs(max_tokens=100, max_rows=100)
    exact_ps = 10**12 * model.seconds(n, rows=rows, pairs=pairs, context_tokens=context, sequences=sequences)
    # Half a picosecond for overhead, weights and head weights, and for a slope as often as it is multiplied.
    allowed = Fraction(1, 2) * (3 + 2 * n + 2 * rows + pairs + context + sequences)
    assert abs(costs.duration_ps(n, rows, pairs, context, sequences) - exact_ps) <= allowed


@given(MODELS)
def test_each_coefficient_is_rounded_once(model: IterationModel) -> None:
    costs = model.integer_costs(max_tokens=1, max_rows=1)
    for rounded, exact_s in (
        (costs.prefill_pair_ps, model.prefill_pair_s),
        (costs.decode_context_ps, model.decode_context_s),
        (costs.decode_sequence_ps, model.decode_sequence_s),
    ):
        assert abs(rounded - 10**12 * exact_s) <= Fraction(1, 2)


def roofline(model: IterationModel) -> RooflineTokens:
    assert isinstance(model.tokens, RooflineTokens)
    return model.tokens


def test_by_hand() -> None:
    """Llama-3-70B on two H100: every term from the data sheet and the profile's shares."""
    model = iteration_model(BUILT_IN_MODELS["llama-3-70b"], load_hardware("h100-sxm"), 2)
    matrices = 80 * (8192 * 10240 + 8192 * 8192 + 3 * 8192 * 28672)
    assert matrices == 68_451_041_280
    assert float(roofline(model).weights_s) == pytest.approx(matrices * 2 / (2 * 3.35e12 * 0.87))
    assert float(roofline(model).linear_token_s) == pytest.approx(2 * matrices / (2 * 989e12 * 0.53))
    assert float(roofline(model).large_step_token_s) == pytest.approx(2 * matrices / (2 * 989e12 * 0.49))
    assert float(model.head_weights_s) == pytest.approx(128256 * 8192 * 2 / (2 * 3.35e12 * 0.87))
    assert float(roofline(model).overhead_s) == pytest.approx(1.5e-3 + 80 * 1.16e-4 + 160 * 1.7e-5)
    assert float(roofline(model).communication_token_s) == pytest.approx(160 * 8192 * 2 / 2.9e11)
    assert float(model.prefill_pair_s) == pytest.approx(4 * 80 * 64 * 128 / (2 * 989e12 * 0.35))
    assert float(model.decode_context_s) == pytest.approx(327680 / (2 * 3.35e12 * 0.765))


def test_no_communication_on_one_gpu() -> None:
    hardware = load_hardware("h100-sxm")
    model = iteration_model(BUILT_IN_MODELS["qwen3-14b"], hardware, 1)
    assert roofline(model).communication_token_s == 0
    assert roofline(
        model
    ).overhead_s == hardware.iteration_overhead_s.exact() + 40 * hardware.layer_overhead_s.at(1)


@pytest.mark.parametrize(("name", "profile", "tp"), REAL)
def test_twice_the_gpus_are_quicker_but_not_twice_as_quick(name: str, profile: str, tp: int) -> None:
    """Of the parts that a GPU does alone, within 5 % of the scatter in published efficiencies."""
    spec, hardware = BUILT_IN_MODELS[name], load_hardware(profile)
    one, two = iteration_model(spec, hardware, tp), iteration_model(spec, hardware, 2 * tp)
    for before, after in (
        (roofline(one).weights_s, roofline(two).weights_s),
        (roofline(one).linear_token_s, roofline(two).linear_token_s),
    ):
        assert before / Fraction("2.1") <= after < before
    assert two.prefill_pair_s == one.prefill_pair_s / 2
    expected = one.decode_context_s / 2 if 2 * tp <= spec.kv_heads else one.decode_context_s
    assert two.decode_context_s == expected


def test_draft_steps_pay_no_host_time_per_row() -> None:
    spec, hardware = BUILT_IN_MODELS["qwen3-1.7b"], load_hardware("h100-sxm")
    served, drafting = iteration_model(spec, hardware, 2), iteration_model(spec, hardware, 2, draft=True)
    assert drafting.row_overhead_s == drafting.decode_sequence_s == 0
    assert roofline(served).overhead_s - roofline(drafting).overhead_s == Fraction("0.001")


@given(MODELS, st.integers(0, 50), st.integers(0, 1000))
def test_verifying_no_drafts_is_a_plain_decode(model: IterationModel, batch: int, context: int) -> None:
    plain = model.seconds(batch, rows=batch, context_tokens=context, sequences=batch)
    assert verify_s(model, Fraction(1), sequences=batch, k=0, context_tokens=context) == plain


@given(MODELS, st.integers(1, 20), st.integers(0, 4), st.integers(0, 1000))
def test_verification_grows_with_k_and_drafting_adds_steps(
    model: IterationModel, batch: int, k: int, context: int
) -> None:
    ratio = Fraction(1)
    less = verify_s(model, ratio, sequences=batch, k=k, context_tokens=context)
    assert less <= verify_s(model, ratio, sequences=batch, k=k + 1, context_tokens=context)
    step = draft_s(model, sequences=batch, k=k + 1, context_tokens=context) - draft_s(
        model, sequences=batch, k=k, context_tokens=context
    )
    grown = context + k * batch
    assert step == model.seconds(batch, rows=batch, context_tokens=grown, sequences=batch)


def test_an_absurd_iteration_is_refused() -> None:
    tokens = RooflineTokens(
        **dict.fromkeys(RooflineTokens.__slots__, Fraction(0))
        | {"linear_token_s": Fraction(1), "large_step_tokens": 2000}
    )
    slow = IterationModel(
        **dict.fromkeys(IterationModel.__slots__, Fraction(0)) | {"tokens": tokens},
    )
    with pytest.raises(CostModelError, match="an iteration of 2000 tokens takes 2000 s, allowed: < 1126 s"):
        slow.integer_costs(max_tokens=2000, max_rows=1)


def test_rounding_is_half_to_even() -> None:
    assert [to_ps(Fraction(n, 2 * 10**12)) for n in (1, 2, 3, 5)] == [0, 1, 2, 2]
