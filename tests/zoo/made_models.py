"""Small models in every form the zoo takes: runs, packed runs, folders of published weights, .gguf files."""

import json
import zipfile
from pathlib import Path

import numpy as np
import torch

from regard.files import write_text
from regard.models.gpt import Gpt, GptConfig
from regard.training.config import from_dict
from regard.training.loop.checkpoints import weights_of, write
from regard.training.tasks.translation import TrainableTranslator, TranslationConfig

PAIRS = {
    "zh": [("我爱中国", "I love China ."), ("他爱书", "he loves books ."), ("你好", "hello ."), ("Tom看书", "Tom reads books .")],
    "de": [("Ich liebe dich .", "I love you ."), ("Er liest ein Buch .", "he reads a book ."), ("Hallo .", "hello .")],
}


def translator_run(folder: Path, language: str = "zh", *, kind: str = "bahdanau", longest: int = 20) -> Path:
    """A run of an untrained translator: the words are there, sense is not."""
    folder.mkdir(parents=True)
    lines = "".join(f"{source}\t{target}\n" for source, target in PAIRS[language])
    (folder / "train.tsv").write_text(lines, encoding="utf-8")
    model = {"kind": kind, "embedding": 8, "state": 16}
    config = {
        "out": str(folder),
        "data": {"train": str(folder / "train.tsv"), "valid": str(folder / "train.tsv"), "max_length": longest},
        "source": {"kind": "char"},
        "target": {"kind": "word"},
        "model": model,
        "training": {"steps": 1, "seed": 3},
        "decoding": {"beam": 2, "max_length": 6},
    }
    return _run(folder, "translation", config, TrainableTranslator.build(from_dict(config, TranslationConfig), folder, folder).model)


def _run(folder: Path, task: str, config: dict, model: torch.nn.Module) -> Path:
    write_text(folder / "run.json", json.dumps({"regard": "run", "task": task, "config": config, "data": "0"}))
    write(folder / "best.safetensors", weights_of(model), {"step": 1})
    return folder


def bleu(value: float) -> dict:
    """What an evaluation says of a translator, as far as the tests need it."""
    return {"sentences": 10, "scores": [{"name": "bleu", "value": value, "signature": "made up"}], "by_length": []}


def gpt_folder(folder: Path) -> Path:
    """A small GPT as `save_folder` writes it, with a tokenizer of single letters."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    Gpt(GptConfig(vocabulary=28, d_model=16, heads=2, layers=1, context=32)).save_folder(folder)
    letters = {letter: i for i, letter in enumerate("?abcdefghijklmnopqrstuvwxyz ")}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def gguf_file(path: Path) -> Path:
    """A small llama with byte-level BPE: the 256 bytes, two merges and a mark."""
    import gguf
    from tokenizers.pre_tokenizers import ByteLevel

    pieces = [*sorted(ByteLevel.alphabet()), "he", "hel", "<|end|>"]
    width, hidden, chance = 32, 48, np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(pieces)
    writer.add_token_types([1] * 258 + [3])
    writer.add_token_merges(["h e", "he l"])
    writer.add_eos_token_id(258)
    shapes = {"token_embd": (259, width), "output_norm": (width,)}
    shapes |= {f"blk.0.{name}": (width,) for name in ("attn_norm", "ffn_norm")}
    shapes |= {
        "blk.0.attn_q": (width, width),
        "blk.0.attn_k": (16, width),
        "blk.0.attn_v": (16, width),
        "blk.0.attn_output": (width, width),
    }
    shapes |= {"blk.0.ffn_gate": (hidden, width), "blk.0.ffn_up": (hidden, width), "blk.0.ffn_down": (width, hidden)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", chance.normal(size=shape, scale=0.3).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def wheel(folder: Path, package: str, version: str, members: dict[str, bytes]) -> Path:
    """A wheel pip takes, holding `members`."""
    name = package.replace("-", "_")
    about = f"{name}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\nRequires-Dist: not-there\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path
