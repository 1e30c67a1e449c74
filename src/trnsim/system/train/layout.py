"""Layout: parallel sizes, batch and recomputation of a training step, and their legality.

The rank number counts tensor fastest, then context, then data (expert ranks are a part of data
ranks), pipeline slowest: docs/design/0027-a-plan-is-made-of-layers.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from trnsim.errors import BadInput
from trnsim.place.links import Spread
from trnsim.place.machine import Machine
from trnsim.system.train.optimizers import OPTIMIZERS
from trnsim.workload.architecture import Architecture
from trnsim.workload.gradients import Recompute
from trnsim.workload.operators import Split

RECOMPUTES: Final = tuple(recompute.value for recompute in Recompute)
ONE_F_ONE_B: Final = "1f1b"
SCHEDULES: Final = (ONE_F_ONE_B, "zb-h1", "zb-h2")
DTYPES: Final = ("fp32", "fp16", "bf16", "fp8")
ZERO: Final = ("nothing", "optimizer", "gradients", "weights")
"""Tensors that each stage of ZeRO shards among data ranks, besides those of earlier stages."""
_INFERENCE_CHIP: Final = "inferentia1"


class Misfit(NamedTuple):
    """A fault of a layout: the message, with the legal values, and the fix."""

    message: str
    fix: str


@dataclass(frozen=True)
class Layout:
    """Parallel sizes, batch, dtype, schedule and recomputation of a training step.

    Attributes:
        tensor: ranks that divide heads and columns of a layer among them.
        pipeline: pipeline stages, each with an equal share of the layers.
        virtual: model chunks of a stage, not adjacent in the model; above 1 the schedule is
            interleaved.
        data: data parallel size: ranks with different sequences.
        context: ranks that divide the tokens of a sequence among them.
        expert: data ranks that divide experts among them.
        zero: stage of ZeRO; data ranks shard the optimizer state (1), gradients too (2), weights
            too (3).
        recompute: activations that backward recomputes: one of `RECOMPUTES`.
        is_sequence: whether sequence parallelism is on: outside of matrix products, tensor ranks
            divide the tokens among them.
        micro_batch: sequences that a data rank takes at once.
        global_batch: sequences of a step.
        sequence: tokens of a sequence.
        dtype: the dtype of products, one of `DTYPES`.
        schedule: the schedule of the pipeline, one of `SCHEDULES`.
        optimizer: one of `trnsim.system.train.optimizers.OPTIMIZERS`.
    """

    tensor: int = 1
    pipeline: int = 1
    virtual: int = 1
    data: int = 1
    context: int = 1
    expert: int = 1
    zero: int = 1
    recompute: str = "selective"
    is_sequence: bool = False
    micro_batch: int = 1
    global_batch: int = 1
    sequence: int = 4096
    dtype: str = "bf16"
    schedule: str = "1f1b"
    optimizer: str = "adamw"

    @property
    def ranks(self) -> int:
        """``tensor x context x data x pipeline``."""
        return self.tensor * self.context * self.data * self.pipeline

    @property
    def micro_batches(self) -> int:
        """Micro batches of a data rank in a step."""
        return self.global_batch // (self.data * self.micro_batch)

    @property
    def split(self) -> Split:
        """The split of one layer over the ranks of a stage."""
        return Split(self.tensor, self.expert, self.context, self.is_sequence)

    @property
    def shards_optimizer(self) -> bool:
        """True if data ranks shard the optimizer's state: ZeRO-1 and on."""
        return self.zero >= ZERO.index("optimizer")

    @property
    def shards_gradients(self) -> bool:
        """True if data ranks shard gradients: ZeRO-2 and on."""
        return self.zero >= ZERO.index("gradients")

    @property
    def shards_weights(self) -> bool:
        """True if data ranks shard weights: ZeRO-3."""
        return self.zero >= ZERO.index("weights")

    @property
    def shard_ranks(self) -> int:
        """Ranks with the same parameters of a layer outside its experts; ZeRO shards among them."""
        return self.data * self.context

    @cached_property
    def spreads(self) -> dict[str, Spread]:
        """Size and stride, in ranks, of the groups of each axis."""
        stage = self.tensor * self.context * self.data
        return {
            "tensor": Spread(self.tensor),
            "context": Spread(self.context, self.tensor),
            "expert": Spread(self.expert, self.tensor * self.context),
            "data": Spread(self.shard_ranks, self.tensor),
            "expert data": Spread(self.data // self.expert, self.expert_shard_stride),
            "pipeline": Spread(min(self.pipeline, 2), stage),
        }

    @property
    def expert_shard_stride(self) -> int:
        """Stride, in ranks, of the ranks that hold the same experts."""
        return self.tensor * self.context * self.expert

    def __str__(self) -> str:
        axes = {"TP": self.tensor, "CP": self.context, "EP": self.expert, "PP": self.pipeline}
        words = [f"{name}={size}" for name, size in axes.items() if size > 1]
        if self.virtual > 1:
            words.append(f"VP={self.virtual}")
        state = [f"DP={self.data}", f"ZeRO-{self.zero}", f"recompute={self.recompute}"]
        if self.is_sequence and self.tensor > 1:
            state.append("SP")
        if self.schedule != ONE_F_ONE_B:
            state.append(self.schedule)
        return " ".join([*words, *state, f"micro batch {self.micro_batch}"])


def check(layout: Layout, model: Architecture, machine: Machine) -> None:
    """Refuse a layout that is illegal on a machine or for a model.

    Raises:
        BadInput: names the option, the legal values and the reason.
    """
    for fault in (_numbers, _listed_values, _machine, _layers, _tokens, _batch):
        for message, fix in fault(layout, model, machine):
            raise BadInput(message, fix=fix)


def is_legal(layout: Layout, model: Architecture, machine: Machine) -> bool:
    """True if the layout is legal for the model on the machine."""
    try:
        check(layout, model, machine)
    except BadInput:
        return False
    return True


_OPTION_BY_FIELD: Final = {
    "tensor": "--tp",
    "pipeline": "--pp",
    "virtual": "--vp",
    "data": "--dp",
    "context": "--cp",
    "expert": "--ep",
    "micro_batch": "--micro-batch",
    "global_batch": "--global-batch",
    "sequence": "--sequence",
}


def _numbers(layout: Layout, model: Architecture, machine: Machine) -> Iterator[Misfit]:
    del model, machine
    for name, option in _OPTION_BY_FIELD.items():
        value = getattr(layout, name)
        if not (isinstance(value, int) and value >= 1):
            yield Misfit(
                f"{option} {value}; legal: a whole number from 1 on", f"for example {option} 1"
            )


_LEGAL_VALUES: Final = {
    "recompute": RECOMPUTES,
    "schedule": SCHEDULES,
    "dtype": DTYPES,
    "optimizer": tuple(OPTIMIZERS),
    "zero": tuple(range(len(ZERO))),
}
_EXAMPLES: Final = {"dtype": "bf16", "zero": 1, "recompute": "selective"}
"""Values that a fix names in place of the first legal one."""


def _listed_values(layout: Layout, model: Architecture, machine: Machine) -> Iterator[Misfit]:
    del model
    for name, legal in _LEGAL_VALUES.items():
        value = getattr(layout, name)
        if value not in legal:
            yield Misfit(
                f"--{name} is {value!r}; legal: {', '.join(map(str, legal))}",
                f"for example --{name} {_EXAMPLES.get(name, legal[0])}",
            )
    if layout.dtype not in machine.peaks:
        dtypes = list(machine.peaks)
        yield Misfit(
            f"--dtype {layout.dtype}: {machine.chip.name} has no published peak in it; legal: "
            f"{', '.join(dtypes)}",
            f"for example --dtype {dtypes[-1]}" if dtypes else "take another instance",
        )


def _machine(layout: Layout, model: Architecture, machine: Machine) -> Iterator[Misfit]:
    del model
    name, ranks = machine.instance.name, machine.ranks_per_instance
    if machine.chip.name == _INFERENCE_CHIP:
        yield Misfit(
            f"{name} cannot train: Inferentia1 has no training software", "for example --on trn2"
        )
    if machine.count > 1 and not machine.instance.efa_bytes_per_s:
        message = f"{name} has no EFA, so {machine.count} of them cannot train together"
        yield Misfit(message, "use one, or a type with EFA, such as trn1.32xlarge")
    if layout.tensor > ranks:
        yield Misfit(
            f"--tp {layout.tensor} is more than the {ranks} ranks of {name}, each a "
            f"{machine.rank_name}; legal: at most {ranks}",
            "use --pp for more ranks: tensor ranks exchange within one instance",
        )
    if ranks % layout.tensor:
        legal = ", ".join(str(size) for size in divisors(ranks))
        yield Misfit(
            f"--tp {layout.tensor} does not divide the {ranks} ranks of {name}; legal: {legal}",
            "choose one of these",
        )
    if layout.ranks > machine.ranks:
        yield Misfit(
            f"{layout.ranks:,} ranks asked for (tp x cp x dp x pp); {machine.count} x {name} "
            f"{'has' if machine.count == 1 else 'have'} {machine.ranks:,}",
            f"use at least {-(-layout.ranks // ranks)} instances",
        )
    if layout.ranks < machine.ranks:
        idle_ranks = machine.ranks - layout.ranks
        yield Misfit(
            f"{idle_ranks:,} of {machine.ranks:,} ranks would have no work: tp x cp x dp x pp is "
            f"{layout.ranks:,}",
            "use fewer instances, more data ranks, or leave an axis out",
        )


def _layers(layout: Layout, model: Architecture, machine: Machine) -> Iterator[Misfit]:
    del machine
    forms = [form for tower in model.towers for layer in tower.layers for form in layer.attentions]
    heads = min((form.heads for form in forms if form.heads), default=layout.tensor)
    if layout.tensor >= 2 * heads:
        message = f"--tp {layout.tensor}: {model.name} has {heads} heads, so that some ranks"
        yield Misfit(f"{message} would have none", f"--tp of at most {heads}")
    depth = model.depth
    parts = layout.pipeline * layout.virtual
    if depth % parts:
        fix = f"--pp x --vp of {', '.join(map(str, divisors(depth)))}"
        yield Misfit(
            f"{model.name} has {depth} layers, which --pp x --vp = {parts} does not divide", fix
        )
    if layout.virtual > 1 and layout.pipeline == 1:
        yield Misfit(f"--vp {layout.virtual} without a pipeline; legal: 1", "give --pp as well")
    if layout.virtual > 1 and layout.schedule != ONE_F_ONE_B:
        message = f"--schedule {layout.schedule} has no virtual stages; --vp {layout.virtual} given"
        yield Misfit(message, "--vp 1, or --schedule 1f1b")
    experts = model.experts.count if model.experts else 0
    if layout.expert > 1 and not experts:
        yield Misfit(
            f"--ep {layout.expert}: {model.name} has no experts; legal: 1", "leave --ep out"
        )
    if experts and experts % layout.expert:
        fix = f"--ep of {', '.join(map(str, divisors(experts)))}"
        yield Misfit(
            f"{model.name} has {experts} experts, which --ep {layout.expert} does not divide", fix
        )
    if layout.data % layout.expert:
        message = f"--ep {layout.expert} does not divide --dp {layout.data}"
        yield Misfit(message, "expert ranks are a part of data ranks")


def _tokens(layout: Layout, model: Architecture, machine: Machine) -> Iterator[Misfit]:
    del machine
    model.check_length(layout.sequence)
    if layout.sequence % layout.context:
        message = f"--cp {layout.context} does not divide --sequence {layout.sequence}"
        yield Misfit(message, "context ranks have equally many tokens")
    share = layout.sequence // layout.context
    if layout.is_sequence and share % layout.tensor:
        message = f"sequence parallelism: --tp {layout.tensor} does not divide {share} tokens"
        yield Misfit(message, "tensor ranks have equally many tokens")


def _batch(layout: Layout, model: Architecture, machine: Machine) -> Iterator[Misfit]:
    del model, machine
    multiple = layout.data * layout.micro_batch
    if layout.data > layout.global_batch:
        idle_ranks = layout.data - layout.global_batch
        yield Misfit(
            f"{idle_ranks:,} of {layout.data:,} data ranks would have no sequence: "
            f"--global-batch is {layout.global_batch:,}",
            "use a larger batch, fewer instances, or more tensor, context or pipeline ranks",
        )
    if layout.global_batch % multiple:
        yield Misfit(
            f"--global-batch {layout.global_batch} is no multiple of --dp x --micro-batch = "
            f"{multiple}",
            f"for example --global-batch {-(-layout.global_batch // multiple) * multiple}",
        )
    if layout.virtual > 1 and layout.micro_batches % layout.pipeline:
        yield Misfit(
            f"interleaved stages need micro batches in multiples of --pp {layout.pipeline}; "
            f"--global-batch {layout.global_batch} gives {layout.micro_batches}",
            f"for example --global-batch {multiple * layout.pipeline}",
        )


def divisors(number: int) -> list[int]:
    """All divisors of a positive number, ascending."""
    small_divisors = [size for size in range(1, math.isqrt(number) + 1) if number % size == 0]
    return sorted({*small_divisors, *(number // size for size in small_divisors)})
