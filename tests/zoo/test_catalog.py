"""Finding models: by name, by path, by language; and what is said when there is none."""

from pathlib import Path

import pytest
from made_models import bleu, gguf_file, gpt_folder, translator_run

from regard.zoo import entries, find, names, translator
from regard.zoo import open as open_model
from regard.zoo.catalog import home as home_of
from regard.zoo.install import add
from regard.zoo.packing import pack


def added(home: Path, name: str, language: str, score: float) -> None:
    run = translator_run(home.parent / f"run-{name}", language)
    pack(run, home / name, {"about": name, "languages": (language, "en"), "comes_from": "a test"}, scores={"made up": bleu(score)})


def test_shipped_ones_come_first_and_are_found_by_name(home):
    assert {"reader", "shakespeare"} <= set(names())
    added(home, "abc", "zh", 1.0)
    assert names()[-1] == "abc"
    entry = find("abc")
    assert (entry.origin, entry.path, entry.card.task) == ("added", home / "abc", "translation")
    assert find("reader").origin == "shipped"


def test_paths_are_found_and_opened(tmp_path):
    run = translator_run(tmp_path / "run")
    assert find(run).origin == "given"
    assert open_model(run).candidates(["我爱书"], width=1)[0][0].text is not None
    assert open_model(gpt_folder(tmp_path / "gpt")).generate("abc", max_new=3, temperature=0).startswith("abc")
    file = gguf_file(tmp_path / "small.gguf")
    assert find(file).name == "small"
    assert open_model(file).generate("hello", max_new=2, temperature=0).startswith("hello")


def test_a_name_goes_before_a_path_of_the_same_spelling(tmp_path, monkeypatch):
    translator_run(tmp_path / "reader")
    monkeypatch.chdir(tmp_path)
    assert find("reader").origin == "shipped"
    assert find("./reader").origin == "given"


def test_what_is_not_there_is_told_with_what_is(tmp_path):
    with pytest.raises(
        ValueError, match=r"there is no model 'shakespear' .* did you mean 'shakespeare'\? .*shipped: .*reader, shakespeare"
    ):
        find("shakespear")
    (tmp_path / "note.txt").write_text("x")
    with pytest.raises(ValueError, match=r"note\.txt is not a model: give a folder, or a \.gguf file"):
        find(tmp_path / "note.txt")
    with pytest.raises(ValueError, match=r"has no run\.json .* and no config\.json"):
        find(tmp_path)


def test_of_two_translators_the_better_is_taken(home):
    added(home, "good", "zh", 99.0)
    added(home, "bad", "zh", 98.0)
    added(home, "german", "de", 99.0)
    assert translator("zh").name == "good"
    assert translator("de").name == "german"
    with pytest.raises(ValueError, match=r"no model that translates from 'fr' .*good.*they translate from de, zh"):
        translator("fr")


def test_a_damaged_model_hides_no_other(home, tmp_path):
    add(gpt_folder(tmp_path / "fine"))
    add(gpt_folder(tmp_path / "broken"))
    (home / "broken" / "card.json").write_text("{")
    assert open_model("fine")
    assert {e.name for e in entries() if e.trouble} == {"broken"}
    with pytest.raises(ValueError, match=r"card\.json is damaged"):
        open_model("broken")


def test_home_is_where_the_system_keeps_data(monkeypatch, tmp_path):
    assert home_of() == tmp_path / "home" / "models"
    monkeypatch.delenv("REGARD_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("sys.platform", "linux")
    assert home_of() == tmp_path / "data" / "regard" / "models"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert home_of() == tmp_path / ".local" / "share" / "regard" / "models"
    monkeypatch.setattr("sys.platform", "darwin")
    assert home_of() == tmp_path / "Library" / "Application Support" / "regard" / "models"
