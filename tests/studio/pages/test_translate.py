"""Translate: texts and alignments are the translator's own; hard attention reads one place a word."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.studio.library import Library
from regard.studio.pages.translate import initial_request, translate
from regard.studio.request_error import RequestError
from regard.training.tasks.translation import Translations
from studio_models import changed


def ask(studio: Any, **changes: Any) -> dict[str, Any]:
    answer = studio.post("/api/translate", json={"models": ["reverser"], "text": "a b c d", "width": 3, **changes})
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def test_candidates_are_the_beam_s(studio: Any, folders: dict[str, Path]) -> None:
    results = ask(studio)["translations"][0]["candidates"]
    expected = Translations.open(folders["reverser"]).candidates(["a b c d"], width=3, n_best=3, align=True)[0]
    assert [one["text"] for one in results] == [one.text for one in expected]
    assert [one["log_prob"] for one in results] == pytest.approx([one.log_prob for one in expected], abs=1e-3)
    for one, own in zip(results, expected, strict=True):
        if own.alignment is not None and own.target_words:
            assert np.array(one["weights"]) == pytest.approx(own.alignment.numpy(), abs=1e-4)


def test_hard_attention_reads_one_place_and_leaves_the_model_as_it_was(studio: Any) -> None:
    soft = ask(studio)
    hard = ask(studio, hard=True)["translations"][0]["candidates"][0]
    weights = np.array(hard["weights"])
    assert weights.max(1).tolist() == [1.0] * len(weights)
    assert hard["payload"]["seen"][0]["proof"] == {"row_sum_error": 0.0, "rows_checked": len(weights), "holds": True}
    assert ask(studio)["translations"] == soft["translations"]


def test_models_stand_side_by_side_and_the_fixed_one_has_no_alignment(studio: Any) -> None:
    results = ask(studio, models=["reverser", "fixed"])["translations"]
    assert [one["model"] for one in results] == ["reverser", "fixed"]
    assert results[1]["candidates"][0]["payload"] is None
    assert results[0]["candidates"][0]["payload"] is not None


@pytest.mark.parametrize("text", ["你好", "zzz", "🙂", " ", "\x00", "a" * 1000])
def test_any_text_gets_an_answer(studio: Any, text: str) -> None:
    assert len(ask(studio, text=text)["translations"][0]["candidates"]) == 3


@pytest.mark.parametrize("changes", [{"text": ""}, {"text": "a" * 1001}, {"models": []}, {"width": 9}, {"models": ["letters"]}])
def test_limits_are_errors(studio: Any, changes: dict[str, Any]) -> None:
    answer = studio.post("/api/translate", json={"models": ["reverser"], "text": "a", **changes})
    assert answer.status_code == 422
    assert answer.json()["message"]


def test_the_first_results_are_real(studio: Any) -> None:
    first = studio.get("/api/first/translate").json()
    assert first["asked"]["models"] == ["reverser", "fixed"]
    assert first["answer"]["translations"] == studio.post("/api/translate", json=first["asked"]).json()["translations"]
    assert studio.get("/api/first/look").json()["answer"]["model"] == "shakespeare"
    page = studio.get("/").text
    assert '"asked"' in page
    assert "175181291520" in page


def test_a_model_that_cannot_be_opened_is_an_error_beside_the_others(state: Any, chinese: dict[str, Path], tmp_path: Path) -> None:
    state.library = Library({**chinese, "broken": changed(chinese["zh-en-fixed"], tmp_path / "broken")})
    results = translate(state, ["zh-en-transformer", "broken"], "我爱中国。")["translations"]
    assert results[0]["candidates"][0]["payload"] is not None
    assert results[1]["refused"]["code"] == "changed"
    with pytest.raises(RequestError, match="was changed"):
        translate(state, ["broken"], "我爱中国。")


def test_a_long_text_is_read_in_parts_with_their_alignments(state: Any) -> None:
    sentences = ["我爱中国。", "他买苹果和书。"] * 20
    results = translate(state, ["zh-en-transformer"], "".join(sentences), width=2)["translations"][0]
    assert [part["text"] for part in results["parts"]] == sentences
    assert results["candidates"][0]["text"] == " ".join(part["candidates"][0]["text"] for part in results["parts"])
    alone = translate(state, ["zh-en-transformer"], sentences[1], width=2)["translations"][0]
    assert results["parts"][1]["candidates"][0]["text"] == alone["candidates"][0]["text"]
    assert np.array(results["parts"][1]["candidates"][0]["weights"]) == pytest.approx(np.array(alone["candidates"][0]["weights"]), abs=1e-4)
    assert "parts" not in alone


def test_what_cannot_be_read_is_an_error(state: Any) -> None:
    notes = {
        text: translate(state, ["zh-en-transformer"], text)["translations"][0]["notes"] for text in ("我爱中国。", "我爱狗。", "a cat")
    }
    assert notes["我爱中国。"] == {"unknown": "", "share": 0.0, "foreign": False, "detected": "zh", "sure": True}
    assert notes["我爱狗。"] == {"unknown": "狗", "share": 0.25, "foreign": False, "detected": "zh", "sure": True}
    assert notes["a cat"]["foreign"]
    assert notes["a cat"]["unknown"] == "act"


def test_the_page_begins_with_the_best_translators_and_one_without_attention(chinese: dict[str, Path]) -> None:
    library = Library({"fixed": chinese["zh-en-fixed"], **dict.fromkeys(("a", "b", "c"), chinese["zh-en-transformer"])})
    library.models |= {name: replace(library.models[name], bleu=score) for name, score in (("a", 10.0), ("b", 30.0), ("c", 20.0))}
    expected = initial_request(library)
    assert expected is not None
    assert expected["models"] == ["b", "c", "fixed"]
    assert expected["text"] == "我爱中国。"
    assert initial_request(Library({})) is None


def test_lines_are_translated_one_by_one(studio: Any) -> None:
    both = ask(studio, text="a b c\nd e f")["translations"][0]
    assert [part["text"] for part in both["parts"]] == ["a b c", "d e f"]
    alone = [ask(studio, text=line)["translations"][0]["candidates"][0]["text"] for line in ("a b c", "d e f")]
    assert both["candidates"][0]["text"] == " ".join(alone)


def test_the_number_of_averaged_heads_is_told(studio: Any, state: Any) -> None:
    from regard.studio.pages.translate import translate

    assert ask(studio)["translations"][0]["heads"] == 1
    assert translate(state, ["zh-en-transformer"], "我爱书。")["translations"][0]["heads"] == 2


def test_a_text_that_is_not_german_is_detected(state: Any) -> None:
    from regard.zoo.catalog import find

    state.library = Library({"de-en-transformer": find("de-en-transformer").path})
    texts = ("The cat sat on the mat.", "Wo ist der Bahnhof?", "hello")
    notes = [translate(state, ["de-en-transformer"], text, width=1)["translations"][0]["notes"] for text in texts]
    told = [(one["foreign"], one["detected"], one["sure"]) for one in notes]
    assert told == [(True, "en", True), (False, "de", True), (True, "en", False)]
