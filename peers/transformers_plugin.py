"""pytest plugin: run transformers' attention implementation "sdpa" on regard if REGARD_PEER is 1."""

from __future__ import annotations

import os


def pytest_configure() -> None:
    if os.environ.get("REGARD_PEER") != "1":
        return
    from transformers import AttentionInterface, AttentionMaskInterface

    from regard.sight.capture.transformers_calls import attention
    from regard.sight.capture.transformers_masks import mask

    AttentionInterface.register("sdpa", attention)
    AttentionMaskInterface.register("sdpa", mask)
