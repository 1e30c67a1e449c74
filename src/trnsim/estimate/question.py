"""The question of an estimate, a model's pass on one rank of a machine, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from trnsim.estimate.certainty import judged_estimate
from trnsim.estimate.choice import graph_times, layer_times, pair_times
from trnsim.estimate.estimate import Estimate
from trnsim.estimate.fused import fuse_operators
from trnsim.estimate.measured import MeasuredTimes
from trnsim.estimate.rank import Rank
from trnsim.estimate.times import LayerTimes
from trnsim.facts import derived
from trnsim.place.machine import Machine
from trnsim.workload.architecture import Layer
from trnsim.workload.captured import CapturedModel, Workload, summaries_of
from trnsim.workload.kinds import ModelKind
from trnsim.workload.operators import WHOLE, Pass, Phase, Split
from trnsim.workload.passes import passes
from trnsim.workload.summary import PartSummary

CAPTURED_SPREAD: Final = derived(
    0.40, "as far as graphs were off on Inf2 by constants of encoders: no row of a GPU is published"
)
"""One sigma of the logarithm of a time, which is added in quadrature for graphs on a GPU."""


@dataclass(frozen=True)
class Question:
    """A pass of a model on one rank.

    Attributes:
        model_pass: phase, batch and tokens of the pass.
        split: the division of a layer over ranks.
        dtype: the dtype of products.
        measured: a user's times of layers, which take precedence.
    """

    model: Workload
    model_pass: Pass
    machine: Machine
    split: Split = WHOLE
    dtype: str = "bf16"
    measured: MeasuredTimes | None = None

    @cached_property
    def summaries(self) -> tuple[PartSummary, ...]:
        """The parts that the rank computes.

        Raises:
            BadInput: the model cannot be built, or has no such pass.
        """
        parts = summaries_of(self.model, self.model_pass, self.split)
        return tuple(map(fuse_operators, parts)) if self.is_captured else parts

    @property
    def parts_with_layers(self) -> list[tuple[PartSummary, Layer | None]]:
        """The parts, each with its layer; None before and behind the layers, and in a graph."""
        if isinstance(self.model, CapturedModel):
            return [(summary, None) for summary in self.summaries]
        kinds: list[Layer | None] = []
        for tower, _ in passes(self.model, self.model_pass):
            kinds += [None, *tower.layers, None]
        return list(zip(self.summaries, kinds, strict=True))

    @property
    def is_captured(self) -> bool:
        """True if the parts are read from a graph."""
        return isinstance(self.model, CapturedModel)

    @property
    def _layers(self) -> LayerTimes:
        """Times of layers; those of pairs for the towers of a model of pairs."""
        is_pair = self.model.kind is ModelKind.PAIR
        if self.model_pass.phase is Phase.ENCODE and is_pair:
            return pair_times(self.machine, self.dtype, self.measured)
        return layer_times(self.machine, self.model_pass.phase, self.dtype, measured=self.measured)

    @cached_property
    def rank(self) -> Rank:
        """The rank, with its times of layers.

        Raises:
            BadInput: the chip has no published peak in the dtype.
        """
        if not self.is_captured:
            return Rank(self.machine, self._layers, self.split)
        is_denoiser = isinstance(self.model, CapturedModel) and self.model.is_of_diffusers
        times, call_s = graph_times(self.machine, self.dtype, is_denoiser=is_denoiser)
        more_spread = 0.0 if self.machine.lnc else float(CAPTURED_SPREAD)
        return Rank(self.machine, times, self.split, call_s, more_spread)


def answer(question: Question) -> Estimate:
    """The time of the pass.

    Raises:
        BadInput: the model cannot be built, has no such pass, or the chip no such dtype.
    """
    if question.model_pass.phase is Phase.TRAIN:
        estimate = question.rank.micro_batch_estimate(
            question.parts_with_layers, question.model_pass
        )
    else:
        estimate = question.rank.pass_estimate(question.summaries, question.model_pass)
    return judged_estimate(
        estimate,
        question.model,
        question.model_pass,
        question.machine,
        question.split.tensor,
        further_sigma=question.rank.more_spread,
    )
