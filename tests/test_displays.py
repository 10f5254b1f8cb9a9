"""How results show themselves: a short repr, at most a screen when printed, and well-formed HTML in a notebook."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

import regard
from regard.html_table import html_table
from regard.models import Bert, BertClassifier, BertConfig, Gpt, GptConfig
from regard.sight.effect import Effect, Importance
from regard.sight.probe import Probe
from regard.text import Vocabulary
from regard.text.stories import Story
from regard.training import Classifier, ErrorRates, MaskedModel, TrainingLog
from regard.training.encoder_text import VocabularyText

LINES = 24  # of a terminal
LAYERS, HEADS = 30, 9


def results():
    """(name, result) of everything public that a user gets back, for a model of many layers and heads."""
    torch.manual_seed(0)
    q = torch.randn(2, 4, 64, 16)
    yield "plan", regard.explain(q, q, q, mask=regard.causal(), dropout=0.1)
    yield "attended", regard.observe(q, q, q, readings=[regard.Entropy(), regard.TopK(4)])
    yield "hard", regard.observe(q, q, q, choice=regard.Argmax())
    yield "parameter table", regard.MultiHeadAttention(64, heads=8, kv_heads=2).parameter_table()
    yield "mask", regard.causal() & regard.window(4, 0)
    model = Gpt(GptConfig(vocabulary=60, d_model=36, heads=HEADS, layers=LAYERS, context=24)).eval()
    ids = torch.randint(0, 60, (2, 12))
    with regard.watch(model) as first:
        model(ids)
    with regard.watch(model) as second:
        model(ids.flip(1))
    labels = regard.label_heads(model, length=8)
    first.tokens = [[f"t{i}" for i in row] for row in ids.tolist()]
    yield "sighting", first
    yield "seen", first.with_labels(labels)[3]
    yield "kept", first[3].kept
    yield "head", first.head(3, 5)
    yield "comparison", first.compare(second)
    yield "labels", labels
    with regard.change(model) as block:
        block.layer(3).head(5).mute()
        yield "change", block
        effect = block.effect(ids)
    yield "effect", effect
    yield "importance", Importance({(layer, head): effect for layer in range(LAYERS) for head in range(HEADS)})
    costs = regard.cost.plan("gpt3", machine=regard.cost.Machine("given", 1e14, 1e12))
    yield "costs", costs
    yield "training costs", regard.cost.plan("mixtral-8x7b", regard.cost.Workload(mode="train"))
    yield "quantity", costs.total
    yield "step", costs.steps["prefill"]
    yield "architecture", costs.architecture
    yield "opened", regard.open("shakespeare")
    yield "entry", regard.zoo.find("reader")
    yield "card", regard.zoo.find("reader").card


def answers():
    """(name, result) of what trained models answer; long texts, many masks, labels and layers."""
    torch.manual_seed(0)
    words = [f"w{i}" for i in range(40)]
    vocabulary = Vocabulary.train([" ".join(words)], kind="word")
    bert = Bert(BertConfig(vocabulary=len(vocabulary), d_model=16, heads=2, layers=1, context=200)).eval()
    yield "filled", MaskedModel(bert, VocabularyText(vocabulary), 200).fill("w1 [MASK] w3", top=3)
    yield "filled often", MaskedModel(bert, VocabularyText(vocabulary), 200).fill("w1 [MASK] " * 30, top=9)
    encoder = Bert(BertConfig(vocabulary=len(vocabulary), d_model=16, heads=2, layers=1, context=200, masked=False)).eval()
    classifier = Classifier(BertClassifier(encoder, 40).eval(), VocabularyText(vocabulary), words, 200)
    yield "classified", classifier.classify("w1 w2 " * 40)
    yield "prefixes", regard.open("shakespeare").prefixes("To be, or not to be, that is the question")
    yield "prefix", regard.open("shakespeare").prefixes("To be, or not to be, that is the question")[-1]
    article = "".join(f"Ship number {i} sailed from Lisbon in {1600 + i} with {i + 3} passengers. " for i in range(100))
    reading = regard.open("article-reader").read(article, "When did ship number 7 sail from Lisbon?", picks=60)
    yield "read article", reading
    yield "answer", reading.answer
    story = Story(tuple(f"{who} went to the kitchen." for who in ("Mary", "John") * 40), "Where is Mary?", "")
    yield "answered", regard.open("reader").answer([story])[0]
    yield "probe", Probe("bert-small", [50.0 + layer for layer in range(25)])
    yield "error rates", ErrorRates({f"layer {layer}, mean of heads, {how}": 0.5 for layer in range(12) for how in ("soft", "largest")})
    yield "translated", regard.open("zh-en-transformer").translate("我爱中国", n_best=3)


@pytest.fixture(scope="module")
def shown():
    return dict(results()) | dict(answers())


class Balanced(HTMLParser):
    """Checks that tags close in the order they opened."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("br", "rect", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("rect", "path"):
            assert self.open.pop() == tag


def test_nothing_prints_more_than_a_screen(shown):
    for name, result in shown.items():
        assert len(repr(result).splitlines()) <= LINES, name
        assert len(str(result).splitlines()) <= LINES, name
        assert all(len(line) <= 400 for line in str(result).splitlines()), name


def test_a_repr_is_short_and_has_no_address(shown):
    several_lines = {"sighting", "parameter table"}
    for name, result in shown.items():
        assert " object at 0x" not in repr(result), name
        if name not in several_lines:
            assert len(repr(result)) < 300, name
            assert "\n" not in repr(result), name


def test_html_is_well_formed(shown):
    with_html = {name: result._repr_html_() for name, result in shown.items() if hasattr(type(result), "_repr_html_")}
    expected = {"plan", "attended", "hard", "parameter table", "mask", "sighting", "seen", "comparison", "labels", "effect", "importance"}
    expected |= {"costs", "training costs", "filled", "filled often", "classified", "prefixes", "read article", "answered", "probe"}
    assert expected | {"error rates", "translated"} == set(with_html)
    for name, html in with_html.items():
        parser = Balanced()
        parser.feed(html)
        assert parser.open == [], name
    assert "Model" in shown["card"]._repr_markdown_() or "reader" in shown["card"]._repr_markdown_()


def test_answers_keep_what_they_were_before_they_showed_themselves(shown):
    """Lists, pairs and dictionaries still are that."""
    assert [len(mask) for mask in shown["filled often"]] == [9] * 30
    label, probability = shown["classified"]
    assert shown["classified"].labels[label] == probability == max(shown["classified"].labels.values())
    assert shown["prefixes"][-1].candidates[0][1] <= 1
    assert shown["error rates"]["layer 0, mean of heads, soft"] == 0.5
    assert "252 more rows" in str(shown["filled often"])


def test_one_text_is_not_read_as_its_letters():
    """`classify("text")` and `summarise("text")` take one text or a list, as `translate` does."""
    vocabulary = Vocabulary.train(["good bad room"], kind="word")
    encoder = Bert(BertConfig(vocabulary=len(vocabulary), d_model=16, heads=2, layers=1, context=20, masked=False)).eval()
    classifier = Classifier(BertClassifier(encoder, 2).eval(), VocabularyText(vocabulary), ["good", "bad"], 20)
    one, several = classifier.classify("good room"), classifier.classify(["good room", "bad"])
    assert one == several[0]
    assert one.text == "good room"
    assert len(several) == 2


def test_a_cut_table_says_how_much_is_missing(shown):
    heads = LAYERS * HEADS
    for name, how in (("labels", "labels.table()"), ("importance", "importance.table()"), ("comparison", ".to_pandas()")):
        assert f"{heads - 18:,} more heads" in str(shown[name])
        assert how in str(shown[name])
    assert len(shown["labels"].table().splitlines()) == heads + 1
    assert len(shown["importance"].table().splitlines()) == heads + 1
    assert "14 more layers" in repr(shown["sighting"])


def test_the_strongest_labels_come_first(shown):
    labels = shown["labels"]
    first = str(labels).splitlines()[1].split()[0]
    strongest = max(((pairs[0][1], f"{layer}.{head}") for layer in labels.scores for head, pairs in labels.of(layer).items() if pairs))
    assert first == strongest[1]


def test_table_cells_are_escaped_and_shaded():
    html = html_table([["a", "<b>"], ["x & y", "1"]], shades=[[None, 0.5]], note="n > 0")
    assert "&lt;b&gt;" in html
    assert "x &amp; y" in html
    assert html.count("background:rgba") == 1


def test_a_figure_shows_itself_in_a_notebook(shown):
    figure = shown["head"].figure()
    data, size = figure._repr_png_()
    assert data.startswith(b"\x89PNG")
    assert size["width"] == figure.get_figwidth() * 120
    assert shown["head"]._repr_png_()[0].startswith(b"\x89PNG")


@pytest.mark.parametrize("view", ["map", "words", "lines"])
def test_a_head_is_saved_with_its_words_and_its_batch_item(shown, tmp_path, view):
    head = shown["head"]
    text = head.save(tmp_path / "head.svg", view, batch=1).read_text(encoding="utf-8")
    assert "layer 3 · head 5 · batch item 1" in text
    assert head.sighting.tokens[1][0] in text
    assert "in short" in head.save(tmp_path / "title.svg", view, title="in short").read_text(encoding="utf-8")
    assert "layer 3 · head 5" not in head.save(tmp_path / "none.svg", view, title="").read_text(encoding="utf-8")


def test_a_head_refuses_what_it_cannot_draw(shown, tmp_path):
    head = shown["head"]
    with pytest.raises(IndexError, match="batch is 2; the sighting holds 2 batch items"):
        head.save(tmp_path / "a.svg", batch=2)
    with pytest.raises(ValueError, match="view is 'cloud'; expected one of 'map'"):
        head.figure("cloud")
    with pytest.raises(ValueError, match="a figure is saved as"):
        head.save(tmp_path / "a.docx")
    assert "layer 3" in shown["sighting"][3].head(5).save(tmp_path / "no_words.svg").read_text(encoding="utf-8")


def test_a_comparison_is_saved(shown, tmp_path):
    comparison = shown["comparison"]
    assert comparison.save(tmp_path / "a.svg").stat().st_size > 1000
    assert comparison.save(tmp_path / "one.png", layer=3, head=5).read_bytes().startswith(b"\x89PNG")
    rows = json.loads(comparison.save(tmp_path / "a.json").read_text())
    assert len(rows) == LAYERS * HEADS


def test_a_training_log_shows_its_evaluations(tmp_path):
    lines = [{"event": "step", "step": step, "loss": 5.0 - step / 100, "epoch": 0} for step in range(50, 1001, 50)]
    lines += [
        {"event": "evaluation", "step": step, "loss": 4.0, "bleu": step / 50, "rate": 0.1, "time": 1.0} for step in range(50, 1001, 50)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"event": "st')
    log = TrainingLog.read(tmp_path)
    assert log.scores() == ["loss", "bleu"]
    assert "2 earlier ones" in str(log)
    assert "1,000 steps" in repr(log)
    assert len(str(log).splitlines()) <= LINES
    assert log.save(tmp_path / "log.svg").stat().st_size > 1000
    assert len(log.to_pandas()) == 40
    with pytest.raises(ValueError, match=r"has no log\.jsonl"):
        TrainingLog.read(tmp_path / "nothing")


def test_a_training_log_without_evaluations_shows_its_losses():
    log = TrainingLog(Path("runs/my"), [{"step": 50, "loss": 5.0}, {"step": 100, "loss": 4.5}], [])
    assert str(log).splitlines()[1:] == ["step  loss", "50       5", "100    4.5", "losses while training; no evaluation yet"]
    assert "no evaluation yet" in log._repr_html_()
    assert "1 evaluation)" in repr(TrainingLog(Path("runs/my"), [], [{"step": 50, "loss": 5.0}]))


def test_a_probe_of_many_layers_shows_the_first_the_best_and_the_last():
    accuracy = [50.0] * 97
    accuracy[61] = 90.0
    lines = str(Probe("bert", accuracy)).splitlines()
    assert lines[0] == "Probe(bert: best 90.0 % after layer 61 of 96)"
    layers = [line.split()[0] for line in lines[2:-1]]
    assert {"0", "61", "96"} <= set(layers)
    assert len(layers) <= 18
    assert lines[-1] == f"{97 - len(layers)} more layers: .accuracy has all"
    assert str(Probe("small", [50.0, 75.0])).splitlines()[1:] == [
        "layer          accuracy",
        "0 (embedding)    50.0 %",
        "1                75.0 %",
    ]


def test_importance_without_logits_has_no_column_of_nan():
    cosine = torch.tensor([[0.5, 0.25]])
    importance = Importance({(0, 1): Effect(None, cosine)})
    assert importance.table().splitlines() == ["layer.head  cosine", "0.1         0.3750"]
    assert "nan" not in importance._repr_html_()
