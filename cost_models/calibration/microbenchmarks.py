"""What is run on a device to calibrate a model: points of each kind, and the time of one point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from cost_models.calibration.device import Device
from cost_models.calibration.transformer_layer import Attention, Layer, dtype_of
from cost_models.model_spec import ModelSpec

__all__ = ["Grid", "ModelBench", "Point", "grid_for"]

_GRAPH_TOKENS = 2048
_MOST_COPIES = 256
_Runs = list[Callable[[], object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Sizes to measure and how often.

    Attributes:
        tokens: linear layers.
        chunks, cached: prefill chunks, and the tokens cached before them.
        batches, contexts: decode.
        verified: k of verification.
        rows: LM head.
        most_context_tokens: KV tokens of a point at most, all sequences together.
        repetitions: timed rounds of a point.
    """

    tokens: tuple[int, ...]
    chunks: tuple[int, ...]
    cached: tuple[int, ...]
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    verified: tuple[int, ...]
    rows: tuple[int, ...]
    most_context_tokens: int
    repetitions: int


def grid_for(device: str, *, quick: bool) -> Grid:
    """The sizes for a GPU (tokens to 16K, batch to 256) or a CPU (small)."""
    if device == "cpu":
        return Grid(
            tokens=(1, 2, 4, 8, 16, 32, 48, 64, 72, 96, 128, 136, 192, 256),
            chunks=(16, 32, 64, 128, 256),
            cached=(0, 128),
            batches=(1, 4, 16),
            contexts=(32, 128, 512),
            verified=(0, 1, 2, 4),
            rows=(1, 2, 4, 8, 16, 32, 64, 128),
            most_context_tokens=2**14,
            repetitions=3 if quick else 7,
        )
    small = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
    tiles = [n for end in range(128, 1025, 128 if quick else 64) for n in (end - 56, end)]
    wide = [n for end in range(1280, 4097, 512 if quick else 256) for n in (end - 248, end)]
    return Grid(
        tokens=(*small, *tiles, *wide, *range(5120, 16385, 2048 if quick else 1024)),
        chunks=(16, 64, 256, 1024, 2048, 4096, 8192, 16384),
        cached=(0, 1024, 8192) if quick else (0, 256, 1024, 4096, 16384),
        batches=(1, 4, 16, 64, 256) if quick else (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256),
        contexts=(128, 512, 2048, 8192) if quick else (128, 256, 512, 1024, 2048, 4096, 8192, 32768),
        verified=(0, 1, 2, 4, 8) if quick else tuple(range(9)),
        rows=(1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512),
        most_context_tokens=2**20,
        repetitions=7 if quick else 21,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One thing to measure: a kind of ``samples.KINDS`` and its counts."""

    kind: str
    counts: dict[str, int]


class ModelBench:
    """Measures points of one model; times are those of its whole layer stack on one GPU of the TP group.

    Layer and LM head weights rotate over more than the last-level cache. Weights, inputs and KV are random.
    """

    def __init__(
        self, device: Device, model: ModelSpec, tensor_parallel: int, grid: Grid, *, full: bool
    ) -> None:
        """Makes the weights.

        Args:
            device: where.
            model, tensor_parallel: what one GPU holds.
            grid: sizes.
            full: hold all layers and run whole iterations through each of them.
        """
        self._device, self._model, self._grid = device, model, grid
        self._tensor_parallel = tensor_parallel
        self._dtype = dtype_of(device, model)
        self.attention = Attention(device, model, self._dtype)
        self._layers = [Layer(device, model, tensor_parallel, self._dtype)]
        copies = self._copies(self._layers[0].weight_bytes)
        if full:
            copies = max(copies, model.layers)
        self._layers += [Layer(device, model, tensor_parallel, self._dtype) for _ in range(copies - 1)]
        self._full = full
        self._head: Any = None

    def _copies(self, size_bytes: int) -> int:
        return max(2, min(_MOST_COPIES, -(-2 * self._device.cache_bytes // max(1, size_bytes))))

    def points(self) -> list[Point]:
        """All points of the grid, cheap ones first within a kind."""
        grid = self._grid
        points = [Point(kind="linear", counts={"tokens": n}) for n in grid.tokens]
        points += [Point(kind="lm_head", counts={"rows": n}) for n in grid.rows]
        chunks = [
            {"tokens": chunk, "pairs": chunk * cached + chunk * (chunk + 1) // 2}
            for chunk in grid.chunks
            for cached in grid.cached
        ]
        decodes = [
            {"sequences": batch, "context_tokens": batch * context}
            for batch in grid.batches
            for context in grid.contexts
            if batch * context <= grid.most_context_tokens
        ]
        points += [Point(kind="attention_prefill", counts=counts) for counts in chunks]
        points += [Point(kind="attention_decode", counts=counts) for counts in decodes]
        points += [
            Point(kind="attention_verify", counts={**counts, "k": k})
            for counts in decodes[:: max(1, len(decodes) // 8)]
            for k in grid.verified
        ]
        points += [Point(kind="prefill", counts=counts) for counts in chunks]
        points += [Point(kind="decode", counts=counts) for counts in decodes]
        return points

    def seconds(self, point: Point) -> tuple[str, float]:
        """(kind, seconds) of one point."""
        make: dict[str, Callable[..., float]] = {
            "linear": self._linear,
            "lm_head": self._lm_head,
            "attention_prefill": self._attention_prefill,
            "attention_decode": self._attention_rows,
            "attention_verify": self._attention_rows,
            "prefill": self._prefill,
            "decode": self._decode,
        }
        with self._device.torch.inference_mode():
            return point.kind, make[point.kind](**point.counts)

    def _timed(self, runs: _Runs, *, graph: bool) -> float:
        return self._device.seconds(runs, self._grid.repetitions, graph=graph)

    def _random(self, *shape: int) -> Any:
        return self._device.random(*shape, dtype=self._dtype)

    def _stack(self, runs: _Runs, *, graph: bool) -> float:
        return self._model.layers * self._timed(runs, graph=graph)

    def _rotating(self, count: int) -> list[Layer]:
        return self._layers[: max(count, 2)]

    def _linear(self, tokens: int) -> float:
        inputs = [self._random(tokens, self._model.hidden) for _ in range(2)]
        layers = self._rotating(self._copies(self._layers[0].weight_bytes))
        runs: _Runs = [partial(layer.linear, inputs[i % 2]) for i, layer in enumerate(layers)]
        return self._stack(runs, graph=tokens <= _GRAPH_TOKENS)

    def _lm_head(self, rows: int) -> float:
        width = -(-self._model.vocab // self._tensor_parallel)
        size = width * self._model.hidden * self._model.dtype_bytes
        if self._head is None:
            self._head = [self._random(self._model.hidden, width) for _ in range(self._copies(size))]
        x = self._random(rows, self._model.hidden)

        def sample(head: Any) -> Any:
            return (x @ head).argmax(-1)

        return self._timed([partial(sample, head) for head in self._head], graph=True)

    def _chunk_kv(self, tokens: int, pairs: int) -> list[Any]:
        cached = (pairs - tokens * (tokens + 1) // 2) // tokens
        first = self._layers[0]
        size = (cached + tokens) * first.q_heads * first.head_dim * 2 * self._model.dtype_bytes
        shape = (1, first.q_heads, cached + tokens, first.head_dim)
        return [(self._random(*shape), self._random(*shape)) for _ in range(self._copies(size))]

    def _attention_prefill(self, tokens: int, pairs: int) -> float:
        kv = self._chunk_kv(tokens, pairs)
        first = self._layers[0]
        q = self._random(1, first.q_heads, tokens, first.head_dim)
        runs: _Runs = [partial(self.attention.chunk, q, *pair) for pair in kv]
        return self._stack(runs, graph=tokens <= _GRAPH_TOKENS)

    def _decode_kv(self, sequences: int, context_tokens: int) -> list[Any]:
        first = self._layers[0]
        shape = (sequences, first.kv_heads, context_tokens // sequences, first.head_dim)
        size = context_tokens * first.kv_heads * first.head_dim * 2 * self._model.dtype_bytes
        return [(self._random(*shape), self._random(*shape)) for _ in range(self._copies(size))]

    def _attention_rows(self, sequences: int, context_tokens: int, k: int = 0) -> float:
        first = self._layers[0]
        kv = self._decode_kv(sequences, context_tokens)
        rows = (k + 1) * first.q_heads // first.kv_heads
        q = self._random(sequences, first.kv_heads, rows, first.head_dim)
        runs: _Runs = [partial(self.attention.rows, q, *pair) for pair in kv]
        return self._stack(runs, graph=True)

    def _whole(self, kv: list[Any], run: Callable[[Layer, Any], object], *, graph: bool) -> float:
        layers = self._layers if self._full else self._rotating(len(kv))
        runs: _Runs = [partial(run, layer, kv[i % len(kv)]) for i, layer in enumerate(layers)]
        return self._stack(runs, graph=graph)

    def _prefill(self, tokens: int, pairs: int) -> float:
        x = self._random(tokens, self._model.hidden)
        return self._whole(
            self._chunk_kv(tokens, pairs),
            lambda layer, kv: layer.prefill(self.attention, x, *kv),
            graph=tokens <= _GRAPH_TOKENS,
        )

    def _decode(self, sequences: int, context_tokens: int) -> float:
        x = self._random(sequences, self._model.hidden)
        return self._whole(
            self._decode_kv(sequences, context_tokens),
            lambda layer, kv: layer.decode(self.attention, x, *kv),
            graph=True,
        )
