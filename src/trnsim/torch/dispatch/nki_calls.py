"""NKI kernels on PyTorch tensors: a call without values, and meta tensors of its results."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from trnsim.device.kernel_call import KernelCall, Outline, ResultSpec
from trnsim.errors import NotModelled
from trnsim.nki.kernel import Kernel
from trnsim.torch.aten.spec import STORED, spec_of

_DTYPES: Final = {name: dtype for dtype, name in reversed(STORED.items())} | {
    "uint8": torch.uint8,
    "int32": torch.int32,
}


def call_of_kernel(kernel: Kernel, args: Any, kwargs: Any) -> tuple[KernelCall, list[Tensor]]:
    """The call of a kernel without values, and its tensors."""
    leaves, tree = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    frozen = [spec_of(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    return KernelCall.of(kernel, frozen, tree), tensors


def meta_results(outline: Outline) -> Any:
    """A meta tensor for each result of a kernel, in the same nesting.

    Raises:
        NotModelled: for a dtype that PyTorch lacks.
    """
    return pytree.tree_map_only(ResultSpec, _without_memory, outline.results)


def _without_memory(result: ResultSpec) -> Tensor:
    dtype = _DTYPES.get(result.dtype)
    if dtype is None:
        raise NotModelled(
            f"a kernel that returns a tensor of {result.dtype}, which PyTorch lacks",
            fix="return it in a dtype of PyTorch",
        )
    return torch.empty(result.shape, dtype=dtype, device="meta")
