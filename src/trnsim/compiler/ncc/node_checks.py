"""Checks of a graph's nodes for operations that neuronx-cc refuses.

A node that came from a framework's call is checked here for its types and for the places that it
reads; other properties of the call are checked in `call_checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from trnsim.arch import has_dtype
from trnsim.compiler.ncc.calls import CompileTarget
from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.graph import reference_of
from trnsim.graph.ops.bits import ShiftRightArithmetic
from trnsim.graph.ops.collectives import AllReduce, ReduceScatter
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.ops.leaves import Constant, Iota
from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.graph.ops.reductions import ReduceWindow, TopK
from trnsim.graph.types import Array
from trnsim.lower.control import inner_graphs

_WIDE_INTEGERS: Final = ("int32", "uint32")
_SHORT_INTEGERS: Final = ("int16", "int8", "uint8", "bool")
_E4M3FN_CODE: Final = "NCC_EVRF051"
"""The code of tensors of float8_e4m3fn, which is reported once for a graph."""
_E4M3FN: Final = "float8_e4m3fn"
_UNCOMPUTED_KINDS: Final = (Kind.CONTROL, Kind.COLLECTIVE, Kind.CALL, Kind.CONTRACTION)
"""Kinds of operations whose results a check does not compute."""
_PLACES_MAX: Final = 1 << 18
"""Maximum number of elements of an index tensor whose values are computed for a check of bounds."""


def node_refusals(
    graph: Graph, target: CompileTarget, call_results: frozenset[int]
) -> Iterator[tuple[str, str, int]]:
    """For each refused node: the code, a description, and the number of its result.

    `call_results` are numbers of values that came from a framework's call. Graphs that a node runs
    are checked, too.
    """
    places, is_e4m3fn_reported = _CountedIndices(), False
    for node in graph.nodes:
        number = node.result.number
        for code, check in (
            _CHECKS_OF_ANY_NODE if number in call_results else _CHECKS_OF_OTHER_NODES
        ).items():
            if check(node, target) and not (code == _E4M3FN_CODE and is_e4m3fn_reported):
                is_e4m3fn_reported = is_e4m3fn_reported or code == _E4M3FN_CODE
                yield code, _text(node), number
        for code, reach in places.past_the_end(node):
            yield code, f"{_text(node)}: {reach}", number
        for branch in inner_graphs(node.operation):
            for code, node_text, _ in node_refusals(branch, target, frozenset()):
                yield code, f"{node_text}, in {node.name}", number


def _text(node: Node) -> str:
    """A node and its operands' types as text."""
    return f"{node.name} of {', '.join(map(str, node.operand_types)) or node.result.type}"


def _has_gaps_and_dilations(node: Node, _: CompileTarget) -> bool:
    op = node.operation
    return (
        isinstance(op, Convolution)
        and max(op.gaps, default=0) > 0
        and _has_step_above_one(op.dilations)
    )


def _has_gaps_and_strides(node: Node, _: CompileTarget) -> bool:
    op = node.operation
    return (
        isinstance(op, Convolution)
        and max(op.gaps, default=0) > 0
        and _has_step_above_one(op.strides)
    )


def _has_step_above_one(steps: tuple[int, ...]) -> bool:
    return max(steps, default=1) > 1


def _is_topk_of_integers(node: Node, _: CompileTarget) -> bool:
    return isinstance(node.operation, TopK) and node.operand_types[0].dtype in _WIDE_INTEGERS


def _has_dilated_windows(node: Node, _: CompileTarget) -> bool:
    return isinstance(node.operation, ReduceWindow) and _has_step_above_one(
        node.operation.dilations
    )


def _shifts_short(node: Node, _: CompileTarget) -> bool:
    return (
        isinstance(node.operation, ShiftRightArithmetic)
        and node.operand_types[0].dtype in _SHORT_INTEGERS
    )


def _combining_scatter_check(dtypes: tuple[str, ...]) -> Callable[[Node, CompileTarget], bool]:
    """A check for scatters that combine elements of one of these types."""

    def check(node: Node, target: CompileTarget) -> bool:
        is_permitted = (
            dtypes is _WIDE_INTEGERS and "scatter" in target.flags.implicit_integer_downcast
        )
        op = node.operation
        is_combining = isinstance(op, Scatter) and op.op != "assign"
        return is_combining and not is_permitted and node.result.dtype in dtypes

    return check


def _integer_exchange_check(kind: Any, flag: str) -> Callable[[Node, CompileTarget], bool]:
    """A check for exchanges of wide integers between ranks that no flag permits."""

    def check(node: Node, target: CompileTarget) -> bool:
        is_permitted = flag in target.flags.implicit_integer_downcast
        is_reduction = isinstance(node.operation, kind)
        return is_reduction and not is_permitted and node.operand_types[0].dtype in _WIDE_INTEGERS

    return check


def _is_of_e4m3fn(node: Node, target: CompileTarget) -> bool:
    """True if a node reads or makes a float8_e4m3fn tensor that the chip does not have."""
    if has_dtype(_E4M3FN)(target.chip.core) or target.flags.fp8_e4m3fn_as_e4m3:
        return False
    return any(value.dtype == _E4M3FN for value in (*node.values, *node.results))


_CHECKS_OF_ANY_NODE: Final[dict[str, Callable[[Node, CompileTarget], bool]]] = {
    _E4M3FN_CODE: _is_of_e4m3fn,
}
_CHECKS_OF_OTHER_NODES: Final[dict[str, Callable[[Node, CompileTarget], bool]]] = {
    **_CHECKS_OF_ANY_NODE,
    "NCC_EVRF010": _has_gaps_and_dilations,
    "NCC_EVRF011": _has_gaps_and_strides,
    "NCC_EVRF013": _is_topk_of_integers,
    "NCC_EVRF016": _combining_scatter_check(_SHORT_INTEGERS),
    "NCC_EVRF018": _has_dilated_windows,
    "NCC_EVRF022": _shifts_short,
    "NCC_EVRF060": _combining_scatter_check(_WIDE_INTEGERS),
    "NCC_EVRF061": _integer_exchange_check(AllReduce, "all_reduce"),
    "NCC_EVRF063": _integer_exchange_check(ReduceScatter, "reduce_scatter"),
}


class _CountedIndices:
    """Small index tensors of a graph that are computed from iotas and constants alone."""

    def __init__(self) -> None:
        self._producers: dict[int, Node] = {}
        """The node that computes each such value, by the value's number."""
        self._counted: set[int] = set()
        """Numbers of those values that depend on an iota."""
        self._arrays: dict[int, Array] = {}

    def past_the_end(self, node: Node) -> Iterator[tuple[str, str]]:
        """The error's code and the highest index, for each counted index beyond a tensor's end."""
        self._record(node)
        op = node.operation
        if not isinstance(op, Gather | Scatter) or node.values[1].number not in self._counted:
            return
        places = self._elements(node.values[1])
        if not places.size:
            return
        is_gather = isinstance(op, Gather)
        shape = node.operand_types[0].shape if is_gather else node.result.shape
        vectors = places[..., None] if op.index_vector_dim == places.ndim else places
        for place, dim in enumerate(op.start_index_map):
            highest = int(vectors.take(place, op.index_vector_dim).max())
            if highest >= shape[dim]:
                code = "NCC_EVRF056" if is_gather else "NCC_EVRF031"
                yield code, f"places to {highest} in a length of {shape[dim]}"

    def _record(self, node: Node) -> None:
        """Record a node whose operands are computed from iotas and constants alone."""
        op = node.operation
        is_leaf = isinstance(op, Iota | Constant)
        if node.kind in _UNCOMPUTED_KINDS or node.result.type.elements > _PLACES_MAX:
            return
        if is_leaf or (node.values and all(v.number in self._producers for v in node.values)):
            self._producers.update({value.number: node for value in node.results})
            if isinstance(op, Iota) or any(v.number in self._counted for v in node.values):
                self._counted |= {value.number for value in node.results}

    def _elements(self, value: Value) -> Array:
        """The elements of a recorded value."""
        waiting, arrays = [value], self._arrays
        while waiting:
            node = self._producers[waiting[-1].number]
            missing = [operand for operand in node.values if operand.number not in arrays]
            if missing:
                waiting += missing
            elif waiting.pop().number not in arrays:
                operands = [arrays[o.number] if isinstance(o, Value) else o for o in node.operands]
                results = zip(node.results, reference_of(node, operands), strict=True)
                arrays.update((result.number, array) for result, array in results)
        return arrays[value.number]
