import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.models.seq2seq import Bahdanau, BidirectionalEncoder, FixedContext
from regard.scores import Additive, Bilinear, Dot, Gaussian, ScaledDot
from regard.text import PAD

SOURCE = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 5, PAD, PAD], [7, PAD, PAD, PAD, PAD]])
LENGTHS = torch.tensor([5, 3, 1])
TARGET = torch.tensor([[1, 5, 6, 7], [1, 9, 9, 5], [1, 5, PAD, PAD]])
SCORES = {
    "additive": lambda: None,
    "dot": Dot,
    "scaled": ScaledDot,
    "bilinear": lambda: Bilinear(12, 12),
    "factored": lambda: Bilinear(12, 12, rank=3),
    "gaussian": lambda: Gaussian(width=0.5),
}


def models() -> list[nn.Module]:
    torch.manual_seed(0)
    shape = {"embedding": 7, "state": 12}
    return [
        FixedContext(11, 10, **shape).double(),
        *(
            Bahdanau(11, 10, alignment=5, score=make(), query=query, **shape).double()
            for query in ("previous", "current")
            for make in SCORES.values()
        ),
    ]


def test_the_encoder_is_torchs_bidirectional_gru():
    torch.manual_seed(0)
    encoder = BidirectionalEncoder(11, 7, 6).double()
    peer = nn.GRU(7, 6, batch_first=True, bidirectional=True).double()
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        getattr(peer, name).data.copy_(getattr(encoder.forwards, name))
        getattr(peer, f"{name}_reverse").data.copy_(getattr(encoder.backwards, name))
    packed = nn.utils.rnn.pack_padded_sequence(encoder.embedding(SOURCE), LENGTHS, batch_first=True)
    wanted, _ = nn.utils.rnn.pad_packed_sequence(peer(packed)[0], batch_first=True)
    got = encoder(SOURCE, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(got[row, :length], wanted[row, :length])


def test_bahdanau_is_the_papers_equations():
    """Every symbol of the docstring, one sentence and one word at a time, in float64."""
    torch.manual_seed(0)
    model = Bahdanau(11, 10, embedding=7, state=12, alignment=5).double()
    got = model(SOURCE, LENGTHS, TARGET)
    cell = nn.GRUCell(7 + 12, 12).double()
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in model.decoder.state_dict().items()})
    W, U, v = model.score.W, model.score.U, model.score.v
    for row in range(3):
        length = int(LENGTHS[row])
        h = model.encoder(SOURCE[row : row + 1, :length], LENGTHS[row : row + 1])[0]  # (S, 2n)
        s = torch.tanh(model.first(h[0, 6:]))  # s_0 from ←h_1
        for i in range(TARGET.shape[1]):
            y = model.embedding(TARGET[row, i])
            e = torch.stack([v @ torch.tanh(W @ h[j] + U @ s) for j in range(length)])
            alpha = torch.exp(e) / torch.exp(e).sum()
            c = sum(alpha[j] * h[j] for j in range(length))
            s = cell(torch.cat([y, c])[None], s[None])[0]
            p = model.readout.logits(torch.tanh(model.readout.mix(torch.cat([s, c, y]))))
            torch.testing.assert_close(got[row, i], p)


def test_the_fixed_context_is_one_vector_and_the_gru_reads_it_at_every_step():
    torch.manual_seed(0)
    model = FixedContext(11, 10, embedding=7, state=12).double()
    got = model(SOURCE, LENGTHS, TARGET)
    cell = nn.GRUCell(7 + 12, 12).double()
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in model.decoder.state_dict().items()})
    h = model.encoder(SOURCE[1:2, :3], LENGTHS[1:2])[0]
    c = torch.tanh(model.context(torch.cat([h[-1, :6], h[0, 6:]])))  # [→h_S ; ←h_1]
    s = torch.tanh(model.first(h[0, 6:]))
    for i in range(TARGET.shape[1]):
        y = model.embedding(TARGET[1, i])
        s = cell(torch.cat([y, c])[None], s[None])[0]
        torch.testing.assert_close(got[1, i], model.readout.logits(torch.tanh(model.readout.mix(torch.cat([s, c, y])))))


@pytest.mark.parametrize("model", models(), ids=lambda m: type(m).__name__)
def test_stepping_gives_what_the_whole_target_gives(model):
    whole = model(SOURCE, LENGTHS, TARGET)
    state = model.start(model.encode(SOURCE, LENGTHS))
    for i in range(TARGET.shape[1]):
        step = model.step(state, TARGET[:, i])
        torch.testing.assert_close(step.logits, whole[:, i])
        state = step.state
        if step.alignment is not None:
            torch.testing.assert_close(step.alignment.sum(-1), torch.ones(3, dtype=torch.float64))
            assert step.alignment[2, 1:].eq(0).all()  # nothing looks at padding


@pytest.mark.parametrize("model", models(), ids=lambda m: type(m).__name__)
def test_more_padding_changes_nothing(model):
    wide = F.pad(SOURCE, (0, 3), value=PAD)
    torch.testing.assert_close(model(wide, LENGTHS, TARGET), model(SOURCE, LENGTHS, TARGET))


@pytest.mark.parametrize("model", models(), ids=lambda m: type(m).__name__)
def test_selected_rows_go_on_as_the_rows_they_came_from(model):
    state = model.step(model.start(model.encode(SOURCE, LENGTHS)), TARGET[:, 0]).state
    wanted = model.step(state, TARGET[:, 1]).logits
    index = torch.tensor([2, 0, 0, 1])
    chosen = state.select(index)
    torch.testing.assert_close(model.step(chosen, TARGET[index, 1]).logits, wanted[index])
    again = torch.tensor([0, 2, 1, 3])  # rows 1 and 2 are the same sentence: nothing of the source moves
    assert chosen.select(again).memory is chosen.memory
    torch.testing.assert_close(model.step(chosen.select(again), TARGET[index[again], 1]).logits, wanted[index[again]])


@pytest.mark.parametrize("name", SCORES)
def test_looking_is_attend_with_that_score(name):
    torch.manual_seed(1)
    model = Bahdanau(11, 10, embedding=7, state=12, alignment=5, score=SCORES[name]()).double()
    memory = model.encode(SOURCE, LENGTHS)
    s = torch.randn(3, 4, 12, dtype=torch.float64)
    context, alpha = model.align(s, memory)
    torch.testing.assert_close(model.context(s, memory), context)
    h = memory.annotations
    wanted = regard.attend(s, h, h, score=model.score, mask=regard.padding(LENGTHS), kernel="reference")
    torch.testing.assert_close(context, wanted)
    torch.testing.assert_close(alpha @ h, wanted)


def test_every_parameter_learns():
    for model in models():
        model(SOURCE, LENGTHS, TARGET).square().sum().backward()
        assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


def test_tied_readout_shares_the_embedding():
    model = Bahdanau(11, 10, embedding=7, state=12, tied=True)
    assert model.readout.logits.weight is model.embedding.weight


def test_a_score_of_the_wrong_width_and_an_unknown_query_are_refused():
    with pytest.raises(ValueError, match="Additive was made for queries of 5"):
        Bahdanau(11, 10, embedding=7, state=12, score=Additive(5, 5, hidden=3))
    with pytest.raises(ValueError, match="query is 'next'"):
        Bahdanau(11, 10, query="next")
