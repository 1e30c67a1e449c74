"""The operators that `torch.autocast("xla")` casts, which are torch_xla's own lists.

They are shorter than PyTorch's for its other devices: an `exp` of bfloat16 stays bfloat16, while
`relu` and `max_pool2d` are computed in low precision.

Source: torch_xla 2.9.0, docs, "Autocast"; the operators with a kernel of its AutocastXLA key, and
their dtypes as measured in tests/xla/oracle.
"""

from __future__ import annotations

from typing import Final

from trnsim.torch import pytorch
from trnsim.torch.api import autocast
from trnsim.torch.pytorch import Library

LOW_PRECISION: Final = """
    conv1d conv2d conv3d conv1d.padding conv2d.padding conv3d.padding conv_tbc conv_transpose1d
    conv_transpose2d.input conv_transpose3d.input bmm mm matmul baddbmm addmm addbmm linear einsum
    prelu relu max_pool2d
"""
FLOAT32: Final = """
    batch_norm softmax.int log_softmax.int binary_cross_entropy binary_cross_entropy_with_logits
    pow.Tensor_Scalar prod prod.dim_int cdist trace cholesky cholesky_inverse cholesky_solve inverse
    linalg_inv_ex linalg_svd qr svd triangular_solve reflection_pad1d reflection_pad2d
    replication_pad1d replication_pad2d replication_pad3d mse_loss l1_loss smooth_l1_loss kl_div
    nll_loss nll_loss2d cross_entropy_loss ctc_loss.IntList ctc_loss.Tensor cosine_embedding_loss
    hinge_embedding_loss margin_ranking_loss multilabel_margin_loss multi_margin_loss
    soft_margin_loss triplet_margin_loss
"""
WIDEST: Final = "cat stack index_copy"


def install(library: Library) -> None:
    """Give autocast of the device these lists in place of PyTorch's; add the kernels they lack."""
    lists = (
        (LOW_PRECISION, autocast.low_precision_dtype),
        (FLOAT32, autocast.float32_dtype),
        (WIDEST, autocast.widest_dtype),
    )
    registered_names = {*autocast.policies}
    autocast.policies.clear()
    for names, dtype_for in lists:
        for name in names.split():
            operator = pytorch.overload(f"aten::{name}")
            if operator is None:
                continue
            autocast.policies[name] = dtype_for
            if name not in registered_names:
                kernel = autocast.casting_kernel(operator, name)
                library.impl(name, kernel, "AutocastPrivateUse1")
