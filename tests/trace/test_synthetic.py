"""The built-in trace against the published figures of the trace it is shaped like, and against the file
itself.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lumen_policy.errors import InputError
from lumen_policy.trace.figures import arrival_figures, correlation, length_figures, nearest_rank
from lumen_policy.trace.read import read_trace
from lumen_policy.trace.synthetic import RATE_PER_S, REQUESTS, built_in_trace
from tests.conftest import shared_path

QUANTILES = ("p10", "p25", "p50", "p75", "p90", "p95", "p99")
# Conversation trace of the Azure LLM inference traces 2023 (Splitwise).
PROMPT = dict(zip((*QUANTILES, "mean"), (207, 396, 1020, 1189, 2735, 4083, 4142, 1154.7), strict=True))
OUTPUT = dict(zip((*QUANTILES, "mean"), (54, 85, 129, 395, 424, 451, 601, 211.1), strict=True))


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_lengths_are_within_5_percent_of_the_published_ones(seed: int) -> None:
    trace = built_in_trace(seed)
    for tokens, published in ((trace.prompt_tokens, PROMPT), (trace.output_tokens, OUTPUT)):
        figures = length_figures(tokens)
        for name, value in published.items():
            assert figures[name] == pytest.approx(value, rel=0.05), name
    pair = correlation(trace.prompt_tokens, trace.output_tokens)
    assert pair["pearson"] == pytest.approx(-0.112, abs=0.05)
    assert pair["spearman"] == pytest.approx(0.073, abs=0.05)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_arrivals_have_the_published_rate_and_burstiness(seed: int) -> None:
    trace = built_in_trace(seed)
    figures = arrival_figures(trace.arrival_ps)
    assert len(trace) == REQUESTS
    assert figures["span_s"] == pytest.approx(3501.7, abs=0.1)
    assert figures["rate_per_s"] == pytest.approx(5.530, abs=0.001)
    assert figures["window_count_cv"] == pytest.approx(0.264, abs=0.03)
    assert figures["window_count_max"] == pytest.approx(98, abs=15)
    assert figures["window_empty_share"] == 0
    assert figures["gap_cv"] == pytest.approx(1.094, abs=0.04)


def test_figures_are_those_of_the_file() -> None:
    real = read_trace(shared_path("traces/azure2023/AzureLLMInferenceTrace_conv.csv"))
    made = built_in_trace()
    for name in ("prompt_tokens", "output_tokens"):
        ours, theirs = (np.sort(getattr(trace, name)) for trace in (made, real))
        grid = np.linspace(0.1, 0.99, 90)
        # Kolmogorov's distance; steep places of the quantile function make quantiles there meaningless.
        both = np.unique(np.concatenate([ours, theirs]))
        distance = np.abs(
            np.searchsorted(ours, both, "right") - np.searchsorted(theirs, both, "right")
        ) / len(ours)
        assert distance.max() < 0.04, name
        near = [
            abs(a - b) <= 0.05 * b
            for a, b in zip(*(nearest_rank(x, tuple(grid)) for x in (ours, theirs)), strict=True)
        ]
        assert np.mean(near) > 0.85, name
    # The dependence of the two lengths, band by band of the prompt.
    edges = [0, 120, 300, 600, 1200, 1800, 5000]
    for low, high in itertools.pairwise(edges):
        means = [
            trace.output_tokens[(trace.prompt_tokens >= low) & (trace.prompt_tokens < high)].mean()
            for trace in (made, real)
        ]
        assert means[0] == pytest.approx(means[1], rel=0.45), (low, high)


def test_same_seed_same_bytes() -> None:
    # A golden beside the laws above: the bytes may not depend on machine or library version.
    assert built_in_trace().digest() == "8be0333070917295960d24325b783e9082add1ae24bf361b145acf984c566d19"
    assert built_in_trace(1).digest() != built_in_trace(2).digest()


def test_longer_trace_has_the_same_rate_and_begins_with_the_same_lengths() -> None:
    short, long = built_in_trace(3, requests=1000), built_in_trace(3, requests=50_000)
    assert (long.prompt_tokens[:1000] == short.prompt_tokens).all()
    assert (long.output_tokens[:1000] == short.output_tokens).all()
    assert short.rate_per_s == pytest.approx(RATE_PER_S, rel=1e-6)
    assert long.rate_per_s == pytest.approx(RATE_PER_S, rel=1e-6)


def test_one_request_arrives_at_zero() -> None:
    assert built_in_trace(requests=1).arrival_ps.tolist() == [0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"requests": 0}, "requests must be at least 1"),
        ({"rate_per_s": 0.0}, "rate must be a positive finite"),
        ({"rate_per_s": float("nan")}, "rate must be a positive finite"),
        ({"rate_per_s": 1e-5}, "more than 90 days"),
    ],
)
def test_senseless_arguments_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        built_in_trace(**arguments)  # type: ignore[arg-type]
