"""NKI kernels on PyTorch tensors: a call without values, and meta tensors of its results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from trnsim.device.kernel_call import KernelCall, Outline, ResultSpec
from trnsim.errors import NotModelled
from trnsim.nki.kernel import Kernel
from trnsim.torch.aten.spec import STORED, Spec, spec_of

_DTYPES: Final = {name: dtype for dtype, name in reversed(STORED.items())} | {
    "uint8": torch.uint8,
    "uint16": torch.uint16,
    "uint32": torch.uint32,
    "int32": torch.int32,
    "int64": torch.int64,
    "bool_": torch.bool,
    "tfloat32": torch.float32,
}
"""The dtype of PyTorch for each format that a kernel returns, as `nki.torch_tensors` leaves it."""


def call_of_kernel(kernel: Kernel, args: Any, kwargs: Any) -> tuple[KernelCall, list[Tensor]]:
    """The call of a kernel without values, and its tensors."""
    leaves, tree = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    leaves_without_values = [
        _sized_spec(leaf) if isinstance(leaf, Tensor) else _number(leaf) for leaf in leaves
    ]
    return KernelCall.of(kernel, leaves_without_values, tree), tensors


def _sized_spec(tensor: Tensor) -> Spec:
    """The spec of a tensor, symbolic sizes as numbers."""
    spec = spec_of(tensor)
    if all(size.__class__ is int for size in spec.shape):
        return spec
    return replace(spec, shape=tuple(map(_number, spec.shape)))


_NUMBERS: Final[dict[type, type]] = {
    torch.SymInt: int,
    torch.SymFloat: float,
    torch.SymBool: bool,
}


def _number(value: Any) -> Any:
    """A symbolic number as the one for which a graph is traced; any other value itself.

    PyTorch's compiler then traces the graph again for another number.
    """
    return _NUMBERS[type(value)](value) if type(value) in _NUMBERS else value


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
