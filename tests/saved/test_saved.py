"""What users wrote to disk with an earlier version still opens, still goes on, and still says the same.

files/ was written by the code of its time (see make.py), expected/ is what that code made of it. Nothing is imported here but public
names: the tests hold wherever the code behind them moves. Numbers may differ by float32's rounding on another machine, kernel or
number of threads, which a dozen further steps of training make larger; a file that is read wrongly is wrong by far more.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import reopen
import torch
from reopen import ADDED, EXPECTED, FILES, RUNS, TRAINING, differences, regard
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import regard as library
from regard import models, zoo

TASKS = ("translation", "lm", "mlm", "classify", "reader")
OPENED = [name for name, run in RUNS.items() if run.task != "mlm"]


def expected(name: str) -> object:
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


def assert_same(found: object, wanted: object, *, rel: float = 1e-4, least: float = 1e-5) -> None:
    found = json.loads(json.dumps(found))  # as the wanted was stored
    assert list(differences(found, wanted, rel=rel, least=least)) == []


@pytest.fixture
def copied(tmp_path) -> Path:
    """files/training, to write in."""
    return Path(shutil.copytree(TRAINING, tmp_path / "training"))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_resumes(name: str, folder: Path) -> None:
    """A run goes on from its checkpoint to the losses, the weights and the files that were recorded."""
    resumed = reopen.resumed(name, folder)
    if name == "mlm":
        resumed["files"].remove("model.json")  # later versions write it beside what was recorded; runs without it open too
    assert_same(resumed, expected(f"resumed-{name}"), rel=1e-3, least=1e-4)
    found, wanted = reopen.last_weights(folder / name), load_file(EXPECTED / f"resumed-{name}.safetensors")
    assert found.keys() == wanted.keys()
    for key in wanted:
        told = wanted[key].isfinite()
        torch.testing.assert_close(found[key][told], wanted[key][told], rtol=1e-3, atol=1e-3, msg=lambda text, key=key: f"{key}: {text}")


# Runs


@pytest.mark.parametrize("name", RUNS)
def test_an_interrupted_run_goes_on_to_the_same_end(name, copied):
    checkpoints = sorted((copied / name / "checkpoints").iterdir())
    assert checkpoints[-1].name == "step-000000024.safetensors"
    before = (copied / name / "log.jsonl").read_text(encoding="utf-8")
    assert_resumes(name, copied)
    assert (copied / name / "log.jsonl").read_text(encoding="utf-8").startswith(before)  # it went on, and did not begin again


@pytest.mark.parametrize("name", OPENED)
def test_the_best_weights_of_a_run_answer_as_before(name, tmp_path):
    before = contents(TRAINING / name)
    assert_same(reopen.asked(name, tmp_path), expected(f"asked-{name}"))
    assert contents(TRAINING / name) == before


def test_a_finished_run_has_nothing_left_to_do(copied):
    reopen.resumed("lm", copied)
    before = contents(copied / "lm")
    assert "done: 36 steps" in regard("train", "lm", copied / "lm.toml")
    assert contents(copied / "lm") == before


def test_a_run_may_be_asked_for_more_steps(copied):
    config = copied / "lm.toml"
    config.write_text(config.read_text().replace("steps = 36", "steps = 28"))
    assert "done: 28 steps" in regard("train", "lm", config, "--quiet")
    config.write_text(config.read_text().replace("steps = 28", "steps = 36"))
    assert "done: 36 steps" in regard("train", "lm", config, "--quiet")


def test_a_run_killed_after_its_checkpoint_cuts_its_log_back(copied):
    run = copied / "lm"
    with (run / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write('{"event": "step", "step": 25, "loss": 0.0}\n{"event": "st')
    (run / "checkpoints" / ".step-000000030.safetensors.77.draft").write_bytes(b"half of a file")
    assert_resumes("lm", copied)


def test_a_run_older_than_some_keys_opens_and_goes_on(copied, tmp_path):
    """An earlier version wrote fewer keys: what is missing has its default."""
    run = copied / "lm"
    told = json.loads((run / "run.json").read_text(encoding="utf-8"))
    for table, keys in {"training": ("deterministic", "precision", "patience", "average"), "model": ("window", "bias")}.items():
        for key in keys:
            del told["config"][table][key]
    (run / "run.json").write_text(json.dumps(told))
    checkpoint = run / "checkpoints" / "step-000000024.safetensors"
    with safe_open(checkpoint, framework="pt") as file:
        state = json.loads(file.metadata()["regard"].partition("\n")[0])
    del state["journey"]["size"]
    save_file(load_file(checkpoint), checkpoint, metadata={"regard": json.dumps(state)})
    wanted = expected("asked-lm")
    assert_same(reopen.asked("lm", tmp_path, run), wanted)
    assert_resumes("lm", copied)


def test_a_run_begins_with_the_words_and_weights_of_another(copied):
    config = copied / "again.toml"
    text = (TRAINING / "translation-transformer.toml").read_text().replace('out = "translation-transformer"', 'out = "again"')
    config.write_text('start = "translation-transformer"\n' + text.replace("steps = 36", "steps = 1"))
    assert "done: 1 steps" in regard("train", "translation", config, "--quiet")
    for side in ("source", "target"):
        file = f"{side}.vocabulary.json"
        assert (copied / "again" / file).read_bytes() == (TRAINING / "translation-transformer" / file).read_bytes()


def test_the_command_of_a_new_process_goes_on(copied):
    command = [sys.executable, "-m", "regard", "train", "reader", str(copied / "reader.toml"), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("done: 36 steps")


def test_vocabularies_read_as_before():
    assert_same(reopen.vocabularies(), expected("vocabularies"))


# Configs


def changed(text: str, **values: object) -> str:
    """A config with these keys set to other values, where it has them."""
    for key, value in values.items():
        text = re.sub(rf'^{key} = ("[^"]*"|\S+)', f"{key} = {json.dumps(value)}", text, count=1, flags=re.M)
    return text


@pytest.mark.parametrize("when", ["then", "now"])
@pytest.mark.parametrize("task", TASKS)
def test_the_printed_example_of_a_config_trains(task, when, copied):
    """The example of each task, as printed by the version that wrote files/ and by this one, with only its files and its length changed."""
    then, now = (FILES / "examples" / f"{task}.toml").read_text(encoding="utf-8"), regard("train", task, "--example")
    if when == "now" and now == then:
        return  # the other of the two tests has read it
    data = {
        "translation": {"train": "letters-train.tsv", "valid": "letters-valid.tsv"},
        "classify": {"train": "topics-train.tsv", "valid": "topics-valid.tsv", "start": "mlm"},
        "reader": {"train": "stories.txt", "held_out": 6},
    }
    text = changed(then if when == "then" else now, **data.get(task, {"train": "rhyme.txt", "valid": "rhyme-valid.txt"}))
    (copied / "new.toml").write_text(changed(text, out="new", steps=1, epochs=1), encoding="utf-8")
    assert "done: " in regard("train", task, copied / "new.toml", "--quiet")
    assert (copied / "new" / "best.safetensors").is_file()


def test_data_trains_as_the_config_written_for_it_before_says(copied, monkeypatch):
    """`regard train lm rhyme.txt` wrote rhyme.toml from the example; the same command finds it."""
    text = (FILES / "examples" / "lm.toml").read_text(encoding="utf-8")
    (copied / "rhyme.toml").write_text(changed(text, out="runs/rhyme", train="rhyme.txt", steps=1), encoding="utf-8")
    monkeypatch.chdir(copied)
    told = regard("train", "lm", "rhyme.txt", "--quiet")
    assert "rhyme.toml" in told
    assert "done: 1 steps" in told
    assert (copied / "runs" / "rhyme" / "best.safetensors").is_file()


@pytest.mark.parametrize(
    ("task", "config"),
    [
        ("translation", '[data]\ntrain = "numbers.source"\ncolumns = [0, 0]\n[source]\n[target]\n[model]\nkind = "fixed"\nstate = 8'),
        ("lm", '[data]\ntrain = "rhyme.txt"\n[model]'),
        ("mlm", '[data]\ntrain = "rhyme.txt"\nvalid = "rhyme-valid.txt"\n[model]'),
        ("classify", '[data]\ntrain = "topics-train.tsv"\nvalid = "topics-valid.tsv"'),
        ("reader", '[data]\ntrain = "stories.txt"\nvalid = "stories-valid.txt"'),
    ],
)
def test_a_config_with_only_the_oldest_keys_trains(task, config, copied):
    (copied / "old.toml").write_text(f'out = "old"\n{config}\n[training]\nsteps = 1\n', encoding="utf-8")
    assert "done: 1 steps" in regard("train", task, copied / "old.toml", "--quiet")


# Models


def test_saved_folders_compute_as_before():
    assert_same(reopen.saved_models(), expected("models"))


@pytest.mark.parametrize("name", ["gpt", "gpt-rotary", "bert", "classifier", "transformer"])
def test_a_saved_folder_is_written_as_it_was(name, tmp_path):
    kind = {"bert": models.Bert, "classifier": models.BertClassifier, "transformer": models.Transformer}.get(name, models.Gpt)
    kind.from_folder(FILES / "models" / name).save_folder(tmp_path)
    wanted, found = (json.loads((folder / "config.json").read_text()) for folder in (FILES / "models" / name, tmp_path))
    assert wanted["regard"] == found["regard"]
    assert wanted["config"].items() <= found["config"].items()  # a later version may have more options
    before, after = load_file(FILES / "models" / name / "model.safetensors"), load_file(tmp_path / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize("name", reopen.layer_names())
def test_the_state_of_a_layer_goes_back_into_it(name):
    tensors = load_file(FILES / "layers.safetensors")
    layer = reopen.new_layer(name)
    layer.load_state_dict({key.removeprefix(f"{name}/"): value for key, value in tensors.items() if key.startswith(f"{name}/")})
    assert_same(reopen.layer_output(name, layer), expected("layers")[name])


def test_a_table_is_fitted_as_before():
    found = json.loads(regard("fit", FILES / "table.csv", "--target", "y", "--json"))
    known = {key: found[key] for key in expected("fit")}  # a later version may say more
    assert_same(known, expected("fit"), rel=1e-2, least=1e-3)  # the width is searched for


# Added models and their cards


@pytest.fixture
def added(monkeypatch) -> Path:
    monkeypatch.setenv("REGARD_HOME", str(FILES / "home"))
    return FILES / "home" / "models"


def test_added_models_are_listed_with_all_their_cards_say(added):
    rows = {row["name"]: row for row in json.loads(regard("models", "--json")) if row["origin"] == "added"}
    assert rows.keys() == {*ADDED, "alphabet"}
    for name, row in rows.items():
        card = json.loads((added / name / "card.json").read_text(encoding="utf-8"))
        assert {key: row[key] for key in card} == card
        assert "trouble" not in row
        shown = regard("models", "show", name)
        for line in (added / name / "MODEL.md").read_text(encoding="utf-8").splitlines():
            assert line.removesuffix("  |") in shown  # a newer page may explain a score where the old one left the cell empty
    assert all(name in regard("models") for name in rows)


@pytest.mark.parametrize("by", ["name", "path"])
@pytest.mark.parametrize("name", ADDED)
def test_a_packed_run_answers_in_half_precision_as_before(name, by, added, tmp_path):
    before = contents(added / name)
    wanted = expected(f"asked-{ADDED[name]}")
    found = reopen.asked(ADDED[name], tmp_path, name if by == "name" else added / name)
    scores = json.loads((added / name / "card.json").read_text(encoding="utf-8"))["scores"]["its own data"]
    for score in scores.get("scores", ()):
        score["signature"] = score["signature"].partition("|version:")[0]
    assert_same(found["evaluate"], scores)
    if "look" in found:  # beside the name, only what the rounding to half precision changes
        found["look"]["model"] = wanted["look"]["model"]
    for part in found.keys() & {"logits", "look", "read"}:
        assert_same(found[part], wanted[part], rel=2e-2, least=1e-2)
    assert contents(added / name) == before


def test_an_added_folder_and_a_translator_by_language_are_found(added):
    assert zoo.open("alphabet").generate("abc", max_new=8, temperature=0) == expected("models")["generate"]
    assert zoo.translator("eo").name == "numbers"
    assert zoo.find("numbers").card.data[0].attribution == "made by make.py"


def test_a_card_of_a_later_version_and_a_damaged_model(added, tmp_path, monkeypatch):
    home = Path(shutil.copytree(FILES / "home", tmp_path / "copy"))
    monkeypatch.setenv("REGARD_HOME", str(home))
    card = home / "models" / "rhyme" / "card.json"
    card.write_text(json.dumps(json.loads(card.read_text(encoding="utf-8")) | {"not yet known": [1]}), encoding="utf-8")
    assert zoo.open("rhyme").generate("the", max_new=2, temperature=0).startswith("the")
    with (home / "models" / "rhyme" / "model.safetensors").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ValueError, match="sha256"):
        zoo.open("rhyme")
    regard("models", "remove", "rhyme")
    assert "rhyme" not in zoo.names()


# Sightings


@pytest.mark.parametrize("name", reopen.sightings())
def test_a_saved_sighting_reads_as_before(name):
    assert_same(reopen.sighting(FILES / "sightings" / f"{name}.safetensors"), expected(f"sighting-{name}"))


@pytest.mark.parametrize("name", reopen.sightings())
def test_a_saved_sighting_is_written_as_it_was(name, tmp_path):
    """Read and written again it is the same file, and the same summary; the pages are drawn from it."""
    path = FILES / "sightings" / f"{name}.safetensors"
    loaded = library.Sighting.load(path)
    loaded.save(tmp_path / "again.safetensors")
    before, after = load_file(path), load_file(tmp_path / "again.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    with safe_open(path, framework="pt") as old, safe_open(tmp_path / "again.safetensors", framework="pt") as new:
        assert old.metadata()["format"] == new.metadata()["format"]
        assert_same(json.loads(new.metadata()["sighting"]), json.loads(old.metadata()["sighting"]), rel=0, least=0)
    loaded.save(tmp_path / "again.json")
    wanted, found = (json.loads(file.read_text(encoding="utf-8")) for file in (path.with_suffix(".json"), tmp_path / "again.json"))
    assert_same(found, wanted)
    loaded.save(tmp_path / "page.html")
    assert "</html>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_saved_sightings_are_compared_and_followed_through_the_layers():
    loaded = library.Sighting.load(FILES / "sightings" / "gpt.safetensors")
    assert loaded.rollout().shape == (1, 8)
    assert loaded.compare(library.Sighting.load(FILES / "sightings" / "gpt.safetensors")) is not None
    assert len(loaded.to_pandas()) == 4
    assert [seen.kind for seen in library.Sighting.load(FILES / "sightings" / "transformer.safetensors")] == ["encoder", "causal", "cross"]
