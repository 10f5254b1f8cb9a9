"""Self-attention beside a convolution, a recurrent and a fully connected layer: reach, path length, variable length, parameters.

Everything is measured on real modules. Reach: which inputs the last output has a gradient at. Path: through how many layers or steps
the first input comes to the last output. Any length: whether the same module takes twice as many tokens, and what that costs in
parameters. Mixing: whether the gradients, so the way inputs are mixed, change with the input. Vaswani et al. 2017, table 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.demos.drawing import Board, Grid, Note, Table
from regard.demos.stage import play
from regard.layers.multihead import MultiHeadAttention

TOKENS, WIDTH, KERNEL = 16, 8, 3


@dataclass(frozen=True)
class Layer:
    reach: list[float]  # gradient of the last output at each input, of its own greatest
    reached: int  # inputs with any gradient
    path: int  # layers or steps from the first input to the last output
    any_length: bool
    parameters: int
    parameters_twice: int  # for twice the tokens
    from_data: bool  # the mixing changes with the input


@dataclass(frozen=True)
class Result:
    tokens: int
    layers: dict[str, Layer]


class Convolution(nn.Module):
    def __init__(self, depth: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2) for _ in range(depth)))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers(x.mT)
        return found.mT


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.RNNCell(WIDTH, WIDTH)

    def states(self, x: Tensor) -> list[Tensor]:
        states = [x.new_zeros(x.shape[0], WIDTH)]
        for token in x.unbind(1):
            states.append(self.cell(token, states[-1]))
        return states[1:]

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack(self.states(x), 1)


class Dense(nn.Module):
    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.map = nn.Linear(tokens * WIDTH, tokens * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.map(x.flatten(1))
        return found.view_as(x)


def gradient(module: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Norm of the gradient of the last output at each input, (N,)."""
    x = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(module(x)[:, -1].sum(), x)
    felt: Tensor = found[0].norm(dim=-1)
    return felt


def is_linear(module: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Whether the way inputs are mixed is the same for another input: the gradient does not move."""
    return torch.allclose(gradient(module, x), gradient(module, 2 * x + 1), rtol=1e-4)


def recurrent_path(module: Recurrent, x: Tensor) -> int:
    """Steps from the first token's state to the last output: the states that carry its gradient."""
    states = module.states(x)
    gradients = torch.autograd.grad(states[-1].sum(), states, allow_unused=True)
    return sum(1 for g in gradients if g is not None and bool(g.abs().sum() > 0))


def convolution_path(x: Tensor) -> int:
    """Layers a stack of convolutions needs before the last output feels the first input."""
    depth = 1
    while gradient(Convolution(depth).double(), x)[0] == 0:
        depth += 1
    return depth


def describe(make: Callable[[int], nn.Module], path: int, x: Tensor, *, from_data: bool) -> Layer:
    module = make(TOKENS).double()
    felt = gradient(module, x)
    try:
        any_length = module(torch.cat([x, x], 1)).shape[1] == 2 * TOKENS
    except RuntimeError:
        any_length = False
    count, twice = (sum(p.numel() for p in (module if n == TOKENS else make(n)).parameters()) for n in (TOKENS, 2 * TOKENS))
    return Layer((felt / felt.max()).tolist(), int((felt > 0).sum()), path, any_length, count, twice, from_data)


def run() -> Result:
    torch.manual_seed(0)
    x = torch.randn(1, TOKENS, WIDTH, dtype=torch.float64)
    makers: dict[str, Callable[[int], nn.Module]] = {
        "self-attention": lambda n: MultiHeadAttention(WIDTH, heads=2),
        "convolution": lambda n: Convolution(),
        "recurrent": lambda n: Recurrent(),
        "fully connected": Dense,
    }
    paths = {"convolution": convolution_path(x), "recurrent": recurrent_path(Recurrent().double(), x)}
    layers = {}
    for name, make in makers.items():
        layers[name] = describe(make, paths.get(name, 1), x, from_data=not is_linear(make(TOKENS).double(), x))
    return Result(TOKENS, layers)


def show(result: Result) -> Board:
    names, layers = list(result.layers), list(result.layers.values())
    rows = [
        ["", *names],
        [f"inputs the last output feels, of {result.tokens}", *(str(layer.reached) for layer in layers)],
        ["path from first to last", *(str(layer.path) for layer in layers)],
        ["takes any length", *("yes" if layer.any_length else "no" for layer in layers)],
        [f"parameters at {result.tokens} tokens", *(f"{layer.parameters:,}" for layer in layers)],
        [f"parameters at {2 * result.tokens} tokens", *(f"{layer.parameters_twice:,}" for layer in layers)],
        ["mixing depends on the data", *("yes" if layer.from_data else "no" for layer in layers)],
    ]
    places = [str(i + 1) for i in range(result.tokens)]
    return Board(
        "Self-attention reaches every token in one step, at any length, with weights made from the data.",
        [
            Table("measured", rows),
            Grid("gradient of the last output at each input", [layer.reach for layer in layers], names, places, numbers=False),
            Note(
                f"convolution: kernel {KERNEL}, so {layers[1].path} layers to span {result.tokens} tokens\n"
                "recurrent: one step a token, one after another; what it mixes depends on the data only through its tanh"
            ),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    play(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
