"""A run packed: half on disk, whole in memory, and nothing of the machine it was trained on."""

import json

import pytest
import torch
from made_models import translator_run
from safetensors.torch import load_file, save_file

from regard.training.tasks.translation import Translations
from regard.zoo.card import Card, markdown
from regard.zoo.packing import pack

ABOUT = {"about": "A test.", "languages": ("zh", "en")}


def test_weights_are_half_on_disk_and_whole_in_memory(tmp_path):
    run = translator_run(tmp_path / "run")
    card = pack(run, tmp_path / "packed", ABOUT)
    before, after = Translations.open(run), Translations.open(tmp_path / "packed")
    stored = load_file(tmp_path / "packed" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    assert card.parameters == sum(p.numel() for p in before.model.parameters())
    for old, new in zip(before.model.parameters(), after.model.parameters(), strict=True):
        assert new.dtype == torch.float32
        torch.testing.assert_close(new, old, rtol=2**-11, atol=2**-24)
    one, two = (opened.candidates(["我爱中国"], align=True)[0][0] for opened in (before, after))
    assert one.text == two.text
    assert one.score == pytest.approx(two.score, abs=1e-2)
    assert after.limit == 20


def test_no_path_of_this_machine_is_in_it(tmp_path):
    pack(translator_run(tmp_path / "run"), tmp_path / "packed", ABOUT)
    for file in (tmp_path / "packed").iterdir():
        assert str(tmp_path).encode() not in file.read_bytes(), file.name
    config = json.loads((tmp_path / "packed" / "run.json").read_text())["config"]
    assert config["out"] == "packed"
    assert config["data"]["train"] == "train.tsv"


def test_the_same_run_gives_the_same_bytes_and_its_card_fits(tmp_path):
    run = translator_run(tmp_path / "run")
    first = pack(run, tmp_path / "packed", ABOUT)
    assert pack(run, tmp_path / "packed", ABOUT).files == first.files
    card = Card.read(tmp_path / "packed")
    card.check(tmp_path / "packed")
    assert set(card.files) == {"model.safetensors", "run.json", "source.vocabulary.json", "target.vocabulary.json"}
    assert (card.task, card.seed) == ("translation", 3)
    assert (tmp_path / "packed" / "MODEL.md").read_text(encoding="utf-8") == markdown(card)


def test_what_half_precision_cannot_hold_is_refused_and_leaves_the_old_model(tmp_path):
    run = translator_run(tmp_path / "run")
    pack(run, tmp_path / "packed", ABOUT)
    tensors = load_file(run / "best.safetensors")
    name = sorted(tensors)[0]
    save_file({**tensors, name: tensors[name] * 1e6}, run / "best.safetensors", metadata={"regard": "{}"})
    with pytest.raises(ValueError, match="half precision cannot represent"):
        pack(run, tmp_path / "packed", ABOUT)
    Card.read(tmp_path / "packed").check(tmp_path / "packed")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["packed", "run"]


def test_a_run_that_was_never_evaluated_has_nothing_to_pack(tmp_path):
    run = translator_run(tmp_path / "run")
    (run / "best.safetensors").unlink()
    with pytest.raises(ValueError, match=r"has no best\.safetensors"):
        pack(run, tmp_path / "packed", ABOUT)
