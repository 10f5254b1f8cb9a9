"""The page's data: decoded, it equals the sighting."""

import base64
import dataclasses
import gzip
import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from regard import causal, documents, global_tokens, prefix, window
from regard.masks import Mask
from regard.readings import Entropy, Profile, Top
from regard.sight.proof import Proof
from regard.sight.sighting import Missed, Seen, Sighting
from regard.sight.views.heatmaps import hidden_cells, map_cells, pool
from regard.sight.views.payload import Blob, build_payload, encode8, pair_payload
from sightings import WORDS, long, translated, watched


def array(payload: dict[str, Any], ref: list[Any]) -> np.ndarray[Any, Any]:
    """Decode an array as the page does."""
    offset, length, kind = ref
    data = gzip.decompress(base64.b64decode(payload["blob"]))
    if kind[0] != "p":
        return np.frombuffer(data, dtype="<" + kind, count=length, offset=offset)
    width = int(kind[1])
    planes = np.frombuffer(data, dtype=np.uint8, count=width * length, offset=offset).reshape(width, length)
    return sum(planes[b].astype(np.uint64) << np.uint64(8 * b) for b in range(width))  # type: ignore[return-value]


def test_a_short_text_keeps_its_exact_weights_and_marks_what_is_masked() -> None:
    seen = watched()
    payload = build_payload(seen)
    n = len(WORDS)
    for entry, one in zip(payload["seen"], seen, strict=True):
        assert array(payload, entry["exact"]).size == 4 * n * n
        weights = torch.tensor(array(payload, entry["exact"]).reshape(4, n, n))
        visible = torch.ones(n, n).tril().bool()
        assert torch.equal(weights[:, ~visible], torch.full_like(weights[:, ~visible], -1))
        for head in range(4):
            torch.testing.assert_close(weights[head].clamp(min=0), one.head(head).tile(), atol=1e-6, rtol=0)
        assert entry["proof"]["holds"] is True
    assert payload["texts"][0]["pieces"] == ["s", *(word[1:] for word in WORDS[1:])]
    assert payload["texts"][0]["marks"] == "*" + "_" * (n - 1)


def test_labels_come_strongest_first_and_the_payload_is_plain_json() -> None:
    payload = build_payload(watched())
    assert payload["seen"][0]["labels"] == [[], [], [], []]
    assert payload["seen"][1]["labels"][:2] == [[["previous token", 0.91], ["sink", 0.5]], [["induction", 0.75]]]
    assert json.loads(json.dumps(payload, allow_nan=False)) == payload


def test_a_long_text_keeps_maps_to_eight_bits_and_its_heaviest_keys() -> None:
    seen = long(300, k=3, side=64)
    payload = build_payload(seen, exact_bytes=0)
    for entry, one in zip(payload["seen"], seen, strict=True):
        assert entry["exact"] is None
        shape = (2, entry["map"]["rows"], entry["map"]["cols"])
        assert shape == (2, 64, 64)
        top = torch.tensor(entry["map"]["top"])[:, None, None]
        code = torch.tensor(array(payload, entry["map"]["cells"]).reshape(shape).astype(np.float64))
        # One step of the square-root code at weight w is 2·√(w·top)/255 wide; rounding is off by at most half of it.
        error = (code / 255) ** 2 * top - one.readings["pooled"][0].double()
        assert bool((error.abs() <= top * ((code + 0.51) ** 2 - code**2) / 255**2 + 1e-6).all())
        assert torch.equal(code == 0, one.readings["pooled"][0] == 0)
        keys = array(payload, entry["top"]["keys"]).astype(np.int64).reshape(2, 300, 3)
        keys = np.where(keys == entry["top"]["absent"], -1, keys)
        assert np.array_equal(keys, one.readings["top"].keys[0].numpy())
        weights = array(payload, entry["top"]["weights"]).astype(np.float64).reshape(2, 300, 3) / 65535
        assert np.abs(weights - one.readings["top"].weights[0].numpy()).max() <= 0.51 / 65535
        assert entry["top"]["rounded"] is False


def test_maps_are_made_finer_from_kept_queries_and_keys() -> None:
    seen = long(300, side=16, keep=True)[0]
    fine = map_cells(seen, 0, 128)
    assert fine is not None
    assert fine.shape == (2, 128, 128)
    exact = torch.stack([seen.head(head).tile() for head in range(2)])
    torch.testing.assert_close(fine, pool(exact, 128, 128), atol=1e-6, rtol=0)
    torch.testing.assert_close(fine.sum(-1), torch.ones(2, 128), atol=1e-5, rtol=0)
    assert map_cells(dataclasses.replace(seen, kept=None), 0, 128).shape == (2, 16, 16)  # type: ignore[union-attr]


def test_a_sighting_without_maps_or_weights_still_makes_a_page() -> None:
    payload = build_payload(watched(readings=[Entropy()], keep=False))
    assert payload["seen"][0]["exact"] is None
    assert "map" not in payload["seen"][0]
    assert "top" not in payload["seen"][0]
    assert len(payload["seen"][0]["means"]["entropy"]) == 4


@pytest.mark.parametrize(
    "mask", [causal(), window(2, 1), causal() & window(5, 0) | global_tokens([0]), prefix(3), ~causal(), documents([0] * 4 + [1] * 9)]
)
@pytest.mark.parametrize("cells", [(13, 13), (5, 4), (1, 1)])
def test_hidden_cells_are_those_without_a_visible_key(mask: Mask, cells: tuple[int, int]) -> None:
    visible = mask.dense(13, 13)[0, 0]
    R, C = cells
    expected = torch.tensor(
        [
            [not any(bool(visible[i, j]) for i in range(13) for j in range(13) if i * R // 13 == r and j * C // 13 == c) for c in range(C)]
            for r in range(R)
        ]
    )
    hidden = hidden_cells(mask, 13, 13, R, C)
    assert torch.equal(expected, torch.zeros_like(expected) if hidden is None else hidden)


def test_eight_bits_keep_zero_apart_and_order() -> None:
    weights = torch.cat([torch.zeros(1), torch.logspace(-9, 0, 500)])
    code = encode8(weights, torch.tensor(1.0)).long()
    assert code[0] == 0
    assert code[1] == 1
    assert code[-1] == 255
    assert bool((code.diff() >= 0).all())


def test_blob_keeps_equal_arrays_once_and_aligned() -> None:
    blob = Blob()
    first = blob.add(np.arange(5), "u1")
    second = blob.add(np.linspace(0, 1, 3), "f4")
    assert second[0] == 8
    assert blob.add(np.arange(5), "u1") is first
    keys = blob.add(np.array([1, 70000, 2**32 - 1]), "p4")
    payload = {"blob": blob.text()}
    assert array(payload, keys).tolist() == [1, 70000, 2**32 - 1]
    assert array(payload, second).tolist() == [0.0, 0.5, 1.0]


def test_cross_attention_points_into_two_texts() -> None:
    payload = build_payload(translated())
    kinds = {entry["kind"]: entry for entry in payload["seen"]}
    assert set(kinds) == {"encoder", "causal", "cross"}
    words = [text["pieces"] for text in payload["texts"]]
    cross = kinds["cross"]
    assert words[cross["query"]["text"]] == ["s", "I", "love"]
    assert words[cross["key"]["text"]] == ["我", "爱", "中", "国"]
    assert kinds["encoder"]["query"] == kinds["encoder"]["key"] == cross["key"]


def test_unknown_tokens_are_numbered() -> None:
    seen = watched()
    seen.tokens = None
    assert build_payload(seen)["texts"][0]["pieces"] == [str(i) for i in range(len(WORDS))]


def test_missed_attention_and_proofs_without_comparison() -> None:
    seen = watched()
    seen.missed = (Missed("layers.3", (1, 2, 9, 9), "call attend"),)
    seen._all[0] = dataclasses.replace(seen[0], proof=Proof(1e-6, math.nan, 0, "", "native", True))
    payload = build_payload(seen)
    assert payload["missed"] == [["layers.3", "(1, 2, 9, 9)", "call attend"]]
    assert payload["seen"][0]["proof"]["output_error"] is None


def test_an_alignment_is_a_head_of_its_own() -> None:
    weights = torch.tensor([[0.9, 0.1], [0.25, 0.75], [0.5, 0.5]])
    payload = pair_payload(weights, ["I", "love", "."], ["我", "爱"], title="t")
    assert array(payload, payload["seen"][0]["exact"]).tolist() == weights.flatten().tolist()
    assert payload["seen"][0]["proof"]["holds"] is True
    assert pair_payload(weights * 0.5, ["I", "love", "."], ["我", "爱"])["seen"][0]["proof"]["holds"] is False
    with pytest.raises(ValueError, match="3 target and 1 source words"):
        pair_payload(weights, ["I", "love", "."], ["我"])


def noise(length: int, *, layers: int, heads: int) -> Sighting:
    """Random readings, which cannot be compressed: the largest possible page of this size."""
    torch.manual_seed(0)
    calls = []
    for layer in range(layers):
        keys = (torch.rand(1, heads, length, 2) * length).long()
        pooled = torch.rand(1, heads, 256, 256)
        readings = {
            "entropy": torch.rand(1, heads, length), "received": torch.rand(1, heads, length), "sink": torch.rand(1, heads, length),
            "top": Top(torch.rand(1, heads, length, 2), keys), "pooled": pooled / pooled.sum(-1, keepdim=True),
            "distance": Profile(torch.rand(1, heads, 3), ((-1, -1), (0, 0), (1, 1))),
        }  # fmt: skip
        proof = Proof(1e-6, 1e-6, 128, "", "native", True)
        positions = range(length)
        calls.append(Seen(layer, 0, f"layer {layer}", "self", heads, positions, positions, None, readings, proof))
    return Sighting("noise", [[f"▁w{i}" for i in range(length)]], _all=calls)


def test_a_page_of_32768_tokens_and_32_heads_stays_under_15_megabytes() -> None:
    payload = build_payload(noise(32_768, layers=4, heads=8))
    assert all(entry["top"]["k"] == 2 for entry in payload["seen"])
    assert len(json.dumps(payload)) < 14_800_000
