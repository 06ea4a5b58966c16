"""What a calibration measured of one model on one worker: terms of its iteration, ranges and errors."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import msgspec
import numpy as np

from cost_models.errors import CostModelError
from cost_models.model_spec import ModelSpec
from cost_models.serving_costs import IntArray
from cost_models.sourced import Kind, Sourced, exact

__all__ = ["CalibratedRange", "Calibration", "FitError", "StepCurve"]

_MAX_SECONDS = 1e5
_MAX_CURVE_S = 1e4


class StepCurve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds over a count (tokens or bytes): linear between points, at a rate beyond the last one.

    A step, as of a matrix product that starts another row of tiles, is two points one count apart.

    Attributes:
        points: (count, seconds); counts increase, seconds do not decrease. Below the first: its seconds.
        beyond_s: seconds for each count beyond the last point.
        unit: of the count.
        kind, source: see ``Sourced``.
    """

    points: list[tuple[int, float]]
    beyond_s: float
    unit: str
    kind: Kind
    source: str

    def __post_init__(self) -> None:
        if not self.points:
            raise CostModelError("points: empty, at least one (count, seconds) pair is needed")
        if not self.source.strip():
            raise CostModelError("source: empty, say where the figure comes from")
        for value in (self.beyond_s, *(seconds for _, seconds in self.points)):
            _check_seconds("points", value, _MAX_CURVE_S)
        if self.points[0][0] < 0:
            raise CostModelError(f"points: count is {self.points[0][0]}, allowed: ≥ 0")
        for (count_a, s_a), (count_b, s_b) in itertools.pairwise(self.points):
            if count_b <= count_a:
                raise CostModelError(f"points: counts must increase, {count_b} follows {count_a}")
            if s_b < s_a:
                raise CostModelError(f"points: {count_b} would take less time than {count_a}")

    def seconds(self, count: int) -> Fraction:
        """The value at a count, exact."""
        (first, first_s), (last, last_s) = self.points[0], self.points[-1]
        if count <= first:
            return exact(first_s)
        if count >= last:
            return exact(last_s) + (count - last) * exact(self.beyond_s)
        for (a, s_a), (b, s_b) in itertools.pairwise(self.points):
            if count <= b:
                return exact(s_a) + (exact(s_b) - exact(s_a)) * Fraction(count - a, b - a)
        raise AssertionError

    def at(
        self, counts: np.ndarray[tuple[int], np.dtype[np.float64]]
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The same in floating point, for many counts."""
        known = np.array([count for count, _ in self.points], dtype=np.float64)
        seconds = np.array([value for _, value in self.points], dtype=np.float64)
        beyond = np.maximum(0.0, counts - known[-1]) * self.beyond_s
        return np.asarray(np.interp(counts, known, seconds) + beyond, dtype=np.float64)

    def table_ps(self, max_count: int, scale: Fraction) -> IntArray:
        """``seconds`` · scale of 0 … max_count, each rounded once (half up) to a picosecond."""
        knots = [(count, exact(seconds) * scale * 10**12) for count, seconds in self.points]
        last, last_ps = knots[-1]
        if last < max_count:
            knots.append((max_count, last_ps + (max_count - last) * exact(self.beyond_s) * scale * 10**12))
        table = [_round(knots[0][1])] * (min(knots[0][0], max_count) + 1)
        for (a, ps_a), (b, ps_b) in itertools.pairwise(knots):
            step = (ps_b - ps_a) / (b - a)
            denominator = ps_a.denominator * step.denominator * 2
            base, slope = int(ps_a * denominator) + denominator // 2, int(step * denominator)
            table.extend(
                (base + slope * offset) // denominator for offset in range(1, min(b, max_count) - a + 1)
            )
        return np.array(table, dtype=np.int64)


def _round(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


def _check_seconds(name: str, value: float, highest: float) -> None:
    if not math.isfinite(value) or value < 0 or value > highest:
        raise CostModelError(f"{name}: {value:g} s, allowed: a finite number ≥ 0 and ≤ {highest:g} s")


class FitError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Relative errors of one fitted form; None where there was nothing to hold out.

    Attributes:
        rows: samples of the form.
        median_error, p90_error: |predicted / measured − 1| on held-out fifths.
        extrapolated_median_error, extrapolated_p90_error: beyond the lower half of the range, fitted on that
            half alone.
    """

    rows: int
    median_error: float | None
    p90_error: float | None
    extrapolated_median_error: float | None
    extrapolated_p90_error: float | None


class CalibratedRange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The largest iteration that was measured; beyond it the forms are extrapolated.

    Attributes:
        tokens: of an iteration.
        pairs: prefill attention pairs of an iteration; 0 = prefill attention was not measured.
        sequences: decoding sequences.
        context_tokens: context tokens read by them, all together; 0 = decode attention was not measured.
    """

    tokens: int
    pairs: int
    sequences: int
    context_tokens: int

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 0:
                raise CostModelError(f"range: {name} is {getattr(self, name)}, allowed: an integer ≥ 0")


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What makes two models cost the same, whatever their names."""

    layers: int
    hidden: int
    q_heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    dtype_bytes: int

    @staticmethod
    def of(model: ModelSpec) -> Shape:
        """The shape of a model."""
        return Shape(**{name: getattr(model, name) for name in Shape.__struct_fields__})


class Calibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Terms of one model's iteration at one TP, fitted to measurements.

    t = overhead + linear(n) + communication(n) + lm_head(rows) + A · prefill_pair
    + (K · decode_context + n_seq · decode_sequence) / attention_efficiency

    with lm_head(rows) = max(head_weights, rows · head_row). See ``IterationModel`` for n, rows, A, K, n_seq.

    Attributes:
        model: name, as printed.
        shape: the model it holds for.
        tensor_parallel: the TP it holds for.
        attention_kernel: which kernel computed the measured attention.
        attention_efficiency: measured decode attention relative to an engine's paged kernel.
        overhead_s: host time of an iteration of the served model; a draft pays draft_step_overhead_s.
        linear: layers' matrices, norms and activations over the tokens of the iteration.
        communication: all-reduces of all layers over the tokens; None = left out or not needed.
        head_weights_s, head_row_s: the LM head.
        prefill_pair_s, decode_context_s, decode_sequence_s: attention.
        range: what was measured.
        errors: form to its errors.
    """

    model: str
    shape: Shape
    tensor_parallel: int
    attention_kernel: str
    attention_efficiency: Sourced
    overhead_s: Sourced
    linear: StepCurve
    communication: StepCurve | None
    head_weights_s: Sourced
    head_row_s: Sourced
    prefill_pair_s: Sourced
    decode_context_s: Sourced
    decode_sequence_s: Sourced
    range: CalibratedRange
    errors: dict[str, FitError]

    def __post_init__(self) -> None:
        for name in (
            "overhead_s",
            "head_weights_s",
            "head_row_s",
            "prefill_pair_s",
            "decode_context_s",
            "decode_sequence_s",
        ):
            figure = getattr(self, name)
            if figure.unit != "s":
                raise CostModelError(f"{name}: unit is {figure.unit!r}, allowed: 's'")
            _check_seconds(name, figure.value, _MAX_SECONDS)
        if not 0 < self.attention_efficiency.value <= 100:
            raise CostModelError(
                f"attention_efficiency: value is {self.attention_efficiency.value:g}, allowed: > 0 and ≤ 100"
            )
        for name, curve in (("linear", self.linear), ("communication", self.communication)):
            if curve is not None and curve.unit != "token":
                raise CostModelError(f"{name}: unit is {curve.unit!r}, allowed: 'token'")
        if self.tensor_parallel < 1:
            raise CostModelError(f"tensor_parallel is {self.tensor_parallel}, allowed: an integer ≥ 1")

    def holds_for(self, model: ModelSpec, tensor_parallel: int) -> bool:
        """Whether these are the terms of that model at that TP."""
        return self.tensor_parallel == tensor_parallel and self.shape == Shape.of(model)
