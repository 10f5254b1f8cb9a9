"""Errors of the entry points: what was given, what was expected and what to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard

Q = torch.randn(2, 4, 5, 8)
K = torch.randn(2, 4, 7, 8)

BAD: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = {
    "widths": ((Q, K[..., :7], K), {}, ValueError, r"key has 7 features but the query has 8; pass a Bilinear or Additive score"),
    "counts": ((Q, K, K[:, :, :6]), {}, ValueError, r"7 keys but 6 values"),
    "one axis": ((Q[0, 0, 0], K, K), {}, ValueError, r"query has shape \(8,\); expected at least"),
    "integers": ((Q.long(), K, K), {}, TypeError, r"query is torch.int64; attention needs floating point"),
    "two dtypes": ((Q, K.double(), K), {}, TypeError, r"query is torch.float32, key torch.float64"),
    "not tensors": (([1.0], K, K), {}, TypeError, r"are list, Tensor, Tensor; expected torch tensors"),
    "batch": ((Q, K[:1].expand(3, 4, 7, 8), K[:1].expand(3, 4, 7, 8)), {}, ValueError, r"do not fit: leading axes must be equal or 1"),
    "heads": ((Q, K[:, :3], K[:, :3]), {}, ValueError, r"heads \(third axis from the end\) must divide"),
    "a raw mask": ((Q, K, K), {"mask": torch.ones(5, 7, dtype=torch.bool)}, TypeError, r"wrap a boolean tensor in regard.dense"),
    "mask size": ((Q, K, K), {"mask": regard.dense(torch.ones(5, 6, dtype=torch.bool))}, ValueError, r"6"),
    "mask batch": ((Q, K, K), {"mask": regard.padding([1, 2, 3])}, ValueError, r"3"),
    "bias size": ((Q, K, K), {"bias": torch.zeros(5, 6)}, ValueError, r"bias has shape \(5, 6\); expected .* = \(2, 4, 5, 7\)"),
    "bias dtype": ((Q, K, K), {"bias": torch.zeros(5, 7, dtype=torch.bool)}, TypeError, r"bias is torch.bool"),
    "bias heads": ((Q, K, K), {"bias": regard.Alibi(3)}, ValueError, r"Alibi was made for 3 heads but the query has 4"),
    "dropout": ((Q, K, K), {"dropout": 1.1}, ValueError, r"dropout is 1.1; expected 0 ≤ dropout ≤ 1"),
    "kernel name": ((Q, K, K), {"kernel": "fast"}, ValueError, r"kernel is 'fast'; expected 'auto' or one of"),
    "kernel that cannot": (
        (Q, K, K),
        {"kernel": "fused", "dropout": 0.1},
        ValueError,
        r"does not support this request \(fused: dropout makes SDPA dense",
    ),
    "sinks": ((Q, K, K), {"choice": regard.Softmax(sinks=torch.zeros(3))}, ValueError, r"sinks has 3 logits but there are 4 heads"),
    "temperature": ((Q, K, K), {"choice": regard.Softmax(torch.ones(3))}, ValueError, r"temperature has 3 entries but there are 4 heads"),
    "additive": (
        (Q, K, K),
        {"score": regard.Additive(9, 8, hidden=4)},
        ValueError,
        r"made for queries of 9 and keys of 8 features but got 8 and 8",
    ),
    "gaussian": ((Q, K, K), {"score": regard.Gaussian(torch.ones(3))}, ValueError, r"width has 3 entries but queries and keys have 8"),
    "a function as score": ((Q, K, K), {"score": lambda q, k: q @ k.mT}, TypeError, r"score is a function; write a subclass"),
    "a number as choice": ((Q, K, K), {"choice": 2}, TypeError, r"choice is a int; expected a regard choice"),
    "a misspelt argument": ((Q, K, K), {"maks": None}, TypeError, r"attention takes no argument 'maks'; did you mean 'mask'\?"),
    "an unknown argument": ((Q, K, K), {"zzz": 1}, TypeError, r"attention takes no argument 'zzz'; expected one of score, mask, bias"),
    "limit": ((Q, K, K), {"limit_bytes": 10}, MemoryError, r"no kernel fits limit_bytes=10 .*raise the limit or shorten"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("function", [regard.attend, regard.observe, regard.explain])
def test_refused(name: str, function: Any) -> None:
    inputs, options, error, message = BAD[name]
    with pytest.raises(error, match=message):
        function(*inputs, **options)


def test_negative_windows_and_bad_scores() -> None:
    with pytest.raises(ValueError, match="-1"):
        regard.window(-1, 0)
    with pytest.raises(ValueError, match=r"cap is -2\.0; a soft cap must be positive"):
        regard.ScaledDot(cap=-2.0)
    with pytest.raises(ValueError, match=r"width has shape \(2, 2\)"):
        regard.Gaussian(torch.ones(2, 2))
    with pytest.raises(ValueError, match="expected one logit per head"):
        regard.Softmax(sinks=torch.zeros(2, 2))


def test_limit_bytes_raises_before_anything_is_allocated() -> None:
    q = torch.randn(1, 8, 4096, 64).expand(1, 8, 4096, 64)
    plan = regard.explain(q, q, q, choice=regard.Entmax15())
    assert plan.bytes < 100e6
    with pytest.raises(MemoryError):
        regard.attend(q, q, q, choice=regard.Entmax15(), limit_bytes=1_000_000)
    assert regard.explain(q, q, q, limit_bytes=plan.bytes * 3).bytes <= plan.bytes * 3


def test_explain_says_why_and_why_not() -> None:
    q = torch.randn(1, 8, 1024, 64)
    plan = regard.explain(q, q, q, mask=regard.causal(), score=regard.Additive(64, 64, 8), choice=regard.Entmax15())
    assert plan.kernel == "streamed"
    assert plan.rejected["fused"] == "SDPA supports only a plain softmax"
    for word in ("kernel", "streamed", "reason", "bytes", "rejected", "fused"):
        assert word in str(plan)
    dense = regard.explain(q, q, q, dropout=0.1, kernel="reference")
    assert dense.bytes > 8 * 1024 * 1024 * 4


class ForwardOnly(regard.Score):
    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return query @ key.mT


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"choice": "entmax"}, ValueError, r"choice='entmax' needs arguments: make it once with regard.Entmax\(alpha\)"),
        ({"choice": "soft"}, ValueError, r"choice is 'soft'; expected one of 'softmax', 'sparsemax', 'entmax15'"),
        ({"score": "additive"}, ValueError, r"score='additive' needs arguments: make it once with regard.Additive\(query_width"),
        ({"score": lambda q, k: q @ k.mT}, TypeError, r"score is a function; write a subclass of regard.Score whose tile\(query, key\)"),
        ({"score": regard.Dot}, TypeError, r"score is the class Dot; pass an object of it"),
        ({"score": ForwardOnly()}, TypeError, r"ForwardOnly defines forward, which kernels do not call; name it tile\(query, key\)"),
        ({"choice": regard.Softmax}, TypeError, r"choice is the class Softmax"),
    ],
)
def test_a_part_of_another_kind_is_told_what_was_expected(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        regard.attend(Q, K, K, **options)


def test_scores_and_choices_by_name() -> None:
    q = torch.randn(1, 2, 5, 4)
    for name, choice in (("softmax", regard.Softmax()), ("entmax15", regard.Entmax15()), ("sparsemax", regard.Sparsemax())):
        torch.testing.assert_close(
            regard.attend(q, q, q, choice=name, score="dot"), regard.attend(q, q, q, choice=choice, score=regard.Dot())
        )
