"""Emission of a graph as one program: which instructions each node issues, and where results lie.

Elementwise nodes and products are deferred until their result is needed. Then they are computed
together, span by span, so that sums of products go from PSUM through the operations that follow.
Results stay in SBUF while there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.ops.layout import BroadcastInDim, Reinterpret, Reshape
from trnsim.graph.ops.leaves import Constant
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.patterns import number_of
from trnsim.lower.emit.computing.gathering import is_deferred_gather
from trnsim.lower.emit.computing.packing import RowEvaluation
from trnsim.lower.emit.constants import Constants
from trnsim.lower.emit.deferred_nodes import DeferredNodes
from trnsim.lower.emit.graph_facts import GraphFacts
from trnsim.lower.emit.inputs import ProgramInputs, is_dense
from trnsim.lower.emit.naming import StretchNames
from trnsim.lower.emit.places import transposing
from trnsim.lower.emit.places.paths import apply_view, is_free, is_view
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm
from trnsim.lower.emit.residents import Residents
from trnsim.lower.exchanges import ExchangeIssuer
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.movement import concatenate, is_short, repeat_elements
from trnsim.lower.kernels.tiles import Tensor
from trnsim.lower.rules import EMITTERS, require_instructions

_MOST_CONVERTING_READERS: Final = 2
"""Most readers that each convert a float32 value in HBM; for more readers it is converted once."""


class Emission:
    """The emission of one graph: state shared by the rules that emit its nodes.

    Attributes:
        facts: producers, readers and preferred layouts of the graph's values.
        inputs: the caller's tensors.
        places: number of a value -> its places, one for each layout in which it lies.
        residents: the results that lie in SBUF.
        constants: the cache of constant tiles.
        deferred: nodes that are emitted together with their readers.
        names: the named stretches of instructions.
        loaded_moving: (key, place in SBUF) of the moving operand that a product loaded last; None
            before the first. The key has the value's number, its frame and the range of columns.
        links: the links to other ranks, if exchanges take their time in the program.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: ProgramInputs,
        resident_bytes: int,
        links: ExchangeIssuer | None = None,
    ) -> None:
        """An emission whose results may take `resident_bytes` of a partition of SBUF."""
        self.facts, self.inputs, self.links = GraphFacts(graph), inputs, links
        self.places: dict[int, list[TensorPlace]] = {}
        self.residents = Residents(self.facts, self.places, self.dense, resident_bytes)
        self.constants = Constants(inputs, resident_bytes)
        self.deferred = DeferredNodes(self.facts, self.places, self.materialize)
        self.names = StretchNames()
        self.loaded_moving: tuple[Any, TensorPlace] | None = None

    def run(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Issue all instructions, and return the outputs, dense in HBM."""
        for value, tensor in zip(self.facts.graph.inputs, inputs, strict=True):
            self.places[value.number] = [self.inputs.add(value, tensor)]
        for node in self.facts.graph.nodes:
            if node.results and node.results[0].number in self.facts.window_sums.inner:
                continue  # added up together
            if node.kind is Kind.ELEMENTWISE or is_free(node):
                self.deferred.add(node)
            elif not is_deferred_gather(self, node):
                self._emit(node)
        with self.names.stretch("results to HBM"):
            # Outputs that nodes read too are computed together with those nodes.
            outputs = sorted(
                self.facts.graph.outputs, key=lambda value: bool(self.facts.readers(value))
            )
            tensors = {value.number: self._output_tensor(value) for value in outputs}
            return tuple(tensors[value.number] for value in self.facts.graph.outputs)

    def _emit(self, node: Node) -> None:
        with self.names.stretch(node.name, node):
            if type(node.operation) not in EMITTERS:
                require_instructions(node)
            EMITTERS[type(node.operation)](self, node)

    def _output_tensor(self, value: Value) -> Tensor:
        tensor = self.dense(value)
        producer = self.facts.producers.get(value.number)
        is_computed = producer is not None and not isinstance(producer.operation, Reinterpret)
        shape = value.shape or (1,)  # a tensor in HBM has at least one dimension
        if is_computed and not self.inputs.is_input(tensor) and tuple(tensor.shape) == shape:
            return tensor
        out = tiles.output(value.shape, value.dtype)
        tiles.copy_run(out, 0, tensor, 0, value.type.elements)
        return out

    def materialize(self, value: Value) -> list[TensorPlace]:
        """All places of a value, those on the chip first; a pending value is computed now."""
        places = self.find_places(value)
        if places[0].is_pending:
            places = self._compute_pending(value)
        return sorted(places, key=lambda place: not place.is_on_chip)

    def _compute_pending(self, value: Value) -> list[TensorPlace]:
        """The places of a pending value, computed now; for a view the operand is computed."""
        node = self.facts.producers[value.number]
        (place,) = self.places.pop(value.number)
        if is_view(node) and node.values[0].number in self.places:
            self.materialize(node.values[0])
            return self.find_places(value)
        self.places[value.number] = [RowEvaluation(self, value, place).run()]
        return self.places[value.number]

    def add_place(self, value: Value, place: TensorPlace) -> None:
        """Record another place of a value, and if it is a reshape, of the operand too."""
        self.places.setdefault(value.number, []).append(place)
        self.residents.add(value, place)
        producer = self.facts.producers.get(value.number)
        if producer is not None and isinstance(producer.operation, Reshape):
            before = place.reshaped(producer.values[0].shape)
            if before is not None:
                self.add_place(producer.values[0], before)

    def convertible_places(self, value: Value) -> list[TensorPlace]:
        """The places of a value; if it is a weight's conversion, the places of the weight.

        The transfers that load the weight convert it.
        """
        node = self.facts.producers.get(value.number)
        is_new = node is not None and value.number not in self.places
        if node is not None and is_new and isinstance(node.operation, Convert):
            places = self.places.get(node.values[0].number, [])
            if value.type.is_floating and any(
                self.inputs.weight_of(place) is not None for place in places
            ):
                return places
        return self.materialize(value)

    def unconverted_place(self, value: Value) -> TensorPlace | None:
        """The place in HBM of a conversion's operand, if each reader converts it; else None."""
        node = self.facts.producers.get(value.number)
        if node is None or value.number in self.places or not isinstance(node.operation, Convert):
            return None
        (source,) = node.values
        # The source is computed together with its conversion, and has no place of its own.
        is_fused = source.number not in self.places and self.facts.uses.get(source.number, 0) <= 1
        is_widely_read = self.facts.uses.get(value.number, 0) > _MOST_CONVERTING_READERS
        if is_fused or is_widely_read or not source.type.is_floating:
            return None
        places = self.find_places(source)
        return None if places[0].is_pending or places[0].is_on_chip else places[0]

    def find_places(self, value: Value) -> list[TensorPlace]:
        """All places of a value, which may be pending."""
        if value.number not in self.places:
            node = self.facts.producers[value.number]
            if value.number in self.deferred.concatenations:
                self.run_kernel(concatenate, node)
            elif isinstance(node.operation, Constant):
                self.places[value.number] = [in_hbm(self._constant_tensor(value), value.shape)]
            elif node.kind is Kind.LEAF:
                self.places[value.number] = [RowEvaluation(self, value).run_to_hbm()]
            elif value.number in self.facts.window_sums.parts:
                self._emit(self.facts.window_sums.parts[value.number][0])
            elif self._is_left_alone(value):
                self._emit(node)
            elif is_view(node):
                self.places[value.number] = self._view_places(node)
            else:
                self.places[value.number] = [RowEvaluation(self, value).run()]
        return self.places[value.number]

    def _is_left_alone(self, value: Value) -> bool:
        """True if a reduction or a gather that was deferred is not computed by its reader."""
        is_reduction = self.deferred.reductions.pop(value.number, None) is not None
        return is_reduction or value.number in self.facts.deferred_gathers

    def _view_places(self, node: Node) -> list[TensorPlace]:
        source = node.values[0]
        candidates = [apply_view(node, place) for place in self.find_places(source)]
        views = [candidate for candidate in candidates if candidate is not None]
        if not views:
            # No strides describe the view of this place; they do describe one of a dense tensor.
            dense = apply_view(node, in_hbm(self.dense(source), source.shape))
            views = [] if dense is None else [dense]
        return views

    def dense(self, value: Value) -> Tensor:
        """A value in HBM, its elements in row-major order."""
        for place in self.materialize(value):
            if place.is_contiguous:
                return place.storage
        (first, *_), node = self.materialize(value), self.facts.producers.get(value.number)
        if number_of(self.facts.producers, value) is not None:
            tensor = self._constant_tensor(value)
        elif node is not None and is_view(node):
            tensor = self._write_view(node, first)
        else:
            tensor = transposing.write_dense(first, value)
        self.places[value.number].append(in_hbm(tensor, value.shape))
        return tensor

    def _constant_tensor(self, value: Value) -> Tensor:
        """A tensor in HBM filled with the one number that a value has."""
        tensor = tiles.output(value.shape, value.dtype)
        tiles.fill(tensor, value.type.elements, number_of(self.facts.producers, value) or 0.0)
        return tensor

    def _write_view(self, node: Node, place: TensorPlace) -> Tensor:
        """The result of `node`, a view of the value at `place`, in HBM in row-major order."""
        (operand,), is_broadcast = node.values, isinstance(node.operation, BroadcastInDim)
        if is_broadcast or transposing.is_fragmented(place, node.result):
            place = apply_view(node, in_hbm(self.dense(operand), operand.shape)) or place
        if is_dense(place):
            return place.storage
        if is_broadcast:  # by runs, as strides of 0 would be element by element
            place = self._repeat_last_dims(node) or place
            if is_dense(place):
                return place.storage
            return RowEvaluation(self, node.result, place).run_to_hbm().storage
        return transposing.write_dense(place, node.result)

    def _repeat_last_dims(self, node: Node) -> TensorPlace | None:
        """The place of a broadcast that repeats short runs along its last dimensions; else None.

        The copies are made on the chip.
        """
        (operand,), operation = node.values, node.operation
        shape, dims = node.result.shape, getattr(operation, "dims", ())
        kept_dims = [dim for dim, n in zip(dims, operand.shape, strict=True) if n == shape[dim] > 1]
        first = kept_dims[-1] + 1 if kept_dims else 0
        copies = prod(shape[first:])
        if (
            kept_dims != sorted(kept_dims)
            or not kept_dims
            or copies == 1
            or not is_short(copies, node.result.type)
        ):
            return None
        tensor = repeat_elements(
            self.dense(operand), operand.type.elements, copies, node.result.dtype
        )
        last = range(first, len(shape))
        lengths = (*(shape[dim] for dim in kept_dims), *shape[first:])
        return in_hbm(tensor, lengths).repeated(shape, (*kept_dims, *last))

    def run_kernel(self, kernel: Callable[..., Any], node: Node) -> None:
        """Emit a node by a kernel from HBM to HBM."""
        output = kernel(node.operation, node, *(self.dense(value) for value in node.values))
        results = output if isinstance(output, tuple) else (output,)
        for value, tensor in zip(node.results, results, strict=True):
            self.places[value.number] = [in_hbm(tensor, value.shape)]
