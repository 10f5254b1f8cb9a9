"""Look: what the page is sent are the library's own numbers."""

import base64
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.studio.library import Library
from regard.studio.memory import check_memory, inspection_bytes
from regard.studio.pages.look.inspection import look, what_if
from regard.studio.pages.look.meanings import _states, meanings
from regard.studio.request_error import RequestError
from regard.text.vocabulary import BOS
from regard.training.tasks.translation import Translations
from regard.zoo import open as open_model
from studio_models import changed

TEXT = "the quick brown fox jumps"


def unpacked(payload: dict[str, Any], entry: int) -> np.ndarray[Any, Any]:
    """The exact weights (h, L, S) of a call, −1 where masked."""
    data = gzip.decompress(base64.b64decode(payload["blob"]))
    e = payload["seen"][entry]
    offset, length, kind = e["exact"]
    assert kind == "f4"
    return np.frombuffer(data, "<f4", length, offset).reshape(e["heads"], e["L"], e["S"])


def test_the_weights_are_the_model_s(studio: Any, folders: dict[str, Path]) -> None:
    result = studio.post("/api/look", json={"model": "letters", "text": TEXT}).json()
    opened = open_model(folders["letters"])
    with regard.watch(opened.model) as seen:
        opened.run(opened.inputs(TEXT))
    assert result["read"] == result["whole"] == len(TEXT)
    for number, one in enumerate(seen):
        weights = unpacked(result["payload"], number)
        for head in range(one.heads):
            assert weights[head].clip(0) == pytest.approx(seen.head(one.layer, head).tile().numpy(), abs=1e-6)
    assert all(e["proof"]["holds"] for e in result["payload"]["seen"])
    assert len(result["next"]) == 6
    assert sum(p for _, p in result["next"]) <= 1 + 1e-6


def test_a_shipped_model_is_labelled(studio: Any) -> None:
    result = studio.post("/api/look", json={"model": "shakespeare", "text": "To be, or not to be"}).json()
    labels = {name for e in result["payload"]["seen"] for head in e["labels"] for name, _ in head}
    assert labels


def test_changes_are_those_of_the_library(studio: Any, folders: dict[str, Path]) -> None:
    changes = [{"layer": 1, "head": 0, "what": "mute"}, {"layer": 0, "what": "temperature", "value": 0.3}]
    result = studio.post("/api/look/what-if", json={"model": "letters", "text": TEXT, "changes": changes}).json()
    opened = open_model(folders["letters"])
    with regard.change(opened.model) as changed:
        changed.layer(1).head(0).mute()
        changed.layer(0).temperature(0.3)
        effect = changed.effect(opened.inputs(TEXT))
    assert result["measure"] == "kl"
    assert result["mean"] == pytest.approx(effect.mean_kl, rel=1e-3)
    assert result["each"] == pytest.approx(effect.kl[0].tolist(), rel=1e-3, abs=1e-8)  # type: ignore[index]
    assert result["before"] != result["after"]


def test_a_changed_text_shows_the_changed_pattern(studio: Any) -> None:
    changes = [{"layer": 0, "head": 1, "what": "window", "value": 2}]
    result = studio.post("/api/look", json={"model": "letters", "text": TEXT, "changes": changes}).json()
    weights = unpacked(result["payload"], 0).clip(0)
    far = np.abs(np.subtract.outer(np.arange(len(TEXT)), np.arange(len(TEXT)))) > 2
    assert not weights[1][far].any()
    assert weights[0][far].any()


def test_a_tile_is_exact(studio: Any) -> None:
    result = studio.post("/api/look", json={"model": "letters", "text": TEXT}).json()
    request = {"sight": result["sight"], "layer": 1, "head": 1, "rows": [3, 6], "cols": [0, 4]}
    tile = studio.post("/api/look/tile", json=request).json()["weights"]
    assert tile == pytest.approx(unpacked(result["payload"], 1)[1, 3:6, :4].clip(0).flatten(), rel=1e-4, abs=1e-6)
    assert studio.post("/api/look/tile", json={**request, "sight": "999"}).status_code == 404
    assert studio.post("/api/look/tile", json={**request, "layer": 77}).status_code == 422
    assert studio.post("/api/look/tile", json={**request, "rows": [0, 10_000], "cols": [0, 10_000]}).status_code == 422


def test_a_word_in_two_sentences_begins_alike_and_moves_apart(studio: Any, folders: dict[str, Path]) -> None:
    request = {"model": "letters", "word": "fox", "sentences": ["a fox", "the lazy fox"]}
    result = studio.post("/api/look/meanings", json=request).json()
    assert [s["places"] for s in result["sentences"]] == [[2, 3, 4], [9, 10, 11]]
    assert result["cosine"][0][0][1] == pytest.approx(1, abs=1e-5)  # rotary positions: the embedding knows no place
    assert result["cosine"][-1][0][1] < 0.9999
    assert len(result["layers"]) == 3
    assert studio.post("/api/look/meanings", json={**request, "word": "cat"}).status_code == 422


def test_senses_are_compared_with_the_same_sense_as_control(state: Any, chinese: dict[str, Path]) -> None:
    sentences = ["我打车。", "他打车。", "我打人。", "他打人。"]
    told = meanings(state, "zh-en-transformer", "打", sentences, senses=[0, 0, 1, 1])
    control = told["control"]
    assert (control["within_pairs"], control["between_pairs"]) == (2, 4)
    for layer, row in enumerate(control["layers"]):
        cosine = told["cosine"][layer]
        assert row["within"] == pytest.approx((cosine[0][1] + cosine[2][3]) / 2, abs=2e-5)
        assert row["between"] == pytest.approx((cosine[0][2] + cosine[0][3] + cosine[1][2] + cosine[1][3]) / 4, abs=2e-5)
        assert 0 < row["chance"] <= 1
    assert meanings(state, "zh-en-transformer", "打", sentences)["control"] is None
    alone = meanings(state, "zh-en-transformer", "打", sentences[:3], senses=[0, 0, 1])["control"]
    assert "expected two or more" in alone["refused"]


def test_a_sense_for_each_sentence(studio: Any) -> None:
    request = {"model": "letters", "word": "fox", "sentences": ["a fox", "the lazy fox"], "senses": [0]}
    answer = studio.post("/api/look/meanings", json=request)
    assert answer.status_code == 422
    assert "1 senses for 2 sentences" in answer.json()["message"]


def test_a_translator_reads_a_word_with_its_encoder(state: Any, chinese: dict[str, Path]) -> None:
    sentences = ["我打车。", "他打鱼和苹果。", "你爱打。"]
    result = meanings(state, "zh-en-transformer", "打", sentences)
    assert [s["places"] for s in result["sentences"]] == [[1], [1], [2]]
    opened = Translations.open(chinese["zh-en-transformer"])
    encoder: Any = opened.model.eval()
    ids = opened.encode(sentences[:1])
    outputs: list[torch.Tensor] = []
    hooks = [layer.register_forward_hook(lambda module, args, output: outputs.append(output)) for layer in encoder.encoder]
    encoder.encode(torch.tensor(ids), torch.tensor([len(ids[0])]))
    for hook in hooks:
        hook.remove()
    assert len(result["layers"]) == len(result["cosine"]) == len(outputs) + 1 == 3
    states = _states(encoder, lambda: encoder.encode(torch.tensor(ids), torch.tensor([len(ids[0])])))
    assert torch.equal(states[-1], outputs[-1][0])
    apart = [layer[0][1] for layer in result["cosine"]]
    assert apart[-1] < apart[0]
    with pytest.raises(RequestError, match="was not found among the tokens of zh-en-transformer") as error:
        meanings(state, "zh-en-transformer", "狗", ["我打狗", "狗打我"])
    assert error.value.to_json()["values"] == {"name": "zh-en-transformer", "word": "狗", "sentence": "我打狗"}


def test_a_translator_looks_at_as_much_as_it_can_translate(state: Any) -> None:
    result = look(state, "zh-en-transformer", "我爱中国。" * 30)
    assert (result["read"], result["whole"]) == (100, 150)
    assert all(e["proof"]["holds"] for e in result["payload"]["seen"])
    short = look(state, "zh-en-transformer", "我爱中国。")
    assert (short["read"], short["whole"]) == (5, 5)


def test_the_next_words_of_a_translator(state: Any, chinese: dict[str, Path]) -> None:
    result = look(state, "zh-en-transformer", "我爱中国。")
    opened = Translations.open(chinese["zh-en-transformer"])
    best = opened.candidates(["我爱中国。"], width=1)[0][0]
    model: Any = opened.model.eval()
    target = torch.tensor([[BOS, *opened.target.encode(best.text)]])
    source = torch.tensor(opened.encode(["我爱中国。"]))
    expected = model(source, torch.tensor([source.shape[1]]), target)[0, -1].softmax(-1)
    assert result["payload"]["title"] == "zh-en-transformer"
    assert result["next"][0][1] == pytest.approx(float(expected.max()), rel=1e-4)
    changes = [{"layer": 0, "what": "temperature", "value": 100.0}]
    effect = what_if(state, "zh-en-transformer", "我爱中国。", changes)
    assert effect["measure"] == "kl"
    assert effect["before"] == result["next"]
    assert effect["after"] != effect["before"]
    assert effect["mean"] > 0


def test_a_model_with_changed_weights_is_refused(state: Any, chinese: dict[str, Path], tmp_path: Path) -> None:
    state.library = Library({"broken": changed(chinese["zh-en-transformer"], tmp_path / "broken")})
    with pytest.raises(RequestError, match="was changed"):
        look(state, "broken", "我爱中国。")


@pytest.mark.parametrize("name", ["", "nothing", "../letters", "/etc/passwd", "letters/../letters"])
def test_only_models_of_the_library_are_opened(studio: Any, name: str) -> None:
    answer = studio.post("/api/look", json={"model": name, "text": "a"})
    assert answer.status_code == 404
    assert answer.json()["code"] == "unknown_model"


def test_a_model_without_attention_says_so(studio: Any) -> None:
    answer = studio.post("/api/look", json={"model": "fixed", "text": "a b"})
    assert answer.status_code == 422
    assert answer.json()["code"] in ("unseen", "invalid")


def test_too_much_memory_is_refused_with_the_number() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(50_000, 64), torch.nn.Linear(64, 50_000))
    needed = inspection_bytes(model, 100_000)
    assert needed > 100_000 * 50_000 * 4  # the logits alone
    with pytest.raises(RequestError, match=r"needs about \d+\.\d GB and 1\.6 GB may be used \(2\.0 GB are free\)") as error:
        check_memory(2_000_000_000, needed, "this")
    assert error.value.status == 413
    check_memory(2 * needed, needed, "this")


def test_the_estimate_covers_the_memory_used(folders: dict[str, Path]) -> None:
    """Inspecting 8,000 tokens takes no more than estimated; measured in a new process, since a peak never falls."""
    import subprocess
    import sys

    program = f"""
import resource, torch
torch.set_num_threads(1); torch.set_grad_enabled(False)
from regard.zoo import open as open_model
from regard.studio.memory import inspection_bytes
from regard.sight import watch
opened = open_model({str(folders["letters"])!r})
def look(n):
    with watch(opened.model): opened.run(opened.inputs("abcdefgh" * (n // 8)))
look(512)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
look(8000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, inspection_bytes(opened.model, 8000) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    used, estimated = map(int, done.stdout.split())
    assert used <= estimated


def test_heads_are_labelled_on_this_text_too(studio: Any) -> None:
    answer = studio.post("/api/look", json={"model": "shakespeare", "text": "To be, or not to be"}).json()
    entry = answer["payload"]["seen"][0]
    assert len(entry["here"]) == entry["heads"]
    assert all(row[-1][0] == "uniform" for row in entry["here"] if any(name == "uniform" for name, _ in row))
    assert any(name == "previous token" for row in entry["here"] for name, _ in row)


def test_the_steps_of_a_real_head_are_its_weights(studio: Any) -> None:
    where = {"model": "shakespeare", "text": "To be, or not to be", "layer": 1, "head": 1, "query": 12}
    steps = studio.post("/api/steps/head", json=where).json()
    tile = {"layer": 1, "call": 0, "head": 1, "rows": [12, 13], "cols": [0, 19]}
    sight = studio.post("/api/look", json={"model": "shakespeare", "text": where["text"]}).json()["sight"]
    expected = studio.post("/api/look/tile", json={"sight": sight, **tile}).json()["weights"]
    assert steps["weights"] == pytest.approx(expected, abs=1e-4)
    terms = steps["terms"]
    assert sum(terms["numbers"]) + terms["rest_sum"] == pytest.approx(steps["product"], abs=1e-3)
    assert steps["product"] * steps["factor"] == pytest.approx(steps["scores"][steps["key"]], abs=1e-3)
    assert studio.post("/api/steps/head", json={**where, "layer": 9}).status_code == 422


def test_the_tokens_of_a_real_head_are_those_of_its_own_layer(state: Any) -> None:
    from regard.studio.pages.steps.real_head import real_head

    text = "我爱中国。"
    ask = {"model": "zh-en-transformer", "text": text, "head": 0, "query": 1}
    seen = look(state, "zh-en-transformer", text)["payload"]["seen"]
    layers = {entry["kind"]: entry["layer"] for entry in seen}
    encoder = real_head(state, layer=layers["encoder"], kind="encoder", **ask)
    assert (encoder["tokens"][:2], encoder["query_token"], encoder["query_is_key"]) == (["我", "爱"], "爱", True)
    cross = real_head(state, layer=layers["cross"], kind="cross", **ask)
    assert cross["tokens"] == encoder["tokens"]
    assert cross["query_token"] not in encoder["tokens"]
    assert not cross["query_is_key"]
    own = real_head(state, layer=layers["causal"], kind="causal", **ask)
    assert own["query_is_key"]
    assert own["tokens"][1] == own["query_token"] == cross["query_token"]
