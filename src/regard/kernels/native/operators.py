"""The compiled kernels as torch operators, which `torch.compile` and `torch.export` can record.

Eager calls skip them: dispatching an operator costs more than a small attention.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from .dot import DotArguments, empty_results
from .pairs import AdditiveArguments, GaussianArguments

Arguments: TypeAlias = DotArguments | AdditiveArguments | GaussianArguments
Field: TypeAlias = Tensor | float | int | None  # a field of one of them


class Operators(NamedTuple):
    """The operators of one kind of arguments: `forward` is differentiable; `backward` is its gradient."""

    forward: Any
    backward: Any


def attention_operators(kind: type[Arguments], name: str) -> Operators:
    """Register regard::name and regard::name_backward; the arguments of the first are the fields of `kind`, it returns output and lse."""
    fields = dataclasses.fields(kind)
    count = len(kind.differentiable)  # the first fields; the mask follows, then the numbers
    signature = ", ".join(_schema(field) for field in fields)

    def forward(*values: Field) -> tuple[Tensor, Tensor]:
        return kind(*values).forward()  # type: ignore[arg-type]

    def backward(grad_out: Tensor, grad_lse: Tensor | None, output: Tensor, lse: Tensor, *values: Field) -> tuple[Tensor, ...]:
        grads = kind(*values).backward(output, lse, grad_out, grad_lse)  # type: ignore[arg-type]
        return tuple(output.new_empty(0) if grad is None else grad for grad in grads)

    operator = torch.library.custom_op(
        f"regard::{name}", forward, mutates_args=(), device_types="cpu", schema=f"({signature}) -> (Tensor, Tensor)"
    )
    gradients = ", ".join(["Tensor"] * count)
    backward_operator = torch.library.custom_op(
        f"regard::{name}_backward",
        backward,
        mutates_args=(),
        device_types="cpu",
        schema=f"(Tensor grad_out, Tensor? grad_lse, Tensor output, Tensor lse, {signature}) -> ({gradients})",
    )

    @operator.register_fake
    def _(*values: Field) -> tuple[Tensor, Tensor]:
        arguments = kind(*values)  # type: ignore[arg-type]
        return empty_results(arguments.query, arguments.value)

    @backward_operator.register_fake
    def _(grad_out: Tensor, grad_lse: Tensor | None, output: Tensor, lse: Tensor, *values: Field) -> tuple[Tensor, ...]:
        wanted = kind(*values).wanted()  # type: ignore[arg-type]
        return tuple(_like(values[i] if wanted[i] else None, output, same_strides=i < 3) for i in range(count))

    def save(ctx: Any, inputs: tuple[Field, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.numbers = inputs[count + 1 :]
        ctx.save_for_backward(*output, *inputs[: count + 1])
        ctx.set_materialize_grads(False)

    def differentiate(ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        output, lse, *tensors = ctx.saved_tensors
        grad_out = torch.zeros_like(output) if grad_out is None else grad_out
        grads = backward_operator(grad_out, grad_lse, output, lse, *tensors, *ctx.numbers)
        wanted = kind(*tensors, *ctx.numbers).wanted()
        kept = (grad if want else None for grad, want in zip(grads, wanted, strict=True))
        return (*kept, None, *(None for _ in ctx.numbers))

    operator.register_autograd(differentiate, setup_context=save)
    return Operators(operator, backward_operator)


def _like(x: Field, output: Tensor, *, same_strides: bool) -> Tensor:
    """A tensor with the shape of x's gradient; an empty one where there is no x."""
    if not isinstance(x, Tensor):
        return output.new_empty(0)
    return torch.empty_like(x) if same_strides else torch.empty_like(x, memory_format=torch.contiguous_format)


def _schema(field: dataclasses.Field[Any]) -> str:
    """A field in the notation of torch's operator schemas."""
    kind = {"Tensor": "Tensor", "Tensor | None": "Tensor?", "float": "float", "int": "int"}[str(field.type)]
    return f"{kind} {field.name}" + ("" if field.default is dataclasses.MISSING else f"={field.default}")


OPERATORS: dict[type[Arguments], Operators] = {
    DotArguments: attention_operators(DotArguments, "dot_attention"),
    AdditiveArguments: attention_operators(AdditiveArguments, "additive_attention"),
    GaussianArguments: attention_operators(GaussianArguments, "gaussian_attention"),
}

__all__ = ["OPERATORS", "Arguments"]
