import pytest
import torch
from torch.nn import functional as F

from regard import Entropy, window
from regard.models.bert import Bert, BertClassifier, BertConfig, hide_tokens

IDS = torch.randint(5, 40, (3, 12), generator=torch.Generator().manual_seed(1))
LENGTHS = torch.tensor([12, 7, 1])


def small(**options: object) -> Bert:
    torch.manual_seed(0)
    settings = {"vocabulary": 40, "d_model": 32, "heads": 4, "layers": 2, "context": 16} | options
    return Bert(BertConfig(**settings)).double().eval()


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_padding_changes_nothing(placement, positions):
    model = small(placement=placement, positions=positions)
    hidden = model(IDS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(hidden[row, :length], model(IDS[row : row + 1, :length])[0])


def test_a_mask_narrows_what_padding_leaves():
    model, other = small(layers=1), IDS.clone()
    other[:, 4:] = (other[:, 4:] + 1) % 40
    near = window(1, 1)
    torch.testing.assert_close(model(IDS, mask=near)[:, :3], model(other, mask=near)[:, :3])
    lengths = torch.full((3,), 4)  # token 3 sees token 4 but for its padding
    torch.testing.assert_close(model(IDS, lengths, mask=near)[:, :3], model(other, lengths, mask=near)[:, :3])
    torch.testing.assert_close(model(IDS, lengths, mask=near)[:, 3], model(IDS[:, :4], mask=near)[:, 3])
    assert not torch.allclose(model(IDS, mask=near)[:, 3], model(IDS[:, :4], mask=near)[:, 3])


def test_tokens_look_both_ways():
    model, other = small(), IDS.clone()
    other[:, -1] = (other[:, -1] + 1) % 40
    assert (model(IDS)[:, 0] - model(other)[:, 0]).abs().max() > 1e-6


def test_segments_matter_and_default_to_the_first():
    model = small()
    assert torch.equal(model(IDS), model(IDS, types=torch.zeros_like(IDS)))
    assert not torch.allclose(model(IDS), model(IDS, types=torch.ones_like(IDS)))
    with pytest.raises(ValueError, match="no segment embedding"):
        small(types=0)(IDS, types=torch.zeros_like(IDS))


def test_the_loss_reads_out_the_hidden_positions_only():
    model = small()
    targets = torch.full_like(IDS, -100)
    targets[0, 3], targets[1, 2] = 8, 9
    logits = model.unmask(model(IDS, LENGTHS))
    expected = F.cross_entropy(torch.stack([logits[0, 3], logits[1, 2]]), torch.tensor([8, 9]))
    torch.testing.assert_close(model.loss(IDS, targets, LENGTHS), expected)


def test_observing_reads_every_layer_and_changes_nothing():
    model = small()
    hidden, seen = model.observe(IDS, LENGTHS, readings=[Entropy()])
    torch.testing.assert_close(hidden, model(IDS, LENGTHS))
    assert len(seen) == 2
    assert seen[0].readings["entropy"].shape == (3, 4, 12)


def test_what_a_model_lacks_is_said():
    bare = small(pooled=False, masked=False)
    with pytest.raises(ValueError, match="no pooling layer"):
        bare.pool(bare(IDS))
    with pytest.raises(ValueError, match="no masked-token head"):
        bare.unmask(bare(IDS))
    with pytest.raises(ValueError, match="swiglu needs two inputs"):
        small(activation="swiglu")
    with pytest.raises(ValueError, match="placement='middle' is unknown; expected one of pre, post"):
        small(placement="middle")


def test_hiding_follows_its_shares():
    ids = torch.randint(5, 1000, (400, 100), generator=torch.Generator().manual_seed(0))
    ids[:, 0] = 2
    lengths = torch.full((400,), 80)
    generator = torch.Generator().manual_seed(1)
    inputs, targets = hide_tokens(ids, mask_id=4, vocabulary=1000, lengths=lengths, special=(2,), generator=generator)
    hidden = targets != -100
    assert not hidden[:, 0].any()
    assert not hidden[:, 80:].any()
    assert torch.equal(targets[hidden], ids[hidden])
    assert torch.equal(inputs[~hidden], ids[~hidden])
    assert hidden[:, 1:80].float().mean().item() == pytest.approx(0.15, abs=0.01)
    assert (inputs[hidden] == 4).float().mean().item() == pytest.approx(0.8, abs=0.02)
    assert (inputs[hidden] == ids[hidden]).float().mean().item() == pytest.approx(0.1, abs=0.02)


def palindromes(rows: int, generator: torch.Generator) -> torch.Tensor:
    """Eight tokens and the same eight backwards: any one of them is told by its mirror image."""
    half = torch.randint(5, 25, (rows, 8), generator=generator)
    return torch.cat([half, half.flip(1)], 1)


def train(model: torch.nn.Module, steps: int, rate: float, loss) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()
        schedule.step()
    model.eval()


def test_bert_fills_hidden_tokens_then_learns_a_classification():
    """Masked-token training on palindromes, then fine-tuning to say which group of five the third token is of."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    bert = Bert(BertConfig(vocabulary=25, d_model=48, heads=4, layers=2, context=16, placement="pre", dropout=0.0, types=0))

    def masked_loss() -> torch.Tensor:
        inputs, targets = hide_tokens(palindromes(64, generator), mask_id=4, vocabulary=25, generator=generator)
        return bert.loss(inputs, targets)

    train(bert, 500, 4e-3, masked_loss)
    held = palindromes(200, generator)
    column = torch.randint(16, (200, 1), generator=generator)
    hidden = held.scatter(1, column, 4)
    with torch.no_grad():
        filled = bert.unmask(bert(hidden)).argmax(-1).gather(1, column)
    assert (filled == held.gather(1, column)).float().mean() >= 0.97

    classifier = BertClassifier(bert, classes=4)

    def batch(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The pooled first position must fetch the third token."""
        ids = palindromes(rows, generator)
        return ids, (ids[:, 2] - 5) // 5

    def class_loss() -> torch.Tensor:
        ids, wanted = batch(32)
        return F.cross_entropy(classifier(ids), wanted)

    train(classifier, 300, 3e-3, class_loss)
    ids, wanted = batch(300)
    with torch.no_grad():
        assert (classifier(ids).argmax(-1) == wanted).float().mean() >= 0.97
