"""The import of FX graphs, which `torch.compile` and `torch.export` trace, as trnsim graphs.

Every node carries the shape and dtype of its result. An operator without a lowering is computed
outside the trnsim graph: its results become inputs of the graph, and its operands outputs.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn

import torch
from torch import Tensor, fx

from trnsim.compiler.ncc.calls import FrameworkCall
from trnsim.device.kernel_call import KernelCall
from trnsim.graph import Graph, Value
from trnsim.graph.building.build import Build, ReplicaGroups
from trnsim.graph.ops.calls import CustomCall
from trnsim.graph.ops.control_flow import If
from trnsim.nki.mixing import refuse_in_graph
from trnsim.torch.aten.decomposition import Unlowered
from trnsim.torch.aten.decompositions import DECOMPOSITIONS
from trnsim.torch.aten.operator_call import plain_name, tensors_in, values_in
from trnsim.torch.aten.spec import Spec, spec_of, unstored
from trnsim.torch.compile.origins import call_of, operator_name, origin_of
from trnsim.torch.dispatch.launches import kernel_call

# Operators that allocate tensors, which are filled before they are read.
_ALLOCATIONS: Final = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
# Checks of facts that tracing established; they run nothing.
_CHECKS: Final = frozenset(
    {"_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range"}
)
# Operators that also return the index of each maximum, which few programs read.
_MAXIMA: Final = frozenset({"max_pool2d_with_indices", "max_pool3d_with_indices"})
_FUNCTIONALIZING_OPERATOR: Final = "auto_functionalized"


@dataclass
class ImportedGraph:
    """An imported FX graph.

    Attributes:
        inputs: its input tensors, in order.
        names: the names of the trnsim graph's inputs, by the value's number.
        operators: the operators of the FX graph, in order.
        missing: the operators without a lowering, each with the reason.
        calls: the same operators with their arguments, and the lines that call them.
        origins: the call that a value of the trnsim graph came from, by the value's number.
        specs: the memory layout of the tensors of the graph's inputs, by the value's number.
        orders: for each returned output of the trnsim graph, the position of its result among the
            results of the FX graph, and the permutation of dimensions from the output to it.
    """

    graph: Graph = field(repr=False)
    inputs: tuple[Spec, ...]
    names: dict[int, str]
    operators: tuple[str, ...]
    missing: tuple[str, ...]
    calls: tuple[FrameworkCall, ...] = field(default=(), repr=False)
    origins: dict[int, FrameworkCall] = field(default_factory=dict[int, FrameworkCall], repr=False)
    specs: dict[int, Spec] = field(default_factory=dict[int, Spec], repr=False)
    orders: tuple[tuple[int, tuple[int, ...]], ...] = field(default=(), repr=False)


def import_graph(
    module: fx.GraphModule | fx.Graph, replica_groups: Mapping[str, ReplicaGroups] | None = None
) -> ImportedGraph:
    """Import an FX graph; `replica_groups` maps the group names of its collectives to ranks."""
    importer = _Importer(replica_groups)
    nodes = module.nodes if isinstance(module, fx.Graph) else module.graph.nodes
    for node in nodes:
        importer.add(node)
    graph = importer.build.graph
    # A transposed result is returned as a view of the computed tensor.
    origins = [
        graph.transpose_source(value) for value in [*importer.outputs, *importer.unlowered_operands]
    ]
    graph.outputs = [value for value, _ in origins]
    graph.prune()
    read_numbers = {value.number for node in graph.nodes for value in node.values}
    read_numbers |= {value.number for value in graph.outputs}
    unread_numbers = importer.empty_values - read_numbers
    unread_numbers |= {
        value.number for value in graph.inputs if not value.type.elements
    } - read_numbers
    graph.inputs = [value for value in graph.inputs if value.number not in unread_numbers]
    return ImportedGraph(
        graph,
        tuple(importer.inputs),
        importer.names,
        tuple(importer.operators),
        tuple(dict.fromkeys(importer.missing)),
        tuple(importer.calls),
        importer.origins,
        importer.specs,
        tuple(
            (position, origins[number][1])
            for number, position in enumerate(importer.returned_positions)
        ),
    )


def is_lowered(name: str) -> bool:
    """True if an operator has a lowering, so that PyTorch need not decompose it."""
    return plain_name(name) in DECOMPOSITIONS


class _Importer:
    """The state of an import in progress.

    Attributes:
        build: the builder of the trnsim graph.
        outputs: values that the FX graph returns.
        returned_positions: for each of `outputs`, its position among the results of the FX graph.
        unlowered_operands: values that operators without a lowering read.
        empty_values: numbers of inputs that stand for tensors which are filled before they are
            read, or have no elements.
        absent_nodes: nodes of results that no decomposition computes.

    The other attributes are those of `ImportedGraph`.
    """

    def __init__(self, replica_groups: Mapping[str, ReplicaGroups] | None) -> None:
        self.build = Build(replica_groups)
        self.names: dict[int, str] = {}
        self.missing: list[str] = []
        self.operators: list[str] = []
        self.calls: list[FrameworkCall] = []
        self.origins: dict[int, FrameworkCall] = {}
        self.specs: dict[int, Spec] = {}
        self.inputs: list[Spec] = []
        self.empty_values: set[int] = set()
        self.outputs: list[Value] = []
        self.returned_positions: list[int] = []
        self.unlowered_operands: list[Value] = []
        self.absent_nodes: set[fx.Node] = set()
        self._values: dict[fx.Node, Any] = {}

    def add(self, node: fx.Node) -> None:
        """Import a node."""
        if node.op in ("placeholder", "get_attr"):
            self.inputs += map(spec_of, tensors_in(node.meta.get("val")))
            self._values[node] = self._as_inputs(node)
        elif node.op == "output":
            self._add_outputs(node.args[0])
        elif node.target is operator.getitem:
            index: Any = node.args[1]
            parts: Any = self._value(node.args[0])
            is_computed = index < len(parts)
            self._values[node] = parts[index] if is_computed else None
            if not is_computed:  # such as the state of a generator that no dropout reads
                self.absent_nodes.add(node)
        elif node.op == "call_function":
            self._values[node] = self._import_call(node)

    def _add_outputs(self, results: Any) -> None:
        """Record the returned values that have elements and that a node computes."""
        for position, result in enumerate(
            results if isinstance(results, list | tuple) else [results]
        ):
            value = self._value(result)
            if isinstance(value, Value) and value.type.elements:
                self.returned_positions.append(position)
                self.outputs.append(value)

    def _import_call(self, node: fx.Node) -> Any:
        results = node.meta.get("val")
        if isinstance(results, int | float | bool | torch.SymInt):
            return results  # a size, which is a number already
        name = operator_name(node)
        kernel, arguments, is_functional = _called_kernel(node, name)
        if kernel is not None:
            self.operators.append(kernel.name)
            self.build.graph.current_origin = origin_of(node, kernel.name)
            return self._custom_call(kernel, arguments, results, is_functional=is_functional)
        if plain_name(name) in _CHECKS:
            return None
        self.operators.append(name)
        self.build.graph.current_origin = origin_of(node, name)
        call = call_of(node, name)
        self.calls.append(call)
        node_count, tensors = len(self.build.graph.nodes), tensors_in(results)
        if plain_name(name) in _MAXIMA and not _reads_indices(node):
            tensors = tensors[:1]
        if tensors and not any(tensor.numel() for tensor in tensors):
            inputs = self._as_inputs(node)
            self.empty_values |= {value.number for value in values_in(inputs)}
            return inputs
        try:
            return self._decompose(node, call, tensors)
        except (Unlowered, TypeError, ZeroDivisionError) as error:
            self.build.graph.truncate(node_count)
            inputs = self._as_inputs(node)
            if plain_name(name) in _ALLOCATIONS:
                self.empty_values |= {value.number for value in values_in(inputs)}
            else:
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                self.missing.append(f"{name}: {reason}")
                self.calls[-1] = replace(call, reason=reason)
                self.unlowered_operands += values_in(self._value(list(node.all_input_nodes)))
            return inputs

    def _decompose(self, node: fx.Node, call: FrameworkCall, results: list[Tensor]) -> Any:
        decompose = DECOMPOSITIONS.get(call.name, _refuse)
        for operand in node.all_input_nodes:
            tensor = operand.meta.get("val")
            if operand in self.absent_nodes:
                continue
            if isinstance(tensor, Tensor) and self._values.get(operand) is None:
                raise Unlowered(f"it reads {unstored(tensor.dtype)}")
        if node.target is torch.ops.higher_order.cond:
            branch_results = self._import_condition(node)
            self.origins |= {value.number: call for value in branch_results}
            return branch_results
        self.build.result_types = [spec_of(tensor).type for tensor in results]
        args = [self._value(value) for value in node.args]
        node_count = len(self.build.graph.nodes)
        outputs = decompose(
            self.build, *args, **{k: self._value(v) for k, v in node.kwargs.items()}
        )
        new_nodes = self.build.graph.nodes[node_count:]
        self.origins |= {value.number: call for node in new_nodes for value in node.results}
        is_single = isinstance(node.meta.get("val"), Tensor)
        # An operator with a single result may share the decomposition of one with indices too.
        return outputs[0] if is_single and isinstance(outputs, tuple) else outputs

    def _import_condition(self, node: fx.Node) -> tuple[Value, ...]:
        """The results of `torch.cond`: both branches as graphs, of which a value selects one."""
        predicate: Any = self._value(node.args[0])
        operands: list[Any] = self._value(node.args[3])
        branches: Any = node.args[1:3]
        modules = [getattr(node.graph.owning_module, branch.target) for branch in branches]
        if not isinstance(predicate, Value):
            raise Unlowered("its predicate is a number, which only symbolic sizes give")
        graphs = tuple(self._branch(module, operands) for module in modules)
        values = [self.build.graph.reshape(predicate, ()), *values_in(operands)]
        return self.build.graph.apply_to_all(If(graphs), values)

    def _branch(self, module: fx.GraphModule, operands: list[Any]) -> Graph:
        """The graph of a branch, whose operators are the program's too."""
        branch_importer = _Importer(self.build.replica_groups)
        graph = branch_importer.build.graph
        branch_operands = [
            graph.input(operand.shape, operand.dtype) if isinstance(operand, Value) else operand
            for operand in operands
        ]
        graph.outputs = branch_importer._import_nodes(module, branch_operands)
        self.operators += branch_importer.operators
        self.calls += branch_importer.calls
        if branch_importer.missing:
            raise Unlowered(f"a branch calls {branch_importer.missing[0]}")
        if len(graph.inputs) != len(values_in(operands)):
            raise Unlowered("a branch reads a constant tensor; give it as an operand")
        graph.prune()
        return graph

    def _import_nodes(self, module: fx.GraphModule, operands: list[Any]) -> list[Any]:
        """Import the nodes of an inner graph: its results for these values and numbers."""
        remaining = iter(operands)
        results: Any = []
        for node in module.graph.nodes:
            if node.op == "placeholder":
                operand = self._values[node] = next(remaining)
                if isinstance(operand, Value) and operand.shape != tuple(node.meta["val"].shape):
                    raise Unlowered("its branches have symbolic sizes; compile with dynamic=False")
            elif node.op == "output":
                results = self._value(node.args[0])
            else:
                self.add(node)
        return list(results)

    def _custom_call(
        self, call: KernelCall, arguments: list[Any], results: Any, *, is_functional: bool
    ) -> Any:
        """An NKI kernel as one operation with all of its results."""
        graph, tensors = self.build.graph, tensors_in(results)
        refuse_in_graph(call.kernel, graph)
        if not tensors:
            return None
        operands = values_in([self._value(argument) for argument in arguments])
        operands = [value for value in operands if value.number not in self.empty_values]
        types = [spec_of(tensor).type for tensor in tensors]
        outputs = graph.apply_to_all(CustomCall(call, tuple(types)), operands)
        if isinstance(results, Tensor):
            return outputs[0]
        output_values = iter(outputs)
        parts = [next(output_values) if isinstance(part, Tensor) else None for part in results]
        return parts if is_functional or len(parts) > 1 else parts[0]

    def _as_inputs(self, node: fx.Node) -> Any:
        """The results of a node as new inputs."""
        value = node.meta.get("val")
        if isinstance(value, list | tuple):
            return [
                self._add_input(node, part) if isinstance(part, Tensor) else part for part in value
            ]
        return self._add_input(node, value) if isinstance(value, Tensor) else value

    def _add_input(self, node: fx.Node, tensor: Tensor) -> Value | None:
        position, spec = len(self.build.graph.inputs), spec_of(tensor)
        try:
            value = spec.enter(self.build)
        except Unlowered as error:
            self.missing.append(error.reason)
            return None
        number = self.build.graph.inputs[position].number
        self.names[number], self.specs[number] = node.name, spec
        return value

    def _value(self, argument: Any) -> Any:
        if isinstance(argument, fx.Node):
            return self._values[argument]
        if isinstance(argument, list | tuple):
            return [self._value(part) for part in argument]
        return int(argument) if isinstance(argument, torch.SymInt) else argument


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise Unlowered("there is no lowering of it")


def _reads_indices(node: fx.Node) -> bool:
    """True if a result other than the first is read; a traced part without users does not count."""
    return any(
        user.target is not operator.getitem or (user.args[1] and user.users) for user in node.users
    )


class KernelTarget:
    """The target of a node that is a kernel's call, whose results include what it writes."""

    def __init__(self, call: KernelCall) -> None:
        self.call = call
        self.__name__ = call.operation

    def __call__(self, *_: Any) -> NoReturn:
        """Raise NotImplementedError: the node is never run."""
        raise NotImplementedError(self.call.name)


def _called_kernel(node: fx.Node, name: str) -> tuple[KernelCall | None, list[Any], bool]:
    """The NKI kernel that a node calls, its tensors, and true if PyTorch made it functional.

    PyTorch calls an operator that writes to arguments on copies of them, and returns the copies.
    """
    if isinstance(node.target, KernelTarget):
        return node.target.call, list(node.args), True
    if name != _FUNCTIONALIZING_OPERATOR:
        return kernel_call(name), list(node.args), False
    kernel_operator: Any = node.args[0]
    return kernel_call(kernel_operator.name()), list(node.kwargs.values()), True
