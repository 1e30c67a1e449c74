"""A machine: instances of one type, whose ranks are logical NeuronCores or GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trnsim.arch import TARGETS, Target, target_of_chip
from trnsim.arch.catalogue import Accelerator, Catalogue, Instance, catalogue
from trnsim.errors import BadInput
from trnsim.facts import Rate
from trnsim.place.platform import platform

MOST_INSTANCES: Final = 1_000_000
"""Maximum number of instances of a machine, far beyond any fleet."""

_GPU_INSTANCES: Final = {"p5": "p5.48xlarge", "p5en": "p5en.48xlarge"}
_COMPARED_GPU: Final = "p5en"
_RANK_NAMES: Final = {0: "GPU", 1: "NeuronCore"}
_LNC_SOURCE: Final = "aws-neuron-sdk, logical-neuroncore-config.rst"


@dataclass(frozen=True)
class Machine:
    """Instances of one type.

    Attributes:
        name: the name that it was requested by: a short name, or the type's.
        chip: chip or GPU of that type.
        lnc: NeuronCores of a rank; 0 for a GPU.
        is_neuron: whether its chips are AWS's.
        note: a caveat for readers of a plan, or "".
        ranks_per_chip: logical NeuronCores of a chip; 1 for a GPU.
        rank_name: the kind of a rank in words.
        memory_bytes: HBM of one rank: on Trainium2 a bank, which two NeuronCores share.
        peaks: published dense FLOP per second of a whole chip by dtype: "fp32", "fp16", "bf16" and
            "fp8", without those for which no figure is published.
    """

    name: str
    instance: Instance
    chip: Accelerator
    count: int
    lnc: int
    is_neuron: bool = field(init=False, repr=False, compare=False)
    note: str = field(init=False, repr=False, compare=False)
    ranks_per_chip: int = field(init=False, repr=False, compare=False)
    ranks_per_instance: int = field(init=False, repr=False, compare=False)
    ranks: int = field(init=False, repr=False, compare=False)
    chips: int = field(init=False, repr=False, compare=False)
    rank_name: str = field(init=False, repr=False, compare=False)
    memory_bytes: float = field(init=False, repr=False, compare=False)
    peaks: Mapping[str, Rate] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        target, chips = target_of_chip(self.chip.name), self.instance.count
        per_chip = self.chip.cores // self.lnc if self.lnc else 1
        published_peaks = self.chip.peak_flop_per_s
        vars(self).update(  # what follows from the first fields, of which no other may be set
            is_neuron=self.chip.is_neuron,
            note=target.plan_note if target else "",
            ranks_per_chip=per_chip,
            ranks_per_instance=per_chip * chips,
            ranks=per_chip * chips * self.count,
            chips=chips * self.count,
            rank_name=_RANK_NAMES.get(self.lnc, f"logical NeuronCore (LNC={self.lnc})"),
            memory_bytes=float(self.instance.memory_bytes / chips) / per_chip,
            peaks={
                dtype: published_peaks[name]
                for dtype, names in _PEAK_NAMES.items()
                for name in reversed(names)
                if name in published_peaks
            },
        )


_PEAK_NAMES: Final = {
    "fp32": ("fp32",),
    "fp16": ("fp16", "bf16"),
    "bf16": ("bf16",),
    "fp8": ("fp8", "fp8_e4", "mxfp8", "cfp8"),
}
"""Names of a dtype's peak in the catalogue; a chip multiplies FP16 as fast as BF16."""


def trainiums() -> tuple[str, ...]:
    """Names of the chips for training."""
    return tuple(chip.name for chip in TARGETS.values() if chip.is_for_training)


def compared_platforms() -> tuple[str, ...]:
    """Names that plans compare by default: every Trainium, and a GPU."""
    return (*trainiums(), _COMPARED_GPU)


def platforms() -> dict[str, str]:
    """The usual instance type of each platform, by its short name ("trn2", "p5").

    An option that takes a platform also takes an instance type.
    """
    training_first = sorted(TARGETS.values(), key=lambda chip: not chip.is_for_training)
    return {chip.name: chip.instance for chip in training_first} | _GPU_INSTANCES


def machine(
    name: str, count: int = 1, *, lnc: int | None = None, rows: Catalogue | None = None
) -> Machine:
    """`count` instances of the type, or of the target's usual type, called `name`.

    Args:
        name: a chip, a family or an instance type, as `platform` knows it.
        count: number of instances.
        lnc: NeuronCores of a rank; the chip's default if None.
        rows: the catalogue; the built-in one by default.

    Raises:
        BadInput: for an unknown name, an illegal number of instances, or a number of cores that
            the chip cannot join.
    """
    rows = rows or catalogue()
    platform_row = platform(name, rows)
    instance = rows.instance(platform_row.instance)
    if not 1 <= count <= MOST_INSTANCES:
        raise BadInput(
            f"--instances {count}; legal: from 1 to {MOST_INSTANCES:,}",
            fix="leave the number out for the smallest that fits",
        )
    chip = rows.accelerator(instance.accelerator)
    cores = _lnc(platform_row.name, chip.is_neuron, target_of_chip(chip.name), lnc)
    return Machine(platform_row.name, instance, chip, count, cores)


def _lnc(name: str, is_neuron: bool, target: Target | None, requested: int | None) -> int:
    """NeuronCores of a rank: the requested number, or the chip's default; 0 on a GPU."""
    if not is_neuron:
        if requested is not None:
            raise BadInput(
                f"lnc is {requested} on {name}; GPUs have no logical NeuronCores",
                fix="leave out --lnc",
            )
        return 0
    default = int(target.core.logical_core_max) if target else 1
    legal = sorted({1, default})
    if requested is not None and requested not in legal:
        raise BadInput(
            f"lnc is {requested} on {name}; legal: {' or '.join(map(str, legal))}",
            source=_LNC_SOURCE,
            fix=f"--lnc {default}",
        )
    return default if requested is None else requested
