"""The public names of `regard`, and that importing it loads no optional package."""

from __future__ import annotations

import subprocess
import sys

import regard

NAMES = [
    "Additive",
    "Alibi",
    "Argmax",
    "At",
    "Attended",
    "Bias",
    "Bilinear",
    "Choice",
    "Distance",
    "Dot",
    "Entmax15",
    "Entropy",
    "Gaussian",
    "Lowered",
    "Mask",
    "MaxLogit",
    "MultiHeadAttention",
    "Plan",
    "Pooled",
    "Reading",
    "Received",
    "RelativeBias",
    "Rows",
    "Same",
    "Sample",
    "ScaledDot",
    "Score",
    "Sighting",
    "Sink",
    "Softmax",
    "Sparsemax",
    "TopK",
    "ValueNorm",
    "attend",
    "block_sparse",
    "causal",
    "change",
    "dense",
    "documents",
    "everything",
    "explain",
    "from_additive",
    "from_hf",
    "from_sdpa",
    "from_spans",
    "from_torch_mha",
    "global_tokens",
    "label_heads",
    "observe",
    "padding",
    "per_head",
    "prefix",
    "reinforce",
    "watch",
    "window",
]

OPTIONAL = (
    "transformers",
    "fastapi",
    "matplotlib",
    "sklearn",
    "accelerate",
    "typer",
    "rich",
    "tokenizers",
    "gguf",
    "pandas",
    "sacrebleu",
    "scipy",
)


def test_names() -> None:
    assert regard.__all__ == NAMES
    assert sorted(NAMES) == NAMES
    assert all(hasattr(regard, name) for name in NAMES)


def test_import_pulls_nothing_optional_nor_the_compiler() -> None:
    code = "import sys, torch; before = set(sys.modules); import regard; print('\\n'.join(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "regard.attention" in loaded
    assert not [name for name in loaded if name.split(".")[0] in OPTIONAL]
    assert not [name for name in loaded if name.startswith(("torch._dynamo", "torch._inductor"))]
