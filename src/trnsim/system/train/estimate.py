"""Time and USD of training a model on one platform: a layout, its step, and the whole run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any, Final

from trnsim.arch.catalogue import Catalogue
from trnsim.errors import BadInput
from trnsim.estimate import matching
from trnsim.estimate.choice import PRODUCTS
from trnsim.estimate.choice import facts as layer_facts
from trnsim.estimate.measured import MeasuredTimes
from trnsim.estimate.training import is_one_kernel
from trnsim.facts import Interval, Rate
from trnsim.place.machine import Machine, machine
from trnsim.price import Quote, quote
from trnsim.system.train import memory
from trnsim.system.train.best import BestLayout, Effort, best, front
from trnsim.system.train.candidates import LayoutRequest, layouts
from trnsim.system.train.run import Goodput, Reliability, goodput
from trnsim.system.train.stages import trained_model
from trnsim.system.train.step import TrainingStep
from trnsim.uncertainty import Basis, FactDraws
from trnsim.workload.architecture import Architecture
from trnsim.workload.gradients import Recompute
from trnsim.workload.kinds import ModelKind
from trnsim.workload.operators import Phase

BATCH_TOKENS: Final = 4 * 2**20
"""Default tokens of a step: Llama 3's first batch (its paper, 3.4.1)."""
SEQUENCE: Final = 8192
"""Default tokens of a sequence."""
RELATIVE_SEQUENCE: Final = 512
"""The same for encoder-decoders with relative positions: those of T5's training (arXiv 1910.10683,
3.1.2), as their configurations state no length."""
_HOUR_S: Final = 3600.0
_NEVER_ENDING: Final = Interval(math.inf, math.inf, math.inf)
_EFFICIENCY_FACT: Final = "training efficiency"
SHAPELESS: Final = (
    "shapes of products: each takes the same part of the peak, so that more tensor ranks cost "
    "exchanges and fixed times, not columns too few for the Tensor Engine"
)

WITHOUT_KERNEL: Final = (
    "recompute=full: attention is not one kernel, as in neuronx-nemo-megatron, so that its scores "
    "pass through memory; with recompute=none or selective it is AWS's kernel"
)


_EQUAL_TIME_RATIO: Final = 1.02
"""Ratio below which the times of two runs count as equal."""


@dataclass(frozen=True)
class Size:
    """A training run on a given number of instances.

    Attributes:
        step: the shortest step on them.
        steps: optimizer steps of the run: ``tokens / (global_batch x sequence)``, 1 at least.
        goodput: the goodput of a job on all their chips.
        time_s: seconds of the run: ``steps x step time / goodput``; infinite if it never finishes.
        usd: price of the run, spare instances included; None without a public price or an end.
        spares: instances that wait to replace others, and are paid for.
    """

    machine: Machine
    step: TrainingStep
    steps: float
    goodput: Goodput
    time_s: Interval
    usd: Interval | None
    spares: int


@dataclass(frozen=True)
class TrainingEstimate(Size):
    """Training on one platform: the requested run, its price, its sources, and runs on other sizes.

    Attributes:
        platform: instance type or target, as the user named it.
        best: result of the search of layouts.
        tokens: tokens of the whole run.
        basis: provenance of the inputs.
        assumed: assumed inputs, and effects that the estimate leaves out, in words.
        sizes: the run on every number of instances that was tried, the fewest first.
        smaller: the run on the fewest instances that takes no longer; None if all others do.
        front: Pareto front of `sizes` in time, USD and chips, the most instances first.
    """

    model: Architecture
    platform: str
    best: BestLayout
    tokens: float
    quote: Quote
    basis: Basis
    assumed: tuple[str, ...]
    sizes: tuple[Size, ...] = ()
    smaller: Size | None = None
    front: tuple[Size, ...] = ()


def estimate(
    model: Architecture,
    on: str,
    tokens: float = 1e9,
    *,
    request: LayoutRequest | None = None,
    instances: int | None = None,
    reliability: Reliability | None = None,
    effort: Effort | None = None,
    measured: MeasuredTimes | None = None,
    kind: str = "capacity_block",
    as_of: date | None = None,
    rows: Catalogue | None = None,
) -> TrainingEstimate:
    """Time and USD to train `model` on `tokens` tokens.

    Args:
        model: the architecture that is trained.
        on: an instance type, or a short name of `trnsim.place.machine.platforms`.
        tokens: tokens of the whole run.
        request: fixed fields of the layout; `usual_request` by default.
        instances: number of instances; by default the fewest that hold the model.
        reliability: failures and stragglers of the run.
        effort: limits of the search.
        measured: a user's times of layers, which take precedence.
        kind: purchase kind of the price.
        as_of: day of the price; today by default.
        rows: the catalogue of prices; the built-in one by default.

    Raises:
        BadInput: a number out of range, an unknown platform, no legal layout, a measured table of
            another model.
        OutOfMemory: no layout fits in memory.
    """
    if not (tokens > 0 and math.isfinite(tokens)):
        raise BadInput(f"tokens is {tokens:g}; legal: above 0, and finite", fix="for example 10B")
    on_machine = machine(on, instances or 1, rows=rows)
    request = request or usual_request(model, on_machine)
    if measured is not None:
        _check_measured(measured, model, on_machine, request)
    result = best(model, on, instances, request, effort, measured)
    if measured is not None:
        matching.check_used(measured, result.step.estimate.sources, _pass_words(result.step))
    basis, price = _basis(result), quote(result.machine.instance.name, kind, as_of=as_of, rows=rows)
    sized_run = partial(_size, tokens, price.usd_per_hour, reliability or Reliability())
    requested_run = sized_run(result.machine, result.step)
    run = TrainingEstimate(
        **vars(requested_run),
        model=model,
        platform=on,
        best=result,
        tokens=tokens,
        quote=price,
        basis=basis,
        assumed=basis.assumed + _shapeless(result) + _without_kernel(model, result),
    )
    return _with_sizes(run, [sized_run(*option) for option in result.machine_steps])


def _pass_words(step: TrainingStep) -> str:
    """The pass of a micro batch in words, for errors about measured tables."""
    return f"train of {step.layout.micro_batch} x {step.layout.sequence} tokens"


def _shapeless(result: BestLayout) -> tuple[str, ...]:
    """`SHAPELESS` if the times are those of few constants on AWS's chips, otherwise nothing."""
    sources = result.step.estimate.sources.values()
    is_few = any(source.startswith("few constants") for source in sources)
    return (SHAPELESS,) if result.machine.lnc and is_few else ()


def _without_kernel(model: Architecture, result: BestLayout) -> tuple[str, ...]:
    """`WITHOUT_KERNEL` if full recomputation takes the kernel of attention from a layer."""
    recompute = Recompute(result.step.layout.recompute)
    layers = [layer for tower in model.towers for layer in tower.layers]
    is_without = recompute is Recompute.FULL and any(
        is_one_kernel(layer, Recompute.SELECTIVE) for layer in layers
    )
    return (WITHOUT_KERNEL,) if result.machine.lnc and is_without else ()


def _check_measured(
    table: MeasuredTimes, model: Architecture, machine: Machine, request: LayoutRequest
) -> None:
    """Refuse a measured table that covers none of the layouts of the search."""
    splits = {(layout.split, layout.dtype) for layout in layouts(model, machine, request)}
    if splits:  # without one, the search says why
        cases = [(trained_model(model, dtype), split) for split, dtype in splits]
        matching.check(table, machine, (Phase.TRAIN,), cases)


def _size(
    tokens: float,
    usd_per_hour: Rate | None,
    risk: Reliability,
    machine: Machine,
    step: TrainingStep,
) -> Size:
    """A run of `tokens` on one number of instances."""
    job, time_s = goodput(machine.chips, machine.count, risk), _NEVER_ENDING
    usd, steps = None, max(tokens / (step.layout.global_batch * step.layout.sequence), 1.0)
    if job.can_finish:
        time_s = step.step_s.scaled(steps / job.goodput)
        if usd_per_hour is not None:
            usd = time_s.scaled((machine.count + risk.spares) * usd_per_hour / _HOUR_S)
    return Size(machine, step, steps, job, time_s, usd, risk.spares)


def _with_sizes(run: TrainingEstimate, sizes: Iterable[Size]) -> TrainingEstimate:
    """The run with the runs on other numbers of instances, and its comparison with them."""
    sorted_sizes = tuple(sorted(sizes, key=lambda size: size.machine.count))
    smaller_sizes = [
        size
        for size in sorted_sizes
        if size.machine.count < run.machine.count
        and size.time_s.p50 <= _EQUAL_TIME_RATIO * run.time_s.p50
    ]
    ending_sizes = [size for size in reversed(sorted_sizes) if size.goodput.can_finish]
    points = [
        (
            size.time_s.p50,
            size.usd.p50 if size.usd else size.time_s.p50 * size.machine.chips,
            float(size.machine.chips),
        )
        for size in ending_sizes
    ]
    return replace(
        run,
        sizes=sorted_sizes,
        smaller=smaller_sizes[0] if smaller_sizes and run.goodput.can_finish else None,
        front=tuple(ending_sizes[index] for index in front(points)),
    )


def compare_runs(runs: Sequence[TrainingEstimate]) -> list[TrainingEstimate]:
    """Runs of one platform, each compared with the sizes that any of them tried.

    For each number of instances the shortest step of all runs is taken.
    """
    shortest_sizes: dict[int, Size] = {}
    for size in (size for run in runs for size in run.sizes):
        rival = shortest_sizes.setdefault(size.machine.count, size)
        if size.step.step_s.p50 < rival.step.step_s.p50:
            shortest_sizes[size.machine.count] = size
    return [_with_sizes(run, shortest_sizes.values()) for run in runs]


def usual_request(
    model: Architecture, machine: Machine, sequence: int | None = None
) -> LayoutRequest:
    """The default request: the model's usual sequence length and `usual_batch`."""
    length = sequence or _usual_sequence(model)
    return LayoutRequest(usual_batch(machine, length), length)


def layout_request(
    model: Architecture,
    machine: Machine,
    *,
    global_batch: int | None = None,
    sequence: int | None = None,
    **fixed: Any,
) -> LayoutRequest:
    """A request with defaults for the sequence and the batch.

    Args:
        model: the architecture that is trained.
        machine: the instances.
        global_batch: sequences of a step; by default `usual_batch`, as a multiple of the requested
            data ranks and micro batch.
        sequence: tokens of a sequence; the model's usual length by default.
        fixed: further fields of the request.
    """
    length = _usual_sequence(model) if sequence is None else sequence
    batch = global_batch
    if batch is None:
        multiple = max(int(fixed.get("data") or 1) * int(fixed.get("micro_batch") or 1), 1)
        batch = -(-usual_batch(machine, max(length, 1)) // multiple) * multiple
    return LayoutRequest(batch, length, **fixed)


def _usual_sequence(model: Architecture) -> int:
    """Tokens of a sequence by default: `SEQUENCE`, or the length that the model was made for."""
    is_relative = model.kind is ModelKind.ENCODER_DECODER and not model.max_positions
    return model.usual_length(RELATIVE_SEQUENCE if is_relative else SEQUENCE)


def usual_batch(machine: Machine, sequence: int) -> int:
    """Sequences of a step of about `BATCH_TOKENS` tokens, a number that divides among the ranks.

    It is a power of two times the odd factor of the number of ranks: 9 for the 144 chips of an
    UltraServer.
    """
    sequences = max(BATCH_TOKENS // sequence, 1)
    odd = machine.ranks // (machine.ranks & -machine.ranks)
    return odd << max(math.ceil(math.log2(sequences / odd)), 0)


def _basis(result: BestLayout) -> Basis:
    """The inputs of a result, with the provenance of each."""
    machine, dtype = result.machine, result.step.layout.dtype
    facts: dict[str, Rate] = {
        f"peak FLOP/s ({dtype})": machine.peaks[dtype],
        _EFFICIENCY_FACT: layer_facts(machine, Phase.TRAIN)[PRODUCTS],
        "HBM bytes": machine.chip.memory_bytes,
        "HBM bytes/s": machine.chip.memory_bytes_per_s,
        "HBM reserve": memory.RESERVE,
    }
    efa = machine.instance.efa_bytes_per_s
    if machine.count > 1 and efa is not None:
        facts["EFA bytes/s"] = efa
    inputs = FactDraws(facts)
    for name in facts:
        inputs.use(name)
    return inputs.basis()
