"""The hidden vectors of a model after every layer.

Axes: B batch, L tokens, D width, l layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


def layer_stack(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a model: its longest list of modules of one type; of an encoder–decoder, those of the encoder."""
    lists = [(name, list(module)) for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    stacks = [(name, layers) for name, layers in lists if len({type(layer) for layer in layers}) == 1]
    stacks = [(name, layers) for name, layers in stacks if "encoder" in name.split(".")] or stacks
    if not stacks:
        raise ValueError(f"{type(model).__name__} has no list of layers to read vectors from")
    return max((layers for _, layers in stacks), key=len)


def hidden_states(model: nn.Module, run: Callable[[], Any]) -> list[Tensor]:
    """Return the input of the first layer and the output of every layer while `run` runs the model: l + 1 tensors (B, L, D).

    >>> import torch
    >>> from regard.models import Bert, BertConfig
    >>> bert = Bert(BertConfig(vocabulary=9, d_model=8, heads=2, layers=3, context=8)).eval()
    >>> [tuple(x.shape) for x in hidden_states(bert, lambda: bert(torch.tensor([[1, 2]])))]
    [(1, 2, 8), (1, 2, 8), (1, 2, 8), (1, 2, 8)]
    """
    states: list[Tensor] = []

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = args[0] if args else kwargs.get("hidden_states", kwargs.get("x"))
        if isinstance(hidden, Tensor):
            states.append(hidden.detach())

    def after(module: nn.Module, args: Any, output: Any) -> None:
        states.append((output[0] if isinstance(output, tuple) else output).detach())

    layers = layer_stack(model)
    hooks = [layers[0].register_forward_pre_hook(before, with_kwargs=True), *(layer.register_forward_hook(after) for layer in layers)]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return states
