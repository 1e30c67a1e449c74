"""What one micro batch costs a rank of a stage: seconds of computing and of each exchange."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trnsim.system.train.memory import WEIGHT_BYTES, has_dropout
from trnsim.system.train.stages import a_pass, is_fused
from trnsim.workload.gradients import Recompute, recomputed, turned
from trnsim.workload.operators import Axis, Block

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.estimate.times import LayerTimes
    from trnsim.system.train.exchanges import Exchanges
    from trnsim.system.train.layout import Layout
    from trnsim.system.train.stages import Part
    from trnsim.workload.architecture import Layer
    from trnsim.workload.operators import Exchange

_HALF: Final = 0.5


@dataclass(frozen=True)
class Work:
    """Seconds of a rank.

    Attributes:
        compute_s: of products and all else that is computed.
        tensor_s: of exchanges of tensor ranks.
        context_s: of ranks that share a sequence.
        expert_s: of ranks that share experts.
        data_s: of weights and gradients that ZeRO-2 and 3 move for each micro batch, as far as
            computing does not hide them.
    """

    compute_s: float = 0.0
    tensor_s: float = 0.0
    context_s: float = 0.0
    expert_s: float = 0.0
    data_s: float = 0.0

    @property
    def total_s(self) -> float:
        """All of it: these exchanges wait for results and are waited for."""
        return self.compute_s + self.tensor_s + self.context_s + self.expert_s + self.data_s

    def times(self, count: float) -> Work:
        """It, `count` times."""
        return Work(
            count * self.compute_s,
            count * self.tensor_s,
            count * self.context_s,
            count * self.expert_s,
            count * self.data_s,
        )

    def __add__(self, other: Work) -> Work:
        return Work(
            self.compute_s + other.compute_s,
            self.tensor_s + other.tensor_s,
            self.context_s + other.context_s,
            self.expert_s + other.expert_s,
            self.data_s + other.data_s,
        )


@dataclass(frozen=True)
class Passes:
    """The work of a micro batch.

    Attributes:
        forward: of a forward pass.
        backward: of both gradients, and of what is computed again before.
        weights_s: seconds of `backward` that the gradients of weights take.
        spread: one sigma of the logarithm of (true / estimate) of computing.
        source: where its times come from.
        has_exchanges: whether the spread is of exchanges too.
        backward_source: where those of its gradients come from.
    """

    forward: Work
    backward: Work
    weights_s: float
    spread: float
    source: str
    has_exchanges: bool = False
    backward_source: str = ""


def passes(part: Part, layout: Layout, times: LayerTimes, exchanges: Exchanges) -> Passes:
    """The work of one layer of a part."""
    block = part.block
    given = replace(a_pass(layout), is_one_kernel=is_one_kernel(part.layer, layout))
    ahead, back = times.of(block, given), times.backward(block, given)
    again = _again(part, Recompute(layout.recompute))
    again_s = times.of(again, given).time_s if again.products else 0.0
    if layout.recompute != Recompute.FULL:
        again_s = max(again_s - ahead.parts_s.get("fixed", 0.0), 0.0)  # no launch of its own
    forward = _with_exchanges(ahead.time_s, block.exchanges, layout, exchanges)
    gradients = _with_exchanges(back.time_s + again_s, turned(block.exchanges), layout, exchanges)
    gradients += _with_exchanges(0.0, again.exchanges, layout, exchanges)
    moved = _moved(part, layout, exchanges)
    return Passes(
        _hiding(forward, moved[0]),
        _hiding(gradients, moved[1]),
        _HALF * back.time_s * _weighted(block),
        ahead.spread,
        ahead.source,
        ahead.has_exchanges,
        back.source,
    )


def is_one_kernel(layer: Layer | None, layout: Layout) -> bool:
    """Whether AWS's scripts train a layer with a kernel of attention, which keeps no scores.

    NeuronX Distributed does so by default for decoders of Llama's kind, and computes its scores
    again or nothing. neuronx-nemo-megatron, which computes all of a layer again, has no such
    kernel, nor is there one for GPTs.

    Source: aws-neuron-sdk, training_llama_tp_zero1.rst and training_llama_tp_pp.rst (flash
    attention, selective activation checkpointing); nxd-training/known_issues.rst.
    """
    if layer is None or layout.recompute == Recompute.FULL:
        return False
    return is_fused(layer) and not has_dropout(layer)


def _again(part: Part, how: Recompute) -> Block:
    """What backward computes again; one kernel of attention its scores, which it has not kept."""
    block = part.block
    if part.layer is None:
        return Block(block.name, block.times)
    made = recomputed(block, how)
    if how is Recompute.NONE and is_fused(part.layer):
        scores = tuple(one for one in block.products if one.name == "scores")
        return replace(made, products=scores)
    return made


def _with_exchanges(
    compute_s: float, made: Iterable[Exchange], layout: Layout, exchanges: Exchanges
) -> Work:
    found = dict.fromkeys(Axis, 0.0)
    spreads = layout.spreads
    for one in made:
        found[one.axis] += one.times * exchanges.time_s(one.kind, one.nbytes, spreads[one.axis])
    return Work(compute_s, found[Axis.TENSOR], found[Axis.CONTEXT], found[Axis.EXPERT])


def _weighted(block: Block) -> float:
    """The part of products that has weights, and so gradients of weights."""
    flop = block.flop
    weighted = sum(one.flop for one in block.products if one.weight_bits)
    return weighted / flop if flop else 0.0


def _moved(part: Part, layout: Layout, exchanges: Exchanges) -> tuple[float, float]:
    """Seconds of weights gathered before a forward pass, and of all that ZeRO moves in backward."""
    if not layout.shares_gradients:
        return 0.0, 0.0
    gathered_s = 0.0
    if layout.shares_weights:
        gathered_s = shared_s("all_gather", part, WEIGHT_BYTES[layout.dtype], layout, exchanges)
    scattered_s = shared_s("reduce_scatter", part, GRADIENT_BYTES, layout, exchanges)
    return gathered_s, gathered_s + scattered_s


GRADIENT_BYTES: Final = 4
"""Of a gradient, summed in FP32."""


def shared_s(
    kind: str, part: Part, element_bytes: float, layout: Layout, exchanges: Exchanges
) -> float:
    """Seconds of a collective of one layer's parameters among ranks that have the same."""
    spreads = layout.spreads
    dense_s = exchanges.time_s(kind, element_bytes * part.dense, spreads["data"])
    return dense_s + exchanges.time_s(kind, element_bytes * part.experts, spreads["expert data"])


def _hiding(work: Work, moved_s: float) -> Work:
    """The work with what moves beside it: the time by which that exceeds computing."""
    return work + Work(data_s=max(moved_s - work.compute_s, 0.0))
