"""Self-attention compared with a convolution, a recurrent and a fully connected layer: reach, path length, input length, parameters.

Everything is measured on real modules. Reach: the inputs with respect to which the last output has a gradient. Path: the number of layers
or steps from the first input to the last output. Any length: whether the same module accepts twice as many tokens, and with how many
parameters. Mixing: whether the gradients, and so the mixing weights, depend on the input. Vaswani et al. 2017, table 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.demos.panels import Board, Grid, Note, Table
from regard.demos.runner import run_program
from regard.layers.multihead import MultiHeadAttention

TOKENS, WIDTH, KERNEL = 16, 8, 3


@dataclass(frozen=True)
class Layer:
    reach: list[float]  # gradient of the last output at each input, divided by the greatest
    reached: int  # inputs whose gradient is not 0
    path: int  # layers or steps from the first input to the last output
    any_length: bool
    parameters: int
    parameters_twice: int  # for twice as many tokens
    from_data: bool  # the mixing weights depend on the input


@dataclass(frozen=True)
class Result:
    tokens: int
    layers: dict[str, Layer]


class Convolution(nn.Module):
    def __init__(self, depth: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2) for _ in range(depth)))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layers(x.mT)
        return output.mT


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
        output: Tensor = self.map(x.flatten(1))
        return output.view_as(x)


def input_gradients(module: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Norm of the gradient of the last output at each input, (N,)."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(module(x)[:, -1].sum(), x)
    norms: Tensor = gradient[0].norm(dim=-1)
    return norms


def is_linear(module: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Whether the gradient, and so the mixing of the inputs, is the same for another input."""
    return torch.allclose(input_gradients(module, x), input_gradients(module, 2 * x + 1), rtol=1e-4)


def recurrent_path(module: Recurrent, x: Tensor) -> int:
    """The number of steps from the first state to the last output: the states with a gradient."""
    states = module.states(x)
    gradients = torch.autograd.grad(states[-1].sum(), states, allow_unused=True)
    return sum(1 for g in gradients if g is not None and bool(g.abs().sum() > 0))


def convolution_path(x: Tensor) -> int:
    """The number of convolutions after which the last output depends on the first input."""
    depth = 1
    while input_gradients(Convolution(depth).double(), x)[0] == 0:
        depth += 1
    return depth


def describe(make: Callable[[int], nn.Module], path: int, x: Tensor, *, from_data: bool) -> Layer:
    module = make(TOKENS).double()
    gradients = input_gradients(module, x)
    try:
        any_length = module(torch.cat([x, x], 1)).shape[1] == 2 * TOKENS
    except RuntimeError:
        any_length = False
    count, twice = (sum(p.numel() for p in (module if n == TOKENS else make(n)).parameters()) for n in (TOKENS, 2 * TOKENS))
    return Layer((gradients / gradients.max()).tolist(), int((gradients > 0).sum()), path, any_length, count, twice, from_data)


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
        [f"inputs the last output depends on, of {result.tokens}", *(str(layer.reached) for layer in layers)],
        ["path from first input to last output", *(str(layer.path) for layer in layers)],
        ["accepts any length", *("yes" if layer.any_length else "no" for layer in layers)],
        [f"parameters at {result.tokens} tokens", *(f"{layer.parameters:,}" for layer in layers)],
        [f"parameters at {2 * result.tokens} tokens", *(f"{layer.parameters_twice:,}" for layer in layers)],
        ["mixing weights depend on the data", *("yes" if layer.from_data else "no" for layer in layers)],
    ]
    positions = [str(i + 1) for i in range(result.tokens)]
    return Board(
        "Self-attention reaches every token in one step, at any length, with weights computed from the data.",
        [
            Table("measured", rows),
            Grid(
                "gradient of the last output with respect to each input", [layer.reach for layer in layers], names, positions, numbers=False
            ),
            Note(
                f"convolution: kernel {KERNEL}, so {layers[1].path} layers to span {result.tokens} tokens\n"
                "recurrent: one step per token, in sequence; its mixing depends on the data only through the tanh"
            ),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
