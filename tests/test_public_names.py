"""The public names of `regard`, and that importing it loads no optional package."""

from __future__ import annotations

import ast
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

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
    "Entmax",
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
    "TopKSoftmax",
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
    "open",
    "padding",
    "per_head",
    "prefix",
    "reinforce",
    "replace",
    "rule",
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


def test_names_are_visible_before_they_are_imported() -> None:
    code = "import sys, regard; print('torch' in sys.modules, *dir(regard))"
    torch_is_loaded, *names = run(code)
    assert torch_is_loaded == "False"
    assert set(NAMES) | {"cost", "models", "zoo", "masks", "__version__"} <= set(names)


def test_type_checkers_see_the_names_that_are_imported_on_first_use() -> None:
    """mypy reads the imports under TYPE_CHECKING; Python reads `_MODULES`."""
    tree = ast.parse(Path(regard.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    declared = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) and node.module for alias in node.names}
    assert declared == regard._MODULES
    assert sorted(declared) == NAMES


def test_help_lists_the_names() -> None:
    text = pydoc.plain(pydoc.render_doc(regard))
    assert [name for name in NAMES if name not in text] == []
    assert "attend(" in text


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'atend'"):
        regard.atend  # noqa: B018


def run(code: str) -> list[str]:
    """The words that a program prints in a new process."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_a_package_is_there_without_its_own_import() -> None:
    assert run("import regard; print(regard.sight.register.__name__, regard.models.NadarayaWatson.__name__)") == [
        "register",
        "NadarayaWatson",
    ]


def test_import_pulls_nothing_optional_nor_the_compiler() -> None:
    loaded = run("import sys, torch; before = set(sys.modules); from regard import *; print('\\n'.join(set(sys.modules) - before))")
    assert "regard.attention" in loaded
    assert not [name for name in loaded if name.split(".")[0] in OPTIONAL]
    assert not [name for name in loaded if name.startswith(("torch._dynamo", "torch._inductor"))]
