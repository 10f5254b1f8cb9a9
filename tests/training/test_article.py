"""The task "article": a picker learns from its reward, spans from their places; its scores beside those of the baselines."""

import json
import random

import numpy as np
import pytest
import torch

from regard.text.articles import read_questions
from regard.text.skimming import SkimmedArticle
from regard.training.config import ConfigError
from regard.training.runs import train
from regard.training.tasks import Evaluation, find_task
from regard.training.tasks.article import ArticleReader
from regard.training.tasks.article.evaluation import Asked, Tfidf, answer_f1, bm25, measure, measure_baselines

NAMES = ("Mary", "John", "Anna", "Paul", "Vera", "Otto", "Ruth", "Ivan")
THINGS = ("red apples", "the old harbour", "music", "green tea", "long winters", "the sea", "small boats", "maps of the north")
CONFIG = """
out = "run"
[data]
train = ["train.json"]
valid = ["test.json"]
batch = 16
[model]
hidden = 8
heads = 2
width = 16
state = 16
layers = 1
dropout = 0.0
[training]
steps = {steps}
rate = 1e-2
evaluate_every = {steps}
checkpoint_every = {steps}
metric = "score"
"""


def squad(number: int, seed: int) -> str:
    """Articles of six sentences that say what people like, each with two questions."""
    generator = random.Random(seed)
    articles = []
    for n in range(number):
        names, things = generator.sample(NAMES, 6), generator.sample(THINGS, 6)
        context = " ".join(f"In those years {name} liked {thing} very much." for name, thing in zip(names, things, strict=True))
        qas = [
            {"question": f"What did {names[i]} like?", "answers": [{"text": things[i], "answer_start": context.index(things[i])}]}
            for i in generator.sample(range(6), 2)
        ]
        articles.append({"title": str(n), "paragraphs": [{"context": context, "qas": qas}]})
    return json.dumps({"data": articles})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("article")
    (folder / "train.json").write_text(squad(60, 1))
    (folder / "test.json").write_text(squad(15, 2))
    (folder / "config.toml").write_text(CONFIG.format(steps=48))
    return train("article", folder / "config.toml")[1]


def test_it_learns_to_pick_and_to_answer(run):
    scores = find_task("article").evaluate(Evaluation(run, [run.parent / "test.json"]))
    assert scores["questions"] == 30
    assert scores["chance_1"] == pytest.approx(100 / 6)
    assert scores["picked_1"] > 90
    reader = ArticleReader.open(run)
    reader.span_languages = ("en",)
    asked = Asked.all_of(read_questions(run.parent / "test.json"), reader.table)
    f1 = [
        answer_f1(reader.read(item.article, item.question.text).answer.text, [text for text, _ in item.question.answers], characters=False)
        for item in asked
    ]
    assert sum(f1) / len(f1) > 0.8  # the whole sentence: 0.3


def test_fewer_picks_are_read_as_they_are_among_all(run):
    reader = ArticleReader.open(run)
    item = Asked.all_of(read_questions(run.parent / "test.json"), reader.table)[0]
    all_scores = reader.span_scores(item.article, item.question.text, range(6))
    two = reader.span_scores(item.article, item.question.text, [4, 1])
    for row, sentence in enumerate((4, 1)):
        n = len(item.article.units_in(sentence))
        assert torch.allclose(two[row, :n, :n], all_scores[sentence, :n, :n], atol=1e-4)


def test_the_model_picks_what_its_weights_say(run):
    """The forward pass that `regard look` watches picks the same sentences."""
    reader = ArticleReader.open(run)
    item = Asked.all_of(read_questions(run.parent / "test.json"), reader.table)[0]
    inputs = reader.inputs(f"{item.article.text} {item.question.text}")
    best = reader.weights(item.article, item.question.text).topk(2).indices.tolist()
    start, end = reader.run(inputs)
    scores = reader.span_scores(item.article, item.question.text, best)
    W = start.shape[1]
    assert torch.allclose(start.unsqueeze(2) + end.unsqueeze(1), scores[:, :W, :W], rtol=1e-4, atol=1e-3)


def test_evaluate_reader_scores_it_too(run):
    scores = find_task("reader").evaluate(Evaluation(run, [run.parent / "test.json"]))
    assert scores["picked_5"] >= scores["picked_2"] >= scores["picked_1"]
    assert {"f1_2", "f1_5", "f1_all", "f1_sentence", "tfidf_1", "bm25_1", "first_1"} <= scores.keys()


def test_other_objectives_train(run):
    for objective in ("cross-entropy", "soft"):
        text = (
            CONFIG.format(steps=24)
            .replace('"run"', f'"{objective}"')
            .replace("[model]", f'[model]\nobjective = "{objective}"\nspans = false')
        )
        (run.parent / f"{objective}.toml").write_text(text)
        state, _ = train("article", run.parent / f"{objective}.toml")
        assert state.best > 60
    (run.parent / "wrong.toml").write_text(CONFIG.format(steps=1).replace("[model]", '[model]\nobjective = "hard"'))
    with pytest.raises(ConfigError, match="hard"):
        train("article", run.parent / "wrong.toml")


def test_compiling_is_refused_rather_than_ignored(run):
    (run.parent / "wrong.toml").write_text(CONFIG.format(steps=1).replace("[training]", "[training]\ncompile = true"))
    with pytest.raises(ConfigError, match="compile is true"):
        train("article", run.parent / "wrong.toml")


def picker_only(run, name: str, settings: str, first: str = "", steps: int = 3, last: str = "") -> ArticleReader:
    """Train a picker for a few steps in a run of its own."""
    text = (
        CONFIG.format(steps=steps)
        .replace('out = "run"', f'out = "{name}"\n{first}')
        .replace("[model]", f"[model]\nspans = false\n{settings}")
    )
    (run.parent / f"{name}.toml").write_text(text + last)
    return ArticleReader.open(train("article", run.parent / f"{name}.toml")[1])


def test_a_new_picker_beside_the_span_reader_of_another_run(run):
    old, new = ArticleReader.open(run), picker_only(run, "again", "", first='start = "run"')
    assert new.table.counts == old.table.counts
    for name, weight in old.model.reader.state_dict().items():
        assert torch.equal(new.model.reader.state_dict()[name], weight), name
    assert torch.equal(new.model.prior, old.model.prior)
    assert not torch.equal(new.model.picker.query, old.model.picker.query)
    (run.parent / "wide.toml").write_text(
        (run.parent / "again.toml").read_text().replace('"again"', '"wide"').replace("width = 16", "width = 8")
    )
    with pytest.raises(ValueError, match="to the same sizes"):
        train("article", run.parent / "wide.toml")


def test_pickers_by_language_learn_from_their_questions_alone(run):
    """A run on English questions learns the picker for English; that for Chinese is kept from `start`, or weighs all sentences the same."""
    settings = 'by_language = true\nobjective = "reinforce-budgets"'
    first = picker_only(run, "english", settings, steps=24)
    item = Asked.all_of(read_questions(run.parent / "test.json"), first.table)
    assert measure(first, item, spans=False)["picked_1"] > 90
    assert first.weights(item[0].article, "谁喜欢音乐").tolist() == pytest.approx([1 / 6] * 6)
    second = picker_only(run, "again-english", settings, first='start = "english"', last="seed = 1")  # other initial weights
    for name, weight in first.model.picker.zh.state_dict().items():
        assert torch.equal(second.model.picker.zh.state_dict()[name], weight), name
    assert not torch.equal(second.model.picker.en.query, first.model.picker.en.query)


def test_the_prior_can_be_set(run):
    assert picker_only(run, "prior", "prior = 2.5", first='start = "run"').model.prior.item() == 2.5


def test_a_penalty_makes_the_picker_s_weights_smaller(run):
    without, large = (picker_only(run, f"penalty-{value}", f"penalty = {value}") for value in (0.0, 10.0))
    assert large.model.picker.squares() < without.model.picker.squares()
    (run.parent / "wrong.toml").write_text(CONFIG.format(steps=1).replace("[model]", "[model]\npenalty = -1.0"))
    with pytest.raises(ConfigError, match="penalty is -1"):
        train("article", run.parent / "wrong.toml")


def test_a_run_with_the_table_of_an_earlier_version_goes_on_and_opens(run):
    """Tables of units without a number of features are for the first 190 of them."""
    folder = run.parent / "earlier"
    folder.mkdir()
    table = json.loads((run / "units.vocabulary.json").read_text())
    del table["features"]
    (folder / "units.vocabulary.json").write_text(json.dumps(table))
    reader = picker_only(run, "earlier", "")
    assert reader.model.picker.mean.shape == (190,)
    item = Asked.all_of(read_questions(run.parent / "test.json"), reader.table)[0]
    assert len(reader.read(item.article, item.question.text).picks) == 2


def test_baselines_by_hand():
    sentences = [["a", "b"], ["a", "a", "c"], ["d"]]
    scores = bm25(["c"], sentences)
    expected = np.log(1 + 2.5 / 1.5) * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3 / 2))
    assert scores.tolist() == pytest.approx([0, expected, 0])
    assert Tfidf()(["d"], sentences).tolist() == pytest.approx([0, 0, 1])
    idf = {term: np.log(4 / (1 + n)) + 1 for term, n in (("a", 2), ("b", 1))}
    assert Tfidf()(["b"], sentences)[0] == pytest.approx(idf["b"] / np.hypot(idf["a"], idf["b"]))


def test_chance_counts_every_right_sentence(run):
    reader = ArticleReader.open(run)
    item = Asked.all_of(read_questions(run.parent / "test.json"), reader.table)[0]
    two_right = Asked(item.article, item.question, frozenset([0, 3]))
    scores = measure_baselines([two_right], reader.table)
    assert scores["chance_1"] == pytest.approx(100 * 2 / 6)
    assert scores["chance_2"] == pytest.approx(100 * (1 - 4 * 3 / (6 * 5)))
    assert scores["first_1"] == 100


def test_f1_over_characters_and_words():
    assert answer_f1("1890年", ["于1890年建造"], characters=True) == pytest.approx(2 * 5 / (5 + 8))
    assert answer_f1("The Sea!", ["sea", "river"], characters=False) == 1
    assert answer_f1("x", ["y"], characters=True) == 0


def test_sentences_are_joined_by_their_places(run):
    reader = ArticleReader.open(run)
    text = "In those years Mary liked\nmusic very much. In those years John liked green tea very much."
    read = reader.read(text, "What did Mary like?", picks=1)
    assert text[read.answer.start : read.answer.stop].replace("\n", " ") == read.sentences[0].text
    assert isinstance(reader.skimmed(text), SkimmedArticle)
