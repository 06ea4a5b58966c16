"""From samples of one model on one worker to the terms of its iteration, with errors on rows not fitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl

from cost_models.calibrated import CalibratedRange, Calibration, FitError, Shape, StepCurve
from cost_models.calibration.curves import FloatArray, fit_smooth_curve, fit_tile_curve, non_negative
from cost_models.calibration.samples import of_kind
from cost_models.errors import CostModelError
from cost_models.hardware import HardwareProfile
from cost_models.iteration import iteration_model
from cost_models.model_spec import ModelSpec
from cost_models.sourced import Kind, Sourced

__all__ = ["FORMS", "FitOptions", "fit_calibration"]

FORMS = ("linear", "all_reduce", "lm_head", "attention_prefill", "attention_decode", "prefill", "decode")
"""Forms with errors of their own."""

_LEAST_ROWS = 8
_SPLITS = 5
_HELD_OUT = 0.2
_JOINT_KNOTS = 48
_SMOOTHED_ROWS = 9
_SUMS = {"prefill": "attention_prefill", "decode": "attention_decode"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """What the samples do not say.

    Attributes:
        overhead_s: host time of an iteration.
        attention_kernel: which kernel computed the attention.
        kind, source: origin of the samples.
        base_communication: without all-reduce samples take the base profile's communication, instead of none.
        seed: of the random splits.
    """

    overhead_s: float = 0.0
    attention_kernel: str
    kind: Kind
    source: str
    base_communication: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Samples as columns: every array of shape (rows,)."""

    tokens: FloatArray
    pairs: FloatArray
    sequences: FloatArray
    context: FloatArray
    bytes: FloatArray
    rows: FloatArray
    seconds: FloatArray

    def __len__(self) -> int:
        return len(self.seconds)

    def where(self, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> _Rows:
        return _Rows(**{name: getattr(self, name)[mask] for name in self.__slots__})

    @property
    def reach(self) -> FloatArray:
        """Tokens that the largest query of a chunk attends to, or the mean context of a decode."""
        prefill = self.pairs / np.maximum(self.tokens, 1) + self.tokens / 2
        return np.where(self.sequences > 0, self.context / np.maximum(self.sequences, 1), prefill)


def _rows(samples: pl.DataFrame) -> _Rows:
    def column(name: str) -> FloatArray:
        return samples[name].to_numpy().astype(np.float64)

    sequences = column("sequences")
    return _Rows(
        tokens=np.where(column("tokens") > 0, column("tokens"), sequences),
        pairs=column("pairs"),
        sequences=sequences,
        context=column("context_tokens"),
        bytes=column("bytes"),
        rows=column("rows"),
        seconds=column("seconds"),
    )


_Table = dict[str, _Rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """Fitted terms as plain numbers; ``floor_s`` is the fixed part of attention and goes to the linear curve."""

    linear: StepCurve
    all_reduce: StepCurve | None
    floor_s: float
    pair_s: float
    context_s: float
    sequence_s: float
    head_weights_s: float
    head_row_s: float


class _Fitter:
    """Fits tables of one model; whole iterations are predicted from the same terms the replay adds up."""

    def __init__(self, model: ModelSpec, tensor_parallel: int, options: FitOptions) -> None:
        self.all_reduces = 2 * model.layers if tensor_parallel > 1 else 0
        self.token_bytes = model.hidden * model.dtype_bytes
        self._options = options

    def fit(self, table: _Table) -> _Terms:
        """Terms from every kind that is there."""
        kind, source = self._options.kind, self._options.source
        all_reduce = None
        if "all_reduce" in table:
            rows = table["all_reduce"]
            all_reduce = fit_smooth_curve(rows.bytes, rows.seconds, unit="byte", kind=kind, source=source)
        if "linear" in table:
            rows = table["linear"]
            linear = fit_tile_curve(rows.tokens, rows.seconds, kind=kind, source=source)
            floor, pair, context, sequence = self._attention(table, linear, all_reduce)
        else:
            linear, pair, context, sequence = self._joint(table, all_reduce)
            floor = 0.0
        head_weights, head_row = _head(table["lm_head"]) if "lm_head" in table else (0.0, 0.0)
        return _Terms(
            linear=linear,
            all_reduce=all_reduce,
            floor_s=floor,
            pair_s=pair,
            context_s=context,
            sequence_s=sequence,
            head_weights_s=head_weights,
            head_row_s=head_row,
        )

    def communication(self, curve: StepCurve | None, tokens: FloatArray) -> FloatArray:
        """All-reduces of all layers."""
        if curve is None:
            return np.zeros_like(tokens)
        return self.all_reduces * curve.at(tokens * self.token_bytes)

    def _attention(
        self, table: _Table, linear: StepCurve, all_reduce: StepCurve | None
    ) -> tuple[float, float, float, float]:
        """(floor, pair, context, sequence): attention beside the linear layers, errors relative to both."""
        matrices, measured, weights = [], [], []
        for kind in ("attention_prefill", "attention_decode", "prefill", "decode"):
            if kind not in table:
                continue
            rows = table[kind]
            rest = linear.at(rows.tokens) + self.communication(all_reduce, rows.tokens)
            whole = kind in ("prefill", "decode")
            matrices.append(_attention_terms(rows))
            measured.append(rows.seconds - rest if whole else rows.seconds)
            weights.append(rows.seconds if whole else rows.seconds + rest)
        if not matrices:
            return 0.0, 0.0, 0.0, 0.0
        found = non_negative(np.concatenate(matrices), np.concatenate(measured), np.concatenate(weights))
        return float(found[0]), float(found[1]), float(found[2]), float(found[3])

    def _joint(self, table: _Table, all_reduce: StepCurve | None) -> tuple[StepCurve, float, float, float]:
        """Linear layers and attention together, from whole iterations alone."""
        parts = [table[kind] for kind in ("prefill", "decode") if kind in table]
        if not parts:
            raise CostModelError(
                "samples: no linear, prefill or decode rows, the linear layers need one of them"
            )
        tokens = np.concatenate([part.tokens for part in parts])
        seconds = np.concatenate([part.seconds for part in parts])
        attention = np.concatenate([_attention_terms(part) for part in parts])[:, 1:]
        knots = np.unique(tokens)
        if len(knots) > _JOINT_KNOTS:
            knots = np.unique(np.round(np.geomspace(knots[0], knots[-1], _JOINT_KNOTS)))
        hats = np.stack([np.interp(tokens, knots, row) for row in np.eye(len(knots))], axis=1)
        rises = hats @ np.tril(np.ones((len(knots), len(knots))))
        rest = self.communication(all_reduce, tokens)
        found = non_negative(np.concatenate([rises, attention], axis=1), seconds - rest, seconds)
        levels = np.cumsum(found[: len(knots)])
        beyond = (
            (levels[-1] - levels[-2]) / (knots[-1] - knots[-2]) if len(knots) > 1 else levels[-1] / knots[-1]
        )
        curve = StepCurve(
            points=[(int(n), float(f"{s:.9g}")) for n, s in zip(knots, levels, strict=True)],
            beyond_s=float(f"{beyond:.9g}"),
            unit="token",
            kind=self._options.kind,
            source=self._options.source,
        )
        pair, context, sequence = (float(value) for value in found[len(knots) :])
        return curve, pair, context, sequence

    def predict(self, kind: str, rows: _Rows, terms: _Terms) -> FloatArray:
        """Seconds of rows of one kind."""
        if kind == "all_reduce":
            assert terms.all_reduce is not None
            return terms.all_reduce.at(rows.bytes)
        if kind == "lm_head":
            return np.asarray(
                np.maximum(terms.head_weights_s, rows.rows * terms.head_row_s), dtype=np.float64
            )
        coefficients = np.array([terms.floor_s, terms.pair_s, terms.context_s, terms.sequence_s])
        attention = np.asarray(_attention_terms(rows) @ coefficients, dtype=np.float64)
        if kind.startswith("attention"):
            return attention
        linear = terms.linear.at(rows.tokens)
        if kind == "linear":
            return linear
        return linear + attention + self.communication(terms.all_reduce, rows.tokens)


def _attention_terms(rows: _Rows) -> FloatArray:
    return np.stack([np.ones(len(rows)), rows.pairs, rows.context, rows.sequences], axis=1)


def _head(rows: _Rows) -> tuple[float, float]:
    """(weights, row) of max(weights, rows · row): the median below, the median per row at the top."""
    low = rows.rows <= max(rows.rows.min(), rows.rows.max() / 8)
    weights = float(np.median(rows.seconds[low]))
    top = rows.rows >= rows.rows.max() / 2
    return weights, float(np.median(rows.seconds[top] / rows.rows[top]))


def fit_calibration(
    samples: pl.DataFrame,
    model: ModelSpec,
    tensor_parallel: int,
    base: HardwareProfile,
    options: FitOptions,
    notes: list[str],
) -> Calibration:
    """Non-negative fit with relative, robust errors; what was not sampled comes from the base profile.

    Held-out errors: five random splits, a fifth of each kind of row held out of each. Extrapolated errors:
    fitted where every count (tokens, context, batch, bytes) is at most half of its largest, tested on the rest.
    Where components were sampled and whole iterations were not, these are the components' sums.

    Args:
        samples: checked rows, see ``samples.KINDS``; rows of another model are ignored.
        model, tensor_parallel: what the samples are of.
        base: gives the terms without samples (LM head, attention).
        options: see there.
        notes: gets a line for each thing that was not measured.

    Raises:
        CostModelError: too few samples for a form.
    """
    model.check_tensor_parallel(tensor_parallel)
    named = ", ".join(name for name in samples["model"].unique().sort() if name)
    samples = samples.filter((pl.col("model") == model.name) | (pl.col("model") == ""))
    if samples.is_empty():
        raise CostModelError(f"samples: none of {model.name}, there are: {named}")
    table = {kind: _rows(of_kind(samples, kind)) for kind in FORMS}
    table = {kind: rows for kind, rows in table.items() if len(rows)}
    for kind, rows in table.items():
        if len(rows) < _LEAST_ROWS:
            raise CostModelError(
                f"samples: {len(rows)} rows of {kind}, allowed: at least {_LEAST_ROWS} (or none)"
            )
    if tensor_parallel == 1:
        table.pop("all_reduce", None)
    fitter = _Fitter(model, tensor_parallel, options)
    terms = fitter.fit(table)
    errors = _errors(fitter, table, options.seed)
    return _assemble(table, terms, errors, fitter, model, tensor_parallel, base, options, notes)


def _whole(table: _Table, fitter: _Fitter) -> _Table:
    """The table with whole iterations: measured ones, or the sums of measured components.

    Without prefill attention a prefill is linear layers and all-reduces; without decode attention there is no
    decode. An iteration has 2 all-reduces a layer, so a sum takes their running median over sizes, not one draw.
    """
    if "linear" not in table:
        return table
    tokens, times = _medians(table["linear"].tokens, table["linear"].seconds)
    whole = dict(table)
    for kind, attention in _SUMS.items():
        if kind in table:
            continue
        if attention in table:
            rows, of_attention = table[attention], table[attention].seconds
        elif kind == "prefill":
            rows = table["linear"]
            of_attention = np.zeros(len(rows))
        else:
            continue
        seconds = of_attention + np.interp(rows.tokens, tokens, times)
        inside = (rows.tokens >= tokens[0]) & (rows.tokens <= tokens[-1])
        if "all_reduce" in table:
            sizes, reduces = _medians(table["all_reduce"].bytes, table["all_reduce"].seconds)
            size = fitter.token_bytes * rows.tokens
            seconds = seconds + fitter.all_reduces * np.interp(size, sizes, _running_median(reduces))
            inside &= size <= sizes[-1]
        whole[kind] = replace(rows, seconds=seconds).where(inside)
    return {kind: rows for kind, rows in whole.items() if len(rows)}


def _medians(counts: FloatArray, seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distinct counts, and the median of each one's seconds."""
    distinct, place = np.unique(counts, return_inverse=True)
    medians = [float(np.median(seconds[place == i])) for i in range(len(distinct))]
    return distinct, np.array(medians)


def _running_median(values: FloatArray) -> FloatArray:
    half = _SMOOTHED_ROWS // 2
    windows = (values[max(0, i - half) : i + half + 1] for i in range(len(values)))
    return np.array([float(np.median(window)) for window in windows])


def _errors(fitter: _Fitter, table: _Table, seed: int) -> dict[str, FitError]:
    whole = _whole(table, fitter)
    held: dict[str, list[FloatArray]] = {kind: [] for kind in whole}
    rng = np.random.default_rng(seed)
    for _ in range(_SPLITS):
        out = {kind: rng.random(len(rows)) < _HELD_OUT for kind, rows in whole.items()}
        for kind, attention in _SUMS.items():
            if kind in whole and kind not in table:
                # a sum is held out with the row it was made of
                made_of = attention if attention in table else "linear"
                rows = table[made_of]
                held_keys = _keys(rows.where(out[made_of]))
                out[kind] = np.isin(_keys(whole[kind]), held_keys)
        for kind, error in _tested(fitter, table, whole, out):
            held[kind].append(error)
    out = {kind: _beyond_half(kind, rows) for kind, rows in whole.items()}
    beyond = dict(_tested(fitter, table, whole, out))

    def quantile(errors: list[FloatArray], q: float) -> float | None:
        joined = np.concatenate(errors) if errors else np.zeros(0)
        return float(np.quantile(joined, q)) if joined.size else None

    return {
        kind: FitError(
            rows=len(whole[kind]),
            median_error=quantile(held[kind], 0.5),
            p90_error=quantile(held[kind], 0.9),
            extrapolated_median_error=quantile([beyond[kind]] if kind in beyond else [], 0.5),
            extrapolated_p90_error=quantile([beyond[kind]] if kind in beyond else [], 0.9),
        )
        for kind in whole
    }


def _keys(rows: _Rows) -> FloatArray:
    """One number for what a row ran, the same for equal work."""
    keys = rows.tokens * 1e-3 + rows.pairs * np.pi + rows.context * np.e + rows.sequences * np.sqrt(2)
    return np.asarray(keys, dtype=np.float64)


def _tested(
    fitter: _Fitter, table: _Table, whole: _Table, out: dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]]
) -> Iterator[tuple[str, FloatArray]]:
    """(kind, relative errors of its held-out rows) of a fit on the others; none if a kind is held out whole."""
    kept = {kind: rows.where(~out[kind]) for kind, rows in table.items()}
    if not all(len(rows) for rows in kept.values()):
        return
    terms = fitter.fit(kept)
    for kind, rows in whole.items():
        test = rows.where(out[kind])
        if len(test):
            yield kind, np.abs(fitter.predict(kind, test, terms) / test.seconds - 1)


def _beyond_half(kind: str, rows: _Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    def beyond(values: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.asarray(values > values.max() / 2, dtype=np.bool_)

    if kind == "all_reduce":
        return beyond(rows.bytes)
    if kind == "lm_head":
        return beyond(rows.rows)
    if kind == "linear" or not (rows.pairs.any() or rows.context.any()):
        return beyond(rows.tokens)
    return beyond(rows.tokens) | beyond(rows.reach)


def _assemble(
    table: _Table,
    terms: _Terms,
    errors: dict[str, FitError],
    fitter: _Fitter,
    model: ModelSpec,
    tensor_parallel: int,
    base: HardwareProfile,
    options: FitOptions,
    notes: list[str],
) -> Calibration:
    plain = msgspec.structs.replace(base, calibrations=(), residual_scale=None)
    analytic = iteration_model(model, plain, tensor_parallel)

    def figure(value: float, sampled: bool, fallback: Fraction) -> Sourced:
        return Sourced(
            value=float(f"{value if sampled else float(fallback):.9g}"),
            unit="s",
            kind=options.kind if sampled else "assumed",
            source=options.source if sampled else f"no samples: peak and efficiency of {base.name}",
        )

    prefilled = "attention_prefill" in table or "prefill" in table
    decoded = "attention_decode" in table or "decode" in table
    linear = terms.linear
    if terms.floor_s > 0:
        points = [(count, float(f"{seconds + terms.floor_s:.9g}")) for count, seconds in linear.points]
        linear = msgspec.structs.replace(linear, points=points)
    communication = None
    if terms.all_reduce is not None:
        communication = _over_tokens(terms.all_reduce, fitter)
    elif options.base_communication and tensor_parallel > 1:
        communication = _published_communication(base, fitter, tensor_parallel)
    head = "lm_head" in table
    for sampled, what in ((head, "LM head"), (prefilled, "prefill attention"), (decoded, "decode attention")):
        if not sampled:
            notes.append(f"{what}: not sampled, from {base.name}'s efficiencies")
    return Calibration(
        model=model.name,
        shape=Shape.of(model),
        tensor_parallel=tensor_parallel,
        attention_kernel=options.attention_kernel,
        attention_efficiency=Sourced(
            value=1.0,
            unit="1",
            kind="assumed",
            source=f"an engine's paged kernel taken to read as fast as {options.attention_kernel}",
        ),
        overhead_s=Sourced(
            value=options.overhead_s,
            unit="s",
            kind="assumed",
            source="no engine overhead" if options.overhead_s == 0 else "stated with --overhead-ms",
        ),
        linear=linear,
        communication=communication,
        head_weights_s=figure(terms.head_weights_s, head, analytic.head_weights_s),
        head_row_s=figure(terms.head_row_s, head, analytic.head_row_s),
        prefill_pair_s=figure(terms.pair_s, prefilled, analytic.prefill_pair_s),
        decode_context_s=figure(terms.context_s, decoded, analytic.decode_context_s),
        decode_sequence_s=figure(terms.sequence_s, decoded, Fraction(0)),
        range=CalibratedRange(
            tokens=int(max(rows.tokens.max() for rows in table.values())),
            pairs=int(max((rows.pairs.max() for rows in table.values()), default=0)),
            sequences=int(max(rows.sequences.max() for rows in table.values())),
            context_tokens=int(max(rows.context.max() for rows in table.values())),
        ),
        errors=errors,
    )


def _over_tokens(all_reduce: StepCurve, fitter: _Fitter) -> StepCurve:
    """The all-reduces of all layers over tokens."""
    points: list[tuple[int, float]] = []
    for size, _ in all_reduce.points:
        count = max(1, round(size / fitter.token_bytes))
        if points and count <= points[-1][0]:
            continue
        seconds = float(fitter.communication(all_reduce, np.array([float(count)]))[0])
        points.append((count, float(f"{seconds:.6g}")))
    return StepCurve(
        points=points,
        beyond_s=float(f"{fitter.all_reduces * all_reduce.beyond_s * fitter.token_bytes:.6g}"),
        unit="token",
        kind=all_reduce.kind,
        source=all_reduce.source,
    )


def _published_communication(base: HardwareProfile, fitter: _Fitter, tensor_parallel: int) -> StepCurve:
    """The base profile's line of latency and bandwidth, over tokens."""
    latency_s = fitter.all_reduces * float(base.all_reduce_latency_s.at(tensor_parallel))
    rate = float(base.all_reduce_bytes_per_s.at(tensor_parallel))
    token_s = fitter.all_reduces * fitter.token_bytes / rate
    return StepCurve(
        points=[(0, float(f"{latency_s:.6g}"))],
        beyond_s=float(f"{token_s:.6g}"),
        unit="token",
        kind=base.all_reduce_bytes_per_s.kind,
        source=base.all_reduce_bytes_per_s.source,
    )
