"""Types of the compiled kernels (native/module.cpp). Addresses are `Tensor.data_ptr()`; 0 is none."""

import enum

class Type(enum.Enum):
    float32 = 0
    bfloat16 = 1
    float16 = 2

class Choice(enum.Enum):
    softmax = 0
    sparsemax = 1
    entmax15 = 2
    picked = 3

class ScoreKind(enum.Enum):
    dot = 0
    additive = 1
    gaussian = 2

class View:
    def __init__(self, address: int, batch: int, head: int, row: int, column: int) -> None: ...

class Spans:
    def __init__(self, address: int, batch: int, head: int, row: int, range: int, ranges: int) -> None: ...

class Pattern:
    def __init__(self, address: int, batch: int, head: int, row: int, column: int) -> None: ...

class Scores:
    def __init__(
        self,
        type: Type,
        batch: int,
        heads: int,
        key_heads: int,
        queries: int,
        keys: int,
        width: int,
        value_width: int,
        query: View,
        key: View,
        value: View,
        key_bias: View | None,
        bias: View | None,
        bias_type: Type,
        spans: Spans | None,
        pattern: Pattern | None,
        sinks: int,
        betas: int,
        kind: ScoreKind,
        vector: int,
        scale: float,
        cap: float,
        beta: float,
        dropout: float,
        seed: int,
    ) -> None: ...

class Backward:
    def __init__(
        self, out: View, lse: int, grad_out: View, grad_lse: int, grad_query: View, grad_key: View, grad_value: View, delta: int
    ) -> None: ...

class Read:
    choice: Choice
    picked: int
    entropy: int
    mass: int
    max_logit: int
    sink: int
    sinks_read: int
    at: int
    at_keys: int
    by_query: int
    norms: int
    received: int
    distance: int
    side: int
    pooled: int
    pooled_rows: int
    pooled_columns: int
    top_weights: int
    top_keys: int
    top: int
    chosen: int
    chosen_count: int
    rows: int

    def __init__(self, scores: Scores, lse: int, shares: int) -> None: ...
    def add_same(self, rows: int, keys: int, itself: bool, out: int) -> bool: ...

class Limit(enum.Enum):
    product = 0
    exp = 1
    tanh = 2
    read = 3

def instruction_set() -> str: ...
def instruction_sets() -> list[str]: ...
def force_instruction_set(name: str | None) -> None: ...
def dot_forward(scores: Scores, out: View, lse: int, threads: int) -> None: ...
def single_query(
    type: Type,
    query: int,
    query_sizes: tuple[int, ...],
    query_strides: tuple[int, ...],
    key: int,
    key_sizes: tuple[int, ...],
    key_strides: tuple[int, ...],
    value: int,
    value_width: int,
    value_strides: tuple[int, ...],
    out: int,
    scale: float,
    threads: int,
) -> None: ...
def dot_backward(
    scores: Scores,
    backward: Backward,
    grad_key_bias: int,
    grad_bias: View | None,
    grad_bias_share: int,
    grad_betas: int,
    grad_entropy: int,
    threads: int,
) -> None: ...
def additive_forward(scores: Scores, out: View, lse: int, threads: int) -> None: ...
def additive_backward(scores: Scores, backward: Backward, grad_vector: int, threads: int) -> None: ...
def gaussian_forward(scores: Scores, out: View, lse: int, threads: int) -> None: ...
def gaussian_backward(scores: Scores, backward: Backward, threads: int) -> None: ...
def sparse_forward(scores: Scores, choice: Choice, out: View, threshold: int, threads: int) -> None: ...
def sparse_backward(
    scores: Scores,
    choice: Choice,
    row_shares: int,
    backward: Backward,
    grad_key_bias: int,
    grad_bias: View | None,
    grad_bias_share: int,
    grad_betas: int,
    grad_entropy: int,
    threads: int,
) -> None: ...
def pick(scores: Scores, uniform: int, index: int, threads: int) -> None: ...
def read(arguments: Read, threads: int) -> None: ...
def limits(what: Limit, repeats: int, threads: int, data: int, floats: int) -> float: ...
