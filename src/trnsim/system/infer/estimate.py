"""Latency, items a second and USD of an inference on one instance.

    latency = sum over parts of runs x (sum of the times of its layers)
    items a second = copies x batch / latency

Each copy of the model is on one rank (a logical NeuronCore, or a GPU), or on two ranks with one
prediction of a guided step each; copies are independent. Ranks without a copy are idle.

Source: data parallelism and guided steps on two cores, aws-neuron-sdk, torch_neuronx.DataParallel
and its samples of Stable Diffusion.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final

from trnsim.arch.catalogue import Catalogue
from trnsim.errors import BadInput, OutOfMemory
from trnsim.estimate import matching
from trnsim.estimate.estimate import Estimate
from trnsim.estimate.measured import MeasuredTimes
from trnsim.estimate.question import Question, answer
from trnsim.facts import Interval, assumed
from trnsim.place.machine import Machine, machine
from trnsim.price import Quote, quote, usd_per_million_tokens
from trnsim.system.infer.parts import Inference, InferencePart, InputSizes, inference
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import WHOLE, Phase, bytes_of

RESERVE: Final = assumed(
    0.1, "part of memory for the runtime, programs and fragmentation; no vendor publishes it"
)
_ACTIVATION_BITS: Final = 16
_FIRST_CHIP: Final = "inferentia1"


@dataclass(frozen=True)
class PartTime:
    """Time and memory of one part of an inference.

    Attributes:
        times: number of runs.
        time_s: median seconds of all runs.
        weight_bytes: bytes of weights on a rank.
    """

    name: str
    model: str
    times: int
    time_s: float
    weight_bytes: float


@dataclass(frozen=True)
class InferenceEstimate:
    """An inference on one instance.

    Attributes:
        platform: instance type or short name, as the user named it.
        item: the unit of throughput.
        batch: items that go through a copy at once.
        cores: number of ranks in use.
        rank_name: the hardware of a rank, in words.
        estimate: time of a batch, all parts one after another.
        items_per_s: throughput of the instance.
        memory_bytes: bytes that a rank needs: weights of all parts, and activations.
    """

    platform: str
    instance: str
    item: str
    batch: int
    cores: int
    copies: int
    rank_name: str
    estimate: Estimate
    items_per_s: Interval
    parts: tuple[PartTime, ...]
    memory_bytes: float
    quote: Quote
    notes: tuple[str, ...]

    @property
    def latency_s(self) -> Interval:
        """Seconds of a batch."""
        return self.estimate.interval

    @property
    def usd_per_million(self) -> Interval | None:
        """USD of a million items; None without a public price."""
        usd = self.quote.usd_per_hour
        if usd is None:
            return None
        return self.items_per_s.inverse(usd_per_million_tokens(usd, 1.0))


def estimate(
    path: str | Path,
    on: str,
    sizes: InputSizes,
    *,
    cores: int | None = None,
    dtype: str | None = None,
    measured: MeasuredTimes | None = None,
    kind: str = "on_demand",
    as_of: date | None = None,
    rows: Catalogue | None = None,
) -> InferenceEstimate:
    """Latency, items a second and USD of the model at `path` on one instance.

    Args:
        path: a model's configuration, or a pipeline's index or folder.
        on: an instance type, or a short name of `trnsim.place.machine.platforms`.
        sizes: sizes of the input.
        cores: ranks in use; all of the instance's by default.
        dtype: dtype of products and weights; by default bf16, or fp16 where a chip has no bf16.
        measured: a user's times of layers, which take precedence.
        kind: purchase kind of the price.
        as_of: day of the price; today by default.
        rows: the catalogue; the built-in one by default.

    Raises:
        BadInput: the model has no such input, the platform is unknown or has fewer cores, a
            measured table of another model.
        NotModelled: the model's architecture is unknown.
        OutOfMemory: weights and activations exceed a rank's memory.
    """
    on_machine = machine(on, rows=rows)
    used_ranks = _cores(on_machine, cores)
    product_dtype = dtype or _usual_dtype(on_machine)
    plan = inference(path, sizes, product_dtype)
    ranks = _ranks_of_copy(plan, on_machine, used_ranks)
    if measured is not None:
        _check_measured(measured, plan, on_machine)
    timed_parts = [
        _TimedPart(part, on_machine, product_dtype, ranks, measured) for part in plan.parts
    ]
    total = _total_estimate(timed_parts, measured)
    copies = used_ranks // ranks
    return InferenceEstimate(
        platform=on,
        instance=on_machine.instance.name,
        item=plan.item,
        batch=sizes.batch,
        cores=copies * ranks,
        copies=copies,
        rank_name=on_machine.rank_name,
        estimate=total,
        items_per_s=total.interval.inverse(copies * sizes.batch),
        parts=tuple(part.time for part in timed_parts),
        memory_bytes=_check_memory(timed_parts, on_machine),
        quote=quote(on_machine.instance.name, kind, as_of=as_of, rows=rows),
        notes=(*_evidence(total), *_notes(plan, on_machine, used_ranks - copies * ranks)),
    )


def _evidence(total: Estimate) -> tuple[str, ...]:
    """The evidence of an estimate, and the sizes to which it is extrapolated."""
    return (*total.evidence, *(f"extrapolated: {reach}" for reach in total.extrapolations))


class _TimedPart:
    """One part of an inference on a rank, with its estimate and its bytes of weights."""

    def __init__(
        self,
        part: InferencePart,
        machine: Machine,
        dtype: str,
        ranks: int,
        measured: MeasuredTimes | None,
    ) -> None:
        model_pass = part.model_pass
        predictions = math.ceil(part.guided / ranks)
        if predictions > 1:
            model_pass = replace(model_pass, batch=predictions * model_pass.batch)
        question = Question(part.model, model_pass, machine, dtype=dtype, measured=measured)
        self.model_pass = model_pass
        self.summaries = question.summaries
        estimate = answer(question).scaled(part.times)
        self.estimate = replace(estimate, sources={part.name: estimate.sources[model_pass.phase]})
        weights = sum(summary.times * summary.resident_bytes for summary in self.summaries)
        self.time = PartTime(part.name, part.model.name, part.times, estimate.time_s, weights)

    @property
    def activation_bytes(self) -> float:
        """Bytes of the input and result of the matrix product with the largest result.

        The input is assumed to be as large as the result, as for a convolution. Attention scores
        are left out: they are computed in tiles.
        """
        elements = [
            2 * product.m * product.n * product.times
            for summary in self.summaries
            for product in summary.products
            if product.name != "scores"
        ]
        return bytes_of(max(elements, default=0.0), _ACTIVATION_BITS)


def _total_estimate(timed_parts: Sequence[_TimedPart], measured: MeasuredTimes | None) -> Estimate:
    """Time of all parts, one after another.

    Raises:
        BadInput: no time comes from the measured table.
    """
    first_estimate, *other_estimates = (part.estimate for part in timed_parts)
    total = sum(other_estimates, start=first_estimate)
    if measured is not None:
        passes = ", ".join(
            f"encode of {part.model_pass.batch} x {part.model_pass.tokens} tokens"
            for part in timed_parts
        )
        matching.check_used(measured, total.sources, passes)
    return total


def _check_measured(table: MeasuredTimes, plan: Inference, machine: Machine) -> None:
    """Refuse a measured table if no part has layers, or if it covers none of them.

    Raises:
        BadInput: names the model, or the line of the table.
    """
    models = [part.model for part in plan.parts if isinstance(part.model, Architecture)]
    if not models:
        raise BadInput(
            f"--measured {table.file}: {plan.name} is read from its graph, which has no "
            "layers that rows could be of",
            fix="leave --measured out",
        )
    matching.check(table, machine, (Phase.ENCODE,), [(model, WHOLE) for model in models])


def _usual_dtype(machine: Machine) -> str:
    """bf16, or fp16 on a chip without bf16."""
    return "bf16" if "bf16" in machine.chip.peak_flop_per_s else "fp16"


def _cores(machine: Machine, cores: int | None) -> int:
    """Ranks in use.

    Raises:
        BadInput: the instance does not have as many.
    """
    most_cores = machine.ranks_per_instance
    if cores is not None and not 1 <= cores <= most_cores:
        raise BadInput(
            f"--cores is {cores}; legal on {machine.instance.name}: 1 to {most_cores}, each a "
            f"{machine.rank_name}",
            fix="leave --cores out to use all",
        )
    return cores or most_cores


def _ranks_of_copy(plan: Inference, machine: Machine, cores: int) -> int:
    """Ranks of a copy: on Neuron one for each prediction of a guided step, if there are as many."""
    predictions = max(part.guided for part in plan.parts)
    return predictions if machine.lnc and cores >= predictions else 1


def _check_memory(parts: Iterable[_TimedPart], machine: Machine) -> float:
    """Bytes that a rank needs.

    Raises:
        OutOfMemory: they exceed its memory.
    """
    timed_parts = list(parts)
    weights = sum(part.time.weight_bytes for part in timed_parts)
    activations = max(part.activation_bytes for part in timed_parts)
    usable_bytes = (1 - RESERVE) * machine.memory_bytes
    if weights + activations > usable_bytes:
        raise OutOfMemory(
            f"{(weights + activations) / 2**30:.1f} GiB a rank are needed: weights "
            f"{weights / 2**30:.1f}, activations {activations / 2**30:.1f}; a {machine.rank_name} "
            f"of {machine.instance.name} has {machine.memory_bytes / 2**30:.1f} GiB, "
            f"{usable_bytes / 2**30:.1f} less {RESERVE:.0%} for the runtime",
            fix="use a smaller --batch or --image, or an instance whose chips have more memory",
        )
    return weights + activations


def _notes(plan: Inference, machine: Machine, idle_ranks: int) -> Iterable[str]:
    if idle_ranks:
        yield (
            f"{idle_ranks} rank idle: a guided step takes two"
            if idle_ranks == 1
            else f"{idle_ranks} ranks idle"
        )
    if plan.left_out:
        yield f"not counted: {', '.join(plan.left_out)}"
    if machine.chip.name == _FIRST_CHIP:
        yield (
            "Inferentia1: from its documents, with the constants of NeuronCore-v2; weights that "
            "stay on the chip (NeuronCore Pipeline) are not counted on"
        )
