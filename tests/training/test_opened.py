"""What every opened model offers, whatever it was trained for; and that the registry knows all of every task."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from regard.cli import build
from regard.text.stories import Story
from regard.text.vocabulary import BOS, EOS, MASK
from regard.training.opened import OpenedModel
from regard.training.runs import train
from regard.training.tasks import TASKS, find_task
from regard.training.tasks.mlm import MaskedModel
from regard.zoo import open as open_model

TRAINING = "[training]\nsteps = 2\nevaluate_every = 2\ncheckpoint_every = 2\n"
TINY = "d_model = 16\nheads = 2\nlayers = 1\ncontext = 16\n"
CONFIGS = {
    "translation": '[data]\ntrain = "pairs.tsv"\nvalid = "pairs.tsv"\n[source]\nkind = "word"\n[target]\nkind = "word"\n'
    '[model]\nkind = "transformer"\nd_model = 16\nheads = 2\nencoder_layers = 1\ndecoder_layers = 1\n[decoding]\nmax_length = 6\n',
    "summarise": '[data]\ntrain = "pairs.tsv"\nvalid = "pairs.tsv"\n[source]\nkind = "word"\n[target]\nkind = "shared"\n'
    '[model]\nkind = "bahdanau"\nembedding = 8\nstate = 16\ncopy = true\n[decoding]\nmax_length = 6\n',
    "lm": f'[data]\ntrain = "text.txt"\nbatch = 4\n[model]\n{TINY}',
    "mlm": f'[data]\ntrain = "text.txt"\nvalid = "text.txt"\n[vocabulary]\nkind = "word"\n[model]\n{TINY}dropout = 0.0\n',
    "classify": f'[data]\ntrain = "labels.tsv"\nvalid = "labels.tsv"\n[model]\n{TINY}',
    "reader": '[data]\ntrain = "stories.txt"\nheld_out = 2\n',
    "article": '[data]\ntrain = ["articles.json"]\nvalid = ["articles.json"]\n[model]\nhidden = 4\nwidth = 8\nstate = 8\n',
}
TEXT = dict.fromkeys(("reader", "article"), "Mary went to the garden. John went to the kitchen. Where is Mary?")
TEST = {
    "translation": "pairs.tsv",
    "summarise": "pairs.tsv",
    "lm": "text.txt",
    "mlm": "text.txt",
    "classify": "labels.tsv",
    "reader": "stories.txt",
    "article": "articles.json",
}
PLACES = (("Mary", "garden"), ("John", "kitchen"))


def regard(*words: object):
    return CliRunner().invoke(build(), [str(word) for word in words], env={"NO_COLOR": "1", "COLUMNS": "300"})


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """A run of every task, two steps long."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text("a b c d e\nb c d\nc a b\n" * 20)
    (folder / "pairs.tsv").write_text("a b c\tc b a\nb c\tc b\n" * 10)
    (folder / "labels.tsv").write_text("a b c\tone\nd e\ttwo\n" * 10)
    story = "1 Mary went to the garden.\n2 John went to the kitchen.\n3 Where is Mary?\tgarden\t1\n"
    (folder / "stories.txt").write_text(story * 6)
    context = "Mary went to the garden. John went to the kitchen."
    asked = [
        {"question": f"Where is {name}?", "answers": [{"text": place, "answer_start": context.index(place)}]} for name, place in PLACES
    ]
    (folder / "articles.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": [{"context": context, "qas": asked * 6}]}]}))
    results = {}
    for task in TASKS:
        (folder / f"{task}.toml").write_text(f'out = "{task}"\n{CONFIGS[task]}{TRAINING}')
        results[task] = train(task, folder / f"{task}.toml")[1]
    return results


@pytest.mark.parametrize("task", TASKS)
def test_an_entry_knows_all_of_its_task(task):
    entry = find_task(task)
    assert entry.name == task
    assert {"out", "data", "training"} <= {field.name for field in dataclasses.fields(entry.config)}
    assert f'out = "runs/{task}"' in entry.manual
    for command in ("train", "evaluate"):
        assert task in regard(command, "--help").output


@pytest.mark.parametrize("task", TASKS)
def test_a_run_of_every_task_is_opened_run_and_cut(runs, task):
    opened = open_model(runs[task])
    assert isinstance(opened, OpenedModel)
    inputs = opened.inputs(TEXT.get(task, "a b c"))
    whole = opened.length(inputs)
    assert whole >= 2
    short = opened.cut(inputs, whole - 1)
    assert opened.length(short) == whole - 1
    tokens, source = opened.tokens(short)
    assert len((source or tokens)[0]) == whole - 1
    opened.run(short)
    with pytest.raises(ValueError, match=f"is a run of '{task}', not"):
        open_model(runs[task], task="lm" if task != "lm" else "mlm")


@pytest.mark.parametrize("task", TASKS)
def test_a_run_of_every_task_is_evaluated(runs, task):
    result = regard("evaluate", task, runs[task], "--test", runs[task].parent / TEST[task], "--json")
    assert result.exit_code == 0, result.output
    assert any(name in json.loads(result.output) for name in ("loss", "accuracy", "scores", "answers", "rougeL"))


@pytest.mark.parametrize("task", TASKS)
def test_a_run_of_every_task_is_looked_at(runs, task, tmp_path):
    result = regard("look", runs[task], "--text", TEXT.get(task, "a b c"), "--no-labels", "--out", tmp_path / "seen.json")
    assert result.exit_code == 0, result.output
    assert f"{task}: " in result.output
    if task == "mlm":
        assert json.loads((tmp_path / "seen.json").read_text())["tokens"] == [["<s>", "▁a", "▁b", "▁c", "</s>"]]


def test_a_cut_story_keeps_its_words(runs):
    opened = open_model(runs["reader"])
    short = opened.cut(opened.inputs(TEXT["reader"]), 1)
    assert short.story == Story(("Mary went to the garden.",), "Where is Mary?", "")
    assert opened.tokens(short) == ([["Where is Mary?"]], [["Mary went to the garden."]])
    assert torch.equal(short.sentences, opened.batch([short.story]).sentences)


def test_gaps_are_filled_with_the_model_s_own_probabilities(runs):
    opened = MaskedModel.open(runs["mlm"])
    assert opened.encode("a <mask> c")[2] == MASK
    filled = opened.fill("a <mask> c <mask>", top=3)
    assert [len(gap) for gap in filled] == [3, 3]
    ids = torch.tensor([[BOS, *opened.vocabulary.encode("a <mask> c <mask>"), EOS]])
    logits = opened.model.unmask(opened.model(ids))[0, 2, 5:]  # without the marks
    wanted = logits.softmax(-1).sort(descending=True)
    assert [c.probability for c in filled[0]] == pytest.approx(wanted.values[:3].tolist(), rel=1e-5)
    assert [c.text for c in filled[0]] == [opened.vocabulary.decode([int(i) + 5]) for i in wanted.indices[:3]]
    with pytest.raises(ValueError, match=r"write \[MASK\] where a token is missing"):
        opened.fill("a b c")
    with pytest.raises(ValueError, match="1 of 2 masks are beyond the 16 tokens"):
        opened.fill("<mask> " + "a " * 20 + "<mask>")


def test_masked_scores_are_those_of_training(runs):
    result = json.loads(regard("evaluate", "mlm", runs["mlm"], "--test", runs["mlm"].parent / "text.txt", "--json").output)
    last = [json.loads(line) for line in (runs["mlm"] / "log.jsonl").read_text().splitlines()][-1]
    assert result["lines"] == 60
    assert result["tokens"] == 20 * 11
    for name in ("loss", "perplexity", "accuracy"):
        assert result[name] == pytest.approx(last[name], rel=1e-6)


def test_a_task_without_a_sharded_form_says_which_have_one(runs):
    with pytest.raises(ValueError, match="classify does not support context parallelism; the tasks lm, mlm do"):
        train("classify", runs["classify"].parent / "classify.toml", context_parallel=2)


def test_a_checkpoint_of_the_first_versions_resumes(runs):
    from regard.training.loop import checkpoints

    file = sorted((runs["lm"] / "checkpoints").iterdir())[-1]
    assert checkpoints.read(file)[1]["journey"]["step"] == 2  # the key they were written with
    config = runs["lm"].parent / "lm.toml"
    config.write_text(config.read_text().replace("steps = 2", "steps = 4"))
    assert train("lm", config)[0].step == 4
