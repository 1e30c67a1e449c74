"""A pass of an architecture as blocks of operators, as one rank of a layer's ranks has them.

Heads that the ranks do not divide are made up with unused ones, and keys and values are copied
where there are more ranks than their heads, as NxD Inference does (aws-neuron-sdk,
libraries/nxd-inference/developer_guides/feature-guide.rst). Columns, vocabularies and experts that
they do not divide are made up likewise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from trnsim.errors import BadInput
from trnsim.workload.architecture import (
    GATED,
    Architecture,
    Attention,
    Experts,
    Layer,
    Mlp,
    Tower,
)
from trnsim.workload.attending import attended
from trnsim.workload.operators import (
    WHOLE,
    Axis,
    Block,
    Cache,
    Elementwise,
    Exchange,
    Pass,
    Phase,
    Product,
    Split,
    bytes_of,
)
from trnsim.workload.resident import held_by_head, held_by_layer, held_by_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.workload.architecture import Matrix

_SCALAR_BYTES = 4
_LOSS_EXCHANGES = 3
"""A word's largest score, the sum of exponentials and the label's score, in float32.

Source: Megatron-LM (arXiv:1909.08053), section 3: scores are not gathered.
"""


def blocks(model: Architecture, given: Pass, split: Split = WHOLE) -> tuple[Block, ...]:
    """The blocks of one forward pass, in their order, as one rank has them.

    Towers before the last one take part in all phases but decode.
    """
    return tuple(
        block for tower, own in passes(model, given) for block in _tower(model, tower, own, split)
    )


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


def _tower(model: Architecture, tower: Tower, given: Pass, split: Split) -> Iterator[Block]:
    maker = _Rank(model, tower, given, split)
    yield maker.embedding()
    for layer in tower.layers:
        yield maker.layer(layer)
    yield maker.head()


class _Rank:
    """One rank's part of a tower in a pass."""

    def __init__(self, model: Architecture, tower: Tower, given: Pass, split: Split) -> None:
        self.model = model
        self.tower = tower
        self.given = given
        self.split = split
        shared = 1 if given.phase is Phase.DECODE else split.context
        self.rows = given.rows / shared

    def embedding(self) -> Block:
        """Tokens looked up, or patches multiplied, and places added."""
        tower = self.tower
        places = bytes_of(tower.positions * tower.hidden + tower.extra, self.model.other_bits)
        biases = bytes_of(sum(one.biases for one in tower.before), self.model.other_bits)
        # Places of an image are all added; those of words are looked up with them.
        read = biases + (0 if tower.looked_up else places)
        looked_up = Elementwise("lookup", 2 * self.rows * tower.hidden, read)
        exchanges: list[Exchange] = []
        if self.split.tensor > 1 and (tower.looked_up or tower.before):
            exchanges = [self._exchange("all_gather", self.rows * tower.hidden)]
        return Block(
            "embedding",
            1,
            tuple(self._outside(one) for one in tower.before),
            (looked_up,),
            tuple(exchanges),
            resident_bytes=held_by_table(self.model, tower, self.split),
        )

    def head(self) -> Block:
        """The last norm, products behind the layers, and the one that gives scores."""
        tower, model = self.tower, self.model
        norm = Elementwise(
            "norm",
            2 * self.rows * tower.hidden,
            bytes_of(tower.final + sum(one.biases for one in tower.behind), model.other_bits),
        )
        products = [self._outside(one) for one in tower.behind]
        exchanges: list[Exchange] = []
        if tower.outputs:
            rows = self.given.batch if self.given.phase is Phase.PREFILL else self.rows
            columns = math.ceil(tower.outputs / self.split.tensor)
            products.append(self._product("scores of words", rows, tower.width, columns))
            exchanges = self._scored(rows, columns)
        held = held_by_head(model, tower, self.split)
        return Block("head", 1, tuple(products), (norm,), tuple(exchanges), resident_bytes=held)

    def layer(self, layer: Layer) -> Block:
        """One of equal layers."""
        products: list[Product] = []
        elementwise = [self._norms(layer)]
        exchanges: list[Exchange] = []
        cache = Cache(0.0, 0.0)
        for attention in layer.attentions:
            found = attended(self.model, self.tower.hidden, attention, self.given, self.split)
            products += found.products
            elementwise.append(found.softmax)
            exchanges += found.exchanges
            exchanges += () if layer.is_parallel else self._summed()
            cache += found.cache
        made, between, moved = self._mlp(layer.mlp)
        return Block(
            "layer",
            layer.times,
            (*products, *made),
            (*elementwise, between),
            (*exchanges, *moved),
            cache,
            held_by_layer(self.model, self.tower, layer, self.split),
        )

    def _norms(self, layer: Layer) -> Elementwise:
        parts = 1 + (0 if layer.is_parallel else len(layer.attentions))
        rows = self.rows / (self.split.tensor if self.split.is_sequence else 1)
        weights = bytes_of(self._small(layer), self.model.other_bits)
        # A norm and a residual for each part, each of which reads and writes.
        return Elementwise("norms and residuals", 4 * parts * rows * self.tower.hidden, weights)

    def _small(self, layer: Layer) -> float:
        """Parameters of one layer that are in no product: norms, and the rank's part of biases."""
        mlp, biases = layer.mlp, 0.0
        for one in layer.attentions:
            biases += one.biases if isinstance(one, Attention) else 0
        if isinstance(mlp, Experts):
            biases += mlp.met(self.rows * self.split.expert) / self.split.expert * mlp.expert.biases
            biases += mlp.shared.biases if mlp.shared else 0
            whole = mlp.router_biases + mlp.shared_gate
        else:
            biases, whole = biases + mlp.biases, 0
        norms = sum(one.norms for one in layer.attentions)
        return layer.norms + layer.extra + norms + whole + biases / self.split.tensor

    def _mlp(self, mlp: Mlp | Experts) -> tuple[list[Product], Elementwise, list[Exchange]]:
        if isinstance(mlp, Experts):
            return self._experts(mlp)
        products, between = self._matrices("", mlp, self.rows, 1.0)
        return products, between, self._summed()

    def _matrices(
        self, prefix: str, mlp: Mlp, rows: float, times: float
    ) -> tuple[list[Product], Elementwise]:
        hidden, model = self.tower.hidden, self.model
        bits, multiplied = model.bits_of_mlp, model.product_bits
        columns = math.ceil(mlp.intermediate / self.split.tensor)
        ups = mlp.matrices - 1
        products = [
            Product(f"{prefix}up", rows, hidden, ups * columns, times, bits, bits=multiplied),
            Product(f"{prefix}down", rows, columns, hidden, times, bits, bits=multiplied),
        ]
        passes_of_columns = ups + (2 if mlp.matrices == GATED else 1)
        elements = passes_of_columns * rows * columns * times
        return products, Elementwise(f"{prefix}activation", elements)

    def _experts(self, mlp: Experts) -> tuple[list[Product], Elementwise, list[Exchange]]:
        """The experts that are met, evenly; each expert rank has as many tokens as this one."""
        split, rows, model = self.split, self.rows, self.model
        here = max(mlp.met(rows * split.expert) / split.expert, 1.0)
        taken = rows * mlp.per_token  # as many come from other ranks as go to them
        products, between = self._matrices("expert ", mlp.expert, taken / here, here)
        products.append(self._product("router", rows, self.tower.hidden, mlp.count))
        elements = between.elements
        if mlp.shared:
            more, shared = self._matrices("shared ", mlp.shared, rows, 1.0)
            products += more
            elements += shared.elements
        exchanges = self._summed()
        if split.expert > 1:
            nbytes = bytes_of(taken * self.tower.hidden, model.other_bits)
            exchanges += [Exchange("all_to_all", nbytes, Axis.EXPERT, 2)]
        return products, Elementwise("activation", elements), exchanges

    def _outside(self, matrix: Matrix) -> Product:
        """A product outside the layers, whose columns the tensor ranks share."""
        rows = self.rows * matrix.rows if matrix.is_each_token else self.given.batch
        columns = math.ceil(matrix.outputs / self.split.tensor)
        return self._product(matrix.name, rows, matrix.inputs, columns)

    def _product(self, name: str, rows: float, inputs: float, columns: float) -> Product:
        """A product whose weights stay as long as other parameters."""
        return Product(name, rows, inputs, columns, 1, self.model.other_bits)

    def _scored(self, rows: float, columns: int) -> list[Exchange]:
        """What the tensor ranks exchange for the scores of words, of which each has some."""
        if self.split.tensor == 1:
            return []
        if self.given.phase is Phase.TRAIN:
            loss = Exchange("all_reduce", rows * _SCALAR_BYTES, Axis.TENSOR, _LOSS_EXCHANGES)
            hidden = self._exchange("all_gather", rows * self.tower.hidden)
            return [hidden, loss] if self.split.is_sequence else [loss]
        return [self._exchange("all_gather", rows * columns * self.split.tensor)]

    def _summed(self) -> list[Exchange]:
        """The sum of the tensor ranks' parts of an output."""
        if self.split.tensor == 1:
            return []
        elements = self.rows * self.tower.hidden
        kinds = ("all_gather", "reduce_scatter") if self.split.is_sequence else ("all_reduce",)
        return [self._exchange(kind, elements) for kind in kinds]

    def _exchange(self, kind: str, elements: float) -> Exchange:
        return Exchange(kind, bytes_of(elements, self.model.other_bits), Axis.TENSOR)
