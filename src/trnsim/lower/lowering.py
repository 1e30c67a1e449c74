"""Graphs as kernels: one program for each group of operations, its values and its time.

The time of a group is that of its program's timeline, cached by the group's structure and the chip.
An operation without instructions raises an error with its name, as it has no time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trnsim import disk_cache
from trnsim.errors import BadInput
from trnsim.graph import Graph, Kind, Node, Value, verify
from trnsim.graph.ops.calls import CustomCall
from trnsim.graph.rewriting import rewrite_graph
from trnsim.graph.types import BOOL, TensorType
from trnsim.lower import control
from trnsim.lower.bound import bound
from trnsim.lower.fusion import FusionGroup, fusion_groups
from trnsim.lower.kernels.integers import is_exact
from trnsim.lower.legalize import legalize
from trnsim.lower.patterns.contractions import SPLIT_CONTRACTION
from trnsim.lower.program import MIRRORED, trace
from trnsim.lower.rules import require_instructions
from trnsim.profile.measures.busy import busy_s
from trnsim.runs import Run, seldom_collected
from trnsim.timing.time_limit import TimeLimitExceededError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a kernel on a chip.

    Attributes:
        name: the operations in words.
        device_time_s: time from its first instruction to its last result, without the launch.
        launch_s: the fixed time to start it.
        flop: multiplications and additions of its matrix products.
        hbm_bytes: bytes of its inputs and outputs in HBM.
        busy_s: seconds in which each engine works, by the name of the engine; idle engines are
            left out.
    """

    name: str
    device_time_s: float
    launch_s: float
    instructions: int
    flop: float
    hbm_bytes: int
    busy_s: Mapping[str, float] = field(default_factory=dict[str, float], hash=False)


def evaluate(graph: Graph, inputs: Sequence[Array], target: str = "trn2") -> list[Array]:
    """The outputs of a graph, computed instruction by instruction.

    Raises:
        BadInput: where the inputs are not those that the graph takes.
        NotModelled: for an operation without a kernel, by name.
    """
    verify(graph)
    inputs = checked_inputs(graph, inputs)
    graph = legalize(graph)
    arrays = {value.number: array for value, array in zip(graph.inputs, inputs, strict=True)}
    aliases = {node.result.number: node for node in graph.nodes if node.kind is Kind.ALIAS}

    def array_of(value: Value) -> Array:
        if not value.type.elements:
            return np.empty(value.shape, value.type.numpy_dtype())
        if value.number not in arrays:
            source = value
            while source.number not in arrays:
                (source,) = aliases[source.number].values
            array = np.ascontiguousarray(arrays[source.number])
            arrays[value.number] = array.view(value.type.numpy_dtype())
        return arrays[value.number].reshape(value.shape)

    for group in fusion_groups(graph):
        results = _results_of(group, array_of, target)
        for value, array in zip(group.outputs, results, strict=True):
            arrays[value.number] = array.view(np.bool_) if value.dtype == BOOL else array
    return [array_of(value) for value in graph.outputs]


def checked_inputs(graph: Graph, inputs: Sequence[npt.ArrayLike]) -> list[Array]:
    """The inputs of a graph as arrays.

    Raises:
        BadInput: where they are not of the types that the graph takes.
    """
    arrays = [np.asarray(array) for array in inputs]
    input_types = [value.type for value in graph.inputs]
    types = [TensorType(array.shape, array.dtype.name) for array in arrays]
    # The chip stores a truth value as a byte, and the caller may give one so.
    fits = [
        {expected, replace(expected, dtype="uint8")} if expected.dtype == BOOL else {expected}
        for expected in input_types
    ]
    if len(types) != len(input_types) or any(a not in b for a, b in zip(types, fits, strict=True)):
        wanted_text, given_text = (", ".join(map(str, side)) for side in (input_types, types))
        raise BadInput(
            f"the inputs are ({given_text}); legal: ({wanted_text})",
            fix="give an array of that element type and shape for each input, in order",
        )
    return arrays


def _results_of(
    group: FusionGroup, array_of: Callable[[Value], Array], target: str
) -> Sequence[Array]:
    """The results of a group: by its kernel, the user's kernel, or the graphs that it runs."""
    (node, *_) = group.nodes
    if node.kind is Kind.CONTROL:
        operands = [array_of(value) for value in node.values]
        return control.run(node.operation, operands, partial(evaluate, target=target))
    if isinstance(node.operation, CustomCall):
        call: Any = node.operation.call
        values: list[Array] = call.values([array_of(value) for value in node.values], target)
        return values
    outputs = launch(group, [array_of(value) for value in group.inputs], target).outputs
    return outputs if isinstance(outputs, tuple) else (outputs,)


def costs(
    graph: Graph, target: str = "trn2", *, is_mirrored: bool = False, limit_s: float = inf
) -> tuple[Cost, ...]:
    """The cost of each kernel of a graph, cached by the graph's structure.

    With `is_mirrored`, the other core of a logical core runs the same kernels at the same time.
    The cost of several branches is that of the slowest, as the name of the cost says. A loop costs
    the trips that its operation states.

    Raises:
        NotModelled: for an operation without a kernel, by name, or a loop of unknown length.
        TimeLimitExceededError: the kernels take longer than `limit_s`, which was found before all
            of them were costed.
    """
    key = (graph.key(), target, is_mirrored)
    kernels = _graph_costs.get(key)
    if kernels is None:
        if (
            len(_graph_costs) >= _MOST_CACHED_COSTS
        ):  # its keys hold numbers, such as a learning rate
            _graph_costs.clear()
        verify(graph)
        groups = fusion_groups(legalize(graph))
        kernels = _graph_costs[key] = _costs_within(limit_s, groups, target, is_mirrored)
    return kernels


_MOST_CACHED_COSTS: Final = 1 << 14
"""Maximum number of graphs whose costs are kept."""
_ROUNDING: Final = 1e-9
"""Relative tolerance of a time limit, for the rounding of sums of times."""
_graph_costs: dict[Hashable, tuple[Cost, ...]] = {}
_group_costs: dict[Hashable, Cost] = {}


def _costs_within(
    limit_s: float, groups: Sequence[FusionGroup], target: str, is_mirrored: bool
) -> tuple[Cost, ...]:
    """The costs of groups, found by ascending lower bound, as a short kernel is costed soonest.

    Raises:
        TimeLimitExceededError: as `costs`.
    """
    if limit_s == inf:
        return tuple(_cost(group, target, is_mirrored) for group in groups)
    limit_s *= 1 + _ROUNDING
    least_s = [_least_s(group, target) for group in groups]
    total_s, cost_by_place = sum(least_s), dict[int, Cost]()
    for place in sorted(range(len(groups)), key=least_s.__getitem__):
        if total_s > limit_s:
            raise TimeLimitExceededError
        other_groups_s = total_s - least_s[place]
        cost_by_place[place] = _cost(groups[place], target, is_mirrored, limit_s - other_groups_s)
        total_s = other_groups_s + cost_by_place[place].device_time_s
    return tuple(cost_by_place[place] for place in range(len(groups)))


def _least_s(group: FusionGroup, target: str) -> float:
    """A lower bound of a group's time; 0 for control flow and for a user's kernel."""
    if group.nodes[0].kind in (Kind.CONTROL, Kind.CALL):
        return 0.0
    return bound(Graph(group.inputs, group.nodes, group.outputs), target).seconds


def _cost(group: FusionGroup, target: str, is_mirrored: bool, limit_s: float = inf) -> Cost:
    operation = group.nodes[0].operation
    if isinstance(operation, CustomCall):
        call: Any = operation.call
        cost: Cost = call.outline(target).cost
        return cost
    if operation.kind is Kind.CONTROL:
        return _control_cost(group, target)
    key = (_structural_key(group), target, is_mirrored)
    if key not in _group_costs:
        stored_cost = disk_cache.read(key, lambda values: Cost(**values))
        if stored_cost is None:
            stored_cost = _measure_within(limit_s, group, target, is_mirrored, key)
            disk_cache.write(key, asdict(stored_cost))
        _group_costs[key] = stored_cost
    return _group_costs[key]


def _measure_within(
    limit_s: float, group: FusionGroup, target: str, is_mirrored: bool, key: Hashable
) -> Cost:
    """The cost of a group; `key` is that of the group on disk.

    Raises:
        TimeLimitExceededError: it takes longer than `limit_s`, in this process or an earlier one.
    """
    exceeded_key = "exceeded", key
    if limit_s < inf:
        exceeded_s = disk_cache.read(exceeded_key, lambda values: float(values["seconds"]))
        if exceeded_s is not None and exceeded_s >= limit_s:
            raise TimeLimitExceededError
    try:
        return _measure(group, target, is_mirrored=is_mirrored, limit_s=limit_s)
    except TimeLimitExceededError:
        disk_cache.write(exceeded_key, {"seconds": limit_s})
        raise


def _control_cost(group: FusionGroup, target: str) -> Cost:
    """The cost of control flow: the sum over the kernels of the graphs that it runs.

    The host's reading of the value that decides takes no time here: no document gives one.
    """
    (node,) = group.nodes
    words, runs = control.graph_counts(node.operation, lambda graph: _total_s(costs(graph, target)))
    kernels = [(times, cost) for graph, times in runs for cost in costs(graph, target)]
    return Cost(
        f"{node.name} ({words})",
        sum(times * cost.device_time_s for times, cost in kernels),
        sum(times * cost.launch_s for times, cost in kernels),
        sum(times * cost.instructions for times, cost in kernels),
        sum(times * cost.flop for times, cost in kernels),
        sum(times * cost.hbm_bytes for times, cost in kernels),
        weighted_sum((times, cost.busy_s) for times, cost in kernels),
    )


def weighted_sum(parts: Iterable[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """The sum of tables of numbers by name, each times a factor."""
    total: dict[str, float] = {}
    for times, part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + times * value
    return total


def _total_s(kernels: Sequence[Cost]) -> float:
    return sum(cost.device_time_s + cost.launch_s for cost in kernels)


def _measure(group: FusionGroup, target: str, *, is_mirrored: bool, limit_s: float = inf) -> Cost:
    """The cost of a group, from the timeline of its kernel, which runs without values."""
    inputs = [np.empty(value.shape, value.type.numpy_dtype()) for value in group.inputs]
    values = [*group.inputs, *group.outputs]
    with seldom_collected():  # the timeline is made when it is asked for its time
        timeline = launch(
            group, inputs, target, numerics=False, is_mirrored=is_mirrored, limit_s=limit_s
        ).timeline
        return Cost(
            group.name,
            timeline.device_time_s,
            timeline.launch_s,
            len(timeline),
            sum(node.operation.flop(*node.operand_types) for node in group.nodes),
            sum(value.type.nbytes for value in values),
            busy_s(timeline),
        )


def _structural_key(group: FusionGroup) -> Hashable:
    """Structural key of a group: its nodes with tensors numbered by order of appearance."""
    order: dict[int, int] = {}

    def number(value: Value) -> tuple[int, Hashable]:
        return order.setdefault(value.number, len(order)), value.type

    nodes = tuple(
        (
            node.operation,
            # An optimizer's numbers differ from step to step and change no time. The exception is
            # a comparison of integers, whose instructions depend on the number's size.
            tuple(number(o) if isinstance(o, Value) else "number" for o in node.operands),
            tuple(number(value) for value in node.results),
            is_exact(node),
        )
        for node in group.nodes
    )
    return nodes, tuple(number(value) for value in group.outputs)


def launch(
    group: FusionGroup,
    inputs: Sequence[Array],
    target: str,
    *,
    numerics: bool = True,
    is_mirrored: bool = False,
    limit_s: float = inf,
) -> Run:
    """Run a group's program on its inputs; with `is_mirrored`, on both cores of a logical core.

    Raises:
        NotModelled: an operation of the group has no kernel.
        TimeLimitExceededError: the work of one engine alone takes longer than `limit_s`.
    """
    for node in group.nodes:
        require_instructions(node)
    graph = Graph(group.inputs, _widen_inner_values(group), group.outputs)
    if any(node.kind is Kind.CONTRACTION for node in group.nodes):
        graph = rewrite_graph(graph, [SPLIT_CONTRACTION])
    cores, weights = MIRRORED if is_mirrored else 1, frozenset[int]()
    return trace(
        graph,
        inputs,
        target,
        weights,
        numerics=numerics,
        lnc=cores,
        name=group.name,
        limit_s=limit_s,
    ).run


def _widen_inner_values(group: FusionGroup) -> list[Node]:
    """The nodes of a group; its inner values become float32, so that only outputs are rounded."""
    if len(group.nodes) == 1:
        return group.nodes
    output_numbers, widened_values = {value.number for value in group.outputs}, dict[int, Value]()

    def widen(value: Value | float) -> Value | float:
        """The float32 value in place of an inner value; another operand unchanged."""
        return widened_values.get(value.number, value) if isinstance(value, Value) else value

    nodes: list[Node] = []
    for node in group.nodes:
        result = node.results[0]
        is_widened = node.kind in (Kind.ELEMENTWISE, Kind.REDUCTION) or any(
            value.number in widened_values for value in node.values
        )
        if (
            is_widened
            and group.is_fused
            and result.type.is_floating
            and result.number not in output_numbers
        ):
            widened_values[result.number] = Value(
                result.number, TensorType(result.shape, "float32")
            )
        operands = tuple(widen(operand) for operand in node.operands)
        results = tuple(widened_values.get(value.number, value) for value in node.results)
        nodes.append(replace(node, operands=operands, results=results))
    return nodes
