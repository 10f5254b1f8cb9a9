"""Steps: every stage against numbers worked out by hand, and against `regard.attend`."""

import math
from typing import Any

import pytest
import torch

import regard
from regard.demos.lookup import PRICES

EYE = [[1.0, 0.0], [0.0, 1.0]]
HEAD = {"query": EYE, "key": EYE, "value": EYE, "output": EYE}


def ask(studio: Any, **switches: Any) -> dict[str, Any]:
    request = {"embeddings": [[1, 0], [0, 2], [1, 1]], "heads": [HEAD], **switches}
    answer = studio.post("/api/steps", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def test_by_hand(studio: Any) -> None:
    data = ask(studio)
    head = data["heads"][0]
    assert head["raw"] == [[1, 0, 1], [0, 4, 2], [1, 2, 2]]
    assert head["scaled"][2] == pytest.approx([1 / math.sqrt(2), math.sqrt(2), math.sqrt(2)])
    assert head["masked"][0] == [pytest.approx(1 / math.sqrt(2)), None, None]
    assert head["weights"][0] == [1, 0, 0]
    low, high = math.exp(0), math.exp(4 / math.sqrt(2))
    assert head["weights"][1] == pytest.approx([low / (low + high), high / (low + high), 0])
    assert data["change"][0] == [1, 0]
    assert data["result"][0] == [2, 0]
    assert data["proof"] < 1e-12


@pytest.mark.parametrize("choice", ["softmax", "sparsemax", "entmax15", "argmax", "sample"])
@pytest.mark.parametrize("score", ["dot", "additive", "bilinear"])
@pytest.mark.parametrize("mask", ["none", "causal", "window"])
def test_stages_come_to_what_attend_gives(studio: Any, choice: str, score: str, mask: str) -> None:
    data = ask(studio, choice=choice, score=score, mask=mask, temperature=0.7, seed=3)
    head = data["heads"][0]
    weights = torch.tensor(head["weights"])
    assert torch.allclose(weights.sum(-1), torch.ones(3))
    assert data["proof"] < 1e-12
    hidden = torch.tensor([[x is None for x in row] for row in head["masked"]])
    assert not weights[hidden].any()
    if choice in ("argmax", "sample"):
        assert sorted(weights.flatten().tolist()) == [0] * 6 + [1] * 3
        assert [row.index(1) for row in head["weights"]] == head["picked"]


def test_the_scaled_dot_is_the_library_s(studio: Any) -> None:
    e = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], dtype=torch.float64)
    expected = regard.attend(e, e, e, mask=regard.causal(), choice=regard.Softmax(2.0))
    assert torch.allclose(torch.tensor(ask(studio, temperature=2.0)["change"], dtype=torch.float64), expected)


def test_heads_add_up(studio: Any) -> None:
    one, two = ask(studio), ask(studio, heads=[HEAD, {**HEAD, "output": [[2, 0], [0, 0]]}])
    assert two["change"][0] == [3 * one["change"][0][0], one["change"][0][1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embeddings": [[1, 0], [1]]}, "expected 2 × 2"),
        ({"heads": [{**HEAD, "output": [[1, 0]]}]}, "output of head 0"),
        ({"temperature": 0}, "temperature"),
        ({"embeddings": [[float("1e300"), 0]]}, "embeddings.0.0"),
        ({"embeddings": []}, "embeddings"),
        ({"heads": [HEAD] * 5}, "heads"),
        ({"unknown": 1}, "unknown"),
        ({"bilinear": [[1]]}, "bilinear"),
        ({"additive": [1.0]}, "expected 2"),
    ],
)
def test_nonsense_is_an_error_where_it_is(studio: Any, change: dict[str, Any], message: str) -> None:
    answer = studio.post("/api/steps", json={"embeddings": [[1, 0], [0, 2]], "heads": [HEAD], **change})
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid"
    assert message in answer.json()["message"]


def test_the_dict_is_the_limit_of_the_soft_look_up(studio: Any) -> None:
    warm, cold = (studio.post("/api/steps/lookup", json={"asked": "cherry", "temperature": t}).json() for t in (1.0, 0.01))
    assert warm["crisp"] == PRICES["cherry"]
    assert abs(warm["soft"] - PRICES["cherry"]) > 1 > abs(cold["soft"] - PRICES["cherry"])
    assert cold["soft"] == pytest.approx(PRICES["cherry"])
    between = studio.post("/api/steps/lookup", json={"asked": "cherry", "toward": "apple", "mix": 0.5, "temperature": 0.2}).json()
    assert between["crisp"] is None
    assert 1 < between["soft"] < 8


def test_without_the_root_the_gradient_dies(studio: Any) -> None:
    narrow, wide = (studio.post("/api/steps/width", json={"d": d}).json() for d in (4, 2048))
    assert wide["dot"]["variance"] == pytest.approx(2048, rel=0.2)
    assert wide["scaled"]["variance"] == pytest.approx(1, rel=0.2)
    assert wide["dot"]["gradient"] < narrow["dot"]["gradient"] / 3
    assert wide["scaled"]["gradient"] > narrow["scaled"]["gradient"] / 2
    assert sum(wide["dot"]["row"]) == pytest.approx(1)


def test_one_desk_under_several_questions(studio: Any) -> None:
    data = studio.post("/api/steps/desk", json={"query": [0, 0, 3, 0]}).json()
    best = {name: data["things"][max(range(5), key=weights.__getitem__)] for name, weights in data["focused"].items()}
    assert best == {"I want to read": "book", "I want to write": "notebook", "yours": "red cup"}
