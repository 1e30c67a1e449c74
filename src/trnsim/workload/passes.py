"""A pass of an architecture as graphs: the operations of one rank.

Heads that the ranks do not divide are padded with unused ones, and KV heads are copied where there
are more ranks than heads, as NxD Inference does (aws-neuron-sdk,
libraries/nxd-inference/developer_guides/feature-guide.rst). Columns, vocabularies and experts are
padded likewise. In the names of inputs and tables "places" are positions, "kinds" token types.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trnsim.errors import BadInput
from trnsim.graph import Value
from trnsim.workload.architecture import (
    Architecture,
    Attention,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    Norm,
    Projection,
    Tower,
    Wiring,
)
from trnsim.workload.attending import attention_output
from trnsim.workload.loss import add_loss
from trnsim.workload.mixer import Mixer
from trnsim.workload.mixing import mixer_output
from trnsim.workload.mlp import RankMlp
from trnsim.workload.operators import WHOLE, Axis, Pass, Phase, Split
from trnsim.workload.positions import (
    add_rotations,
    alibi_bias,
    padding_bias,
    rotations,
    with_learned_positions,
    with_token_types,
)
from trnsim.workload.rank_graph import RankGraph, Use
from trnsim.workload.summary import PartSummary, graph_summary

if TYPE_CHECKING:
    Form = Attention | LatentAttention | Mixer
    Half = Form | Mlp | Experts

_PLAIN_WIRING = Wiring(Norm())


def summaries(
    model: Architecture, model_pass: Pass, split: Split = WHOLE, *, is_wired: bool = False
) -> tuple[PartSummary, ...]:
    """Summaries of the parts of one forward pass on one rank, in order.

    Towers before the last one take part in all phases but decode. Operations between products
    (wiring) add nothing to summaries and are left out by default, to save time.
    """
    return tuple(
        graph_summary(part.rank_graph, part.name, part.times, part.copies)
        for part in parts(model, model_pass, split, is_wired=is_wired)
    )


@dataclass(frozen=True)
class PassPart:
    """A group of equal layers of a pass, or its embedding or head.

    Attributes:
        name: "layer", "embedding", "head".
        times: number of layers.
        rank_graph: the graph of one of these layers, or of the embedding or head.
        copies: number of these layers that have weights of their own; others share them.
    """

    name: str
    times: int
    rank_graph: RankGraph
    copies: int = 1


def parts(
    model: Architecture, model_pass: Pass, split: Split = WHOLE, *, is_wired: bool = True
) -> Iterator[PassPart]:
    """The graphs of one forward pass, with wiring or with sizes alone."""
    for rank_tower in towers(model, model_pass, split, is_wired=is_wired):
        yield PassPart("embedding", 1, rank_tower.embedding())
        for layer in rank_tower.tower.layers:
            yield PassPart("layer", layer.times, rank_tower.layer(layer), layer.copies)
        yield PassPart("head", 1, rank_tower.head())


def towers(
    model: Architecture, model_pass: Pass, split: Split = WHOLE, *, is_wired: bool = True
) -> Iterator[RankTower]:
    """Builders of each tower's graphs."""
    for tower, tower_pass in passes(model, model_pass):
        yield RankTower(model, tower, tower_pass, split, tower.wiring if is_wired else None)


def passes(model: Architecture, model_pass: Pass) -> Iterator[tuple[Tower, Pass]]:
    """Each tower with the pass through it.

    Raises:
        BadInput: an image of a size for which an image encoder has no positions.
    """
    *first_towers, last_tower = model.towers
    for tower in model.towers:
        if model_pass.image and tower.image not in (0, model_pass.image):
            side = model_pass.image
            raise BadInput(
                f"an image of {side} pixels a side for {model.name}; legal: {tower.image}",
                fix="change image_size in the configuration",
            )
    previous_tower: Tower | None = None
    for tower in first_towers if model_pass.phase is not Phase.DECODE else ():
        phase = Phase.TRAIN if model_pass.phase is Phase.TRAIN else Phase.ENCODE
        tokens = tower.tokens or model_pass.source or model_pass.tokens
        # A resampler's queries attend to the tokens of the tower before, and to themselves.
        source = previous_tower.tokens + tokens if previous_tower else 0
        yield tower, Pass(phase, model_pass.batch * max(1, tower.tiles), tokens, source=source)
        previous_tower = tower
    source = (
        model_pass.source or (first_towers[-1].tokens if first_towers else 0) or model_pass.tokens
    )
    yield (
        last_tower,
        replace(model_pass, tokens=last_tower.tokens or model_pass.tokens, source=source),
    )


def _half_name(attention: Form, number: int) -> str:
    """Name of the half of a layer that a form of attention is."""
    if isinstance(attention, Mixer):
        return "mixer"
    return "cross attention" if number else "attention"


class RankTower:
    """Builder of the graphs of one tower in a pass on one rank.

    Attributes:
        wiring: operations between products; None for sizes alone.
        rows: tokens of all sequences on the rank.
        norm_rows: rows on which the rank computes norms; fewer than `rows` with sequence
            parallelism.
    """

    def __init__(
        self,
        model: Architecture,
        tower: Tower,
        model_pass: Pass,
        split: Split,
        wiring: Wiring | None,
    ) -> None:
        self.model, self.tower, self.model_pass, self.split = model, tower, model_pass, split
        self.wiring = wiring
        context_ranks = 1 if model_pass.phase is Phase.DECODE else split.context
        self.rows = model_pass.batch * math.ceil(model_pass.tokens / context_ranks)
        self.norm_rows = math.ceil(self.rows / (split.tensor if split.is_sequence else 1))

    @property
    def name(self) -> str:
        """Prefix of the tower in paths of modules; "" for a single tower."""
        return f"{self.tower.name}." if len(self.model.towers) > 1 else ""

    def _rank(self) -> RankGraph:
        return RankGraph(self.model.other_bits, short_dtype=self.model.short_dtype)

    def embedding(self) -> RankGraph:
        """Graph of the embedding: lookup of tokens or projection of patches, and positions."""
        rank_graph, tower, tensor = self._rank(), self.tower, self.split.tensor
        bits = self.model.other_bits
        width = math.ceil((tower.width if tower.table_rows else tower.hidden) / tensor)
        use = rank_graph.use = Use.LOOKED_UP if tower.table_rows else Use.WHOLE
        if tower.table_rows:
            is_held = not tower.is_table_shared
            shape = tower.table_rows, width
            table = rank_graph.weight(shape, bits, use=use, is_held=is_held, name="table")
            if is_held:
                rank_graph.named_outputs["table"] = table
            else:
                rank_graph.named_inputs["table"] = table
            words = rank_graph.input(self.rows, name="words", dtype="int32")
            rank_graph.operator("lookup")
            x = rank_graph.graph.gather(table, words)
            if tensor > 1:
                x = rank_graph.columns(rank_graph.gathered_columns(x, tensor), tower.width)[0]
            x = self._with_table_rows(rank_graph, x)
            for matrix in tower.input_projections:
                x = self._projection(rank_graph, matrix, x)
            x = rank_graph.first_rows(x, self.rows, tower.hidden)
        else:
            x = rank_graph.input(self.rows, width)
            for matrix in tower.input_projections:
                x = self._projection(rank_graph, matrix, x)
            x = rank_graph.add(
                "places",
                rank_graph.first_rows(x, self.rows, width),
                rank_graph.input(self.rows, width),
            )
            if tensor > 1 and tower.input_projections:
                x = rank_graph.columns(rank_graph.gathered_columns(x, tensor), tower.hidden)[0]
        self._add_outputs(rank_graph, x, use)
        return rank_graph

    def _add_outputs(self, rank_graph: RankGraph, x: Value, use: Use) -> None:
        """Add the outputs that layers read: hidden state with positions, rotations, masks.

        The tower's `embedding_parameters` are counted here, its `head_parameters` in the head.
        """
        tower, wiring, bits = self.tower, self.wiring, self.model.other_bits
        table_shape = tower.positions, tower.hidden
        if wiring is None:
            for elements in (math.prod(table_shape), tower.embedding_parameters):
                if elements:
                    rank_graph.weight((elements,), bits, use=use)
            rank_graph.named_outputs["hidden"] = x
            return
        x = rank_graph.scale("scale", x, wiring.embedding_factor)
        if tower.positions:
            table = rank_graph.weight(table_shape, bits, use=use, name="learned places")
            x = with_learned_positions(rank_graph, x, table, wiring.first_position_row)
        if wiring.has_table_norm and not tower.input_projections:
            x = rank_graph.norm(x, wiring.norm, "table norm")
        rank_graph.named_outputs["hidden"] = x
        for rotary in rotations(tower):
            add_rotations(rank_graph, self.rows, rotary)
        attentions = [attention for layer in tower.layers for attention in layer.attentions]
        rank_graph.add_parameters(tower.embedding_parameters, before=0)
        if attentions and attentions[0].has_slopes:
            heads = math.ceil(attentions[0].heads / self.split.tensor)
            alibi_bias(rank_graph, heads, self.model_pass.tokens + self.model_pass.past)
        if wiring.has_mask:
            padding_bias(rank_graph, self.model_pass.batch, self.model_pass.tokens)

    def _with_table_rows(self, rank_graph: RankGraph, x: Value) -> Value:
        """Embeddings with rows of the tables of token types and positions added."""
        wiring = self.wiring
        if wiring is None or not (wiring.position_rows or wiring.token_types):
            return x
        if wiring.token_types:
            table = self._added_table(rank_graph, wiring.token_types, "kinds of tokens")
            x = with_token_types(rank_graph, x, table)
        if wiring.position_rows:
            table = self._added_table(rank_graph, wiring.position_rows, "learned places")
            x = with_learned_positions(rank_graph, x, table, wiring.first_position_row)
        return rank_graph.norm(x, wiring.norm, "table norm") if self.tower.input_projections else x

    def _added_table(self, rank_graph: RankGraph, rows: int, name: str) -> Value:
        """A table whose rows are added to embeddings, as wide as the embedding table."""
        width = self.tower.width
        rank_graph.vector_elements += rows * width
        return rank_graph.weight((rows, width), self.model.other_bits, use=Use.LOOKED_UP, name=name)

    def head(self) -> RankGraph:
        """Graph of the head: the last norm, projections behind the layers, and the logits."""
        rank_graph, tower = self._rank(), self.tower
        x = rank_graph.input(self.rows, tower.hidden, name="hidden")
        wiring = self.wiring or _PLAIN_WIRING
        hidden = rank_graph.norm(x, wiring.norm) if wiring.has_last_norm else x
        rank_graph.replicated.add(hidden.number)
        rank_graph.uncomputed_norm_elements = 0.0 if wiring.has_last_norm else 2.0 * x.type.elements
        for matrix in tower.output_projections:
            hidden = self._head_projection(rank_graph, matrix, hidden)
        rank_graph.named_outputs["hidden"] = hidden
        is_classed = (
            bool(tower.output_projections) and not tower.output_projections[-1].is_each_token
        )
        if tower.outputs:
            self._scores(rank_graph, hidden)
        elif is_classed and self.model_pass.phase is Phase.TRAIN and self.split.tensor == 1:
            add_loss(rank_graph, hidden, self.split.tensor)
        rank_graph.add_parameters(tower.head_parameters, before=0)
        return rank_graph

    def _scores(self, rank_graph: RankGraph, hidden: Value) -> None:
        """Add the logits, of which each tensor rank has some columns, and their exchange."""
        tower, split = self.tower, self.split
        is_training = self.model_pass.phase is Phase.TRAIN
        if is_training and split.is_sequence and split.tensor > 1:
            part = rank_graph.first_rows(hidden, self.norm_rows, tower.hidden)
            rank_graph.exchange("all_gather", part, Axis.TENSOR, split.tensor)
        bits, batch = self.model.other_bits, self.model_pass.batch
        is_prompt = self.model_pass.phase is Phase.PREFILL
        last = rank_graph.token(hidden, batch, -1) if is_prompt else hidden
        columns = math.ceil(tower.outputs / split.tensor)
        shape, is_held = (columns, tower.width), not tower.is_tied
        words = rank_graph.weight(shape, bits, is_held=is_held, name="scores of words")
        if tower.is_tied and split.tensor == 1:
            rank_graph.named_inputs["table"] = words
        last = rank_graph.first_rows(last, batch if is_prompt else self.rows, tower.width)
        wiring = self.wiring or _PLAIN_WIRING
        is_biased = wiring.has_score_bias
        scores = rank_graph.product(
            "scores of words", last, words, is_biased=is_biased, is_transposed=True
        )
        scores = rank_graph.scale("scale", scores, wiring.score_factor)
        rank_graph.named_outputs["scores"] = rank_graph.soft_capped("cap", scores, wiring.cap)
        if is_training:
            add_loss(rank_graph, rank_graph.named_outputs["scores"], split.tensor)
        elif split.tensor > 1:
            rank_graph.named_outputs["scores"] = rank_graph.exchange(
                "all_gather", rank_graph.named_outputs["scores"], Axis.TENSOR, split.tensor
            )

    def layer(self, layer: Layer) -> RankGraph:
        """Graph of one of equal layers: attentions and an MLP, each with a norm and a residual."""
        rank_graph, tower = self._rank(), self.tower
        rank_graph.own_bits = {matrix.name: matrix for matrix in layer.own_bits}
        rank_graph.factors = dict(layer.factors) if self.wiring else {}
        x = rank_graph.input(self.norm_rows, tower.hidden, name="hidden")
        if layer.is_parallel and layer.mlp is not None:
            x = self._parallel_layer(rank_graph, layer, layer.mlp, x)
        else:
            x = self._serial_layer(rank_graph, layer, x)
        rank_graph.named_outputs["hidden"] = x
        rank_graph.half = ""
        rank_graph.add_parameters(layer.norms + layer.other_parameters, before=0)
        return rank_graph

    def _serial_layer(self, rank_graph: RankGraph, layer: Layer, x: Value) -> Value:
        """Output of a layer whose halves follow each other; attentions may be side by side."""
        attentions = layer.attentions
        groups = [attentions] if layer.is_beside else [(form,) for form in attentions]
        for number, forms in enumerate(groups):
            halves = {_half_name(form, number): form for form in forms}
            rank_graph.half = next(iter(halves))
            rows, outputs = self._half_input(rank_graph, x), list[Value]()
            for rank_graph.half, form in halves.items():
                factored_rows = rank_graph.factored("input", rows)
                outputs.append(self._attention(rank_graph, form, factored_rows))
            output = outputs[0]
            for other in outputs[1:]:
                output = rank_graph.add("sum", output, other)
            x = self._residual_sum(rank_graph, x, output, halves)
        if layer.mlp is None:
            return x
        rank_graph.half = "mlp"
        output = self._mlp_output(rank_graph, layer.mlp, self._half_input(rank_graph, x))
        return self._residual_sum(rank_graph, x, output, {"mlp": layer.mlp})

    def _parallel_layer(
        self, rank_graph: RankGraph, layer: Layer, mlp: Mlp | Experts, x: Value
    ) -> Value:
        """Output of a layer whose attentions and MLP read one input, or each a norm of its own.

        The attentions' outputs are added to the MLP's before the sum over ranks.
        """
        tower, wiring = self.tower, self.wiring
        rank_graph.half = "attention"
        attention_input = mlp_input = self._half_input(rank_graph, x)
        attention_outputs = [
            self._attention(rank_graph, attention, attention_input)
            for attention in layer.attentions
        ]
        rank_graph.half = "mlp"
        if wiring and layer.norms > wiring.norm.parts * tower.hidden:
            normed = rank_graph.norm(x, wiring.norm, "second norm")
            rank_graph.replicated.add(normed.number)
            mlp_input = self._all_rows(rank_graph, normed)
        output = self._mlp_output(rank_graph, mlp, mlp_input)
        for value in attention_outputs:
            output = rank_graph.add("sum", value, output)
        output = self._rank_sum(rank_graph, output)
        for half in (mlp, *layer.attentions):
            output = self._with_bias(rank_graph, output, half)
            rank_graph.half = "attention"
        return rank_graph.add("residual", x, output)

    def _attention(self, rank_graph: RankGraph, attention: Form, rows: Value) -> Value:
        if isinstance(attention, Mixer):
            mixer_setting = attention, self.model_pass, self.split
            return mixer_output(
                rank_graph, self.model, mixer_setting, rows, is_wired=self.wiring is not None
            )
        setting, before = (attention, self.model_pass, self.split), rank_graph.vector_elements
        output = attention_output(rank_graph, self.model, setting, rows, self.wiring)
        product_biases = getattr(attention, "biases", 0) - self._bias_of_sum(attention)
        biases = product_biases / self.split.tensor
        rank_graph.add_parameters(attention.norms + biases, before)
        return output

    def _mlp_output(self, rank_graph: RankGraph, part: Mlp | Experts, rows: Value) -> Value:
        is_wired = self.wiring is not None
        mlp = RankMlp(rank_graph, self.model, self.split, rows, is_wired=is_wired)
        return mlp.result(part)

    def _half_input(self, rank_graph: RankGraph, x: Value) -> Value:
        """Input of a half of a layer, normed if norms precede it."""
        wiring = self.wiring
        if wiring is None:
            return self._all_rows(rank_graph, rank_graph.norm(x))
        if wiring.norm_position not in ("before", "around"):
            return self._all_rows(rank_graph, x)
        normed = rank_graph.norm(x, wiring.norm)
        rank_graph.replicated.add(normed.number)
        return self._all_rows(rank_graph, normed)

    def _with_bias(self, rank_graph: RankGraph, output: Value, half: Half) -> Value:
        """A half's output with a bias, added once to the sum over ranks."""
        matrices = half.shared if isinstance(half, Experts) else half
        if not self._bias_of_sum(matrices):
            return output
        rank_graph.operator("bias")
        name = "down bias" if isinstance(matrices, Mlp) else "output bias"
        name = f"shared {name}" if isinstance(half, Experts) else name
        bias = rank_graph.vector(output.shape[1], name)
        bias = rank_graph.factored(name.removesuffix(" bias"), bias)
        return rank_graph.row_operation(output, "add", bias)

    def _bias_of_sum(self, matrices: Half | None) -> int:
        """Elements of a half's bias added to the sum over ranks; 0 where a product adds it."""
        count = getattr(matrices, "biases" if isinstance(matrices, Mlp) else "output_biases", 0)
        is_apart = count and self.wiring is not None and self.split.tensor > 1
        return self.tower.hidden if is_apart else 0

    def _residual_sum(
        self, rank_graph: RankGraph, x: Value, output: Value, halves: Mapping[str, Half]
    ) -> Value:
        """The input of halves by name plus their output, normed if norms follow it."""
        wiring, output = self.wiring, self._rank_sum(rank_graph, output)
        if wiring is None:
            return rank_graph.add("residual", x, output)
        for rank_graph.half, half in halves.items():
            output = self._with_bias(rank_graph, output, half)
        if wiring.norm_position in ("after", "around"):
            name = "norm" if wiring.norm_position == "after" else "outer norm"
            output = rank_graph.norm(output, wiring.norm, name)
        output = rank_graph.scale("scale", output, wiring.residual_factor)
        total = rank_graph.add("residual", x, output)
        return rank_graph.norm(total, wiring.norm) if wiring.norm_position == "sum" else total

    def _all_rows(self, rank_graph: RankGraph, x: Value) -> Value:
        """All rows, gathered from the tensor ranks, each of which computed norms of a part."""
        if not self.split.is_sequence or self.split.tensor == 1:
            return x
        rows = rank_graph.exchange("all_gather", x, Axis.TENSOR, self.split.tensor)
        return rank_graph.first_rows(rows, self.rows, self.tower.hidden)

    def _rank_sum(self, rank_graph: RankGraph, output: Value) -> Value:
        """The sum of an output over the tensor ranks."""
        if self.split.tensor == 1:
            return output
        kind = "reduce_scatter" if self.split.is_sequence else "all_reduce"
        return rank_graph.exchange(kind, output, Axis.TENSOR, self.split.tensor)

    def _head_projection(self, rank_graph: RankGraph, matrix: Projection, x: Value) -> Value:
        """A projection behind the layers, of each token or of the first of each sequence."""
        is_wired, batch = self.wiring is not None, self.model_pass.batch
        if is_wired and not matrix.is_each_token and x.shape[0] > batch:
            x = rank_graph.token(x, batch, 0)
        x = self._projection(rank_graph, matrix, x)
        if self.wiring is None:
            return x
        if matrix.activation:
            rank_graph.operator("function")
            x = rank_graph.activation(x, matrix.activation)
        if matrix.is_normed:
            x = rank_graph.norm(x, self.wiring.norm, f"{matrix.name} norm")
        return x

    def _projection(self, rank_graph: RankGraph, matrix: Projection, x: Value) -> Value:
        """A projection outside the layers, whose columns the tensor ranks share."""
        bits = self.model.other_bits
        rows = self.rows * matrix.rows if matrix.is_each_token else self.model_pass.batch
        columns = math.ceil(matrix.outputs / self.split.tensor)
        inputs = rank_graph.first_rows(x, rows, matrix.inputs)
        weight, before = (
            rank_graph.weight((matrix.inputs, columns), bits, name=matrix.name),
            rank_graph.vector_elements,
        )
        is_biased = self.wiring is not None and matrix.biases > 0
        rank_graph.use, use = Use.WHOLE, rank_graph.use
        output = rank_graph.product(matrix.name, inputs, weight, is_biased=is_biased)
        rank_graph.add_parameters(matrix.biases / self.split.tensor, before)
        rank_graph.use = use
        return output
