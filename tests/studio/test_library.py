"""Which models the studio knows: named folders, shipped ones; safetensors only, unchanged; what their cards say."""

import json
from pathlib import Path

import pytest

from regard.studio.library import Library, check, find_models
from regard.studio.request_error import RequestError
from regard.studio.serving import listen
from regard.zoo.card import Card
from studio_models import changed


def test_named_folders_come_first_and_keep_their_names_apart(folders: dict[str, Path], tmp_path: Path) -> None:
    twin = tmp_path / "letters"
    twin.symlink_to(folders["letters"])
    other = tmp_path / "b"
    other.mkdir()
    (other / "letters").symlink_to(folders["letters"])
    models = find_models([folders["letters"], folders["reverser"]])
    assert list(models)[:2] == ["letters", "reverser"]
    assert models["shakespeare"].is_dir()
    again = find_models([folders["letters"], folders["letters"]])
    assert list(again)[:2] == ["letters", "letters-2"]


def test_the_kind_of_each_model(folders: dict[str, Path]) -> None:
    library = Library(folders)
    assert library.names("translator") == ["reverser", "fixed"]
    assert library.names("text") == ["letters"]
    assert library.find("reverser").attention
    assert not library.find("fixed").attention
    with pytest.raises(RequestError, match="available: reverser, fixed, letters"):
        library.find("x")


def test_runs_of_every_task_read_a_text_but_a_readers(tmp_path: Path) -> None:
    for task in ("reader", "mlm", "one-of-your-own"):
        (tmp_path / task).mkdir()
        (tmp_path / task / "run.json").write_text(json.dumps({"regard": "run", "task": task, "config": {}}), encoding="utf-8")
    library = Library({path.name: path for path in sorted(tmp_path.iterdir())})
    assert library.names("text") == ["mlm", "one-of-your-own"]
    assert library.names("other") == ["reader"]


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a model"):
        check(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(ValueError, match="pickled weights"):
        check(tmp_path)
    with pytest.raises(ValueError, match="is not a model"):
        find_models([tmp_path / "missing"])


def test_the_card_tells_languages_and_scores(chinese: dict[str, Path]) -> None:
    library = Library(chinese)
    model = library.find("zh-en-transformer")
    card = Card.read(model.path)
    assert card is not None
    assert model.source == "zh"
    assert model.reads == ("zh",)
    assert model.bleu == card.bleu()
    assert model.lengths == {"toy test": card.scores["toy test"]["by_length"]}
    assert [row["least"] for row in model.lengths["toy test"]] == [4, 7, 9]
    assert not library.find("zh-en-fixed").attention


def test_changed_weights_are_not_opened(chinese: dict[str, Path], tmp_path: Path) -> None:
    assert Library(chinese).find("zh-en-fixed").check() == chinese["zh-en-fixed"]
    broken = changed(chinese["zh-en-fixed"], tmp_path / "broken")
    with pytest.raises(RequestError, match="damaged or was changed: its sha256 is") as error:
        Library({"broken": broken}).find("broken").check()
    assert error.value.to_json()["values"] == {"name": "broken"}


def test_a_model_with_a_damaged_card_or_config_is_listed_and_told_when_opened(chinese: dict[str, Path], tmp_path: Path) -> None:
    broken = changed(chinese["zh-en-fixed"], tmp_path / "broken")
    (broken / "card.json").write_text("{")
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "config.json").write_text("[]")
    library = Library({"broken": broken, "odd": odd})
    assert library.names() == ["broken", "odd"]
    with pytest.raises(RequestError, match=r"card\.json is damaged"):
        library.find("broken").check()


def test_which_languages_published_models_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    for text, reads in (
        ('{"vocab": {"人": 1}}', ("en",)),
        ('{"##苹": 1, "果": 2, "打": 3}', ("en", "zh")),
        ('{"type": "ByteLevel"}', ("en", "zh")),
    ):
        (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
        assert Library({"x": tmp_path}).find("x").reads == reads


def test_a_taken_port_is_an_error_and_a_free_one_found() -> None:
    with listen(None) as first:
        port = first.getsockname()[1]
        assert first.getsockname()[0] == "127.0.0.1"
        with pytest.raises(ValueError, match=f"port {port} cannot be used"):
            listen(port)
        with listen(None) as second:
            assert second.getsockname()[1] != port
