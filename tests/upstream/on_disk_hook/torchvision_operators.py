"""The operators of torchvision that its import needs, declared without kernels.

torchvision's wheels on PyPI are compiled for CUDA, and load nothing of theirs into a PyTorch that
is built for the CPU; its datasets, transforms and models are Python.
"""

import torch

library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
