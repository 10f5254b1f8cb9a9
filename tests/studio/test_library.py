"""Which models the studio knows: named folders, shipped ones; safetensors only; scores by length from their cards."""

import json
from pathlib import Path

import pytest

from regard.studio.library import Library, check, gather
from regard.studio.refusal import Refusal
from regard.studio.serving import listen


def test_named_folders_come_first_and_keep_their_names_apart(folders: dict[str, Path], tmp_path: Path) -> None:
    twin = tmp_path / "letters"
    twin.symlink_to(folders["letters"])
    other = tmp_path / "b"
    other.mkdir()
    (other / "letters").symlink_to(folders["letters"])
    found = gather([folders["letters"], folders["reverser"]])
    assert list(found)[:2] == ["letters", "reverser"]
    assert found["shakespeare"].is_dir()
    again = gather([folders["letters"], folders["letters"]])
    assert list(again)[:2] == ["letters", "letters-2"]


def test_what_each_is(folders: dict[str, Path]) -> None:
    library = Library(folders)
    assert library.names("translator") == ["reverser", "fixed"]
    assert library.names("text") == ["letters"]
    assert library.find("reverser").attention
    assert not library.find("fixed").attention
    with pytest.raises(Refusal, match="there are reverser, fixed, letters"):
        library.find("x")


def test_weights_that_must_be_unpickled_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a model"):
        check(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(ValueError, match="unpickled"):
        check(tmp_path)
    with pytest.raises(ValueError, match="is not a model"):
        gather([tmp_path / "missing"])


def test_scores_by_length_come_from_the_card(folders: dict[str, Path], tmp_path: Path) -> None:
    run = json.loads((folders["reverser"] / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(run))
    rows = [{"least": 1, "most": 5, "sentences": 9, "bleu": 30.5}]
    (tmp_path / "card.json").write_text(json.dumps({"scores": {"test": {"by_length": rows}, "other": {"loss": 1.0}}}))
    assert Library({"zh-en-x": tmp_path}).find("zh-en-x").lengths == {"test": rows}
    assert Library({"zh-en-x": tmp_path}).find("zh-en-x").source == "zh"


def test_a_taken_port_is_told_and_a_free_one_found() -> None:
    with listen(None) as first:
        port = first.getsockname()[1]
        assert first.getsockname()[0] == "127.0.0.1"
        with pytest.raises(ValueError, match=f"port {port} cannot be used"):
            listen(port)
        with listen(None) as second:
            assert second.getsockname()[1] != port
