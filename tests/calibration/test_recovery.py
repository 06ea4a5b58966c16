"""Known coefficients come back from samples made of them."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.calibration.fit import fit_calibration
from cost_models.calibration.profile import with_calibrations
from cost_models.calibration.samples import checked
from cost_models.hardware import load_hardware
from cost_models.iteration import iteration_model

from .synthetic import OPTIONS, TINY, TOKENS, Known, component_samples, whole_samples

BASE = load_hardware("h100-sxm")
KNOWN = st.builds(
    Known,
    weights_s=st.floats(1e-3, 5e-2),
    token_s=st.floats(2e-5, 4e-4),
    pair_s=st.floats(1e-9, 3e-8),
    context_s=st.floats(1e-8, 3e-7),
    sequence_s=st.floats(1e-6, 3e-5),
)


@settings(max_examples=12)
@given(KNOWN)
def test_components_are_recovered_within_a_percent(known: Known) -> None:
    fitted = fit_calibration(component_samples(known), TINY, 1, BASE, OPTIONS, [])
    assert fitted.prefill_pair_s.value == pytest.approx(known.pair_s, rel=0.01)
    assert fitted.decode_context_s.value == pytest.approx(known.context_s, rel=0.01)
    assert fitted.decode_sequence_s.value == pytest.approx(known.sequence_s, rel=0.01)
    assert fitted.head_row_s.value == pytest.approx(2e-6, rel=0.01)
    assert fitted.head_weights_s.value == pytest.approx(1e-4, rel=0.01)
    for tokens in (1, 64, 128, 1024, 2048):
        assert float(fitted.linear.seconds(tokens)) == pytest.approx(known.linear(tokens), rel=0.01)
    if 1900 * known.token_s > known.weights_s:
        assert float(fitted.linear.seconds(8192)) == pytest.approx(known.linear(8192), rel=0.01)


@settings(max_examples=12)
@given(KNOWN, st.integers(0, 5))
def test_noise_of_a_percent_moves_large_terms_by_no_more(known: Known, seed: int) -> None:
    fitted = fit_calibration(component_samples(known, 0.01, seed), TINY, 1, BASE, OPTIONS, [])
    largest = 2048 * 4096 + 2048 * 2049 // 2
    whole = known.linear(2048) + largest * known.pair_s
    predicted = float(fitted.linear.seconds(2048)) + largest * fitted.prefill_pair_s.value
    assert predicted == pytest.approx(whole, rel=0.03)


@settings(max_examples=12)
@given(KNOWN)
def test_whole_iterations_alone_give_the_same_predictions(known: Known) -> None:
    """A decode's cost per sequence and the linear layers of so many tokens are one figure here."""
    fitted = fit_calibration(whole_samples(known), TINY, 1, BASE, OPTIONS, [])
    model = iteration_model(TINY, with_calibrations(BASE, [fitted]), 1)
    for tokens in TOKENS:
        pairs = tokens * 1000 + tokens * (tokens + 1) // 2
        assert float(model.seconds(tokens, pairs=pairs)) == pytest.approx(
            known.linear(tokens) + pairs * known.pair_s, rel=0.01
        )
    for batch in (1, 4, 16, 64, 256):
        expected = known.linear(batch) + batch * (1000 * known.context_s + known.sequence_s)
        seconds = model.seconds(batch, context_tokens=1000 * batch, sequences=batch)
        assert float(seconds) == pytest.approx(expected, rel=0.01)
    assert fitted.prefill_pair_s.value == pytest.approx(known.pair_s, rel=0.01)
    assert fitted.decode_context_s.value == pytest.approx(known.context_s, rel=0.01)


def test_exact_samples_leave_no_error() -> None:
    known = Known(weights_s=1e-3, token_s=1e-4, pair_s=1e-8, context_s=1e-7, sequence_s=1e-5)
    errors = fit_calibration(component_samples(known), TINY, 1, BASE, OPTIONS, []).errors
    for form in ("attention_prefill", "attention_decode", "lm_head"):
        found = errors[form].p90_error
        assert found is not None
        assert found < 1e-3, form


def test_all_reduces_become_communication_of_all_layers() -> None:
    """2 all-reduces a layer of tokens · hidden · 2 bytes, each 10 µs + bytes at 100 GB/s."""
    known = Known(weights_s=1e-3, token_s=1e-4, pair_s=1e-8, context_s=1e-7, sequence_s=1e-5)
    sizes = [2**i for i in range(9, 24)]
    reduces = pl.DataFrame(
        {
            "kind": ["all_reduce"] * len(sizes),
            "bytes": sizes,
            "seconds": [1e-5 + size / 1e11 for size in sizes],
        }
    )
    samples = pl.concat([component_samples(known), checked(reduces, "synthetic")])
    fitted = fit_calibration(samples, TINY, 2, BASE, OPTIONS, [])
    assert fitted.communication is not None
    for tokens in (1, 100, 2048, 30000):
        expected = 2 * 4 * (1e-5 + tokens * 256 * 2 / 1e11)
        assert float(fitted.communication.seconds(tokens)) == pytest.approx(expected, rel=0.01), tokens
    assert fit_calibration(component_samples(known), TINY, 2, BASE, OPTIONS, []).communication is None
    published = fit_calibration(
        component_samples(known), TINY, 2, BASE, replace(OPTIONS, base_communication=True), []
    ).communication
    assert published is not None
    latency, rate = BASE.all_reduce_latency_s.at(2), BASE.all_reduce_bytes_per_s.at(2)
    expected_s = float(2 * 4 * (latency + 100 * 256 * 2 / rate))
    assert float(published.seconds(100)) == pytest.approx(expected_s, rel=1e-4)


def test_samples_of_one_size_are_fitted_without_errors_beyond() -> None:
    rows = pl.DataFrame({"kind": ["linear"] * 8, "tokens": [64] * 8, "seconds": [1e-3] * 8})
    fitted = fit_calibration(checked(rows, "synthetic"), TINY, 1, BASE, OPTIONS, [])
    assert float(fitted.linear.seconds(64)) == pytest.approx(1e-3)
    assert float(fitted.linear.seconds(128)) == pytest.approx(2e-3, rel=1e-5)
    assert fitted.errors["linear"].extrapolated_median_error is None
