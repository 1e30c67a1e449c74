"""A pass of an architecture as graphs: what one rank of a layer's ranks computes.

Heads that the ranks do not divide are made up with unused ones, and keys and values are copied
where there are more ranks than their heads, as NxD Inference does (aws-neuron-sdk,
libraries/nxd-inference/developer_guides/feature-guide.rst). Columns, vocabularies and experts that
they do not divide are made up likewise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trnsim.errors import BadInput
from trnsim.graph import TensorType
from trnsim.workload.attending import attention
from trnsim.workload.feeding import Feeding
from trnsim.workload.operators import WHOLE, Axis, Pass, Phase, Split
from trnsim.workload.rank_graph import RankGraph, Use
from trnsim.workload.summary import Summary, summarized

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.graph import Value
    from trnsim.workload.architecture import Architecture, Layer, Matrix, Tower

_LOSS_EXCHANGES = 3
"""A word's largest score, the sum of exponentials and the label's score, in float32.

Source: Megatron-LM (arXiv:1909.08053), section 3: scores are not gathered.
"""


def summaries(model: Architecture, given: Pass, split: Split = WHOLE) -> tuple[Summary, ...]:
    """What one rank computes and holds in one forward pass, in the order of its parts.

    Towers before the last one take part in all phases but decode.
    """
    return tuple(
        summarized(part.rank, part.name, part.times, part.copies)
        for part in parts(model, given, split)
    )


@dataclass(frozen=True)
class Part:
    """Equal layers of a model, or what is before or behind them.

    Attributes:
        name: "layer", "embedding", "head".
        times: how many there are.
        rank: the graph of one.
        copies: how many have weights of their own.
    """

    name: str
    times: int
    rank: RankGraph
    copies: int = 1


def parts(model: Architecture, given: Pass, split: Split = WHOLE) -> Iterator[Part]:
    """The graphs of one forward pass."""
    for tower, own in passes(model, given):
        builder = _Tower(model, tower, own, split)
        yield Part("embedding", 1, builder.embedding())
        for layer in tower.layers:
            yield Part("layer", layer.times, builder.layer(layer), layer.copies)
        yield Part("head", 1, builder.head())


def passes(model: Architecture, given: Pass) -> Iterator[tuple[Tower, Pass]]:
    """Each tower with what goes through it.

    Raises:
        BadInput: an image of other sides than a tower of images has places for.
    """
    *earlier, last = model.towers
    for tower in model.towers:
        if given.image and tower.image not in (0, given.image):
            raise BadInput(
                f"an image of {given.image} pixels a side for {model.name}; legal: {tower.image}",
                fix="change image_size in the configuration",
            )
    for tower in earlier if given.phase is not Phase.DECODE else ():
        phase = Phase.TRAIN if given.phase is Phase.TRAIN else Phase.ENCODE
        tokens = tower.tokens or given.source or given.tokens
        yield tower, Pass(phase, given.batch, tokens)
    source = given.source or (earlier[-1].tokens if earlier else 0) or given.tokens
    yield last, replace(given, tokens=last.tokens or given.tokens, source=source)


class _Tower:
    """One rank's part of a tower in a pass.

    Attributes:
        rows: tokens of all sequences that the rank has.
        spread: those of them that its norms have, where tensor ranks share these.
    """

    def __init__(self, model: Architecture, tower: Tower, given: Pass, split: Split) -> None:
        self.model, self.tower, self.given, self.split = model, tower, given, split
        shared = 1 if given.phase is Phase.DECODE else split.context
        self.rows = given.batch * math.ceil(given.tokens / shared)
        self.spread = math.ceil(self.rows / (split.tensor if split.is_sequence else 1))

    def _rank(self) -> RankGraph:
        return RankGraph(self.model.other_bits)

    def embedding(self) -> RankGraph:
        """Tokens looked up, or patches multiplied, and places added."""
        rank, tower, tensor = self._rank(), self.tower, self.split.tensor
        bits = self.model.other_bits
        width = math.ceil((tower.width if tower.looked_up else tower.hidden) / tensor)
        x = rank.input(self.rows, width)
        for matrix in tower.before:
            x = self._outside(rank, matrix, x)
        use = Use.LOOKED_UP if tower.looked_up else Use.WHOLE
        if tower.looked_up:
            is_held = not tower.is_table_shared
            table = rank.weight((tower.looked_up, width), bits, use=use, is_held=is_held)
            rank.operator("lookup")
            x = rank.graph.gather(table, rank.graph.input((self.rows,), "int32"))
        else:
            x = rank.added("places", rank.fitted(x, self.rows, width), rank.input(self.rows, width))
        for elements in (tower.positions * tower.hidden, tower.extra):
            if elements:
                rank.weight((elements,), bits, use=use)
        if tensor > 1 and (tower.looked_up or tower.before):
            x = rank.exchange("all_gather", rank.fitted(x, self.rows, width), Axis.TENSOR, tensor)
        return rank

    def head(self) -> RankGraph:
        """The last norm, products behind the layers, and the one that gives scores."""
        rank, tower, model = self._rank(), self.tower, self.model
        hidden = rank.norm(rank.input(self.rows, tower.hidden))
        rank.others(tower.final, model.other_bits)
        for matrix in tower.behind:
            self._outside(rank, matrix, hidden)
        if tower.outputs:
            self._scores(rank, hidden)
        return rank

    def _scores(self, rank: RankGraph, hidden: Value) -> None:
        """Scores of words, of which each tensor rank has some, and their exchange."""
        tower, split = self.tower, self.split
        is_training = self.given.phase is Phase.TRAIN
        if is_training and split.is_sequence and split.tensor > 1:
            part = rank.fitted(hidden, self.spread, tower.hidden)
            rank.exchange("all_gather", part, Axis.TENSOR, split.tensor)
        rows = self.given.batch if self.given.phase is Phase.PREFILL else self.rows
        bits = self.model.other_bits
        columns = math.ceil(tower.outputs / split.tensor)
        words = rank.weight((tower.width, columns), bits, is_held=not tower.is_tied)
        last = rank.fitted(hidden, rows, tower.width)
        scores = rank.product("scores of words", last, words)
        if split.tensor == 1:
            return
        if not is_training:
            rank.exchange("all_gather", scores, Axis.TENSOR, split.tensor)
            return
        for _ in range(_LOSS_EXCHANGES):
            rank.operator("loss")
            number = rank.graph.constant(0.0, TensorType((rows,), "float32"))
            rank.exchange("all_reduce", number, Axis.TENSOR, split.tensor)

    def layer(self, layer: Layer) -> RankGraph:
        """One of equal layers: attentions and an MLP, each with a norm and what it is added to."""
        rank, tower = self._rank(), self.tower
        x = rank.input(self.spread, tower.hidden)
        rows = self._gathered(rank, rank.norm(x))
        beside: list[Value] = []
        for form in layer.attentions:
            found = attention(rank, self.model, (form, self.given, self.split), rows)
            if layer.is_parallel:
                beside.append(found)
                continue
            x = rank.added("residual", x, self._summed(rank, found))
            rows = self._gathered(rank, rank.norm(x))
        found = Feeding(rank, self.model, self.split, rows).result(layer.mlp)
        for other in beside:
            found = rank.added("sum", other, found)
        rank.added("residual", x, self._summed(rank, found))
        self._others(rank, layer)
        return rank

    def _others(self, rank: RankGraph, layer: Layer) -> None:
        """Norms, biases and whatever else is in no product."""
        bits, tensor = self.model.other_bits, self.split.tensor
        rank.others(layer.norms + layer.extra, bits)
        for form in layer.attentions:
            rank.others(form.norms, bits)
            rank.others(getattr(form, "biases", 0) / tensor, bits)

    def _gathered(self, rank: RankGraph, x: Value) -> Value:
        """All rows, of which the norms of tensor ranks have had a part each."""
        if not self.split.is_sequence or self.split.tensor == 1:
            return x
        whole = rank.exchange("all_gather", x, Axis.TENSOR, self.split.tensor)
        return rank.fitted(whole, self.rows, self.tower.hidden)

    def _summed(self, rank: RankGraph, found: Value) -> Value:
        """The sum of the tensor ranks' parts of an output."""
        if self.split.tensor == 1:
            return found
        kind = "reduce_scatter" if self.split.is_sequence else "all_reduce"
        return rank.exchange(kind, found, Axis.TENSOR, self.split.tensor)

    def _outside(self, rank: RankGraph, matrix: Matrix, x: Value) -> Value:
        """A product outside the layers, whose columns the tensor ranks share."""
        bits = self.model.other_bits
        rows = self.rows * matrix.rows if matrix.is_each_token else self.given.batch
        columns = math.ceil(matrix.outputs / self.split.tensor)
        inputs = rank.fitted(x, rows, matrix.inputs)
        weight = rank.weight((matrix.inputs, columns), bits)
        rank.others(matrix.biases / self.split.tensor, bits)
        return rank.product(matrix.name, inputs, weight)
