"""The values of a compiled graph in exact numerics, computed by the program that was timed.

Results have the strides that PyTorch traced. A result that was traced as an argument, or as a view
of one, is that argument or view.

A graph that is not a single program runs operator by operator, each by its kernel: a graph with
branches, loops, collectives or the user's kernels, with random numbers, which the host draws, or a
graph that does not fit on the chip. So does a call with integers that the program would round.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, fx

from trnsim.compiler import program
from trnsim.device.compiled_graph import CompiledGraph
from trnsim.device.device_core import target
from trnsim.errors import (
    IllegalInstruction,
    InternalError,
    NotModelled,
    OutOfMemory,
    Unspecified,
)
from trnsim.graph import Graph, Kind, Value
from trnsim.graph.ops.leaves import Rng
from trnsim.torch.aten.spec import Spec
from trnsim.torch.compile.fx_import import ImportedGraph
from trnsim.torch.compile.host_run import (
    ResultOrigin,
    result_origins,
    to_device,
    view_of,
    written_arguments,
)
from trnsim.torch.compile.large_integers import LargeIntegers
from trnsim.torch.compile.refused import CompilerWarning
from trnsim.torch.dispatch.alias import host_alias
from trnsim.torch.dispatch.host_arrays import Array, array_of, tensor_of

_SEPARATE_KINDS: Final = (Kind.CONTROL, Kind.CALL, Kind.COLLECTIVE)
_NOT_COMPUTABLE: Final = (OutOfMemory, IllegalInstruction, InternalError, NotModelled)


@dataclass(eq=False)
class ProgramRun:
    """A compiled graph that computes its values by its program.

    Attributes:
        compiled_graph: the graph as it is compiled for the chip.
        module: the same graph as FX traced it.
        imported: the import, which describes inputs and results.
    """

    compiled_graph: CompiledGraph
    module: fx.GraphModule
    imported: ImportedGraph

    def __post_init__(self) -> None:
        self._nodes = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        self._positions = {node.name: position for position, node in enumerate(self._nodes)}

    def __call__(self, args: tuple[Any, ...], core: int) -> Any:
        """The graph's results for `args` on neuron:`core`."""
        outputs = (
            None if self.fallback_reason or self._rounds_integers(args) else self._outputs(args)
        )
        if outputs is None:
            return self.module(*args)
        arrays = {
            position: array.transpose(order)
            for (position, order), array in zip(self.imported.orders, outputs, strict=True)
        }
        origins, is_single = result_origins(self.module)
        results = [
            self._result(position, origin, arrays.get(position), args, core)
            for position, origin in enumerate(origins)
        ]
        return results[0] if is_single else results

    @cached_property
    def fallback_reason(self) -> str:
        """The reason that the graph runs operator by operator; empty if it does not."""
        graph = self.compiled_graph.graph
        separate_names = [node.name for node in graph.nodes if node.kind in _SEPARATE_KINDS]
        if self.imported.missing:
            return f"the host computes {self.imported.missing[0]}"
        if separate_names:
            return f"{separate_names[0]} is a program of its own"
        if any(isinstance(node.operation, Rng) for node in graph.nodes):
            return "random numbers are the host's"
        if _has_empty_tensor(graph):
            return "it has tensors without elements"
        if self._uncomputed_results:
            return f"result {self._uncomputed_results[0]} has no values in its program"
        return "it writes to its arguments" if written_arguments(self.module) else ""

    @cached_property
    def _read_numbers(self) -> frozenset[int]:
        """Numbers of the values that an operation or the caller reads."""
        graph = self.compiled_graph.graph
        values = [value for node in graph.nodes for value in node.values]
        return frozenset(value.number for value in (*values, *graph.outputs))

    @cached_property
    def _result_metadata(self) -> list[Any]:
        """The traced tensor of each result, without values; a result that is no tensor itself."""
        (output,) = (node for node in self.module.graph.nodes if node.op == "output")
        results: Any = output.args[0]
        nodes = results if isinstance(results, list | tuple) else [results]
        return [node.meta.get("val") if isinstance(node, fx.Node) else node for node in nodes]

    @cached_property
    def _uncomputed_results(self) -> list[int]:
        """Positions of floating-point results that no node computes.

        Integers without values, such as the state of a generator that no dropout reads, are legal.
        """
        computed_positions = {position for position, _ in self.imported.orders}
        origins, _ = result_origins(self.module)
        return [
            position
            for position, (origin, metadata) in enumerate(
                zip(origins, self._result_metadata, strict=True)
            )
            if isinstance(metadata, Tensor) and metadata.is_floating_point()
            if metadata.numel() and origin.argument < 0 and position not in computed_positions
        ]

    @cached_property
    def _large_integers(self) -> LargeIntegers:
        names = self.imported.names.items()
        unread_names = {name for number, name in names if number not in self._read_numbers}
        return LargeIntegers(self.module, unread_names)

    def _rounds_integers(self, args: tuple[Any, ...]) -> bool:
        """True, with a warning, if the program would round integers of these arguments."""
        reason = self._large_integers.reason(args)
        if reason:
            self._warn(reason)
        return bool(reason)

    def _warn(self, reason: str) -> None:
        """Warn that operators compute the graph, one by one."""
        warnings.warn(
            f"{self.compiled_graph.name} is computed operator by operator: {reason}",
            CompilerWarning,
            stacklevel=4,
        )

    def _outputs(self, args: tuple[Any, ...]) -> Sequence[Array] | None:
        """The program's outputs for the graph's inputs; None, with a warning, if it cannot run."""
        graph = self.compiled_graph.graph
        arrays = [self._input_array(value, args) for value in graph.inputs]
        try:
            return program.evaluate_program(
                graph, arrays, target().name, self.compiled_graph.weights
            )
        except _NOT_COMPUTABLE as error:
            self.fallback_reason = error.reason
            self._warn(error.reason)
            return None
        except Unspecified as error:  # for these values alone
            self._warn(error.reason)
            return None

    def _result(
        self,
        position: int,
        origin: ResultOrigin,
        array: Array | None,
        args: tuple[Any, ...],
        core: int,
    ) -> Any:
        """A result of the graph with its strides: an argument, a view of one, or a new tensor."""
        metadata = self._result_metadata[position]
        if not isinstance(metadata, Tensor):
            return metadata
        if origin.argument >= 0 and not origin.is_argument and metadata.numel():
            argument = self._nodes[origin.argument].meta["val"]
            start = argument.storage_offset() * argument.itemsize // metadata.itemsize
            return view_of(args[origin.argument], metadata, metadata.storage_offset() - start)
        host = torch.empty_strided(
            metadata.shape, metadata.stride(), dtype=metadata.dtype, device="cpu"
        )
        if array is not None:
            _overwrite(host, array)
        return to_device(origin, host, args, core)

    def _input_array(self, value: Value, args: tuple[Any, ...]) -> Array:
        """An input of the graph; zeros if nothing reads it, or if the graph allocates it empty."""
        tensor = self._tensor(self.imported.names[value.number], args)
        if tensor is None or value.number not in self._read_numbers:
            return np.zeros(value.shape, value.type.numpy_dtype())
        return graph_ordered_array(tensor, self.imported.specs[value.number])

    def _tensor(self, name: str, args: tuple[Any, ...]) -> Tensor | None:
        """An argument or a constant of the graph; None for a tensor that the graph creates."""
        if name in self._positions:
            tensor: Tensor = args[self._positions[name]]
            return tensor
        (node,) = (node for node in self.module.graph.nodes if node.name == name)
        if node.op != "get_attr":
            return None
        owner, _, attribute = str(node.target).rpartition(".")
        constant: Tensor = getattr(self.module.get_submodule(owner), attribute)
        return constant


def _has_empty_tensor(graph: Graph) -> bool:
    """True if a tensor of the graph has no elements."""
    values = [value for node in graph.nodes for value in (*node.values, *node.results)]
    return any(not value.type.elements for value in (*graph.inputs, *graph.outputs, *values))


def graph_ordered_array(tensor: Tensor, spec: Spec) -> Array:
    """A tensor's elements in the order of the graph's input; broadcast elements appear once.

    Tensors that the host saved for the backward pass may differ from the traced dtype.
    """
    host = tensor.detach() if tensor.is_cpu else host_alias(tensor.detach())
    for dim in spec.repeated:
        host = host.narrow(dim, 0, 1)
    return array_of(host.to(spec.dtype).permute(spec.order).contiguous())


def _overwrite(host: Tensor, array: Array) -> None:
    """Write an array into a host tensor; broadcast elements once."""
    values = tensor_of(array)
    for dim, step in enumerate(host.stride()):
        if not step and host.shape[dim] != 1:
            host, values = host.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
    host.copy_(values)
