"""`regard train`."""

import json
import sys
from random import Random

from command_line import regard, without_box
from pairs_of import config, reversal

from regard.training.config_from_data import config_for
from regard.training.tasks import find_task

ENGLISH = {"我": "I", "你": "you", "爱": "love", "看": "see", "书": "books", "猫": "cats", "山": "hills"}


def test_training_again_has_nothing_to_do(reversal_run):
    result = regard("train", "translation", reversal_run.parent / "config.toml", "--quiet")
    assert result.exit_code == 0
    assert result.output.splitlines()[0].startswith("done: 250 steps")


def test_a_language_model_is_trained_evaluated_and_used(tmp_path):
    (tmp_path / "t.txt").write_text("abcdefg\n" * 200)
    (tmp_path / "lm.toml").write_text(
        'out = "run"\n[data]\ntrain = "t.txt"\nbatch = 8\n[model]\nd_model = 24\nheads = 2\nlayers = 1\ncontext = 16\n'
        "[training]\nsteps = 80\nrate = 1e-2\nwarmup = 10\nevaluate_every = 80\n"
    )
    assert regard("train", "lm", tmp_path / "lm.toml", "--quiet").exit_code == 0
    assert regard("generate", "abc", "--model", tmp_path / "run", "--max-new", 6, "--temperature", 0).output == "abcdefg\na\n"
    assert json.loads(regard("generate", "-", "--model", tmp_path / "run", "--max-new", 1, "--json", input="ab").output)["prompt"] == "ab"
    data = json.loads(regard("evaluate", "lm", tmp_path / "run", "--test", tmp_path / "t.txt", "--json").output)
    assert data["perplexity"] < 1.3
    assert data["tokens"] == 200 * 8 - 1  # the last line break ends the file, not a line


def test_progress_is_lines_when_the_output_is_not_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.cli.train.LINE_SECONDS", 0)
    monkeypatch.setattr("regard.cli.train.SETTLED_STEPS", 2)
    (tmp_path / "t.txt").write_text("abcdefg\n" * 50)
    (tmp_path / "lm.toml").write_text(
        'out = "run"\n[data]\ntrain = "t.txt"\nbatch = 4\n[model]\nd_model = 8\nheads = 1\nlayers = 1\ncontext = 8\n'
        "[training]\nsteps = 5\nwarmup = 1\nevaluate_every = 5\n"
    )
    lines = regard("train", "lm", tmp_path / "lm.toml").output.splitlines()
    progress = [line for line in lines if " of 5 " in line]
    assert [line.split()[1] for line in progress] == ["1", "2", "3", "4", "5"]
    assert all("loss" in line and "tokens/s" in line for line in progress)
    assert ["left" in line for line in progress] == [False, False, True, True, True]  # the first steps also set things up
    assert not any(" of 5 " in line for line in regard("train", "lm", tmp_path / "lm.toml", "--quiet").output.splitlines())


def test_one_command_trains_on_a_file_and_the_next_shows_the_alignment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = Random(0)
    sources = [random.choice("我你") + random.choice("爱看") + "".join(random.sample("书猫山", random.randint(1, 3))) for _ in range(400)]
    lines = [f"{source}\t{' '.join(ENGLISH[c] for c in source)}\n" for source in sources]
    (tmp_path / "mine.tsv").write_text("".join(lines), encoding="utf-8")
    path = config_for("translation", tmp_path / "mine.tsv", tmp_path)
    small = {
        "embedding = 128": "embedding = 16",
        "state = 256": "state = 32",
        "alignment = 128": "alignment = 16",
        "warmup = 50 ": "warmup = 5 ",
        "evaluate_every = 100": "evaluate_every = 500",
        "batch_tokens = 1000": "batch_tokens = 2000",
    }
    text = path.read_text(encoding="utf-8").replace("steps = 500", "steps = 80").replace("rate = 1e-3", "rate = 2e-2")
    for old, new in small.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    result = regard("train", "translation", "mine.tsv")
    assert result.exit_code == 0, result.output
    assert "settings in mine.toml" in result.output
    shown = regard("translate", "我爱猫", "--model", "runs/mine", "--json")
    assert shown.exit_code == 0, shown.output
    best = json.loads(shown.output)["translations"][0]
    assert best["text"] == "I love cats"
    assert len(best["alignment"]) == len(best["target_words"])


def test_without_its_packages_training_says_what_to_install_and_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    (tmp_path / "t.txt").write_text("abcdefg\n" * 50)
    (tmp_path / "lm.toml").write_text('out = "run"\n[data]\ntrain = "t.txt"\n[model]\nd_model = 8\n[training]\nsteps = 1\n')
    result = regard("train", "lm", tmp_path / "lm.toml")
    assert result.exit_code == 1
    assert 'pip install "regard[train]"' in str(result.exception or result.output)
    assert not (tmp_path / "run").exists()


def test_an_example_config_is_printed_and_a_missing_config_is_an_error():
    printed = regard("train", "lm", "--example")
    assert printed.output == find_task("lm").manual
    assert "give a TOML file or a data file" in without_box(regard("train", "lm").output)


def test_an_unknown_task_is_an_error():
    result = regard("train", "translate", __file__)
    assert result.exit_code == 2
    assert "did you mean 'translation'?" in without_box(result.output)
    assert "Traceback" not in result.output


def test_a_mistyped_key_is_named_on_the_command_line(tmp_path):
    reversal(tmp_path, train=4, valid=2, longest=3)
    path = config(tmp_path, "stepz = 3")
    assert "there is no key 'stepz'; did you mean 'steps'?" in without_box(regard("train", "translation", path).output)
