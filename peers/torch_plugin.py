"""pytest plugin for torch's test_transformers: F.scaled_dot_product_attention is regard's if REGARD_PEER is 1."""

from __future__ import annotations

import os


def pytest_configure() -> None:
    if os.environ.get("REGARD_PEER") != "1":
        return
    import adapters
    import torch

    torch.nn.functional.scaled_dot_product_attention = adapters.sdpa
