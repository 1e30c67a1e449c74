"""The graph of a whole pass on one rank: the parts of `passes`, joined.

A part reads results of earlier parts by name: the hidden state, cosines, another tower's output.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from trnsim.errors import NotModelled
from trnsim.graph import Graph, Node, Value
from trnsim.graph.building.gradient import gradients
from trnsim.graph.ops.collectives import AllReduce
from trnsim.graph.origin import Origin
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import WHOLE, Pass, Phase, Split
from trnsim.workload.passes import towers
from trnsim.workload.rank_graph import RankGraph

_PRECEDING_NORMS: Final = ("before", "around")
"""Positions of norms (`Wiring.norm_position`) before the products that ranks split."""
_INPUT_NAMES: Final = ("words", "places", "kinds", "mask", "labels")
"""Names of the inputs of a pass, in order."""


@dataclass(frozen=True)
class WholeGraph:
    """A graph, with the roles of its inputs.

    Attributes:
        weights: the numbers of its inputs that are the same at every step.
        names: the names of its inputs, by number.
        operators: its operators, in order.
        missing: always empty, as every operator is known.
        calls: always empty, as no framework called the operators.
        origins: always empty.
    """

    graph: Graph
    weights: frozenset[int]
    names: dict[int, str]
    operators: tuple[str, ...]
    missing: tuple[str, ...] = ()
    calls: tuple[Any, ...] = ()
    origins: dict[int, Any] = field(default_factory=dict[int, Any])


def is_known(model: Architecture) -> bool:
    """True if the wiring of all towers is known."""
    return all(tower.wiring is not None for tower in model.towers)


def whole_graph(model: Architecture, model_pass: Pass, split: Split = WHOLE) -> WholeGraph:
    """The graph of a pass, with logits or the hidden state, and keys and values for the cache.

    In training, its outputs are the loss and its gradients.

    Raises:
        NotModelled: if only sizes of the model are known, if ranks do not share its tables, or if a
            gradient has no rule.
    """
    if not is_known(model):
        raise NotModelled(f"the graph of {model.model_type}: only its sizes are known")
    if split.tensor > 1 and any(tower.input_projections for tower in model.towers):
        raise NotModelled(f"{split.tensor} tensor ranks of {model.model_type}, whose table is cut")
    joined = _JoinedGraph()
    for tower in towers(model, model_pass, split):
        order = tower.tower.order
        kinds = [tower.layer(layer) for layer in tower.tower.layers]
        joined.add(tower.embedding(), tower.name, tower.name, outer_module="embedding")
        for number, kind in enumerate(order):
            owner = order.index(kind) if tower.tower.layers[kind].is_shared else number
            joined.add(kinds[kind], *(f"{tower.name}layers.{place}." for place in (number, owner)))
        joined.add(tower.head(), tower.name, tower.name, outer_module="head")
        joined.named_values["source"] = joined.named_values["hidden"]
    if model_pass.phase is Phase.TRAIN:
        return _training_graph(model, joined, split)
    return joined.result(
        [joined.named_values.get("scores") or joined.named_values["hidden"], *joined.outputs]
    )


def _training_graph(model: Architecture, joined: _JoinedGraph, split: Split) -> WholeGraph:
    """The loss, and its gradient by every parameter."""
    loss, ranks = joined.named_values.get("loss"), split.tensor
    are_norms_replicated = all(
        tower.wiring and tower.wiring.norm_position in _PRECEDING_NORMS for tower in model.towers
    )
    if loss is None or (ranks > 1 and not are_norms_replicated):
        raise NotModelled(f"a step of {model.model_type} over {ranks} tensor ranks")
    exchange = AllReduce((tuple(range(ranks)),))
    exchanges_by_value = dict.fromkeys(joined.replicated if ranks > 1 else (), exchange)
    parameters = [value for value in joined.graph.inputs if value.number in joined.trained]
    return joined.result([loss, *gradients(joined.graph, loss, parameters, exchanges_by_value)])


class _JoinedGraph:
    """A graph under construction, to which parts are appended.

    Attributes:
        named_values: by name, such as "hidden", the newest value that later parts read.
    """

    def __init__(self) -> None:
        self.graph = Graph()
        self.named_values: dict[str, Value] = {}
        self.weights_by_path: dict[str, Value] = {}
        self.outputs: list[Value] = []
        self.names: dict[int, str] = {}
        self.weights: set[int] = set()
        self.trained: set[int] = set()
        self.replicated: set[int] = set()
        self.operators: list[str] = []

    def add(
        self, rank_graph: RankGraph, path: str, weights_path: str, outer_module: str = ""
    ) -> None:
        """Append a part at a path of modules; its weights are at `weights_path`.

        `outer_module` is the module of operations whose origin names none.
        """
        values = self._inputs(rank_graph, weights_path)
        last_origin: Origin | None = None
        for node in rank_graph.graph.nodes:
            if node.origin != last_origin and node.origin is not None:
                last_origin = node.origin
                self.operators.append(last_origin.operator)
            self._append(node, values, path, outer_module)
        self.named_values |= {
            name: values[value.number] for name, value in rank_graph.named_outputs.items()
        }
        self.replicated |= {values[number].number for number in rank_graph.replicated}
        self.outputs += [values[value.number] for value in rank_graph.graph.outputs]

    def _inputs(self, rank_graph: RankGraph, path: str) -> dict[int, Value]:
        """The inputs of a part as values of the joined graph."""
        input_names = {value.number: name for name, value in rank_graph.named_inputs.items()}
        values: dict[int, Value] = {}
        for value in rank_graph.graph.inputs:
            parameter_name = rank_graph.names.get(value.number, "")
            name = input_names.get(value.number, "")
            earlier_value = self.named_values.get(name) or self.weights_by_path.get(
                f"{path}{parameter_name}" if parameter_name else ""
            )
            if earlier_value is not None:
                values[value.number] = earlier_value
                continue
            joined_input = self.graph.input(value.shape, value.dtype)
            values[value.number] = joined_input
            if name:
                self.named_values[name] = joined_input
            self.names[joined_input.number] = name or (
                f"{path}{parameter_name}" if parameter_name else ""
            )
            if parameter_name:
                self.weights_by_path[f"{path}{parameter_name}"] = joined_input
            is_weight = value.number in rank_graph.weights or value.number in rank_graph.names
            if is_weight or (name and name not in _INPUT_NAMES):
                self.weights.add(joined_input.number)
            if value.number in rank_graph.weights:
                self.trained.add(joined_input.number)
            if value.number in rank_graph.cache_inputs:
                self.names[joined_input.number] = f"{path}cache"
        return values

    def _append(self, node: Node, values: dict[int, Value], path: str, outer_module: str) -> None:
        operands = [o if isinstance(o, float | int) else values[o.number] for o in node.operands]
        results = tuple(self.graph.fresh(value.type) for value in node.results)
        values.update(zip((value.number for value in node.results), results, strict=True))
        origin = node.origin
        if origin is not None:
            module = f"{path}{origin.module.replace(' ', '_') or outer_module}"
            origin = Origin(module, origin.operator)
        copy = replace(node, operands=tuple(operands), results=results, origin=origin)
        self.graph.append(copy)

    def result(self, outputs: list[Value]) -> WholeGraph:
        """The graph of these outputs, pruned."""
        graph = self.graph
        graph.outputs = outputs
        graph.prune()
        read_numbers = {value.number for node in graph.nodes for value in node.values}
        graph.inputs = [value for value in graph.inputs if value.number in read_numbers]
        names = {value.number: self.names[value.number] for value in graph.inputs}
        weights = frozenset(value.number for value in graph.inputs) & self.weights
        return WholeGraph(graph, weights, names, tuple(self.operators))
