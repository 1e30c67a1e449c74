"""One operator call and its graph: the operator, its arguments and results without values."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from trnsim import arch
from trnsim.device.call_time import CallTime
from trnsim.device.device_core import device_core
from trnsim.torch import pytorch
from trnsim.torch.aten.decomposition import Unlowered
from trnsim.torch.aten.spec import Spec, spec_of
from trnsim.torch.dispatch.contracts import read_contract
from trnsim.torch.narrowing import dtype_on_device

if TYPE_CHECKING:  # loaded inside functions, for programs that ask for no time and no graph
    from trnsim.graph import Graph, Value
    from trnsim.graph.building.build import Build

_CACHED_CALLS: Final = 1 << 14
"""Entries of a cache; the least recently used one is dropped."""
NO_LOWERING: Final = "{} has no lowering to the chip's instructions yet"
"""The reason for an operator that has no kernel for any arguments."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """An operator and all that its graph depends on: equal calls share a graph.

    Attributes:
        name: the operator's full name ("aten::add.Tensor").
        args: its arguments by position, tensors as specs, lists as tuples.
        kwargs: its arguments by name.
    """

    name: str
    args: tuple[Hashable, ...]
    kwargs: tuple[tuple[str, Hashable], ...]
    results: tuple[Spec, ...]

    @property
    def operation(self) -> str:
        """The name without namespace, overload and the underscore of in-place forms."""
        return plain_name(self.name)

    def time(self, target: str) -> CallTime:
        """The time of its graph on a chip.

        Raises:
            NotModelled: where it has no graph, or its graph has an operation without a kernel.
        """
        from trnsim.compiler.operators import operator_costs  # noqa: PLC0415  see above

        cores = device_core(arch.target(target)).physical_cores
        return CallTime(operator_costs(graph_of(self), target, cores))


def plain_name(name: str) -> str:
    """The operator's plain name: "add" for "aten::add_.Tensor"."""
    packet = name.rpartition("::")[2].partition(".")[0]
    is_in_place = packet.endswith("_") and not packet.endswith("__")
    return packet[:-1] if is_in_place else packet


@lru_cache(_CACHED_CALLS)
def ignored_arguments(name: str) -> frozenset[str]:
    """Names of arguments without influence on the values: `out=` tensors, and the generator."""
    operator = pytorch.overload(name)
    outs = () if operator is None else read_contract(operator).outs
    return frozenset({"generator", *outs})


def call_of(name: str, args: Any, kwargs: Any, result: Any) -> OperatorCall:
    """A call of an operator, without values."""
    left_out = ignored_arguments(name)
    # An operator that returns nothing, such as aten::_foreach_add_, changes its first argument.
    outputs = args[0] if result is None else result
    return OperatorCall(
        name,
        tuple(_as_hashable(value) for value in args),
        tuple((key, _as_hashable(value)) for key, value in kwargs.items() if key not in left_out),
        tuple(spec_of(tensor) for tensor in tensors_in(outputs)),
    )


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in nested lists, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for part in value for tensor in tensors_in(part)]
    return []


def _as_hashable(value: Any) -> Any:
    if isinstance(value, Tensor):
        is_number = value.is_cpu and not value.dim()
        return _as_hashable(value.item()) if is_number else spec_of(value)
    if isinstance(value, list | tuple):
        return tuple(_as_hashable(part) for part in value)
    if isinstance(value, torch.dtype):
        return dtype_on_device(value)
    # NaN equals no NaN, but tuples that hold the same object are equal: all become math.nan.
    return math.nan if isinstance(value, float) and math.isnan(value) else value


@lru_cache(_CACHED_CALLS)
def graph_of(call: OperatorCall) -> Graph:
    """The graph of a call; its inputs are the call's tensors in order.

    Raises:
        Unlowered: for an operator, or a form of it, that has no decomposition.
    """
    return build(call).graph


def build(call: OperatorCall) -> Build:
    """The builder of a call's graph, after building.

    Raises:
        Unlowered: for an operator, or a form of it, that has no decomposition.
    """
    from trnsim.graph.building.build import Build  # noqa: PLC0415  see above
    from trnsim.torch.aten.decompositions import DECOMPOSITIONS  # noqa: PLC0415  likewise

    decompose = DECOMPOSITIONS.get(call.operation)
    if decompose is None:
        raise Unlowered(NO_LOWERING.format(call.name))
    b = Build()
    try:
        args = [_as_inputs(b, value) for value in call.args]
        kwargs = {key: _as_inputs(b, value) for key, value in call.kwargs}
        b.result_types = [spec.type for spec in call.results]
        if b.result_types and not any(result.elements for result in b.result_types):
            return b  # an operator whose results have no elements takes no time
        outputs = decompose(b, *args, **kwargs)
    except Unlowered as error:
        raise Unlowered(f"{call.name} has no lowering for {error.reason}") from None
    except TypeError as error:
        raise Unlowered(f"{call.name} has no lowering for {_arguments_named_by(error)}") from None
    except ZeroDivisionError:
        why = "a zero that it divides by" if _has_elements(call) else "operands without elements"
        raise Unlowered(f"{call.name} has no lowering for {why}") from None
    b.graph.outputs = [value for value in values_in(outputs) if value.type.elements]
    b.graph.prune()
    if any(not value.type.elements for node in b.graph.nodes for value in node.values):
        raise Unlowered(f"{call.name} has no lowering for operands without elements")
    return b


def _arguments_named_by(error: TypeError) -> str:
    """The arguments that a decomposition does not take, by Python's error of its call."""
    match = _UNEXPECTED.search(str(error))
    return f"the argument {match[1]}" if match else f"these arguments: {error}"


_UNEXPECTED: Final = re.compile(r"unexpected keyword argument '(\w+)'")


def _has_elements(call: OperatorCall) -> bool:
    """True if no tensor or result of a call is empty."""
    values = [*call.args, *(value for _, value in call.kwargs), *call.results]
    return all(0 not in value.shape for value in values if isinstance(value, Spec))


def _as_inputs(b: Build, value: Any) -> Any:
    if isinstance(value, Spec):
        return value.enter(b)
    if isinstance(value, tuple):
        return [_as_inputs(b, part) for part in value]
    return value


def values_in(results: Any) -> list[Value]:
    """The values in nested lists, in order."""
    if isinstance(results, list | tuple):
        return [value for part in results for value in values_in(part)]
    from trnsim.graph import Value  # noqa: PLC0415  see above

    return [results] if isinstance(results, Value) else []
