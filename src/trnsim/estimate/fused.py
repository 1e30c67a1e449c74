"""A captured graph's parts as a compiler runs them at inference.

A bias is added as its product is written; a batch norm, with constant statistics, is folded into
the weights before it; an engine reads and writes any type, so that casts vanish. None of these
reads or writes memory by itself.

Source: cublasLtEpilogue_t (bias); torch.nn.utils.fusion.fuse_conv_bn_eval (batch norm);
trainium_inferentia2_arch.rst (results of products pass an engine on their way out of PSUM; types
of what engines read and write).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trnsim.workload.summary import CAST, PartSummary

_FOLDED_NORMS: Final = ("native_batch_norm", "_native_batch_norm", "batch_norm", "cudnn_batch_norm")
"""Beginnings of names of norms that are folded into a convolution."""


def fuse_operators(summary: PartSummary) -> PartSummary:
    """The part without the elementwise operators that are fused into others."""
    products = {product.name for product in summary.products}
    elementwise = tuple(
        op
        for op in summary.elementwise
        if op.name not in products and not op.name.startswith((*_FOLDED_NORMS, CAST))
    )
    return replace(summary, elementwise=elementwise)
