"""`regard fill`, `classify`, `probe`, `summarise`, `answer` and `generate --prefixes`, on tiny models trained here."""

import json
import re
from pathlib import Path

import pytest
from command_line import regard, without_box

from regard.training.config import read_config
from regard.training.config_from_data import config_for
from regard.training.tasks import find_task

TINY = "d_model = 16\nheads = 2\nlayers = 2\ncontext = 24\ndropout = 0.0\n"
STEPS = "[training]\nsteps = 30\nrate = 5e-3\nevaluate_every = 30\n"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Runs of mlm, classify and summarise."""
    folder = tmp_path_factory.mktemp("language")
    words = ["good", "fine", "bad", "poor"]
    texts = [f"the {thing} is {word} 很{'好' if i < 2 else '坏'}" for thing in ("room", "bed", "bath") for i, word in enumerate(words)] * 4
    (folder / "text.txt").write_text("\n".join(texts) + "\n")
    rows = [f"{int('好' in text)}\t{text} {i}" for i, text in enumerate(texts)]
    (folder / "reviews.tsv").write_text("\n".join(rows) + "\n")
    (folder / "pairs.tsv").write_text("".join(f"tool {i} makes Xylo{i} files\tXylo{i} files\n" for i in range(40)))
    configs = {
        "mlm": f'[data]\ntrain = "text.txt"\nvalid = "text.txt"\n[vocabulary]\nkind = "mixed"\nsize = 90\n[model]\n{TINY}',
        "classify": 'start = "mlm"\npooling = "mean"\n[data]\ntrain = "reviews.tsv"\ncolumns = [1, 0]\n',
        "summarise": '[data]\ntrain = "pairs.tsv"\n[source]\nsize = 90\nlowercase = true\n[target]\nkind = "shared"\n'
        '[model]\nkind = "bahdanau"\nembedding = 8\nstate = 16\nquery = "current"\ncopy = true\n[decoding]\nmax_length = 8\n',
    }
    for task, text in configs.items():
        top = f'out = "{task}"\n'
        (folder / f"{task}.toml").write_text(top + text + STEPS)
        result = regard("train", task, folder / f"{task}.toml", "--quiet")
        assert result.exit_code == 0, result.output
    return folder


def test_fill_prints_candidates_and_where_each_mask_looked(runs):
    result = regard("fill", "the room is [MASK] 很<mask>", "-m", runs / "mlm", "--json", "--top", 3)
    assert result.exit_code == 0, result.output
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert (first["mask"], second["mask"]) == (1, 2)
    assert len(first["candidates"]) == 3
    assert second["candidates"][0]["text"] in "好坏"
    assert {"room", "很", "<mask>"} <= {item["word"] for item in second["attended"]}
    assert sum(item["weight"] for item in second["attended"]) <= 1 + 1e-4
    shown = regard("fill", "the room is [MASK]", "-m", runs / "mlm").stdout
    assert "%" in shown
    assert "attended to" in shown


def test_classify_prints_labels_and_words(runs):
    result = regard("classify", "the bed is good 很好", "--model", runs / "classify", "--json")
    actual = json.loads(result.stdout)
    assert sum(actual["labels"].values()) == pytest.approx(1, abs=1e-4)
    assert max(actual["labels"], key=actual["labels"].get) == "1"
    assert [item["word"] for item in actual["attended"]] == ["the", "bed", "is", "good", "很", "好"]
    lines = regard("classify", "--file", runs / "text.txt", "--model", runs / "classify").stdout.splitlines()
    assert len(lines) == 48
    assert all(line.split("\t")[0] in "01" for line in lines)


@pytest.mark.parametrize(("models", "start"), [((), None), (("bert-small", "minilm"), "minilm"), (("bert-small",), "bert-small")])
def test_a_config_for_labelled_texts_finds_the_columns_and_the_encoder(tmp_path, models, start):
    data = tmp_path / "reviews.tsv"
    data.write_text("".join(f"{i % 2}\t{'ab' * (i % 3)}x\ta long review of something {i}\n" for i in range(30)))
    config = read_config(config_for("classify", data, tmp_path, models), find_task("classify").config)
    assert config.data.columns == (2, 0)
    assert config.data.valid is None
    assert config.start == start
    assert (config.model is None) == (start is not None)
    chinese = tmp_path / "zh.tsv"
    chinese.write_text("".join(f"{i % 2}\t房间很好 {i}\n" for i in range(30)))
    assert read_config(config_for("classify", chinese, tmp_path, ("minilm",)), find_task("classify").config).start is None


def test_probe_compares_the_start_and_an_untrained_encoder(runs, monkeypatch):
    monkeypatch.chdir(runs)
    result = regard("probe", "classify", "reviews.tsv", "--figure", "probe.svg", "--json")
    assert result.exit_code == 0, result.output
    actual = json.loads(result.stdout)
    assert list(actual["layers"]) == ["classify", "mlm", "untrained"]
    assert [len(row) for row in actual["layers"].values()] == [3, 3, 3]
    assert max(actual["layers"]["classify"]) >= actual["majority"]
    assert Path("probe.svg").read_text().startswith("<?xml")


def test_summarise_and_answer_with_a_trained_model(runs):
    result = regard("summarise", "tool 7 makes Xylo7 files", "-m", runs / "summarise", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["summary"]
    (runs / "lines.txt").write_text("tool 1 makes Xylo1 files\ntool 2 makes Xylo2 files\n")
    assert len(regard("summarise", "--lines", runs / "lines.txt", "-m", runs / "summarise").stdout.splitlines()) == 2
    assert regard("answer", "tool 3?", "-m", runs / "summarise").exit_code == 0


def without_time(text: str) -> str:
    """What was printed, without how long it took."""
    shorter = re.sub(r"; [0-9.]+ s, reading everything .*", "", text)
    assert shorter != text
    return shorter


def test_answer_from_a_text_is_what_read_says(tmp_path):
    (tmp_path / "story.txt").write_text("Mary went to the garden. John went to the kitchen.")
    said = regard("read", tmp_path / "story.txt", "--ask", "Where is Mary?")
    assert said.exit_code == 0, said.output
    assert "garden" in said.stdout
    answered = regard("answer", "Where is Mary?", "--context", tmp_path / "story.txt").stdout
    assert without_time(answered) == without_time(said.stdout)


def test_prefixes_are_those_of_generating_one_by_one():
    lines = regard("generate", "ROMEO", "--prefixes", "--top", 2, "--json").stdout.splitlines()
    results = [json.loads(line) for line in lines]
    assert [row["tokens"][-1] for row in results] == list("ROMEO")
    for row in results:
        greedy = regard("generate", "".join(row["tokens"]), "--max-new", 1, "--temperature", 0).stdout
        assert row["candidates"][0][0].replace("▁", " ") == greedy.removesuffix("\n")[-1:]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fill", "no mask here", "-m", "RUNS/mlm"], "write [MASK] where a token is missing"),
        (["fill", " ", "-m", "RUNS/mlm"], "the text is empty"),
        (["fill", "a [MASK]", "-m", "shakespeare"], "shakespeare is not a masked-token model"),
        (["classify", "x", "-m", "RUNS/mlm"], "is a run of 'mlm', not 'classify'"),
        (["summarise", "x", "-m", "reader"], "reader cannot summarise"),
        (["summarise", "x"], "regard models add smollm2"),
        (["summarise"], "give either a text"),
        (["answer", "?!"], "has no words"),
        (["answer", "who", "-m", "shakespeare"], "shakespeare cannot answer"),
        (["generate", "x", "--chat"], "has no chat template"),
        (["generate", "x", "--chat", "--prefixes"], "give one of them"),
        (["probe", "shakespeare", "RUNS/reviews.tsv"], "is a run of 'lm', not 'mlm'"),
        (["probe", "RUNS/mlm", "RUNS/text.txt"], "1 tab-separated column"),
        (["evaluate", "alignment", "zh-en-fixed"], "has no attention"),
        (["evaluate", "mlm", "RUNS/mlm"], "give the test file"),
    ],
)
def test_bad_input_is_an_error(runs, words, message):
    result = regard(*(word.replace("RUNS", str(runs)) for word in words))
    assert result.exit_code == 2
    assert message in without_box(result.output)
    assert "Traceback" not in result.output
