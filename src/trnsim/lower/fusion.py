"""Fusion: nodes that run together as one kernel, chains of elementwise nodes and reductions.

A fused kernel walks one iteration space: rows, which are independent, times columns, over which its
reductions run. Each element crosses from HBM once and back once, however long the chain.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.ops.layout import BroadcastInDim, Slice
from trnsim.graph.ops.leaves import Constant
from trnsim.graph.ops.reductions import Reduce
from trnsim.graph.types import Shape
from trnsim.lower.legal.emptiness import gives_nothing

_MOST_FUSED_NODES = 48
"""Maximum number of nodes of a fused kernel."""


@dataclass
class FusionGroup:
    """Nodes that become one kernel.

    Attributes:
        nodes: the nodes, each after its operands.
        shape: lengths of the iteration space of a fused kernel; empty if it is not fused.
        column_dims: number of the last dimensions over which reductions run; 0 without reductions.
        outputs: the values that other groups or the caller read.
        is_fused: True if further nodes can join; False for an operation with a kernel of its own.
    """

    nodes: list[Node]
    shape: Shape = ()
    column_dims: int = 0
    outputs: list[Value] = field(default_factory=list[Value])
    is_fused: bool = False

    @property
    def name(self) -> str:
        """The operations' names, joined."""
        names = dict.fromkeys(node.name for node in self.nodes if node.kind is not Kind.VIEW)
        return "+".join(names) or self.nodes[-1].name

    @property
    def inputs(self) -> list[Value]:
        """The values that the group reads and does not compute, in order of first use."""
        read = {value.number: value for node in self.nodes for value in node.values}
        results = self.results
        return [value for number, value in read.items() if number not in results]

    @property
    def results(self) -> set[int]:
        """The numbers of the values that its nodes compute."""
        return {value.number for node in self.nodes for value in node.results}


def fusion_groups(graph: Graph) -> list[FusionGroup]:
    """The graph's nodes in groups, in an order in which each group can run.

    An operation joins a group only if all it reads comes from that group or from earlier ones, so
    running them in order is always right. Reshapes move nothing and belong to no group, and so do
    nodes whose results have no elements.
    """
    groups: list[FusionGroup] = []
    earliest_readers: dict[int, int] = {}  # index of the first group that may read a value
    leaves: dict[int, Node] = {}
    output_numbers = {value.number for value in graph.outputs}
    for node in graph.nodes:
        if gives_nothing(node):
            continue
        if _is_recomputed(node, leaves) and node.result.number not in output_numbers:
            leaves[node.result.number] = node
            # A slice reads HBM, so the group of its operand must have ended.
            first_reader = max(
                (earliest_readers.get(value.number, -1) + 1 for value in node.values), default=-1
            )
            earliest_readers[node.result.number] = first_reader
            continue
        for value in _values_needed_in_hbm(node, leaves):
            earliest_readers[value.number] = len(groups)
            groups.append(single_node_group(leaves.pop(value.number)))
        first_group = max(
            (earliest_readers.get(value.number, -1) for value in node.values), default=-1
        )
        if node.kind is Kind.ALIAS:
            # Its readers read HBM, so its group must have ended.
            earliest_readers[node.result.number] = first_group + 1
            continue
        index = _group_index(node, groups, first_group)
        if index == len(groups):
            groups.append(single_node_group(node))
        earliest_readers.update({value.number: index for value in node.results})
        _add_leaves(leaves, node, groups[index])
    _mark_outputs(graph, groups)
    return groups


def _is_recomputed(node: Node, leaves: dict[int, Node]) -> bool:
    """True for leaves and slices of HBM, which each group that reads them computes again."""
    return node.kind is Kind.LEAF or (
        isinstance(node.operation, Slice) and node.values[0].number not in leaves
    )


def _values_needed_in_hbm(node: Node, leaves: dict[int, Node]) -> list[Value]:
    """The operands of `node` that must be written to HBM for it."""
    read = [value for value in dict.fromkeys(node.values) if value.number in leaves]
    if not single_node_group(node).is_fused:
        return read
    # A fused group computes its leaves and slices itself, with two exceptions: a slice of another
    # shape than the iteration space, and an iota or random tensor that a broadcast repeats.
    return [
        value
        for value in read
        if (isinstance(leaves[value.number].operation, Slice) and value.shape != node.result.shape)
        or (node.kind is Kind.VIEW and not isinstance(leaves[value.number].operation, Constant))
    ]


def _group_index(node: Node, groups: list[FusionGroup], earliest: int) -> int:
    """The index of the group that `node` joins: the newest, its operands' group, or a new one.

    A broadcast joins only the newest group: an older one would write all copies to HBM.
    """
    last_index = len(groups) - 1
    for index in dict.fromkeys((last_index, last_index if _is_broadcast(node) else earliest)):
        if max(earliest, 0) <= index < len(groups) and _try_join(node, groups[index]):
            return index
    return len(groups)


def _add_leaves(leaves: dict[int, Node], node: Node, group: FusionGroup) -> None:
    """Add the leaves and slices that `node` reads to its group, which computes them again."""
    results = group.results
    for value in node.values:
        if value.number in leaves and value.number not in results:
            group.nodes.insert(0, leaves[value.number])
            results.add(value.number)


def single_node_group(node: Node) -> FusionGroup:
    """A group of one node."""
    if node.kind in (Kind.ELEMENTWISE, Kind.LEAF) or _is_broadcast(node):
        return FusionGroup([node], node.result.shape, is_fused=True)
    if _trailing_dims(node):
        return FusionGroup([node], node.values[0].shape, _trailing_dims(node), is_fused=True)
    return FusionGroup([node])


def _is_broadcast(node: Node) -> bool:
    """True if a node is a broadcast, which a kernel computes on the chip."""
    return isinstance(node.operation, BroadcastInDim)


def _trailing_dims(node: Node) -> int:
    """The number of dimensions that a node reduces, if they are the last ones; else 0."""
    if not isinstance(node.operation, Reduce):
        return 0
    rank, dims = len(node.values[0].shape), node.operation.dims
    return len(dims) if dims == tuple(range(rank - len(dims), rank)) else 0


def _try_join(node: Node, group: FusionGroup) -> bool:
    """Add `node` to a fused group if its shape suits the group's space; True if it was added."""
    if not group.is_fused or len(group.nodes) >= _MOST_FUSED_NODES:
        return False
    rows = group.shape[: len(group.shape) - group.column_dims]
    if node.kind is Kind.REDUCTION:
        columns = _trailing_dims(node)
        is_suitable = (
            node.values[0].shape == group.shape and columns and group.column_dims in (0, columns)
        )
        if is_suitable:
            group.column_dims = columns
    elif _is_broadcast(node):
        is_suitable = node.result.shape == group.shape and _is_column(node, group, rows)
    else:
        is_suitable = node.kind is Kind.ELEMENTWISE and (
            node.result.shape == group.shape
            or (group.column_dims > 0 and node.result.shape == rows)
        )
    if is_suitable:
        group.nodes.append(node)
    return bool(is_suitable)


def _is_column(node: Node, group: FusionGroup, rows: Shape) -> bool:
    """True if a broadcast's operand is in HBM, or has one element for each row of the group."""
    (source,), view = node.values, node.operation
    if not isinstance(view, BroadcastInDim) or source.number not in group.results:
        return True
    is_kept = [dim == at for at, (dim, n) in enumerate(zip(view.dims, rows, strict=False)) if n > 1]
    return source.shape == rows and all(is_kept)


def _mark_outputs(graph: Graph, groups: list[FusionGroup]) -> None:
    """Set the outputs of each group, looking through reshapes."""
    origin: dict[int, int] = {}
    for node in graph.nodes:
        if node.kind is Kind.ALIAS:
            source = node.values[0].number
            origin[node.result.number] = origin.get(source, source)
    # A reshape of a group's own result is read from HBM like any other tensor.
    read = {value.number for value in graph.outputs}
    read |= {value.number for group in groups for value in group.inputs}
    read = {origin.get(number, number) for number in read}
    for group in groups:
        # A kernel with several results returns them all, read or not.
        group.outputs = [
            value
            for node in group.nodes
            for value in node.results
            if len(node.results) > 1 or value.number in read
        ]
