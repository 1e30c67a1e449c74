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
from trnsim.torch.device_name import is_neuron

_FP8: Final = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz)
_CARRIER_DTYPES: Final = dict.fromkeys(_FP8, torch.uint8) | {
    torch.int16: torch.float16,
    torch.uint16: torch.float16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
    torch.complex64: torch.int64,
}
"""The dtype, of equal width, as which gloo carries the bits of another."""

_REDUCTION_DTYPES: Final = dict.fromkeys(_FP8, torch.float32) | {
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
}
"""The wider dtype in which another is reduced: exactly, or rounded once at the end."""

_INTERRUPTION_TEXTS: Final = ("gloo/transport", "Connection ", "Timed out", "Broken pipe")
"""Parts of gloo's messages about exchanges that were interrupted."""


def is_interruption(error: RuntimeError) -> bool:
    """True for the error of an exchange that was interrupted, not refused before it began."""
    return isinstance(error, dist.DistError) or any(
        text in str(error) for text in _INTERRUPTION_TEXTS
    )


def as_bits(host: Tensor) -> Tensor:
    """The tensor in a dtype that gloo carries, over the same memory."""
    return host.view(_CARRIER_DTYPES[host.dtype]) if host.dtype in _CARRIER_DTYPES else host


_factor: Final[ContextVar[float | None]] = ContextVar("_factor", default=None)
"""The factor of the `PREMUL_SUM` in progress, or None."""
reduction_name: Final[ContextVar[str]] = ContextVar("reduction_name", default="")
"""The name of the reduction in progress; "" for one that was called from C++, not Python."""

REDUCING_METHODS: Final = (
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
        is_average: true for an average of integers, which gloo computes as a sum.
    """

    def __init__(self, collective: str, reduce_op: Any, dtype: torch.dtype) -> None:
        """The reduction of a collective, named as by PyTorch, on tensors of `dtype`.

        Raises:
            CollectiveRefused: if gloo has no such reduction.
        """
        self.is_average = False
        self._factor = _factor.get()
        self._copies: list[tuple[Tensor, Tensor]] = []
        if not dtype.is_floating_point and not dtype.is_complex:
            refusal = _gloo_error(reduce_op, _REDUCTION_DTYPES.get(dtype, dtype))
            self.is_average = refusal is not None and _gloo_error(reduce_op, torch.float32) is None
            if refusal is not None and (dtype is torch.bool or not self.is_average):
                raise refusal_error(collective, dtype, refusal)

    def gloo_tensor(self, host: Tensor, is_written: bool) -> Tensor:
        """`host`, or a copy of it in the dtype in which it is reduced.

        Args:
            host: a tensor on the host.
            is_written: true if the collective writes it, so that `put_back` copies its result.
        """
        reduced_dtype = (
            torch.int64 if self.is_average else _REDUCTION_DTYPES.get(host.dtype, host.dtype)
        )
        if not self.is_average and reduced_dtype is host.dtype and self._factor is None:
            return host
        reduced_copy = host.to(reduced_dtype, copy=True)
        if self._factor is not None:
            reduced_copy.mul_(self._factor)
        if is_written:
            self._copies.append((host, reduced_copy))
        return reduced_copy

    def gloo_operation(self, reduce_op: Any) -> Any:
        """The operation that gloo performs for the program's `reduce_op`."""
        return pytorch.sum_operation() if self.is_average else reduce_op

    def put_back(self, process_count: int) -> None:
        """Write the results of a reduction over `process_count` processes to the host's tensors."""
        for host, reduced_copy in self._copies:
            if self.is_average:
                reduced_copy.div_(process_count, rounding_mode="trunc")
            host.copy_(reduced_copy)


def with_premul_sum(method: Callable[..., Any]) -> Callable[..., Any]:
    """A reducing method of PyTorch's process groups, with `PREMUL_SUM` for neuron tensors.

    The reduction is visible only here: operators get it as an opaque object.
    """

    @wraps(method)
    def reduce(group: Any, *args: Any, **kwargs: Any) -> Any:
        arguments: tuple[Any, ...] = (*args, *kwargs.values())
        options = next((value for value in arguments if hasattr(value, "reduceOp")), None)
        if options is None:
            return method(group, *args, **kwargs)
        token = reduction_name.set(str(options.reduceOp.op).rpartition(".")[2])
        try:
            if _is_premul_sum(options.reduceOp, args):
                return reduce_with_factor(options, group, *args, **kwargs)
            return method(group, *args, **kwargs)
        finally:
            reduction_name.reset(token)

    def reduce_with_factor(options: Any, group: Any, *args: Any, **kwargs: Any) -> Any:
        premul_sum = copy.copy(options.reduceOp)
        options.reduceOp = dist.ReduceOp.SUM
        token = _factor.set(float(premul_sum.factor))
        try:
            return method(group, *args, **kwargs)
        finally:
            _factor.reset(token)
            options.reduceOp = premul_sum

    return reduce


def _is_premul_sum(operation: Any, args: Any) -> bool:
    """True for a `PREMUL_SUM` of floating-point tensors on neuron."""
    first_tensor = next((leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)), None)
    if (
        first_tensor is None
        or not is_neuron(first_tensor.device)
        or not first_tensor.is_floating_point()
    ):
        return False
    premul_sum: Any = getattr(dist.ReduceOp, "PREMUL_SUM")  # noqa: B009  the stub leaves it out
    return bool(operation == premul_sum)


def _gloo_error(reduce_op: Any, dtype: torch.dtype) -> RuntimeError | None:
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


def refusal_error(
    collective: str, dtype: torch.dtype | None, error: RuntimeError
) -> CollectiveRefused:
    """The error for a collective that gloo refuses, with gloo's own text."""
    dtype_text = "" if dtype is None else f" of {dtype}"
    return CollectiveRefused(
        f"{collective}{dtype_text} is refused: {str(error).splitlines()[0]}",
        fix="use another reduction or another dtype, or compute this part on the CPU",
        line=program_line(),
    )
