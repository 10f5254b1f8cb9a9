"""`regard models`: list, show, add, remove."""

import json

from command_line import regard
from made_models import gpt_folder

from regard.zoo.install import add


def test_models_are_listed_shown_added_and_removed(home, tmp_path):
    listed = regard("models").stdout
    assert ["shakespeare", "lm"] in [line.split()[:2] for line in listed.splitlines()]
    assert "none added yet" in listed
    result = regard("models", "add", gpt_folder(tmp_path / "letters"))
    assert result.exit_code == 0
    assert f"letters added: 0 MB in {home / 'letters'}" in result.stdout
    assert "regard generate" in result.stdout
    data = {item["name"]: item for item in json.loads(regard("models", "--json").stdout)}
    assert data["letters"]["origin"] == "added"
    assert data["shakespeare"]["origin"] == "shipped"
    assert data["letters"]["bytes"] > 1000
    assert "# letters" in regard("models", "show", "letters").stdout
    assert regard("generate", "abc", "-m", "letters", "--max-new", 2).stdout.startswith("abc")
    assert regard("models", "remove", "letters").exit_code == 0
    assert regard("models", "remove", "letters").exit_code == 2
    assert "none added yet" in regard("models").stdout


def test_a_damaged_card_is_listed_as_such(home, tmp_path):
    add(gpt_folder(tmp_path / "letters"))
    (home / "letters" / "card.json").write_text("{")
    assert "its card is damaged" in regard("models").stdout
    assert "damaged" in {item["name"]: item for item in json.loads(regard("models", "--json").stdout)}["letters"]["trouble"]
