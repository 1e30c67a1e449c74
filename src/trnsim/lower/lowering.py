"""Graphs as kernels: which kernel an operation becomes, its values and its time.

The time of a group of operations is the timeline of its kernel, remembered by what it does and for
which chip. No operation has a time without a kernel: one that has none says so by name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from trnsim import arch
from trnsim.errors import NotModelled
from trnsim.graph.ir import CUSTOM_CALL, Graph, Node, Value
from trnsim.lower import cache
from trnsim.lower.fusion import Group, groups
from trnsim.lower.kernels.attention import attention, attention_backward, attention_flop
from trnsim.lower.kernels.fused import fused
from trnsim.lower.kernels.indexing import gather, gather_in_rows, scatter
from trnsim.lower.kernels.matmul import column_reduce, dot_general
from trnsim.lower.kernels.movement import concatenate, pad, slice_, transpose
from trnsim.lower.kernels.rows import scan, top_k
from trnsim.nki.kernel import Kernel
from trnsim.run import Run, run

Array = np.ndarray[Any, Any]

KERNELS: Final[Mapping[str, Callable[..., Any]]] = {
    "dot_general": dot_general,
    "attention": attention,
    "attention_backward": attention_backward,
    "reduce": column_reduce,
    "transpose": transpose,
    "concatenate": concatenate,
    "slice": slice_,
    "pad": pad,
    "gather": gather,
    "gather_in_rows": gather_in_rows,
    "scatter": scatter,
    "top_k": top_k,
    "scan": scan,
}
"""The kernel of each operation that is not fused with others."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a kernel takes on a chip.

    Attributes:
        name: the operations in words.
        device_time_s: from its first instruction to its last result, without the launch.
        launch_s: the fixed cost of starting it.
        instructions: how many it has.
        flop: multiplications and additions of its matrix products.
        hbm_bytes: what it must read and write.
    """

    name: str
    device_time_s: float
    launch_s: float
    instructions: int
    flop: float
    hbm_bytes: int


def evaluate(graph: Graph, inputs: Sequence[Array], target: str = "trn2") -> list[Array]:
    """The outputs of a graph, computed instruction by instruction."""
    known = {value.number: array for value, array in zip(graph.inputs, inputs, strict=True)}
    reshapes = {node.result.number: node for node in graph.nodes if node.name == "reshape"}

    def array_of(value: Value) -> Array:
        if value.number not in known:
            known[value.number] = array_of(reshapes[value.number].values[0])
        return known[value.number].reshape(value.shape)

    for group in groups(graph):
        found = launch(group, [array_of(value) for value in group.inputs], target).outputs
        made = found if isinstance(found, tuple) else (found,)
        known.update({v.number: a for v, a in zip(group.outputs, made, strict=True)})
    return [array_of(value) for value in graph.outputs]


def costs(graph: Graph, target: str = "trn2") -> tuple[Cost, ...]:
    """What each kernel of a graph takes, remembered by what the graph does.

    Raises:
        NotModelled: for an operation without a kernel, by name.
    """
    key = (graph.key(), target)
    if key not in _costs:
        if len(_costs) >= _REMEMBERED:  # its keys hold numbers, such as a learning rate
            _costs.clear()
        _costs[key] = tuple(_cost(group, target) for group in groups(graph))
    return _costs[key]


_REMEMBERED: Final = 1 << 14
_costs: dict[Hashable, tuple[Cost, ...]] = {}
_cost_of: dict[Hashable, Cost] = {}


def _cost(group: Group, target: str) -> Cost:
    if group.nodes[0].name == CUSTOM_CALL:
        found: Cost = group.nodes[0].attribute("call").outline(target).cost
        return found
    key = (_renumbered(group), target)
    if key not in _cost_of:
        stored = cache.read(key)
        _cost_of[key] = _measured(group, target) if stored is None else Cost(**stored)
        if stored is None:
            cache.write(key, asdict(_cost_of[key]))
    return _cost_of[key]


def _measured(group: Group, target: str) -> Cost:
    """The timeline of the group's kernel, run without values."""
    inputs = [np.empty(value.shape, value.type.numpy_dtype()) for value in group.inputs]
    timeline = launch(group, inputs, target, numerics=False).timeline
    touched = [*group.inputs, *group.outputs]
    return Cost(
        group.name,
        timeline.device_time_s,
        timeline.launch_s,
        len(timeline),
        sum(_flop(node) for node in group.nodes),
        sum(value.type.nbytes for value in touched),
    )


def _renumbered(group: Group) -> Hashable:
    """The group with its tensors numbered in order of appearance: what equal groups share."""
    order: dict[int, int] = {}

    def number(value: Value) -> tuple[int, Hashable]:
        return order.setdefault(value.number, len(order)), value.type

    nodes = tuple(
        (
            node.name,
            # A number's value changes no time, and an optimizer's differ from step to step.
            tuple(number(o) if isinstance(o, Value) else "number" for o in node.operands),
            tuple(number(value) for value in node.results),
            node.attributes,
        )
        for node in group.nodes
    )
    return nodes, tuple(number(value) for value in group.outputs)


def _flop(node: Node) -> float:
    if node.name == "dot_general":
        contracted: int = node.values[0].shape[node.attribute("contracting")[0]]
        return 2.0 * node.result.type.elements * contracted
    return attention_flop(node) if node.name.startswith("attention") else 0.0


def launch(group: Group, inputs: Sequence[Array], target: str, *, numerics: bool = True) -> Run:
    """The kernel of a group on its inputs.

    Raises:
        NotModelled: if its operation has none.
    """
    function = fused if group.is_fused else KERNELS.get(group.nodes[0].name)
    if function is None:
        raise NotModelled(
            f"{group.name} has no kernel yet; there are kernels for chains of elementwise "
            f"operations and reductions, {', '.join(KERNELS)}",
            fix="run it on the CPU, and send its result to the device",
        )

    def kernel(tensors: tuple[Any, ...]) -> Any:
        return function(list(tensors), group)

    kernel.__name__ = group.name
    arch.target(target)
    return run(Kernel(kernel, {}), tuple(inputs), target=target, numerics=numerics)
