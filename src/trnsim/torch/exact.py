"""How values are computed: by the host as a whole, instruction by instruction, or not at all.

`fast`, the default, lets the host compute an operator as a whole and rounds once. `exact` runs the
operator's kernel, so that sums are added in the order of the tiles and functions are those of the
engines. Random numbers are the host's either way. An operator without a kernel is computed by the
host in both; `exact` counts these. `shapes` computes no values: a step has its calls, its memory
and its time, and reading a number gives whatever lies in memory.

The two agree within one rounding of the output plus ``c * K * 2**-24 * sum(abs(a) * abs(b))`` for a
reduction over K, and within 2**-18 relative for the functions of the Scalar Engine.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from trnsim.errors import BadInput
from trnsim.graph import evaluate
from trnsim.torch.alias import host_alias
from trnsim.torch.cores import target
from trnsim.torch.importer.build import Unlowered, spec_of
from trnsim.torch.importer.calls import build, call_of, no_matter, tensors_in

if TYPE_CHECKING:
    from trnsim.torch.pytorch import Kernel

    Array = np.ndarray[Any, Any]

Numerics = Literal["fast", "exact", "shapes"]
_KINDS: Final[tuple[Numerics, ...]] = ("fast", "exact", "shapes")
_VARIABLE: Final = "TRNSIM_NUMERICS"
_BITS: Final = {1: (torch.uint8, np.uint8), 2: (torch.int16, np.int16)}


class _Mode:
    """The numerics in force, and what `exact` left to the host."""

    def __init__(self) -> None:
        self.kind: Numerics = _checked(os.environ.get(_VARIABLE, "fast"))
        self.on_host: Counter[str] = Counter()


def _checked(value: str) -> Numerics:
    """A setting that exists."""
    for kind in _KINDS:
        if value == kind:
            return kind
    raise BadInput(f"numerics {value!r}; legal: {', '.join(_KINDS)}", fix=f"{_VARIABLE}=fast")


mode: Final = _Mode()


@contextmanager
def numerics(kind: Numerics) -> Generator[Counter[str]]:
    """Inside, operators are computed so; what `exact` leaves to the host is counted by reason."""
    before = mode.kind
    mode.kind = _checked(kind)
    mode.on_host.clear()
    try:
        yield mode.on_host
    finally:
        mode.kind = before


def exactly(name: str, kernel: Kernel, args: Any, kwargs: Any) -> Any:
    """The host's `kernel` called, and its results overwritten by those of the operator's kernel.

    The host's call says which tensors the results are: fresh ones, or arguments written in place.
    """
    before = [_as_it_lies(tensor) for tensor in _given(name, args, kwargs)]
    result = kernel(*args, **kwargs)
    is_list_in_place = result is None and name.startswith("aten::_foreach_")
    wanted = [t for t in tensors_in(args[0] if is_list_in_place else result) if t.numel()]
    if not wanted:
        if result is None:
            mode.on_host[f"{name} returns nothing of what it writes"] += 1
        return result  # an operator on nothing computes nothing
    try:
        graph = build(call_of(name, args, kwargs, result)).graph
        if any(node.name == "rng" for node in graph.nodes):
            return result  # the host's numbers stay
        found = evaluate(graph, before, target().name)
    except Unlowered as error:
        mode.on_host[error.reason] += 1
        return result
    for tensor, array in zip(wanted, found, strict=True):
        host_alias(tensor).copy_(_tensor(array).reshape(tensor.shape))
    return result


def _given(name: str, args: Any, kwargs: Any) -> list[Tensor]:
    """The tensors that a call's graph takes, in its order."""
    left_out = no_matter(name)
    values = [*args, *(value for key, value in kwargs.items() if key not in left_out)]
    return [tensor for tensor in tensors_in(values) if not (tensor.is_cpu and not tensor.dim())]


def _as_it_lies(tensor: Tensor) -> Array:
    """A copy of a tensor's elements in the order of its memory, what it repeats once."""
    spec = spec_of(tensor)
    host = tensor if tensor.is_cpu else host_alias(tensor)
    for dim in spec.repeated:
        host = host.narrow(dim, 0, 1)
    return _array(host.permute(spec.order).clone(memory_format=torch.contiguous_format))


def _array(tensor: Tensor) -> Array:
    if tensor.dtype is torch.int64:
        tensor = tensor.to(torch.int32)
    if tensor.dtype is torch.bool:
        tensor = tensor.to(torch.uint8)
    own = getattr(ml_dtypes, str(tensor.dtype).removeprefix("torch."), None)
    if own is None:
        return tensor.numpy()
    bits = _BITS[tensor.element_size()]
    return tensor.view(bits[0]).numpy().view(own)


def _tensor(array: Array) -> Tensor:
    if f"torch.{array.dtype}" not in map(str, (torch.bfloat16, torch.float8_e4m3fn)):
        return torch.from_numpy(np.ascontiguousarray(array))
    dtype: torch.dtype = getattr(torch, str(array.dtype))
    bits = np.ascontiguousarray(array).view(_BITS[array.itemsize][1])
    return torch.from_numpy(bits).view(dtype)
