"""Models small enough to be measured on a CPU, as config files."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import run

__all__ = ["configs", "run"]


def _config(hidden: int, layers: int, q_heads: int, ffn: int) -> str:
    return json.dumps(
        {
            "model_type": "qwen3",
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": q_heads,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "intermediate_size": ffn,
            "vocab_size": 2000,
            "torch_dtype": "float32",
        }
    )


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Paths of a served model's config and of its draft's."""
    folder = tmp_path_factory.mktemp("models")
    served, draft = folder / "served.json", folder / "draft.json"
    served.write_text(_config(256, 4, 8, 512))
    draft.write_text(_config(128, 2, 4, 256))
    return str(served), str(draft)
