"""pytest plugin for torch's test_transformers: F.scaled_dot_product_attention is regard's if REGARD_PEER is 1.

Where a test asks for torch's formula alone (`sdpa_kernel(SDPBackend.MATH)`), which is what it compares with, torch computes it.
"""

from __future__ import annotations

import os
from typing import Any


def pytest_configure() -> None:
    if os.environ.get("REGARD_PEER") != "1":
        return
    import adapters
    import torch

    torch_sdpa, regard_runs = torch.nn.functional.scaled_dot_product_attention, False

    def sdpa(*args: Any, **options: Any) -> torch.Tensor:
        nonlocal regard_runs
        formula = torch.backends.cuda.math_sdp_enabled() and not torch.backends.cuda.flash_sdp_enabled()
        if formula or regard_runs:  # regard's fused kernel is torch's
            return torch_sdpa(*args, **options)
        regard_runs = True
        try:
            return adapters.sdpa(*args, **options)
        finally:
            regard_runs = False

    torch.nn.functional.scaled_dot_product_attention = sdpa
