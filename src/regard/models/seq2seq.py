"""Recurrent encoder–decoders: with one fixed context vector (the baseline), and Bahdanau's, with attention to the source.

The encoder is the same in both. Its annotations of the source x_1…x_S are

    h_j = [→h_j ; ←h_j]                     →h and ←h from a GRU left to right and a GRU right to left

`FixedContext` reduces them to one vector; `Bahdanau` computes a weighted sum of them for every target word.

Axes: B batch, S source positions, T target positions, n state width, m embedding width, V words.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import attend, observe
from ..choices import Argmax
from ..masks import Mask, padding
from ..readings import Rows
from ..scores import Additive, Score
from .copying import Copying, attention_weights
from .translator import Step


@dataclass(frozen=True, eq=False)
class Memory:
    """An encoded source: annotations h (B, S, 2n), prepared keys (B, S, a), lengths (B,), first decoder state s_0 (B, n), ids (B, S)."""

    annotations: Tensor
    keys: Tensor
    lengths: Tensor
    first: Tensor
    source: Tensor

    @cached_property
    def mask(self) -> Mask:
        """The padding mask."""
        return padding(self.lengths)

    def select(self, index: Tensor) -> Memory:
        """Return rows `index` of every tensor."""
        return Memory(*(tensor[index] for tensor in (self.annotations, self.keys, self.lengths, self.first, self.source)))


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """The decoder's state s_i (B, n), the source of each row, and the sentence each row belongs to, (B,)."""

    s: Tensor
    memory: Memory
    rows: Tensor

    def select(self, index: Tensor) -> RecurrentState:
        """Return rows `index` (N,), repeated, dropped or reordered. Reordering hypotheses of the same sentence does not copy the source."""
        rows = self.rows[index]
        same = rows.shape == self.rows.shape and torch.equal(rows, self.rows)
        return RecurrentState(self.s[index], self.memory if same else self.memory.select(index), rows)


def _initial_state(memory: Memory) -> RecurrentState:
    return RecurrentState(memory.first, memory, torch.arange(len(memory.first), device=memory.first.device))


class BidirectionalEncoder(nn.Module):
    """Compute annotations h_j = [→h_j ; ←h_j], (B, S, 2n), of source ids (B, S) with lengths (B,).

    The right-to-left GRU runs over each sentence reversed within its own length, so that padding comes last for both GRUs and
    no packing is needed.
    """

    def __init__(self, words: int, embedding: int, state: int, *, dropout: float = 0.0, pad: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, embedding, padding_idx=pad)
        self.forwards = nn.GRU(embedding, state, batch_first=True)
        self.backwards = nn.GRU(embedding, state, batch_first=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, source: Tensor, lengths: Tensor) -> Tensor:
        x = self.dropout(self.embedding(source))  # (B, S, m)
        position = torch.arange(source.shape[1], device=source.device)
        mirrored = torch.where(position < lengths[:, None], lengths[:, None] - 1 - position, position)[..., None]  # (B, S, 1)
        ahead, _ = self.forwards(x)
        back, _ = self.backwards(x.gather(1, mirrored.expand_as(x)))
        back = back.gather(1, mirrored.expand_as(back))
        return torch.cat([ahead, back], dim=-1)


class Readout(nn.Module):
    """Compute the logits of p(y_i) = g(y_{i−1}, s_i, c_i): a linear layer on tanh(W_s s_i + W_c c_i + W_y y_{i−1} + b).

    tied: that linear layer shares the weights of the embedding.
    """

    def __init__(self, embedding: nn.Embedding, state: int, context: int, *, dropout: float, tied: bool) -> None:
        super().__init__()
        words, width = embedding.num_embeddings, embedding.embedding_dim
        self.mix = nn.Linear(state + context + width, width)
        self.dropout = nn.Dropout(dropout)
        self.logits = nn.Linear(width, words)
        if tied:
            self.logits.weight = embedding.weight

    def forward(self, s: Tensor, c: Tensor, y: Tensor) -> Tensor:
        return cast(Tensor, self.logits(self.dropout(torch.tanh(self.mix(torch.cat([s, c, y], dim=-1))))))


class FixedContext(nn.Module):
    """The encoder–decoder with one context vector for the whole source, the baseline without attention.

        c   = tanh(W_c [→h_S ; ←h_1])       all the decoder gets of the source
        s_0 = tanh(W_s ←h_1)
        s_i = GRU(s_{i−1}, [y_{i−1} ; c])
        p(y_i) = g(y_{i−1}, s_i, c)

    c does not depend on i, so training runs the decoder's GRU over the whole target at once.

    Cho et al. 2014, "Learning Phrase Representations using RNN Encoder–Decoder" (arXiv:1406.1078), section 2.2; here with the
    encoder and read-out of `Bahdanau`, so that the two models differ only in the context.

    source_words, target_words: sizes of the two vocabularies.
    embedding: width of a word vector.
    state: width of the decoder's state; the encoder has half of it in each direction.
    dropout: on word vectors and the read-out.
    tied: the read-out's last layer shares the weights of the target embedding.

    >>> model = FixedContext(20, 30, embedding=8, state=16)
    >>> model(torch.randint(5, 20, (2, 7)), torch.tensor([7, 4]), torch.randint(5, 30, (2, 3))).shape
    torch.Size([2, 3, 30])
    """

    def __init__(
        self, source_words: int, target_words: int, *, embedding: int = 256, state: int = 512, dropout: float = 0.0, tied: bool = False
    ) -> None:
        super().__init__()
        self.encoder = BidirectionalEncoder(source_words, embedding, state // 2, dropout=dropout)
        self.context = nn.Linear(2 * (state // 2), state)
        self.first = nn.Linear(state // 2, state)
        self.embedding = nn.Embedding(target_words, embedding, padding_idx=0)
        self.decoder = nn.GRU(embedding + state, state, batch_first=True)
        self.readout = Readout(self.embedding, state, state, dropout=dropout, tied=tied)
        self.dropout = nn.Dropout(dropout)
        _initialise(self)

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """Encode source (B, S) with `lengths` (B,); return the memory that `start` takes."""
        h = self.encoder(source, lengths)  # (B, S, n)
        half = h.shape[-1] // 2
        last = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, half)
        ahead, back = h[..., :half].gather(1, last)[:, 0], h[:, 0, half:]  # →h_S, ←h_1
        c = torch.tanh(self.context(self.dropout(torch.cat([ahead, back], dim=-1))))  # (B, n)
        return Memory(c, c, lengths, torch.tanh(self.first(back)), source)

    def start(self, memory: Memory) -> RecurrentState:
        """Return the decoder's state before the first word."""
        return _initial_state(memory)

    def hard_attention(self) -> AbstractContextManager[None]:
        """Return a context that changes nothing: this model has no attention."""
        return nullcontext()

    def step(self, state: RecurrentState, token: Tensor, *, align: bool = True) -> Step:
        """Read the previous word `token` (B,) in a `state` and predict the next. align=False: the alignment is not needed."""
        c, y = state.memory.annotations, self.dropout(self.embedding(token))
        s, _ = self.decoder(torch.cat([y, c], dim=-1)[:, None], state.s[None].contiguous())
        return Step(self.readout(s[:, 0], c, y), replace(state, s=s[:, 0]))

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor, *, keep: Tensor | None = None) -> Tensor:
        memory = self.encode(source, lengths)
        y = self.dropout(self.embedding(target))  # (B, T, m)
        c = memory.annotations[:, None].expand(-1, target.shape[1], -1)  # (B, T, n): the same at every step
        s, _ = self.decoder(torch.cat([y, c], dim=-1), memory.first[None].contiguous())
        return _logits(self.readout, keep, s, c, y)


class Attention(nn.Module):
    """`regard.attend` as a module, so that `regard.watch` records it as one named layer although it runs at every step."""

    every_step = True

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *, score: Score, mask: Mask) -> Tensor:
        return attend(query, key, value, score=score, mask=mask)


class Bahdanau(nn.Module):
    """The encoder–decoder with attention, which aligns while it translates.

        e_ij = a(s_{i−1}, h_j)              any score of the library; additive by default: v · tanh(W h_j + U s_{i−1})
        α_ij = softmax_j(e_ij)              over the source positions before the padding
        c_i  = Σ_j α_ij h_j
        s_i  = GRU(s_{i−1}, [y_{i−1} ; c_i])        s_0 = tanh(W_s ←h_1)
        p(y_i) = g(y_{i−1}, s_i, c_i)

    `query="current"` uses s_i as the query instead (Luong et al. 2015, arXiv:1508.04025, section 3.1): then s_i = GRU(s_{i−1}, y_{i−1}),
    and training runs the decoder and the attention over the whole target at once.

    source_words, target_words: sizes of the two vocabularies.
    embedding: width of a word vector.
    state: width of the decoder's state; the encoder has half of it in each direction.
    alignment: hidden units of the default score.
    score: a `regard` score between queries of `state` and keys of 2·(state // 2) features; None: `Additive(hidden=alignment)`
    query: "previous" or "current", the decoder state that asks.
    dropout: on word vectors and the read-out.
    tied: the read-out's last layer shares the weights of the target embedding
    copy: source words may be copied (`Copying`, which needs one vocabulary of source and target); the outputs are then log-probabilities

    Raises ValueError for another `query`, or `copy` with two vocabularies.

    Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate" (arXiv:1409.0473), section 3
    and appendix A; the read-out is a tanh layer where theirs is a maxout.

    >>> model = Bahdanau(20, 30, embedding=8, state=16)
    >>> model(torch.randint(5, 20, (2, 7)), torch.tensor([7, 4]), torch.randint(5, 30, (2, 3))).shape
    torch.Size([2, 3, 30])
    """

    def __init__(
        self,
        source_words: int,
        target_words: int,
        *,
        embedding: int = 256,
        state: int = 512,
        alignment: int = 256,
        score: Score | None = None,
        query: Literal["previous", "current"] = "previous",
        dropout: float = 0.0,
        tied: bool = False,
        copy: bool = False,
    ) -> None:
        super().__init__()
        if query not in ("previous", "current"):
            raise ValueError(f'query is {query!r}; expected "previous" (Bahdanau) or "current" (Luong)')
        width = 2 * (state // 2)
        self.query = query
        self._hard = False
        self.encoder = BidirectionalEncoder(source_words, embedding, state // 2, dropout=dropout)
        self.score = Additive(state, width, hidden=alignment) if score is None else score
        self.score.check(state, width)
        self.attention = Attention()
        self.first = nn.Linear(state // 2, state)
        self.embedding = nn.Embedding(target_words, embedding, padding_idx=0)
        self.decoder = nn.GRU(embedding + (width if query == "previous" else 0), state, batch_first=True)
        self.readout = Readout(self.embedding, state, width, dropout=dropout, tied=tied)
        if copy and source_words != target_words:
            raise ValueError(f"copying needs one vocabulary of source and target, but they have {source_words} and {target_words} words")
        self.copying = Copying(state + width + embedding) if copy else None
        self.dropout = nn.Dropout(dropout)
        _initialise(self)

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """Encode source (B, S) with `lengths` (B,); return the memory that `start` takes."""
        h = self.dropout(self.encoder(source, lengths))  # (B, S, n)
        first = torch.tanh(self.first(h[:, 0, h.shape[-1] // 2 :]))  # s_0 from ←h_1
        # Keys are prepared here, once per sentence; `prepare` treats queries and keys independently, so an empty query will do.
        _, keys = self.score.prepare(first.new_empty(len(h), 0, first.shape[-1]), h)
        return Memory(h, keys, lengths, first, source)

    def context(self, s: Tensor, memory: Memory) -> Tensor:
        """Compute contexts c (B, T, 2n) for states s (B, T, n) and an encoded source `memory`."""
        return cast(Tensor, self.attention(*self._inputs(s, memory), score=self.score.prepared(), mask=memory.mask)[:, 0])

    def align(self, s: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Compute contexts c (B, T, 2n) and weights α (B, T, S) for states s (B, T, n) and an encoded source `memory`."""
        readings = [Rows(list(range(s.shape[1])))]
        attended = observe(*self._inputs(s, memory), score=self.score.prepared(), mask=memory.mask, readings=readings)
        alpha = attended.readings["rows"][:, 0].to(s.dtype)
        if not self._hard:
            return attended.output[:, 0], alpha
        alpha = Argmax()(alpha.log())
        return alpha @ memory.annotations, alpha

    @contextmanager
    def hard_attention(self) -> Iterator[None]:
        """Within this context, `align` and `step` put all weight on the position of the largest weight; `forward` does not change."""
        before, self._hard = self._hard, True
        try:
            yield
        finally:
            self._hard = before

    def _inputs(self, s: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Return prepared queries, prepared keys and values, with one head: (B, 1, …)."""
        query, _ = self.score.prepare(s, memory.annotations[:, :0])
        return query[:, None], memory.keys[:, None], memory.annotations[:, None]

    def start(self, memory: Memory) -> RecurrentState:
        """Return the decoder's state before the first word."""
        return _initial_state(memory)

    def step(self, state: RecurrentState, token: Tensor, *, align: bool = True) -> Step:
        """Read the previous word `token` (B,) in a `state` and predict the next. align=False: the alignment is not needed."""
        y = self.dropout(self.embedding(token))  # (B, m)
        if self.query == "previous":
            c, alpha = self.align(state.s[:, None], state.memory)
            s = self._gru_step(F.linear(torch.cat([y, c[:, 0]], dim=-1), *self._gru_input), state.s)
        else:
            s = self._gru_step(F.linear(y, *self._gru_input), state.s)
            c, alpha = self.align(s[:, None], state.memory)
        logits = self.readout(s, c[:, 0], y)
        if self.copying is not None:
            logits = self.copying(logits[:, None], torch.cat([s, c[:, 0], y], -1)[:, None], alpha, state.memory.source)[:, 0]
        return Step(logits, replace(state, s=s), alpha[:, 0])

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor, *, keep: Tensor | None = None) -> Tensor:
        memory = self.encode(source, lengths)
        y = self.dropout(self.embedding(target))  # (B, T, m)
        if self.copying is not None:
            return self._copying_forward(self.copying, memory, y, keep)
        if self.query == "current":
            s, _ = self.decoder(y, memory.first[None].contiguous())  # (B, T, n)
            return _logits(self.readout, keep, s, self.context(s, memory), y)
        gates, weight_c = self._gates(y)
        s, states, contexts = memory.first, [], []
        for gate in gates:
            c = self.context(s[:, None], memory)[:, 0]
            s = self._gru_step(torch.addmm(gate, c, weight_c), s)
            states.append(s)
            contexts.append(c)
        return _logits(self.readout, keep, torch.stack(states, 1), torch.stack(contexts, 1), y)

    def _gates(self, y: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return y's part of the gates of every step, T × (B, 3n), and the context's weights of the gates.

        c_i needs s_{i−1}, so the decoder runs step by step; what does not depend on the state is computed here for all steps at once.
        """
        weight, bias = self._gru_input
        weight_y, weight_c = weight[:, : y.shape[-1]], weight[:, y.shape[-1] :]
        return F.linear(y, weight_y, bias).unbind(1), weight_c.t().contiguous()

    def _copying_forward(self, copying: Copying, memory: Memory, y: Tensor, keep: Tensor | None) -> Tensor:
        """Compute log-probabilities with copying of all positions (B, T, V), or of those where `keep` is True: (N, V)."""
        if self.query == "current":
            s, _ = self.decoder(y, memory.first[None].contiguous())
            alpha = self._weights(s, memory)  # (B, T, S)
        else:
            gates, weight_c = self._gates(y)
            state, states, rows = memory.first, [], []
            for gate in gates:
                row = self._weights(state[:, None], memory)
                state = self._gru_step(torch.addmm(gate, (row @ memory.annotations)[:, 0], weight_c), state)
                states.append(state)
                rows.append(row)
            s, alpha = torch.stack(states, 1), torch.cat(rows, 1)
        c = alpha @ memory.annotations
        if keep is None:
            return cast(Tensor, copying(self.readout(s, c, y), torch.cat([s, c, y], -1), alpha, memory.source))
        # One row for each of the N positions: their sentence's source ids are repeated, their padding is not computed.
        s, c, y, alpha = s[keep], c[keep], y[keep], alpha[keep]
        source = memory.source[keep.nonzero()[:, 0]]
        return cast(Tensor, copying(self.readout(s, c, y)[:, None], torch.cat([s, c, y], -1)[:, None], alpha[:, None], source)[:, 0])

    def _weights(self, s: Tensor, memory: Memory) -> Tensor:
        """Compute weights α (B, T, S) for states s (B, T, n), with gradients."""
        query, _ = self.score.prepare(s, memory.annotations[:, :0])
        return attention_weights(query, memory.keys, score=self.score.prepared(), mask=memory.mask)

    @property
    def _gru_input(self) -> tuple[Tensor, Tensor]:
        return cast(Tensor, self.decoder.weight_ih_l0), cast(Tensor, self.decoder.bias_ih_l0)

    def _gru_step(self, gates: Tensor, s: Tensor) -> Tensor:
        """Compute one GRU step from its input gates (B, 3n), already multiplied by the input weights, and s (B, n): (B, n)."""
        n = s.shape[-1]
        recurrent = F.linear(s, cast(Tensor, self.decoder.weight_hh_l0), cast(Tensor, self.decoder.bias_hh_l0))
        reset, update = torch.sigmoid(gates[:, : 2 * n] + recurrent[:, : 2 * n]).chunk(2, dim=-1)
        candidate = torch.tanh(torch.addcmul(gates[:, 2 * n :], reset, recurrent[:, 2 * n :]))
        return torch.lerp(candidate, s, update)  # (1 − update) · candidate + update · s


def _logits(readout: Readout, keep: Tensor | None, *vectors: Tensor) -> Tensor:
    """Compute logits of every position (B, T, V), or of the N positions where `keep` (B, T) is True: (N, V)."""
    return cast(Tensor, readout(*(vectors if keep is None else (x[keep] for x in vectors))))


def _initialise(model: nn.Module) -> None:
    """Initialise embeddings with std 1/√width and recurrent weights orthogonal, so that products over many steps keep their norm."""
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            if module.padding_idx is not None:
                with torch.no_grad():
                    module.weight[module.padding_idx].zero_()
        elif isinstance(module, nn.GRU):
            for name, parameter in module.named_parameters():
                if name.startswith("weight_hh"):
                    for block in parameter.detach().chunk(3):
                        nn.init.orthogonal_(block)
