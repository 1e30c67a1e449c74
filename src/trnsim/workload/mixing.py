"""A mixer of one rank: projections, convolution, recurrence and norm in a layer's graph.

Prompts and training compute chunks: products of the tokens of one chunk, and a state from chunk to
chunk. A decode step updates the state of each head. Products have 16-bit operands, decays and
states are float32, as in the kernels of mamba_ssm and of flash-linear-attention.

Source: transformers 5.23, modeling_mamba2.py (mamba2_chunk_scan, mamba2_selective_state_update) and
modeling_qwen3_next.py (torch_chunk_gated_delta_rule, torch_recurrent_gated_delta_rule).
"""

from __future__ import annotations

import math
from typing import Final

from trnsim.errors import BadInput
from trnsim.graph import Value
from trnsim.graph.ops.collectives import AllReduce
from trnsim.workload.architecture import Architecture
from trnsim.workload.delta_recurrence import DeltaRecurrence
from trnsim.workload.mixer import Mixer
from trnsim.workload.operators import Axis, Pass, Phase, Split
from trnsim.workload.rank_graph import RankGraph
from trnsim.workload.recurrence import HeadRows, Recurrence

_FLOAT_BITS: Final = 32
_CACHING_PHASES: Final = (Phase.DECODE, Phase.PREFILL)
"""Phases that keep states."""
_UNIT_EPSILON: Final = 1e-6
"""Source: transformers 5.23, modeling_qwen3_next.py, l2norm."""


def mixer_output(
    rank_graph: RankGraph,
    model: Architecture,
    setting: tuple[Mixer, Pass, Split],
    rows: Value,
    *,
    is_wired: bool,
) -> Value:
    """Output of a layer's mixer [rows, hidden]: each tensor rank has one summand.

    Raises:
        BadInput: context ranks divide the tokens of a sequence, whose states follow each other.
    """
    counted_elements = rank_graph.vector_elements
    rank_mixer = _DeltaMixer if setting[0].is_delta else _DecayMixer
    output = rank_mixer(rank_graph, model, setting, rows, is_wired=is_wired).result()
    rank_graph.vector_elements = counted_elements  # all are inputs of the graph already
    return output


class _RankMixer:
    """One rank's share of a mixer in a pass.

    Attributes:
        groups: heads of keys and queries of the rank, copied where there are more ranks.
        heads: heads of values of the rank, equally many for each of its groups.
        steps: columns of the projection of steps for each head.
    """

    steps = 1

    def __init__(
        self,
        rank_graph: RankGraph,
        model: Architecture,
        setting: tuple[Mixer, Pass, Split],
        rows: Value,
        *,
        is_wired: bool,
    ) -> None:
        self.rank_graph, self.model, self.rows, self.is_wired = rank_graph, model, rows, is_wired
        self.graph = rank_graph.graph
        self.mixer, self.model_pass, self.split = setting
        if self.split.context > 1 and self.model_pass.phase is not Phase.DECODE:
            raise BadInput(
                f"{self.split.context} context ranks for {model.name} ({model.model_type}), whose "
                "layers keep a state from token to token; legal: 1",
                fix="divide its heads by tensor ranks",
            )
        self.groups = math.ceil(self.mixer.groups / self.split.tensor)
        share = math.ceil(math.ceil(self.mixer.heads / self.split.tensor) / self.groups)
        self.heads = share * self.groups
        self.batch, self.tokens = self.model_pass.batch, self.model_pass.tokens
        self.is_caching = self.model_pass.phase in _CACHING_PHASES
        self.has_past = self.model_pass.phase is Phase.DECODE or (
            self.is_caching and self.model_pass.past > 0
        )

    @property
    def width(self) -> int:
        """Elements of a token's values on the rank."""
        return self.heads * self.mixer.head_dim

    def result(self) -> Value:
        """The mixer's output."""
        mixer, rank_graph, key_width = self.mixer, self.rank_graph, self.groups * self.mixer.state
        gate = self._projected("gate", self.rows, self.width)
        mixed = self._projected("mixed", self.rows, self.width + 2 * key_width)
        step = self._projected("step", self.rows, self.steps * self.heads)
        mixed = self._convolved(self._factored(mixed, self.width, key_width))
        rank_graph.operator("parts")
        value, key, query = rank_graph.columns(mixed, self.width, key_width, key_width)
        normed = self._gated_norm(self._recurrent(value, key, query, step), gate)
        is_whole = self.split.tensor == 1 and mixer.output_biases > 0
        if mixer.output_biases and self.split.tensor > 1 and not self.is_wired:
            rank_graph.weight((mixer.output_biases,), rank_graph.bits, use=rank_graph.use)
        return self._projected("output", normed, self.rows.shape[1], is_biased=is_whole)

    def _projected(
        self, name: str, rows: Value, columns: int, *, is_biased: bool | None = None
    ) -> Value:
        model, rank_graph = self.model, self.rank_graph
        weight = rank_graph.weight(
            (rows.shape[1], columns), model.weight_bits, product_bits=model.product_bits, name=name
        )
        has_bias = self.mixer.has_biases if is_biased is None else is_biased
        return rank_graph.product(name, rows, weight, is_biased=has_bias)

    def _factored(self, mixed: Value, *widths: int) -> Value:
        """Values, keys and queries [rows, C] of these widths, each with its factor."""
        rank_graph, names = self.rank_graph, ("value", "key", "query")
        if not any(f"{rank_graph.half}.{name}" in rank_graph.factors for name in names):
            return mixed
        parts = rank_graph.columns(mixed, *widths, widths[-1])
        parts = [rank_graph.factored(*part) for part in zip(names, parts, strict=True)]
        return self.graph.concatenate(parts, 1)

    def _convolved(self, mixed: Value) -> Value:
        """The causal convolution of each channel over its last tokens, and its activation.

        ``act(sum_k taps[k] x[t - K + 1 + k] + bias)``; rows [B T, C].
        """
        mixer, rank_graph, graph = self.mixer, self.rank_graph, self.graph
        rank_graph.operator("window")
        channels, before = mixed.shape[1], mixer.taps - 1
        shape = self.batch, self.tokens, channels
        x = graph.reshape(mixed, shape)
        if self.has_past and before:
            window = rank_graph.state_input((self.batch, before, channels), self.model.other_bits)
            x = graph.concatenate((window, x), 1)
        else:
            x = graph.pad(x, (0, before, 0), (0, 0, 0))
        if self.is_caching and before:
            last = graph.slice(x, (0, self.tokens, 0), (self.batch, before, channels))
            rank_graph.write_cache(last, self.model.other_bits)
        taps = rank_graph.vector(mixer.taps * channels, "taps", mixer.taps, channels)
        bias = rank_graph.vector(channels, "taps bias") if mixer.has_taps_bias else None
        rank_graph.operator("convolution")
        x, taps = rank_graph.cast(x, _FLOAT_BITS), rank_graph.cast(taps, _FLOAT_BITS)
        total: Value | None = None
        for place in range(mixer.taps):
            part = graph.slice(x, (0, place, 0), shape)
            tap = graph.reshape(graph.slice(taps, (place, 0), (1, channels)), (channels,))
            part = rank_graph.row_operation(part, "multiply", tap)
            total = part if total is None else graph.elementwise("add", total, part)
        total = graph.reshape(total or x, (self.batch * self.tokens, channels))
        if bias is not None:
            total = rank_graph.row_operation(total, "add", rank_graph.cast(bias, _FLOAT_BITS))
        return rank_graph.cast(rank_graph.activation(total, mixer.activation), rank_graph.bits)

    def _recurrent(self, value: Value, key: Value, query: Value, step: Value) -> Value:
        """Results [B T, H P] of the recurrence."""
        self.rank_graph.operator("steps")
        step = self.rank_graph.cast(step, _FLOAT_BITS)
        value, key, query = (
            self.rank_graph.cast(self.rank_graph.heads(part, self.batch, heads), _FLOAT_BITS)
            for part, heads in ((value, self.heads), (key, self.groups), (query, self.groups))
        )
        return self.rank_graph.heads_to_rows(self._results(value, key, query, step))

    def _results(self, value: Value, key: Value, query: Value, step: Value) -> Value:
        """Results [B, H, T, P] of values [B, H, T, P], keys [B, G, T, N] and steps [B T, *]."""
        raise NotImplementedError

    def _gated_norm(self, results: Value, gate: Value) -> Value:
        """Results [B T, H P] normed and gated."""
        raise NotImplementedError

    def _recurrence(self, rows: HeadRows, state: Value | None) -> Recurrence:
        return Recurrence(self.rank_graph, self.mixer, rows, state)

    def _with_states(self, rows: HeadRows) -> Value:
        """Results [B, H, T, P] after the state before the tokens; the last state is kept."""
        mixer, rank_graph, state = self.mixer, self.rank_graph, None
        if self.has_past:
            shape = self.batch, self.heads, mixer.state, mixer.head_dim
            state = rank_graph.state_input(shape, mixer.state_bits)
            state = rank_graph.cast(state, _FLOAT_BITS)
        recurrence = self._recurrence(rows, state)
        is_step = self.has_past and self.tokens == 1
        results, state = recurrence.step() if is_step else recurrence.chunks()
        if self.is_caching:
            last_state = rank_graph.cast(state, mixer.state_bits)
            rank_graph.write_cache(last_state, mixer.state_bits)
        rank_graph.operator("recurrence")
        return results

    def _vector(self, name: str) -> Value:
        """A parameter of each head, in float32."""
        return self.rank_graph.cast(self.rank_graph.vector(self.heads, name), _FLOAT_BITS)

    def _steps(self, rows: Value) -> Value:
        """Lengths of steps [rows, H], by which decays scale: ``softplus(x + offset)``."""
        step = self.rank_graph.row_operation(rows, "add", self._vector("step offset"))
        return self.graph.elementwise("softplus", step)

    def _decays(self, step: Value) -> Value:
        """Logarithms of the factors of states, ``-exp(a) step``: [rows, H]."""
        factor = self.graph.elementwise("exponential", self._vector("decay"))
        return self.rank_graph.row_operation(
            step, "multiply", self.graph.elementwise("negate", factor)
        )

    def _by_head(self, rows: Value) -> Value:
        """Rows [B T, H] as [B, H, T]."""
        by_token = self.graph.reshape(rows, (self.batch, self.tokens, self.heads))
        return self.graph.transpose(by_token, (0, 2, 1))

    def _gated(self, results: Value, gate: Value) -> Value:
        """``results silu(gate)``, in the type of activations."""
        rank_graph, graph = self.rank_graph, self.graph
        rank_graph.operator("output gate")
        factor = graph.elementwise("silu", rank_graph.cast(gate, _FLOAT_BITS))
        results = rank_graph.cast(results, _FLOAT_BITS)
        return rank_graph.cast(graph.elementwise("multiply", results, factor), rank_graph.bits)

    def _normed(self, x: Value, sharing: int = 1) -> Value:
        """[rows, G, W] over the root of its mean square, which `sharing` ranks sum."""
        rank_graph, graph, ranks = self.rank_graph, self.graph, self.split.tensor
        rank_graph.operator("mean square")
        in_float32 = rank_graph.cast(x, _FLOAT_BITS)
        total = graph.reduce("add", graph.elementwise("square", in_float32), (2,))
        if sharing > 1:
            rank_graph.operator(Axis.TENSOR)
            teams = tuple(tuple(range(n, n + sharing)) for n in range(0, ranks, sharing))
            total = graph.apply(AllReduce(teams), total)
        rank_graph.operator("norm")
        mean = graph.elementwise("multiply", total, 1 / (x.shape[2] * sharing))
        factor = graph.elementwise("rsqrt", graph.elementwise("add", mean, self.mixer.epsilon))
        spread = graph.broadcast_in_dim(factor, x.shape, (0, 1))
        return rank_graph.cast(graph.elementwise("multiply", in_float32, spread), rank_graph.bits)


class _DecayMixer(_RankMixer):
    """A mixer of Mamba 2: gated, then normed by group."""

    def _results(self, value: Value, key: Value, query: Value, step: Value) -> Value:
        graph = self.graph
        step = self._bounded(self._steps(step))
        spread = graph.broadcast_in_dim(self._vector("skip"), value.shape, (1,))
        skip = graph.elementwise("multiply", value, spread)
        decay, strength = self._by_head(self._decays(step)), self._by_head(step)
        results = self._with_states(HeadRows(value, key, query, decay, strength))
        return graph.elementwise("add", results, skip)

    def _bounded(self, step: Value) -> Value:
        """Lengths of steps within bounds. transformers has no bounds in a decode step."""
        mixer, graph = self.mixer, self.graph
        if mixer.least_step > 0:
            step = graph.elementwise("maximum", step, mixer.least_step)
        if mixer.most_step < math.inf:
            step = graph.elementwise("minimum", step, mixer.most_step)
        return step

    def _gated_norm(self, results: Value, gate: Value) -> Value:
        if self.mixer.norm == "plain":
            return self._gated(self._normed_groups(results), gate)
        gated = self._gated(results, gate)
        return self._normed_groups(gated) if self.mixer.norm else gated

    def _normed_groups(self, rows: Value) -> Value:
        """Rows [B T, H P] normed by group."""
        shape = rows.shape[0], self.groups, self.width // self.groups
        ranks, groups = self.split.tensor, self.mixer.groups
        sharing = 1 if ranks <= groups else ranks if ranks % groups else ranks // groups
        normed = self._normed(self.graph.reshape(rows, shape), sharing)
        weight = self.rank_graph.vector(self.width, "state norm weight")
        return self.rank_graph.row_operation(
            self.graph.reshape(normed, rows.shape), "multiply", weight
        )


class _DeltaMixer(_RankMixer):
    """A mixer of the gated delta rule: keys and queries of length 1, heads normed, then gated."""

    steps = 2

    def _results(self, value: Value, key: Value, query: Value, step: Value) -> Value:
        graph = self.graph
        step, strength = self.rank_graph.columns(step, self.heads, self.heads)
        query = graph.elementwise("multiply", self._unit(query), self.mixer.state**-0.5)
        decay = self._by_head(self._decays(self._steps(step)))
        strength = self._by_head(graph.elementwise("logistic", strength))
        return self._with_states(HeadRows(value, self._unit(key), query, decay, strength))

    def _recurrence(self, rows: HeadRows, state: Value | None) -> Recurrence:
        return DeltaRecurrence(self.rank_graph, self.mixer, rows, state, is_in_turn=self.is_wired)

    def _unit(self, heads: Value) -> Value:
        """``x / sqrt(sum(x^2) + epsilon)`` over the last dimension."""
        graph = self.graph
        total = graph.reduce("add", graph.elementwise("square", heads), (3,))
        factor = graph.elementwise("rsqrt", graph.elementwise("add", total, _UNIT_EPSILON))
        spread = graph.broadcast_in_dim(factor, heads.shape, (0, 1, 2))
        return graph.elementwise("multiply", heads, spread)

    def _gated_norm(self, results: Value, gate: Value) -> Value:
        by_head = self.graph.reshape(results, (results.shape[0], self.heads, self.mixer.head_dim))
        weight = self.rank_graph.vector(self.mixer.head_dim, "state norm weight")
        normed = self.rank_graph.row_operation(self._normed(by_head), "multiply", weight)
        return self._gated(self.graph.reshape(normed, results.shape), gate)
