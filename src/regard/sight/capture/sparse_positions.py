"""Put the weights of sparse attention back to their true positions: Longformer, BigBird, LongT5, Pegasus-X, Reformer.

These models cut, shift, sort and join queries and keys before they multiply them. While one of their attention modules runs, every vector
carries the number of its token (and head) through those operations, and every score the numbers of its query and its key, so that at
the product with the values each weight says where it belongs. Keys made from several tokens (the global blocks of LongT5, the global
tokens of Pegasus-X) come after the tokens.

A change of such an attention acts on the weights at their true positions. The module then runs a second time, in which its rows take the
changed output wherever it multiplies weights and values.

Axes: B batch, h heads, L queries, S keys, dv value width.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...kernels.kernel import Result
from .captured import CapturedAttention, Execution, OwnWeights
from .contractions import Arrangement, Contraction, contraction
from .interception import dispatch, handling, thread
from .trails import MOVES, PICKS, is_readable

SPARSE_MODULES = {
    "BigBirdBlockSparseAttention", "BigBirdPegasusBlockSparseAttention", "LEDEncoderSelfAttention", "LSHSelfAttention",
    "LocalSelfAttention", "LongT5LocalAttention", "LongT5TransientGlobalAttention", "LongformerSelfAttention",
    "PegasusXGlobalLocalAttention",
}  # fmt: skip
MOST_BYTES = 2_000_000_000  # of all weights of one layer, which are put together dense
_IDS = "_regard_ids"
_CASTS = {"to", "type", "float", "half", "double", "bfloat16", "type_as", "requires_grad_", "detach"}
_WHOLE = 0.99  # a row of weights that sums to this is complete
_TOKENS = 1 << 24  # a vector's number is (batch · _TOKENS + token) · heads + head


class Positions:
    """The numbers of tokens, while one sparse attention module runs, and the weights found so far."""

    def __init__(self, hidden: Tensor, heads: int, before: int = 0, run: Callable[[], Any] = lambda: None) -> None:
        """before: how many vectors of padding the layer put before the tokens, and after them. run: calls the module's forward again."""
        B, N = hidden.shape[:2]
        self.heads, self.batch, self.tokens = heads, B, N - 2 * before
        self.device = hidden.device
        token = self._range(N).view(1, N, 1) - before
        number = (self._range(B).view(B, 1, 1) * _TOKENS + token).masked_fill((token < 0) | (token >= self.tokens), -1)
        self._input, self._run = hidden, run
        self._random_state = torch.get_rng_state()
        self._numbers = (number.expand(hidden.shape),)
        setattr(hidden, _IDS, self._numbers)
        self.found: list[tuple[Tensor, Tensor, Tensor]] = []  # query numbers, key numbers, weights
        self.rows: list[tuple[Tensor, Tensor]] = []  # query numbers, their part of the output
        self.values: list[tuple[Tensor, Tensor]] = []  # key numbers, values
        self.unknown = False
        self._substitutes: list[tuple[Tensor, Tensor]] | None = None  # in the second run, for each product: which rows, their output

    @staticmethod
    def of(running: list[nn.Module], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Positions | None:
        """Start if the module that runs is called with hidden states (B, N, D)."""
        module = running[-1]
        hidden = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)
        counts = (getattr(module, name, None) for name in ("num_attention_heads", "num_heads", "n_heads"))
        heads = next((n for n in counts if isinstance(n, int)), None)
        if hidden is None or hidden.dim() != 3 or heads is None or not is_readable(hidden):
            return None
        around = running[-2] if len(running) > 1 else module
        staggered = bool(getattr(around, "stagger_blocks_this_layer", False))  # every second layer of Pegasus-X shifts by half a block
        cache = kwargs.get("past_buckets_states")  # of Reformer, which a second run would fill twice
        lists = {name: list(x) for name, x in vars(cache).items() if isinstance(x, list)} if cache is not None else {}

        def run() -> Any:
            for name, before in lists.items():
                setattr(cache, name, before)
            return module.forward(*args, **kwargs)

        return Positions(hidden, heads, getattr(around, "block_size", 0) // 2 if staggered else 0, run)

    def _range(self, count: int) -> Tensor:
        return torch.arange(count, device=self.device)

    # Numbers of tokens through the operations

    def follow(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Give the result of an operation the numbers of its arguments."""
        if name == "linear" and isinstance(result, Tensor):
            self._project(args[0], result)
        elif name == "__setitem__":
            self._assign(args)
        elif (factors := contraction(name, args, kwargs) if name in ("matmul", "bmm", "einsum", "baddbmm") else None) is not None:
            self._multiply(factors, result)
        else:
            self._inherit(name, func, args, kwargs, result)

    def _project(self, x: Tensor, result: Tensor) -> None:
        """Number the vectors of a projection: by their input, or after the tokens if that was made from several of them."""
        ids = getattr(x, _IDS, None)
        if ids is not None and len(ids) == 1 and ids[0].shape == x.shape and result.shape[-1] % self.heads == 0:
            token = ids[0][..., :1]
        elif result.dim() == 3 and result.shape[0] == self.batch and result.shape[-1] % self.heads == 0:
            token = self._range(self.batch).view(-1, 1, 1) * _TOKENS + self.tokens + self._range(result.shape[1]).view(1, -1, 1)
        else:
            return
        head = self._range(result.shape[-1]) // (result.shape[-1] // self.heads)
        setattr(result, _IDS, ((token * self.heads + head).masked_fill(token < 0, -1).expand(result.shape),))

    def _assign(self, args: tuple[Any, ...]) -> None:
        target, index, value = args
        ids = getattr(value, _IDS, None)
        before = getattr(target, _IDS, None)
        if ids is None and before is None:
            return
        count = len(ids or before or ())
        before = (
            before
            if before is not None and len(before) == count
            else tuple(torch.full(target.shape, -1, device=self.device) for _ in range(count))
        )
        after = []
        for i, old in enumerate(before):
            new = old.clone(memory_format=torch.contiguous_format)
            if not isinstance(value, Tensor) or ids is not None:  # numbers such as −∞ do not move a position
                new[index] = ids[i] if ids is not None else new[index]
            after.append(new)
        setattr(target, _IDS, tuple(after))

    def _multiply(self, c: Contraction, result: Tensor) -> None:
        """Give scores the numbers of their query (or row) and key."""
        left, right = getattr(c.left, _IDS, None), getattr(c.right, _IDS, None)
        if left is None or right is None or len(left) != 1 or len(right) != 1:
            return
        setattr(result, _IDS, (_spread(left[0], c.left_axes, c, result), _spread(right[0], c.right_axes, c, result)))

    def _inherit(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        moves = name in MOVES | PICKS
        source = next((x for x in _flat(args[:1] if moves else args) if getattr(x, _IDS, None) is not None), None)
        if source is None:
            return
        count = len(getattr(source, _IDS))
        if name in _CASTS:
            setattr(result, _IDS, getattr(source, _IDS))
        elif moves:
            options = {**kwargs, "value": -1} if name == "pad" else {k: v for k, v in kwargs.items() if k != "dtype"}
            try:
                made = [func(*_with_ids(name, args, i), **options) for i in range(count)]
            except (TypeError, RuntimeError):
                self.unknown = True
                return
            parts = zip(*made, strict=True) if isinstance(result, list | tuple) else [made]
            for tensor, ids in zip(result if isinstance(result, list | tuple) else [result], parts, strict=False):
                if isinstance(tensor, Tensor) and tensor.is_floating_point():
                    setattr(tensor, _IDS, tuple(ids))
        elif isinstance(result, Tensor) and result.is_floating_point():
            ids = getattr(source, _IDS)
            if result.shape == source.shape:
                setattr(result, _IDS, ids)
            elif result.numel() > source.numel():
                setattr(result, _IDS, tuple(torch.broadcast_to(x, result.shape) for x in ids))

    # Weights and outputs

    def add(self, arrangement: Arrangement, p: Tensor, result: Tensor) -> Tensor:
        """Add a product of weights p (B, h, L, S) and values; returns its result, or in the second run what replaces it."""
        pairs, keys = getattr(arrangement.weights, _IDS, None), getattr(arrangement.values, _IDS, None)
        if pairs is None or len(pairs) != 2 or keys is None:
            self.unknown = True
            return result
        query, key = (arrangement.of_weights(x) for x in pairs)
        row = query.masked_fill(p == 0, -1).amax(-1)  # where the weight is 0 may be anything that the mask has hidden
        output = arrangement.of_output(result)
        if self._substitutes is not None:
            begins, changed = self._substitutes.pop(0)
            place = self._place(row.clamp(min=0))
            new = changed[place] * begins[place].unsqueeze(-1)
            return arrangement.to_output(torch.where((row >= 0).unsqueeze(-1), new.to(output.dtype), output), result)
        known = (query >= 0) & (key >= 0) & (p != 0)
        self.found.append((query[known], key[known], p[known]))
        self.rows.append((row[row >= 0], output[row >= 0]))
        number = dataclasses.replace(arrangement, values=keys[0]).of_values()[..., 0]
        self.values.append((number[number >= 0], arrangement.of_values()[number >= 0]))
        return result

    def finish(self) -> Any:
        """Put everything together and pass it to the open blocks as one attention; returns the module's new output, None if unchanged."""
        delattr(self._input, _IDS)
        with handling():
            substitutes = self._substitutes_after_changes() if self.found else None
        return None if substitutes is None else self._run_again(substitutes)

    def _substitutes_after_changes(self) -> list[tuple[Tensor, Tensor]] | None:
        """Pass the attention to the open blocks; returns what the second run needs for each product, None if nothing was changed."""
        size = 1 + max(int(x.max()) // self.heads % _TOKENS for q, k, _ in self.found for x in (q, k) if x.numel())
        if self.unknown or 4 * self.batch * self.heads * size * size > MOST_BYTES:
            for block in thread.blocks:
                if block.covers(None):
                    reason = "its weights could not be put back to their positions" if self.unknown else "its weights take over 2 GB"
                    block.report_missed((self.batch, self.heads, size, size), f"{reason}; watch a shorter text")
            return None
        weights = torch.zeros(self.batch, self.heads, size, size, dtype=self.found[0][2].dtype, device=self.device)
        output = torch.zeros(*weights.shape[:3], self.rows[0][1].shape[-1], dtype=self.rows[0][1].dtype, device=self.device)
        anew = torch.zeros(weights.shape[:3], dtype=torch.bool, device=self.device)
        value, own_value = torch.zeros_like(output), torch.zeros_like(output)
        begins = []  # for each product: the rows whose sum it begins
        for (query, key, p), (number, rows), (key_number, values) in zip(self.found, self.rows, self.values, strict=True):
            part = torch.zeros_like(weights).index_put((*self._place(query), key // self.heads % _TOKENS), p, accumulate=True)
            again = (part.sum(-1) > _WHOLE) & (weights.sum(-1) > _WHOLE)  # global tokens of Longformer: computed anew, and overwritten
            anew |= again
            begins.append(again | (weights.sum(-1) == 0))
            weights = weights.masked_fill(again.unsqueeze(-1), 0) + part
            output = output.masked_fill(again.unsqueeze(-1), 0).index_put(self._place(number), rows, accumulate=True)
            target = own_value if bool(again.any()) else value  # global tokens of Longformer have values of their own
            target[self._place(key_number)] = values.to(value.dtype)
        changed = self._dispatch(weights, (value, own_value), output, anew)
        return None if changed is None else [(rows, changed) for rows in begins]

    def _place(self, number: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        token = number // self.heads
        return token // _TOKENS, number % self.heads, token % _TOKENS

    def _dispatch(self, weights: Tensor, values: tuple[Tensor, Tensor], output: Tensor, anew: Tensor) -> Tensor | None:
        """Return the changed output (B, h, L, dv); None if nothing was changed."""
        from .own_attention import is_normalised, request_of_weights

        value, own_value = values
        normalised = is_normalised(weights.detach())
        request = request_of_weights(weights, value, normalised)
        unchecked = frozenset(anew.nonzero()[:, 2].tolist())
        own = OwnWeights(weights.detach(), None, "weights, put back from blocks", normalised, False, unchecked)
        captured = CapturedAttention(request, lambda: Execution(Result(output), "the model's own"), own=own, output_exists=True)
        changed = dispatch(captured).output
        if not captured.changed:
            return None
        if unchecked and captured.altered and captured.output_edits:
            raise NotImplementedError(
                "weights and output of attention in blocks with global tokens cannot both be changed; change one of them, or run the "
                "model without global tokens"
            )
        if unchecked and captured.altered:
            from ..recompute import all_weights

            new = all_weights(captured.request).to(own_value.dtype) @ own_value
            new = new if captured.muted is None else new.masked_fill(captured.muted.view(1, -1, 1, 1), 0)
            changed = torch.where(anew.unsqueeze(-1), new, changed)
        return changed

    def _run_again(self, substitutes: list[tuple[Tensor, Tensor]]) -> Any:
        """Run the module's forward again with other outputs of its rows: each product gives them to the rows whose sum it begins."""
        self._substitutes = substitutes
        state = torch.get_rng_state()
        torch.set_rng_state(self._random_state)
        setattr(self._input, _IDS, self._numbers)
        thread.positions = self
        try:
            return self._run()
        finally:
            thread.positions = None
            delattr(self._input, _IDS)
            torch.set_rng_state(state)


def _spread(ids: Tensor, axes: tuple[Any, ...], c: Contraction, result: Tensor) -> Tensor:
    """Give the numbers of one factor's vectors the axes of the product."""
    summed = next(a for a in axes if a not in c.out_axes)
    x = ids.select(axes.index(summed), 0)
    left = [a for a in axes if a != summed]
    x = x.permute([left.index(a) for a in c.out_axes if a in left])
    for place, axis in enumerate(c.out_axes):
        if axis not in left:
            x = x.unsqueeze(place)
    return x.expand(result.shape)


def _flat(args: tuple[Any, ...]) -> list[Tensor]:
    return [x for arg in args for x in (arg if isinstance(arg, list | tuple) else (arg,)) if isinstance(x, Tensor)]


def _with_ids(name: str, args: tuple[Any, ...], i: int) -> list[Any]:
    """Return the arguments with numbers in place of the tensors that have them; −1 for tensors joined with these that have none."""

    def numbers(x: Any) -> Any:
        if isinstance(x, list | tuple) and any(getattr(part, _IDS, None) is not None for part in x):
            return [
                numbers(part) if getattr(part, _IDS, None) is not None else torch.full(part.shape, -1, device=part.device) for part in x
            ]
        ids = getattr(x, _IDS, None) if isinstance(x, Tensor) else None
        if ids is None:
            return None if isinstance(x, torch.dtype) else x
        if name == "as_strided":
            return torch.empty_strided(x.shape, x.stride(), dtype=torch.int64, device=x.device).copy_(ids[i])
        return ids[i].contiguous() if name in ("view", "unfold") else ids[i]

    return [numbers(x) for x in args]


__all__ = ["SPARSE_MODULES", "Positions"]
