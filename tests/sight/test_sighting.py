"""Sightings: proof, recomputed weights, rollout, tables, files, comparison."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard import causal, padding
from regard.choices import Softmax, Sparsemax
from regard.kernels.request import Request
from regard.models import Gpt, GptConfig
from regard.sight import Sighting, watch
from regard.sight.proof import prove, sample_rows


def gpt(seed: int = 0) -> Gpt:
    torch.manual_seed(seed)
    model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=4, layers=3, context=64)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def ids(length: int = 20) -> Tensor:
    return torch.randint(0, 50, (2, length), generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module")
def seen() -> Sighting:
    model = gpt()
    with torch.no_grad(), watch(model) as sighting:
        model(ids())
    return sighting


@pytest.mark.parametrize("spoiled", ["nothing", "lse", "output", "mass"])
@pytest.mark.parametrize("sinks", [False, True])
def test_the_proof_detects_wrong_numbers(spoiled: str, sinks: bool) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 30, 8) for _ in range(3))
    choice = Softmax(sinks=torch.tensor([0.5, -1.0, 2.0])) if sinks else Softmax()
    spec = Request.of(q, k, v, mask=causal() & padding([30, 20]), choice=choice, needs_lse=True)
    observed = regard.observe(q, k, v, mask=spec.mask, choice=choice, readings=[regard.Rows(list(range(30)))])
    assert observed.lse is not None
    mass, lse, output = observed.readings["rows"].sum(-1), observed.lse.clone(), observed.output.clone()
    if spoiled == "lse":
        lse[1, 2, 29] += 1e-2
    if spoiled == "output":
        output[1, 2, 29, 3] += 1e-3
    if spoiled == "mass":
        mass[0, 1, 5] *= 1.001
    proof = prove(spec, lse=lse, mass=mass, output=output, kernel="native")
    assert proof.holds == (spoiled == "nothing")
    assert proof.rows_checked == 30
    assert proof.mask == "causal() & padding([30, 20])"
    assert ("DOES NOT HOLD" in str(proof)) == (spoiled != "nothing")
    if spoiled == "output":
        assert proof.output_error == pytest.approx(1e-3, rel=1e-2)


def test_a_proof_that_does_not_hold_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    watch_module = sys.modules[watch.__module__]
    monkeypatch.setattr(watch_module, "prove", lambda *a, **k: dataclasses.replace(prove(*a, **k), holds=False))
    with pytest.warns(UserWarning, match="does not hold"):
        watched_once(gpt())


def watched_once(model: Gpt) -> Sighting:
    with watch(model) as sighting:
        model(ids(4))
    return sighting


def test_sampled_rows_are_spread_and_fixed() -> None:
    rows = sample_rows(10_000)
    assert len(rows) == 128
    assert (rows[0], rows[-1]) == (0, 9_999)
    assert rows == sample_rows(10_000)
    assert sample_rows(130)[:3] == [0, 1, 2]


def test_empty_rows_and_other_choices_hold() -> None:
    torch.manual_seed(0)
    layer = regard.MultiHeadAttention(16, heads=2, choice=Sparsemax()).eval()
    x = torch.randn(1, 6, 16)
    with watch(layer) as seen:
        layer(x, mask=causal() & padding([4], side="left"))
    assert seen[0].proof.holds
    assert seen[0].readings["entropy"][0, :, :2].abs().max() == 0
    tile = seen.head(0, 1).tile()
    assert tile[:2].abs().max() == 0
    assert torch.allclose(tile[2:].sum(-1), torch.ones(4))


def test_recomputed_weights(seen: Sighting) -> None:
    model = gpt()
    _, observed = model.observe(ids(), readings=[regard.Rows(list(range(20)))])
    for layer in range(3):
        rows = observed[layer].readings["rows"]
        tile = seen.head(layer, 3).tile(rows=slice(5, 9), cols=slice(-7, None), batch=1)
        assert torch.allclose(tile, rows[1, 3, 5:9, -7:], atol=1e-6)
        assert torch.allclose(seen.head(layer, 0).tile(slice(None, None, 2)), rows[0, 0, ::2], atol=1e-6)
    assert seen.kept_bytes == sum(one.kept.bytes for one in seen if one.kept)
    assert seen.kept_bytes >= 3 * 2 * (2 * 20 * 32 * 4)


def test_queries_and_keys_are_kept_up_to_a_limit() -> None:
    model = gpt()
    with watch(model, keep=2 * 20 * 32 * 2 * 4 + 2 * 4 * 20 * 4) as seen:
        model(ids())
    assert [one.kept is not None for one in seen] == [True, False, False]
    with pytest.raises(ValueError, match="keep=True"):
        seen.head(1, 0).tile()
    with watch(model, keep=False) as seen:
        model(ids())
    assert seen.kept_bytes == 0


class Largest(regard.Reading):
    """A user-defined reading: the largest weight of each row."""

    name = "largest"

    def start(self, shape: Any) -> Tensor:
        return shape.zeros(shape.L)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        block = state[:, :, rows.start : rows.stop]
        block.copy_(torch.maximum(block, p.amax(-1)))

    def merge(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.maximum(a, b)


def test_user_defined_readings(seen: Sighting) -> None:
    model = gpt()
    with watch(model, [regard.Rows([0, -1]), Largest(), regard.Pooled(5, 3)]) as custom:
        model(ids())
    assert custom[1].readings.keys() == {"rows", "largest", "pooled"}
    assert torch.allclose(custom[1].readings["rows"][1, 2, 1], seen.head(1, 2).tile(slice(19, 20), batch=1)[0], atol=1e-6)
    assert torch.allclose(custom[1].readings["largest"], seen[1].readings["top"].weights[..., 0], atol=1e-6)
    assert custom[2].readings["pooled"].shape == (2, 4, 5, 3)
    assert custom[1].proof.holds


def test_rollout(seen: Sighting) -> None:
    expected = torch.eye(20, dtype=torch.float64)
    for layer in range(3):
        mean = torch.stack([seen.head(layer, h).tile(batch=1) for h in range(4)]).double().mean(0)
        expected = (0.5 * torch.eye(20) + 0.5 * mean) @ expected
    flow = seen.rollout([-1, 7], batch=1)
    assert torch.allclose(flow.double(), expected[[19, 7]], atol=1e-6)
    assert torch.allclose(flow.sum(-1), torch.ones(2), atol=1e-5)
    with pytest.raises(ValueError, match="residual"):
        seen.rollout(residual=2.0)
    model = gpt()
    with watch(model, keep=False) as bare:
        model(ids())
    with pytest.raises(ValueError, match="keep=True"):
        bare.rollout()


def test_save_and_load(seen: Sighting, tmp_path: Path) -> None:
    labels = regard.sight.label_heads(gpt(), length=16, least=0.1)
    seen = seen.with_labels(labels)
    file = tmp_path / "seen.safetensors"
    seen.save(file)
    again = Sighting.load(file)
    assert (again.model, again.tokens, again.missed) == (seen.model, seen.tokens, seen.missed)
    for a, b in zip(seen, again, strict=True):
        assert (a.layer, a.call, a.name, a.kind, a.head_ids, a.query_pos, a.key_pos, a.labels) == (
            b.layer, b.call, b.name, b.kind, b.head_ids, b.query_pos, b.key_pos, b.labels
        )  # fmt: skip
        assert a.proof == b.proof
        assert torch.equal(a.readings["entropy"], b.readings["entropy"])
        assert torch.equal(a.readings["top"].keys, b.readings["top"].keys)
        assert a.readings["distance"].offsets == b.readings["distance"].offsets
        assert type(a.readings["value_norm"]) is type(b.readings["value_norm"])
    assert torch.equal(seen.head(2, 1).tile(batch=1), again.head(2, 1).tile(batch=1))
    assert torch.allclose(seen.rollout(), again.rollout())
    seen.save(tmp_path / "small.safetensors", kept=False)
    assert (tmp_path / "small.safetensors").stat().st_size < file.stat().st_size
    assert Sighting.load(tmp_path / "small.safetensors")[0].kept is None
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    with pytest.raises(ValueError, match="endings"):
        seen.save(tmp_path / "seen.docx")


def test_json(seen: Sighting, tmp_path: Path) -> None:
    seen.save(tmp_path / "seen.json")
    summary = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    assert len(summary["calls"]) == 3
    assert len(summary["heads"]) == 3 * 2 * 4
    row = summary["heads"][5]
    assert (row["layer"], row["batch"], row["head"]) == (0, 1, 1)
    assert row["entropy"] == pytest.approx(float(seen[0].readings["entropy"][1, 1].mean()))
    assert summary["calls"][0]["proof"]["holds"] is True


def test_tables(seen: Sighting) -> None:
    pytest.importorskip("pandas", reason="pip install 'regard[tables]'")
    heads = seen.to_pandas()
    assert len(heads) == 24
    assert heads["sink"][0] == pytest.approx(float(seen[0].readings["sink"][0, 0].mean()))
    queries = seen.to_pandas(per="query")
    assert len(queries) == 3 * 2 * 4 * 20
    row = queries[(queries["layer"] == 2) & (queries["batch"] == 1) & (queries["head"] == 3) & (queries["query"] == 7)].iloc[0]
    assert row["key0"] == int(seen[2].readings["top"].keys[1, 3, 7, 0])
    assert row["entropy"] == pytest.approx(float(seen[2].readings["entropy"][1, 3, 7]))
    with pytest.raises(ValueError, match="per is"):
        seen.to_pandas(per="word")


def test_comparison(seen: Sighting) -> None:
    other, longer = gpt(), gpt()
    with torch.no_grad():
        other.blocks[1].attention.in_proj_weight[:8] *= 5  # head 0 of layer 1 becomes sharper
    with watch(other) as second:
        other(ids())
    with watch(longer) as third:
        longer(ids(40))
    same = seen.compare(seen)
    assert max(row["apart"] for row in same.rows) == 0
    comparison = seen.compare(second)
    assert (comparison.largest(1)[0]["layer"], comparison.largest(1)[0]["head"]) == (1, 0)
    assert torch.equal(comparison.pooled[1, 0], second[1].readings["pooled"] - seen[1].readings["pooled"])
    texts = seen.compare(third)
    assert texts.rows[0]["apart"] is None
    assert not texts.pooled
    assert "layer.head" in str(texts)
    with pytest.raises(ValueError, match="share no layer"):
        seen.compare(Sighting())


def test_repr_and_errors(seen: Sighting) -> None:
    text = repr(seen)
    assert "3 layers × 4 heads, 20 × 20 tokens" in text
    assert "✓" in text
    assert "blocks.2.attention" in text
    assert "no attention recorded" in repr(Sighting(model="x"))
    with pytest.raises(IndexError, match="layer 7"):
        seen.find(7)
    with pytest.raises(IndexError, match="called 1 times"):
        seen.find(0, 4)
    with pytest.raises(ValueError, match="the sighting is empty"):
        _ = Sighting().proof
    assert seen.tokens == [[str(i) for i in row] for row in ids().tolist()]
    assert math.isfinite(seen.proof.output_error)


def test_errors_say_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        watch(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the same name"):
        watch(gpt(), [regard.TopK(2), regard.TopK(4)])
    with pytest.raises(ValueError, match="proof is"):
        watch(gpt(), proof="none")  # type: ignore[arg-type]


def test_a_decoder_that_attends_at_every_step_is_one_layer() -> None:
    from regard.models import Bahdanau

    torch.manual_seed(0)
    model = Bahdanau(20, 30, embedding=8, state=16).eval()
    source, lengths, target = torch.randint(5, 20, (2, 7)), torch.tensor([7, 4]), torch.randint(5, 30, (2, 3))
    with torch.no_grad(), watch(model) as seen:
        model(source, lengths, target)
    assert not seen.missed
    assert [(one.layer, one.call, one.name, one.kind, one.query_pos) for one in seen] == [
        (0, step, "attention", "cross", range(step, step + 1)) for step in range(3)
    ]
    with torch.no_grad():
        memory = model.encode(source, lengths)
        state = model.start(memory)
        for step in range(3):
            result = model.step(state, target[:, step])
            torch.testing.assert_close(seen.head(0, 0, call=step).tile()[0], result.alignment[0])
            state = result.state
