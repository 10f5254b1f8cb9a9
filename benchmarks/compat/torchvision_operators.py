"""Declare torchvision's operators, which its wheels lack beside this build of torch, so that it can be imported; attention uses none.

Import this before anything that imports torchvision (transformers and timm do if it is installed).
"""

from __future__ import annotations

import torch

_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        torch.library.define(f"torchvision::{name}", _BOXES)
