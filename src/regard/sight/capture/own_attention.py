"""Capture attention that a model computes itself: weights from a product of queries and keys, usually by softmax, times the values.

The product with the values is where the attention is known to be one: its other factor holds the weights, and the trail of that tensor
(`trails`) leads to the scores. The weights are read as the model made them. The request that `change` alters has those scores as its bias.

Axes: B batch, h heads, L queries, S keys, dv value width.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ...choices import Softmax
from ...kernels.kernel import Result
from ...kernels.request import Request
from ...masks import Mask, dense
from .captured import CapturedAttention, Execution, GivenWeights, OwnWeights
from .contractions import ADDING, Arrangement, Contraction, arrange, contraction, einsum_operands, weighted_sum
from .interception import READABLE_CALLS, describing, dispatch, thread
from .pairs import is_last, is_pair, multiplied
from .recovery import recovered_request
from .trails import UNREADABLE, Product, Trail, is_activation, is_readable, set_trail, trail_of, weighted_factors

if TYPE_CHECKING:
    from .model_hooks import ModelHooks

_ATTENTION_NAME = re.compile(r"att(ention|n)|pool|deltanet|retention|timemix", re.IGNORECASE)
_OTHER_NAME = re.compile(r"router|gate$|gating|expert|moe|indexer|channelatt|spatialatt", re.IGNORECASE)
_HEAD_COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead", "num_head", "h", "n_attention_heads")
_NEVER = -900.0  # a score this far below the largest of its row has weight 0 in any precision: it is masked
_LOWEST = -1e30  # a row whose largest score is as low has lost its scores to rounding, and all its weights are the same
_ROUNDING = 1e-6  # below zero, of weights that a model made as a difference
_SUM_ERROR = 1e-2  # of a row of weights that a model normalised itself, in half precision
_JOINT = f"it multiplies weights and values together with a third tensor; multiply them alone, or make it call {READABLE_CALLS}"
_CHOSEN = (
    "it chooses keys with topk or sort and multiplies only their values, so that the positions of its weights are not known; mask the "
    f"scores of the other keys instead, or make it call {READABLE_CALLS}"
)
_UNNORMALISED = (
    "it multiplies exponentials and values and divides by their sum later, so that its weights never exist; divide before, or make it "
    f"call {READABLE_CALLS}"
)


def product(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> Tensor:
    """Handle a product: it may make scores, or be the product of weights and values; returns the result for the model."""
    factors = contraction(name, args, kwargs)
    if factors is None:
        if name == "einsum":
            _report_joint_product(args)
        return result
    for weights_left, factor in ((True, factors.left), (False, factors.right)):
        if (trail := trail_of(factor)) is not None:
            replaced = _weights_times_values(factors, weights_left, trail, result, _JOINT if name in ADDING else None)
            if replaced is not None:
                return replaced
            other = factors.right if weights_left else factors.left
            if result.numel() == factor.numel() and not is_activation(other):  # heads mixed by a matrix: talking heads, re-attention
                set_trail(result, dataclasses.replace(trail, values_changed=True, function=name, product=None))
                return result
        elif is_pair(factor) and result.numel() < factor.numel():  # v · tanh(q + k)
            thread.trails = True
            set_trail(result, Trail(paired=True))
            return result
    if is_activation(factors.left) and is_activation(factors.right):
        thread.trails = True
        made = Product(factors)
        if name in ADDING:
            beta = kwargs.get("beta", 1.0)
            made = Product(factors, kwargs.get("alpha", 1.0), ((beta, args[0]),) if beta else ())
        set_trail(result, Trail(made, paired=True))
    return result


def _report_joint_product(args: tuple[Any, ...]) -> None:
    """Report an einsum of more than two tensors, one of which holds weights: what it computes beside their product is not known."""
    for x in einsum_operands(args):
        trail = trail_of(x)
        if trail is not None and trail.scores is not None and len(einsum_operands(args)) > 2:
            _report(tuple(x.shape), _JOINT)


def softmax(args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> None:
    """Handle a softmax: its result may hold weights."""
    if not result.dim() or not result.is_floating_point():
        return
    before = trail_of(args[0])
    if before is None and not (_named_attention() and result.dim() > 1):
        return
    thread.trails = True
    set_trail(result, Trail(None if before is None else before.product, args[0], chosen=before is not None and before.chosen))


def projected(args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> None:
    """Handle a projection to one number: along the tokens it may give the scores of a pooling, or of a decoder's step."""
    weight = args[1] if len(args) > 1 else kwargs.get("weight")
    if not isinstance(weight, Tensor) or weight.dim() != 2 or weight.shape[0] != 1 or result.dim() < 2 or result.shape[-2] < 2:
        return
    if not is_pair(args[0]) and not _named_other():
        thread.trails = True
        set_trail(result, Trail())


def summed(args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> Tensor:
    """Handle a sum, which may be that of weights times values."""
    factors = weighted_factors(args[0])
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if isinstance(dim, list | tuple) and len(dim) == 1:
        dim = dim[0]
    if not isinstance(dim, int):
        return result
    if factors is None:
        if (pair := multiplied(args[0])) is not None and (made := weighted_sum(*pair, dim)) is not None and is_last(dim, args[0]):
            set_trail(result, Trail(Product(made), paired=True))
        return result
    trail, weights, values = factors
    keep = kwargs.get("keepdim", args[2] if len(args) > 2 else False)
    made = weighted_sum(weights, values, dim)
    if made is None:
        return result
    replaced = _weights_times_values(made, True, trail, result.squeeze(dim) if keep else result)
    return result if replaced is None else replaced.unsqueeze(dim) if keep else replaced


def _block() -> ModelHooks | None:
    return next((block for block in thread.blocks if block.covers(None)), None)


def _running() -> list[nn.Module]:
    block = _block()
    return [] if block is None else block.running


def _named_attention() -> bool:
    """Return whether the module that runs, or the one around it, is named like attention and not like a router or a gate."""
    return any(_ATTENTION_NAME.search(name) for name in _running_names()) and not _named_other()


def _named_other() -> bool:
    """Return whether the module that runs, or the one around it, is named like a router or a gate."""
    return any(_OTHER_NAME.search(name) for name in _running_names())


def _running_names() -> list[str]:
    return [type(module).__name__ for module in _running()[-2:]]


def _number_of_heads(factors: Contraction) -> int | None:
    """Return the number of heads: as the running module or one around it names it, else from the batch size that it was called with."""
    for module in reversed(_running()[-3:]):
        for name in _HEAD_COUNTS:
            count = getattr(module, name, None)
            if isinstance(count, int) and not isinstance(count, bool) and count > 0:
                return count
    block = _block()
    batch = None if block is None or not block.batch_sizes else block.batch_sizes[-1]
    lead = factors.left.shape[0]
    return lead // batch if batch and factors.left.dim() == 3 and lead % batch == 0 else None


def _weights_times_values(
    factors: Contraction, weights_left: bool, trail: Trail, result: Tensor, problem: str | None = None
) -> Tensor | None:
    """Capture a product of weights and values; None if it is none, else the result for the model. problem: why it cannot be captured."""
    arrangement = arrange(factors, weights_left, _number_of_heads(factors))
    if arrangement is None or not is_activation(arrangement.values):
        return None
    if not is_readable(arrangement.weights, arrangement.values):
        _report(tuple(arrangement.weights.shape), UNREADABLE)
        return result
    if 0 in arrangement.shape:  # an empty batch, or no tokens: there are no weights
        for block in thread.blocks:
            block.number_call(None)
        return result
    p = arrangement.of_weights(arrangement.weights.detach())
    softmaxed = trail.scores is not None
    if not softmaxed and not (is_normalised(p) and bool(p.any())):  # the states of Mamba 2 begin as zeros, and are no weights
        if trail.exponential and trail.paired and thread.positions is None:
            if bool((p.sum(-1) <= 1 + _SUM_ERROR).all()):  # a softmax with a sink in its denominator
                return _capture(arrangement, p, None, trail, result)
            _report(tuple(p.shape), _UNNORMALISED)
            return result
        in_attention = _named_attention() or (trail.paired and weights_left and not _named_other())
        return _capture(arrangement, p, None, trail, result) if in_attention and trail.gated else None
    if softmaxed and not (trail.picked or trail.dropout or trail.values_changed or is_normalised(p) or bool((p == 1).all())):
        return None  # a softmax along another axis than the one that is summed; SwiftFormer's is along an axis of one number
    if problem is not None or trail.chosen:
        _report(tuple(arrangement.weights.shape), problem or _CHOSEN)
        return result
    if thread.positions is not None:
        return thread.positions.add(arrangement, arrangement.of_weights(arrangement.weights), result)
    with describing():
        moved = trail.moved_scores()
    return _capture(arrangement, p, moved, trail, result)


def is_normalised(p: Tensor) -> bool:
    """Return whether weights are not negative and every row sums to 1 (or, where it sees nothing, to 0)."""
    if not p.numel():
        return True
    mass = p.sum(-1, dtype=torch.float32)
    one, none = (mass - 1).abs() <= _SUM_ERROR, mass == 0
    return bool((one | none | mass.isnan()).all()) and bool((p >= -_ROUNDING).all() or mass.isnan().any())


def _capture(arrangement: Arrangement, p: Tensor, moved: Tensor | None, trail: Trail, result: Tensor) -> Tensor:
    """Pass the attention to the open blocks; returns the result for the model."""
    with describing():
        output, request, weights = _describe(arrangement, p, moved, trail, result)
    captured = CapturedAttention(request, lambda: Execution(Result(output), "the model's own"), own=weights)
    after = dispatch(captured)
    if not captured.changed:
        return result
    return arrangement.to_output(after.output, result)


def _describe(
    arrangement: Arrangement, p: Tensor, moved: Tensor | None, trail: Trail, result: Tensor
) -> tuple[Tensor, Request, OwnWeights]:
    """Return the output (B, h, L, dv), the request that `change` may alter, and the weights."""
    output = arrangement.of_output(result)
    value = arrangement.of_values()
    normalised = not trail.dropout and is_normalised(p)
    scores = None if moved is None else arrangement.of_weights(moved)
    if scores is not None and not trail.dropout and not _same_weights(scores, p):
        scores = None
    if scores is not None and trail.dropout:
        p = scores.float().softmax(-1).to(p.dtype)
    request = None if scores is None else recovered_request(trail.product, arrangement, scores, value)
    how = "queries and keys" if request is not None else "scores" if scores is not None else "weights"
    if request is None:
        request = _request_of_scores(scores, value) if scores is not None else request_of_weights(p, value, normalised)
    weights = OwnWeights(p, scores, how, normalised or scores is not None, trail.dropout)
    return output, request, weights


def _same_weights(scores: Tensor, p: Tensor) -> bool:
    """Return whether softmax of these scores gives the weights, tried on the first and last batch item."""
    for item in {0, len(p) - 1} if len(p) else ():
        expected = scores[item].float().softmax(-1)
        tolerance = 1e-5 if p.dtype in (torch.float32, torch.float64) else 4e-2
        if not bool(((expected - p[item].float()).abs() <= tolerance).logical_or(expected.isnan()).all()):
            return False
    return True


def _request_of_scores(scores: Tensor, value: Tensor) -> Request:
    """Return the softmax of given scores (B, h, L, S) as a request: no queries and keys, and the scores as its bias."""
    largest = scores.amax(-1, keepdim=True)
    lost = (largest <= _LOWEST) & (largest > -torch.inf)
    bias = scores.masked_fill(lost, 0.0) if bool(lost.any()) else scores
    hidden = (bias - largest.masked_fill(lost, 0.0) < _NEVER) | (bias == -torch.inf)
    has_hidden = bool(hidden.any())
    return _bias_request(bias.masked_fill(hidden, 0.0) if has_hidden else bias, ~hidden if has_hidden else None, value)


def request_of_weights(p: Tensor, value: Tensor, normalised: bool, mask: Mask | None = None) -> Request:
    """Return given weights (B, h, L, S) as a request: the softmax of their logarithms, or the numbers themselves.

    mask: what is known to hide the keys whose weights are zero.
    """
    if not normalised:
        request = _bias_request(p.float() if p.dtype != torch.float64 else p, None, value, GivenWeights())
        return dataclasses.replace(request, mask=mask)
    p = p.to(torch.float32 if p.dtype != torch.float64 else p.dtype)
    if mask is not None:
        return dataclasses.replace(_bias_request(p.clamp(min=torch.finfo(p.dtype).tiny).log(), None, value), mask=mask)
    hidden = p == 0
    return _bias_request(p.masked_fill(hidden, 1.0).log(), ~hidden if bool(hidden.any()) else None, value)


def _bias_request(bias: Tensor, visible: Tensor | None, value: Tensor, choice: Any = None) -> Request:
    B, h, L, S = bias.shape
    query, key = (bias.new_zeros(()).to(value.dtype).expand(B, h, n, 1) for n in (L, S))
    mask = None if visible is None else dense(visible)
    return Request(query, key, value, Softmax() if choice is None else choice, mask=mask, bias=bias, needs_lse=True)


def _report(shape: tuple[int, ...], advice: str) -> None:
    for block in thread.blocks:
        if block.covers(None):
            block.report_missed(shape, advice)
