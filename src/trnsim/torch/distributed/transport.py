"""gloo as the transport of values: dtypes that it carries, reductions, and its errors.

gloo knows eight dtypes. Others are moved as a dtype of equal width, and reduced as a wider one. Two
reductions that it lacks become sums: an average of integers, which is divided afterwards, truncated
towards zero; and PREMUL_SUM, by which FSDP scales gradients, which is multiplied before.

Source: torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, GENERATE_ALL_TYPES; NCCL's user guide,
Data Types, ncclAvg.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_leaves

from trnsim.device.program_line import program_line
from trnsim.torch import pytorch
from trnsim.torch.device_errors import CollectiveRefused

_FP8: Final = (
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
)
_ALIKE: Final = dict.fromkeys(_FP8, torch.uint8) | {
    torch.int16: torch.float16,
    torch.uint16: torch.float16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
    torch.complex64: torch.int64,
}
"""The dtype in which the bits of another are moved."""

_WIDER: Final = dict.fromkeys(_FP8, torch.float32) | {
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
}
"""The dtype in which another is reduced: exactly, or rounded once at the end."""

_BREAKS: Final = ("gloo/transport", "Connection ", "Timed out", "Broken pipe")


def is_broken(error: RuntimeError) -> bool:
    """True if the exchange was interrupted, rather than refused before it began."""
    return isinstance(error, dist.DistError) or any(part in str(error) for part in _BREAKS)


def as_bits(host: Tensor) -> Tensor:
    """The tensor in a dtype that gloo carries, over the same memory."""
    return host.view(_ALIKE[host.dtype]) if host.dtype in _ALIKE else host


_factor: Final[ContextVar[float | None]] = ContextVar("_factor", default=None)
"""The factor of the reduction in progress, or None."""

REDUCING: Final = (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "_reduce_scatter_base",
)
"""The methods of PyTorch's process groups that reduce."""


class GlooReduction:
    """A reduction with its tensors in dtypes that gloo takes.

    Attributes:
        is_average: true for an average of integers.
    """

    def __init__(self, kind: str, reduce_op: Any, dtype: torch.dtype) -> None:
        self.is_average = False
        self._factor = _factor.get()
        self._copies: list[tuple[Tensor, Tensor]] = []
        if not dtype.is_floating_point and not dtype.is_complex:
            carried = _WIDER.get(dtype, dtype)
            refusal = _refusal(reduce_op, carried)
            self.is_average = refusal is not None and _refusal(reduce_op, torch.float32) is None
            if refusal is not None and (dtype is torch.bool or not self.is_average):
                raise refused(kind, dtype, refusal)

    def gloo_tensor(self, host: Tensor, is_written: bool) -> Tensor:
        """`host`, or a copy of it in the dtype in which it is reduced."""
        carried = torch.int64 if self.is_average else _WIDER.get(host.dtype, host.dtype)
        if not self.is_average and carried is host.dtype and self._factor is None:
            return host
        copied = host.to(carried, copy=True)
        if self._factor is not None:
            copied.mul_(self._factor)
        if is_written:
            self._copies.append((host, copied))
        return copied

    @property
    def operation(self) -> Callable[[Any], Any]:
        """The function from the program's reduction to the reduction that gloo performs."""
        return (lambda _: pytorch.sum_operation()) if self.is_average else (lambda op: op)

    def put_back(self, number: int) -> None:
        """Write results of a reduction over `number` processes back to the program's tensors."""
        for host, copied in self._copies:
            if self.is_average:
                copied.div_(number, rounding_mode="trunc")
            host.copy_(copied)


def with_factors(method: Callable[..., Any]) -> Callable[..., Any]:
    """A reducing method of PyTorch's process groups, with `PREMUL_SUM` for neuron tensors.

    Its factor is visible only here: operators get the reduction as an opaque object.
    """

    @wraps(method)
    def reduce_with_factor(group: Any, *args: Any, **kwargs: Any) -> Any:
        options_list: list[Any] = [a for a in (*args, *kwargs.values()) if hasattr(a, "reduceOp")]
        if not options_list or not _is_multiplied(options_list[0].reduceOp, args):
            return method(group, *args, **kwargs)
        options, operation = options_list[0], copy.copy(options_list[0].reduceOp)
        options.reduceOp = dist.ReduceOp.SUM
        before = _factor.set(float(operation.factor))
        try:
            return method(group, *args, **kwargs)
        finally:
            _factor.reset(before)
            options.reduceOp = operation

    return reduce_with_factor


def _is_multiplied(operation: Any, args: Any) -> bool:
    first = next((leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)), None)
    if first is None or first.device.type != pytorch.DEVICE_TYPE or not first.is_floating_point():
        return False
    multiplied: Any = getattr(dist.ReduceOp, "PREMUL_SUM")  # noqa: B009  the stub leaves it out
    return bool(operation == multiplied)


def _refusal(reduce_op: Any, dtype: torch.dtype) -> RuntimeError | None:
    """The error of gloo for such a reduction, tried in a group of this process alone, or None.

    Python cannot see which reduction an opaque object is.
    """
    group = pytorch.lone_group()
    probe = torch.ones(1, dtype=dtype, device="cpu")
    try:
        torch.ops.c10d.allreduce_([probe], group, reduce_op, None)[-1].wait()
    except RuntimeError as error:
        return error
    return None


def refused(kind: str, dtype: torch.dtype | None, error: RuntimeError) -> CollectiveRefused:
    """The error for a collective that gloo refuses, with gloo's own text."""
    of = "" if dtype is None else f" of {dtype}"
    return CollectiveRefused(
        f"{kind}{of} is refused: {str(error).splitlines()[0]}",
        fix="use another reduction or another dtype, or compute this part on the CPU",
        line=program_line(),
    )
