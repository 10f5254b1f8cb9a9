"""A decoder block as plain function calls computes what its modules compute, and gives way where somebody would notice."""

import dataclasses

import pytest
import torch

import regard
from regard.models.decoder_step import PlainBlock
from regard.models.transformer import Transformer, TransformerConfig

SOURCE = torch.randint(4, 30, (2, 9), generator=torch.Generator().manual_seed(1))
LENGTHS = torch.tensor([9, 9])
TARGET = torch.randint(4, 26, (6, 2), generator=torch.Generator().manual_seed(2))


def small(**options):
    torch.manual_seed(0)
    given = {"source_vocabulary": 30, "target_vocabulary": 26, "d_model": 32, "heads": 4, "context": 32} | options
    return Transformer(TransformerConfig(**given)).eval()


def decode(model, *, plain, align=False, lengths=LENGTHS):
    state, logits = model.start(model.encode(SOURCE, lengths)), []
    if not plain:
        state = dataclasses.replace(state, plain=(None,) * len(model.decoder))
    for tokens in TARGET:
        step = model.step(state, tokens, align=align)
        state = step.state
        logits.append(step.logits)
    return torch.stack(logits)


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"bias": False}, {"positions": "learned", "decoder_layers": 1}])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("lengths", [LENGTHS, torch.tensor([9, 4])], ids=["whole", "padded"])
@torch.no_grad()
def test_plain_steps_are_the_modules_to_the_bit(options, align, lengths):
    model = small(**options)
    assert all(PlainBlock.of(block) is not None for block in model.decoder)
    assert torch.equal(*(decode(model, plain=plain, align=align, lengths=lengths) for plain in (True, False)))


@pytest.mark.parametrize(
    "options", [{"placement": "post"}, {"norm": "rms"}, {"activation": "gelu"}, {"kv_heads": 2}, {"activation": "swiglu"}]
)
def test_other_blocks_have_no_plain_form(options):
    assert all(PlainBlock.of(block) is None for block in small(**options).decoder)


def test_a_changed_attention_has_no_plain_form():
    model = small()
    with model.hard_attention():
        assert all(PlainBlock.of(block) is None for block in model.decoder)
    model.decoder[0].attention.score = regard.ScaledDot(cap=5.0)
    assert [PlainBlock.of(block) is None for block in model.decoder] == [True, False, False]


@torch.no_grad()
def test_hooks_and_training_mode_are_not_passed_by():
    model, ran = small(), []
    state = model.start(model.encode(SOURCE, LENGTHS))
    hook = model.decoder[1].mlp.up.register_forward_hook(lambda *_: ran.append(1))
    model.step(state, TARGET[0])
    model.step(state, TARGET[0], align=False)
    assert len(ran) == 2
    hook.remove()
    with regard.watch(model) as seen:
        model.step(state, TARGET[0], align=False)
    assert len(seen) == 2 * len(model.decoder)
    assert all(plain.ready() for plain in state.plain)
    model.train()
    assert not any(plain.ready() for plain in state.plain)
