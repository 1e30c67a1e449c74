"""How values are computed: by the host as a whole, instruction by instruction, or not at all.

`fast`, the default, lets the host compute an operator as a whole and rounds once. `exact` runs the
operator's kernel, so that sums are added in the order of the tiles and functions are those of the
engines. Random numbers are the host's either way. An operator without a kernel is computed by the
host in both; `exact` counts these. `shapes` computes no values: a step has its calls, its memory
and its time, and reading a number gives whatever lies in memory.

The two agree within one rounding of the output plus ``2 * K * 2**-24 * sum(abs(a) * abs(b))`` for a
reduction over K, and within `FUNCTION_BOUNDS` for the functions of the Scalar Engine. `fast` rounds
to nearest, or by chance (`rounding.py`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

import torch
from torch import Tensor

from trnsim.errors import BadInput
from trnsim.graph import evaluate
from trnsim.torch.alias import host_alias
from trnsim.torch.arrays import array_of, tensor_of
from trnsim.torch.cores import target
from trnsim.torch.importer.build import Unlowered, spec_of
from trnsim.torch.importer.calls import build, call_of, no_matter, tensors_in

if TYPE_CHECKING:
    from trnsim.torch.arrays import Array
    from trnsim.torch.pytorch import Kernel

Numerics = Literal["fast", "exact", "shapes"]
_KINDS: Final[tuple[Numerics, ...]] = ("fast", "exact", "shapes")
_VARIABLE: Final = "TRNSIM_NUMERICS"
_STOCHASTIC: Final = "NEURON_RT_STOCHASTIC_ROUNDING_EN"

FUNCTION_BOUND: Final = 2.0**-21
"""How far a function of `exact` may be from that of `fast`, in units of max(abs(f), 1)."""
FUNCTION_BOUNDS: Final = {
    "gelu": 2.0**-19,
    "silu_backward": 2.0**-20,
    "asinh": 2.0**-18,
    "acosh": 2.0**-19,
}
"""The same for functions that lose more: in a difference of near numbers, in a long formula."""


class _Mode:
    """The numerics in force, whether `fast` rounds by chance, and what `exact` left to the host."""

    def __init__(self) -> None:
        self.is_stochastic = os.environ.get(_STOCHASTIC, "0") == "1"
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
def numerics(kind: Numerics, *, is_stochastic: bool | None = None) -> Generator[Counter[str]]:
    """Inside, operators are computed so; what `exact` leaves to the host is counted by reason.

    `is_stochastic` says whether `fast` rounds by chance; None leaves that as it is.
    """
    before = mode.kind, mode.is_stochastic
    mode.kind = _checked(kind)
    mode.is_stochastic = mode.is_stochastic if is_stochastic is None else is_stochastic
    mode.on_host.clear()
    try:
        yield mode.on_host
    finally:
        mode.kind, mode.is_stochastic = before


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
        host_alias(tensor).copy_(tensor_of(array).reshape(tensor.shape))
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
    return array_of(host.permute(spec.order).clone(memory_format=torch.contiguous_format))
