import pytest
import torch
from torch.nn import functional as F

from regard.models.transformer import Transformer, TransformerConfig

SOURCE = torch.randint(4, 30, (3, 9), generator=torch.Generator().manual_seed(1))
LENGTHS = torch.tensor([9, 5, 1])
TARGET = torch.cat([torch.ones(3, 1, dtype=torch.long), torch.randint(4, 26, (3, 6), generator=torch.Generator().manual_seed(2))], 1)
SHAPES = {
    "waves": {},
    "post, learned": {"placement": "post", "positions": "learned", "tied": False},
    "modern": {"positions": "rotary", "norm": "rms", "activation": "swiglu", "kv_heads": 2, "bias": False},
    "window": {"window": 3},
}


def small(shape: str = "waves", **options: object) -> Transformer:
    torch.manual_seed(0)
    settings = {"source_vocabulary": 30, "target_vocabulary": 26, "d_model": 32, "heads": 4, "context": 32} | SHAPES[shape] | options
    return Transformer(TransformerConfig(**settings)).double().eval()


@pytest.mark.parametrize("shape", SHAPES)
def test_stepping_equals_teacher_forcing(shape):
    model = small(shape)
    with torch.no_grad():
        state, steps = model.start(model.encode(SOURCE, LENGTHS)), []
        for t in range(TARGET.shape[1]):
            step = model.step(state, TARGET[:, t])
            state = step.state
            steps.append(step.logits)
        torch.testing.assert_close(torch.stack(steps, 1), model(SOURCE, LENGTHS, TARGET))


@pytest.mark.parametrize("shape", SHAPES)
def test_padding_changes_nothing(shape):
    model = small(shape)
    together = model(SOURCE, LENGTHS, TARGET)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(SOURCE[row : row + 1, :length], LENGTHS[row : row + 1], TARGET[row : row + 1])
        torch.testing.assert_close(together[row], alone[0])


def test_an_empty_source_gives_ordinary_numbers():
    model = small()
    alone = model(SOURCE, torch.zeros(3, dtype=torch.long), TARGET)
    assert alone.isfinite().all()
    torch.testing.assert_close(alone, model((SOURCE + 1) % 30, torch.zeros(3, dtype=torch.long), TARGET))


def test_later_words_do_not_change_earlier_logits():
    model, other = small(), TARGET.clone()
    other[:, 4:] = (other[:, 4:] + 3) % 26
    torch.testing.assert_close(model(SOURCE, LENGTHS, TARGET)[:, :4], model(SOURCE, LENGTHS, other)[:, :4])


@torch.no_grad()
def test_a_state_can_be_stepped_twice_and_selected():
    """Beams branch from one state: reading one word must not disturb what another branch reads."""
    model = small()
    state = model.start(model.encode(SOURCE, LENGTHS))
    state = model.step(state, TARGET[:, 0]).state
    one, two = model.step(state, TARGET[:, 1]), model.step(state, (TARGET[:, 1] + 1) % 26)
    again = model.step(state, TARGET[:, 1])
    torch.testing.assert_close(one.logits, again.logits)
    assert not torch.allclose(one.logits, two.logits)
    index = torch.tensor([2, 0, 0, 1])
    beam = model.step(one.state.select(index), TARGET[index, 2])
    plain = model.step(one.state, TARGET[:, 2])
    torch.testing.assert_close(beam.logits, plain.logits[index])
    torch.testing.assert_close(beam.alignment, plain.alignment[index])
    twice = torch.tensor([3, 3, 0])
    beam = model.step(one.state.select(index).select(twice), TARGET[index[twice], 2])
    torch.testing.assert_close(beam.logits, plain.logits[index[twice]])


@torch.no_grad()
def test_reordering_the_beam_of_a_sentence_copies_nothing_of_its_source():
    model = small()
    state = model.start(model.encode(SOURCE, LENGTHS)).select(torch.tensor([0, 0, 1, 1, 2, 2]))
    swapped = state.select(torch.tensor([1, 1, 3, 2, 4, 4]))
    assert swapped.cross is state.cross
    moved = state.select(torch.tensor([2, 2, 0, 0, 4, 4]))
    assert torch.equal(moved.cross[0].key[0], state.cross[0].key[2])


@torch.no_grad()
def test_the_alignment_is_a_distribution_over_the_real_source():
    step = small().step(small().start(small().encode(SOURCE, LENGTHS)), TARGET[:, 0])
    torch.testing.assert_close(step.alignment.sum(1), torch.ones(3, dtype=torch.float64))
    absent = torch.arange(9) >= LENGTHS[:, None]
    assert (step.alignment[absent] == 0).all()
    one_layer = small(decoder_layers=1)
    assert one_layer.step(one_layer.start(one_layer.encode(SOURCE, LENGTHS)), TARGET[:, 0]).alignment.shape == (3, 9)


def test_the_loss_is_the_mean_over_real_words():
    model = small()
    wanted = TARGET.roll(-1, 1)
    wanted[1, 3:] = -100
    logits = model(SOURCE, LENGTHS, TARGET)
    expected = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100, label_smoothing=0.1)
    torch.testing.assert_close(model.loss(SOURCE, LENGTHS, TARGET, wanted, smoothing=0.1), expected)


def test_one_vocabulary_can_serve_both_sides():
    model = small(source_vocabulary=26, shared=True)
    assert model.source_tokens is model.target_tokens
    with pytest.raises(ValueError, match="30 and 26 words"):
        small(shared=True)


def reversals(rows: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Source of 3 to 8 tokens; target: the same backwards, between <s> = 1 and </s> = 2; padding 0, −100 where nothing is wanted."""
    lengths = torch.randint(3, 9, (rows,), generator=generator)
    source = torch.randint(4, 14, (rows, 8), generator=generator) * (torch.arange(8) < lengths[:, None])
    target, wanted = torch.zeros(rows, 9, dtype=torch.long), torch.full((rows, 9), -100)
    for row, length in enumerate(lengths.tolist()):
        back = source[row, :length].flip(0)
        target[row, : length + 1] = torch.cat([torch.tensor([1]), back])
        wanted[row, : length + 1] = torch.cat([back, torch.tensor([2])])
    return source, lengths, target, wanted


def test_a_transformer_learns_to_reverse():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    shape = {"d_model": 48, "heads": 2, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0, "positions": "learned", "context": 16}
    model = Transformer(TransformerConfig(source_vocabulary=14, target_vocabulary=14, **shape))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=500)
    pool = reversals(3000, generator)
    for _ in range(500):
        pick = torch.randint(3000, (64,), generator=generator)
        optimizer.zero_grad(set_to_none=True)
        model.loss(*(part[pick] for part in pool)).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    source, lengths, _, wanted = reversals(200, generator)
    with torch.no_grad():
        state, token, words = model.start(model.encode(source, lengths)), torch.ones(200, dtype=torch.long), []
        for _ in range(9):
            step = model.step(state, token)
            state, token = step.state, step.logits.argmax(-1)
            words.append(token)
    right = (torch.stack(words, 1) == wanted) | (wanted == -100)
    assert right.all(1).float().mean() >= 0.95


def test_only_without_the_causal_mask_a_word_sees_those_after_it():
    changed = TARGET.clone()
    changed[:, -1] = 4 + (changed[:, -1] - 3) % 22
    for causal in (True, False):
        model = small(causal=causal)
        with torch.no_grad():
            before, after = model(SOURCE, LENGTHS, TARGET)[:, :-1], model(SOURCE, LENGTHS, changed)[:, :-1]
        assert torch.equal(before, after) == causal


def test_only_without_scaling_the_scores_are_plain_dot_products():
    scaled, plain = small(), small(scaled=False)
    plain.load_state_dict(scaled.state_dict())
    with torch.no_grad():
        assert not torch.allclose(scaled(SOURCE, LENGTHS, TARGET), plain(SOURCE, LENGTHS, TARGET))
        width = scaled.config.d_model // scaled.config.heads
        for block in scaled.encoder:  # queries √d times as long undo the division
            block.attention.in_proj_weight[: scaled.config.d_model] *= width**0.5
        for block in scaled.decoder:
            for layer in (block.attention, block.cross):
                layer.in_proj_weight[: scaled.config.d_model] *= width**0.5
        assert torch.allclose(scaled(SOURCE, LENGTHS, TARGET), plain(SOURCE, LENGTHS, TARGET), atol=1e-5)
