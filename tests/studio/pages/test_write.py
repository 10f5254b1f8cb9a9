"""Write: the next token's probabilities are the model's, tokens are drawn as the settings say, and a logit is the sum of its parts."""

from pathlib import Path
from typing import Any

import pytest
import torch

ASK = {"model": "shakespeare", "text": "ROMEO:\nBut, soft! what light"}


def ask(studio: Any, path: str = "", **fields: Any) -> Any:
    answer = studio.post(f"/api/write{path}", json={**(ASK if "ids" not in fields else {"model": "shakespeare"}), **fields})
    assert answer.status_code == 200, answer.json()
    return answer.json()


def test_the_path_ends_in_the_model_s_own_probabilities(studio: Any) -> None:
    from regard.zoo import open as open_model

    opened = open_model("shakespeare")
    with torch.no_grad():
        expected = opened.model(opened.inputs(ASK["text"]))[0, -1].softmax(-1)
    result = ask(studio)
    assert result["tokens"][6:10] == ["⏎", "B", "u", "t"]
    assert "␣" in result["tokens"]
    for one in result["next"]:
        assert one["p"] == pytest.approx(float(expected[one["id"]]), rel=1e-3)
    assert result["lens"]["rows"][-1][-1][0] == [result["next"][0]["token"], pytest.approx(result["next"][0]["p"], rel=1e-3)]
    assert len(result["lens"]["rows"]) == result["layers"] + 1 == 5


def test_settings_decide_what_is_drawn(studio: Any) -> None:
    two = ask(studio, top_k=2)["next"]
    assert [one["drawn"] > 0 for one in two] == [True, True] + [False] * 10
    assert sum(one["drawn"] for one in two) == pytest.approx(1, abs=1e-4)
    written = ask(studio, write=1, temperature=0)
    assert written["ids"][-1] == two[0]["id"] == written["written"]
    again = [ask(studio, write=1, seed=5)["written"] for _ in range(2)]
    assert again[0] == again[1]


def test_a_logit_is_the_sum_of_its_parts_and_a_muted_head_moves_the_probabilities(studio: Any) -> None:
    before = ask(studio)
    token = before["next"][0]
    why = ask(studio, "/why", ids=before["ids"], token=token["id"])
    assert why["sum"] == pytest.approx(why["logit"], abs=1e-4)
    assert why["logit"] == pytest.approx(token["logit"], abs=1e-3)
    assert sum(value for *_, value in why["parts"]) == pytest.approx(why["logit"], abs=1e-3)
    muted = [{"layer": 2, "head": 0}]
    assert ask(studio, muted=muted)["next"] != before["next"]
    parts = ask(studio, "/why", ids=before["ids"], token=token["id"], muted=muted)["parts"]
    assert [value for kind, layer, head, value in parts if (kind, layer, head) == ("head", 2, 0)] == [0.0]


def test_a_long_prompt_is_cut_at_its_beginning_and_says_so(studio: Any) -> None:
    result = ask(studio, text="so " * 60)
    assert (result["read"], result["whole"]) == (64, 180)
    assert ask(studio, ids=result["ids"], write=1)["read"] == 64


@pytest.mark.parametrize(
    "fields",
    [
        {"text": ""}, {"ids": [1], "text": "a"}, {"ids": [10**6]}, {"text": None}, {"model": "reverser"},
        {"muted": [{"layer": 9, "head": 0}]}, {"temperature": -1}, {"top_p": 0}, {"write": 2},
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_an_error(studio: Any, fields: dict[str, Any]) -> None:
    body = {**ASK, **fields}
    if "ids" in fields and "text" not in fields:
        body.pop("text")
    answer = studio.post("/api/write", json=body)
    assert answer.status_code in (404, 422), answer.json()
    assert answer.json()["message"]


def test_published_weights_write_too(tmp_path: Path) -> None:
    from regard.models import Gpt, GptConfig
    from regard.studio.library import describe

    Gpt(GptConfig(vocabulary=30, d_model=24, heads=3, layers=1, context=16)).save_folder(tmp_path)
    assert describe("mine", tmp_path).writes
