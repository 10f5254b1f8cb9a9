"""Damaged files of every kind that is read: one line that says so, or what was meant; never a traceback, a hang or a gigabyte.

REGARD_CORRUPTIONS sets how many of each kind (300), REGARD_CORRUPTION_SEED where they begin (0).
"""

import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import torch

if sys.platform == "win32":
    pytest.skip("the cases run in forked processes; run on Linux or macOS", allow_module_level=True)
sys.path.insert(0, str(Path(__file__).parent))

from corruption import bytes_changed, json_changed, text_changed
from forked import failures

import regard.models.model_folder
import regard.sight.storage
import regard.training.tasks.lm
import regard.zoo
from regard.cli.boundary import is_expected, sentence
from regard.cli.fit import read_table
from regard.cost import plan
from regard.cost.model.sources import find
from regard.models.gpt import Gpt, GptConfig
from regard.sight.sighting import Sighting
from regard.text.pairs import read_pairs
from regard.training.config import read_config
from regard.training.log import TrainingLog
from regard.training.loop import checkpoints
from regard.training.runs import train
from regard.training.tasks import find_task
from regard.zoo.chat import render
from regard.zoo.published import Published
from regard.zoo.transformers_model import TransformersModel

BEGIN, COUNT = (int(os.environ.get(f"REGARD_CORRUPTION{name}", value)) for name, value in (("_SEED", 0), ("S", 300)))
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 1000.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "tie_word_embeddings": True, "sliding_window": 8,
    "layer_types": ["full_attention", "sliding_attention"],
}  # fmt: skip
LM = """
out = "run"
[data]
train = "text.txt"
valid = "text.txt"
[vocabulary]
kind = "char"
[model]
d_model = 16
heads = 2
layers = 1
context = 8
[training]
steps = 4
evaluate_every = 2
checkpoint_every = 2
"""
TSV = "".join(f"wort {i} ja\tword {i} yes\t{i}\n" for i in range(12))
CSV = "x,y,z\n" + "".join(f"{i},{i * i / 3},{-i}\n" for i in range(12))
Attempt = Callable[[], object]


def outcome(attempt: Attempt) -> str:
    """Whether what is read was read or refused; an error must be one we expect, in one line of some length."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attempt()
        return "read"
    except Exception as error:
        if not is_expected(error) or _ran_out_of_memory(error):
            raise
        line = sentence(error)
        assert 5 < len(line) <= 1000, line
        assert "\n" not in line
        return "refused"


def _ran_out_of_memory(error: BaseException) -> bool:
    """Whether memory was the reason, even if another error was made of it: a damaged file must be refused before it is asked for."""
    reason: BaseException | None = error
    while reason is not None:
        if isinstance(reason, MemoryError) or "allocate memory" in str(reason):
            return True
        reason = reason.__cause__ or reason.__context__
    return False


def check(case: Callable[[int], str]) -> None:
    wrong, outcomes = failures(case, range(BEGIN, BEGIN + COUNT))
    assert not wrong, "\n".join(wrong[:10])
    assert outcomes.get("refused", 0) > COUNT / 20, f"hardly anything was damaged: {outcomes}"


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of `Gpt.save_folder`."""
    folder = tmp_path_factory.mktemp("gpt")
    Gpt(GptConfig(vocabulary=32, d_model=16, heads=2, layers=2, context=16, positions="rotary")).save_folder(folder)
    Gpt.from_folder(folder)
    plan(folder / "config.json")  # everything is imported before the processes are forked
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a small language model."""
    folder = tmp_path_factory.mktemp("lm")
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 20)
    (folder / "lm.toml").write_text(LM)
    train("lm", folder / "lm.toml")
    return folder / "run"


@pytest.mark.parametrize("kind", ["published", "own"])
def test_config(gpt: Path, tmp_path: Path, kind: str) -> None:
    """A config.json alone for `regard plan`, and beside weights for `Gpt.from_folder`."""
    shutil.copytree(gpt, tmp_path / "m")
    text = json.dumps(LLAMA) if kind == "published" else (gpt / "config.json").read_text()

    def case(number: int) -> str:
        file = tmp_path / "m" / "config.json"
        file.write_bytes(json_changed(text, Random(number)))
        planned = outcome(lambda: plan(file))
        loaded = outcome(lambda: Gpt.from_folder(tmp_path / "m"))
        return "refused" if "refused" in (planned, loaded) else "read"

    check(case)


def test_run_folder(run: Path, tmp_path: Path) -> None:
    """What can be opened answers as before, because every file of a run has a checksum."""
    text = "the quick brown"
    wanted = regard.zoo.open(run).generate(text, max_new=3, temperature=0)

    def case(number: int) -> str:
        dice = Random(number)
        folder = tmp_path / str(number)
        shutil.copytree(run, folder)
        file = folder / dice.choice(["run.json", "text.vocabulary.json", "best.safetensors"])
        good = file.read_bytes()
        file.write_bytes(bytes_changed(good, dice) if file.suffix == ".safetensors" else json_changed(good.decode(), dice))
        answers: list[str] = []
        result = outcome(lambda: answers.append(regard.zoo.open(folder).generate(text, max_new=3, temperature=0)))
        without_checksum = file.suffix == ".json" and b'"sha256"' not in file.read_bytes()
        assert result == "refused" or answers == [wanted] or without_checksum
        shutil.rmtree(folder)
        return result

    check(case)


SAVED = Path(__file__).parent.parent / "saved" / "files"
SHIPPED = Path(regard.zoo.__file__).parent
RUNS = [*(file.parent for file in sorted((SAVED / "training").glob("*/run.json"))), SHIPPED / "reader", SHIPPED / "article-reader"]


def test_run_folder_of_every_task(tmp_path: Path) -> None:
    """Any file of any run: weights, vocabularies, labels, answers, tables of units, the model card, the log."""
    for folder in RUNS:
        regard.zoo.open(folder)  # everything is imported before the processes are forked

    def open_all(folder: Path) -> None:
        regard.zoo.open(folder)
        if (folder / "log.jsonl").is_file():
            TrainingLog.read(folder)

    def case(number: int) -> str:
        dice = Random(number)
        source, folder = RUNS[number % len(RUNS)], tmp_path / str(number)
        shutil.copytree(source, folder)
        file = dice.choice([file for file in sorted(folder.iterdir()) if file.suffix in (".json", ".jsonl", ".safetensors")])
        good = file.read_bytes()
        file.write_bytes(json_changed(good.decode(), dice) if file.suffix == ".json" else bytes_changed(good, dice))
        result = outcome(lambda: open_all(folder))
        shutil.rmtree(folder)
        return result

    check(case)


def test_sighting(tmp_path: Path) -> None:
    files = sorted((SAVED / "sightings").glob("*.safetensors"))
    assert all(len(Sighting.load(file)) for file in files)

    def case(number: int) -> str:
        dice = Random(number)
        file = tmp_path / "s.safetensors"
        data = dice.choice(files).read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        header["__metadata__"]["sighting"] = json_changed(header["__metadata__"]["sighting"], dice).decode("utf-8", "replace")
        changed = json.dumps(header).encode()
        file.write_bytes(bytes_changed(data, dice) if number % 3 == 0 else len(changed).to_bytes(8, "little") + changed + data[8 + size :])
        return outcome(lambda: repr(Sighting.load(file)))

    check(case)


def test_published_folder(gpt: Path, tmp_path: Path) -> None:
    """The files beside the weights: the tokenizer, its settings and the chat template."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "a": 1, "b": 2}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    settings = {
        "bos_token": {"content": "a"},
        "eos_token": "b",
        "chat_template": [{"name": "default", "template": "{{ messages[0].content }}"}],
    }
    folder = tmp_path / "m"
    shutil.copytree(gpt, folder)
    texts = {
        "tokenizer.json": tokenizer.to_str(),
        "tokenizer_config.json": json.dumps(settings),
        "chat_template.jinja": "{{ messages[0].content }}",
    }

    def case(number: int) -> str:
        dice = Random(number)
        for name, text in texts.items():
            (folder / name).write_text(text)
        name = dice.choice(list(texts))
        changed = json_changed(texts[name], dice) if name.endswith("json") else bytes_changed(texts[name].encode(), dice)
        (folder / name).write_bytes(changed)

        def read() -> None:
            opened = Published.open(folder)
            opened.encode("a b")
            if opened.template is not None:
                render(opened.template, [{"role": "user", "content": "a"}], opened.special)

        return outcome(read)

    check(case)


def test_checkpoint(run: Path, tmp_path: Path) -> None:
    """A damaged newest checkpoint is never loaded: the one before it is, or what was meant."""
    folder = tmp_path / "checkpoints"
    old, new = (checkpoints.read(run / "checkpoints" / checkpoints.name_of(step))[0] for step in (2, 4))
    good = (run / "checkpoints" / checkpoints.name_of(4)).read_bytes()

    def case(number: int) -> str:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(run / "checkpoints", folder)
        (folder / checkpoints.name_of(4)).write_bytes(bytes_changed(good, Random(number)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = checkpoints.read_newest(folder)
        assert result is not None
        wanted = new if result[0].name == checkpoints.name_of(4) else old
        assert result[1].keys() == wanted.keys()
        assert all(torch.equal(result[1][name], wanted[name]) for name in wanted)
        return "read" if wanted is new else "refused"

    check(case)


def test_safetensors(gpt: Path, tmp_path: Path) -> None:
    shutil.copytree(gpt, tmp_path / "m")
    good = (gpt / "model.safetensors").read_bytes()

    def case(number: int) -> str:
        (tmp_path / "m" / "model.safetensors").write_bytes(bytes_changed(good, Random(number)))
        headers = outcome(lambda: find(tmp_path / "m"))
        loaded = outcome(lambda: Gpt.from_folder(tmp_path / "m"))
        return "refused" if "refused" in (headers, loaded) else "read"

    check(case)


def test_index_of_shards(gpt: Path, tmp_path: Path) -> None:
    shutil.copytree(gpt, tmp_path / "m")
    names = list(checkpoints.shapes_in(gpt / "model.safetensors"))
    index = json.dumps({"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names[:6], "model.safetensors")})

    def case(number: int) -> str:
        (tmp_path / "m" / "model.safetensors.index.json").write_bytes(json_changed(index, Random(number)))
        headers = outcome(lambda: find(tmp_path / "m"))
        loaded = outcome(lambda: Gpt.from_folder(tmp_path / "m"))
        return "refused" if "refused" in (headers, loaded) else "read"

    check(case)


def test_gguf(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="gguf is not installed; pip install 'regard[weights]'")
    file = tmp_path / "m.gguf"
    write_gguf(file)
    Gpt.from_folder(file)  # it is whole
    good = file.read_bytes()

    def case(number: int) -> str:
        file.write_bytes(bytes_changed(good, Random(number)))
        result = outcome(lambda: find(file))
        loaded = outcome(lambda: Gpt.from_folder(file))
        return "refused" if "refused" in (result, loaded) else "read"

    check(case)


def write_gguf(path: Path) -> None:
    """A Llama of one layer."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(16)
    writer.add_embedding_length(16)
    writer.add_block_count(1)
    writer.add_feed_forward_length(24)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{i}" for i in range(20)])
    writer.add_token_types([1] * 20)
    shapes = {"token_embd": (20, 16), "output_norm": (16,), "blk.0.attn_norm": (16,), "blk.0.ffn_norm": (16,)}
    shapes |= {f"blk.0.attn_{x}": (16, 16) for x in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (24, 16), "blk.0.ffn_up": (24, 16), "blk.0.ffn_down": (16, 24)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.ones(shape, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("task", ["translation", "lm"])
def test_toml(tmp_path: Path, task: str) -> None:
    form, manual = find_task(task).config, find_task(task).manual
    file = tmp_path / "c.toml"

    def case(number: int) -> str:
        file.write_bytes(text_changed(manual, Random(number)))
        return outcome(lambda: read_config(file, form))

    check(case)


def test_tsv_and_jsonl(tmp_path: Path) -> None:
    jsonl = "".join(json.dumps({"source": f"wort {i}", "target": f"word {i}"}) + "\n" for i in range(12))

    def case(number: int) -> str:
        dice = Random(number)
        file = tmp_path / ("a.tsv" if number % 2 else "a.jsonl")
        file.write_bytes(text_changed(TSV if number % 2 else jsonl, dice, separator="\t" if number % 2 else ":"))
        return outcome(lambda: read_pairs(file))

    check(case)


def test_csv(tmp_path: Path) -> None:
    def case(number: int) -> str:
        file = tmp_path / "a.csv"
        file.write_bytes(text_changed(CSV, Random(number), separator=","))
        return outcome(lambda: read_table(file, "y"))

    check(case)


def test_transformers_reads_no_pickle(tmp_path: Path) -> None:
    """Weights that are a pickle, though a whole and harmless one, are not opened."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed; pip install transformers")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{key: value for key, value in LLAMA.items() if "rope" not in key}))
    model.save_pretrained(tmp_path)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0}, "a")))
    tokenizer.save_pretrained(tmp_path)
    assert TransformersModel.open(tmp_path).length(TransformersModel.open(tmp_path).inputs("a")) == 1
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises((OSError, ValueError), match="safetensors"):
        TransformersModel.open(tmp_path)
