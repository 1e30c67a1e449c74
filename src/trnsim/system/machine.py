"""A machine: instances of one type, whose ranks are logical NeuronCores or GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.arch import TARGETS
from trnsim.arch.catalogue import Accelerator, Catalogue, Instance, catalogue
from trnsim.errors import BadInput
from trnsim.system.platform import platforms

if TYPE_CHECKING:
    from trnsim.facts import Rate

MOST_INSTANCES: Final = 1_000_000
"""Far beyond any fleet."""


@dataclass(frozen=True)
class Machine:
    """Equal instances.

    Attributes:
        instance: their type.
        chip: the type's chip or GPU.
        count: how many instances.
        lnc: NeuronCores of a rank; 0 for a GPU.
    """

    instance: Instance
    chip: Accelerator
    count: int
    lnc: int

    @property
    def ranks_per_chip(self) -> int:
        """Logical NeuronCores of a chip; 1 for a GPU."""
        return self.chip.cores // self.lnc if self.lnc else 1

    @property
    def ranks_per_instance(self) -> int:
        """Ranks of one instance."""
        return self.ranks_per_chip * self.instance.count

    @property
    def ranks(self) -> int:
        """Ranks of all instances."""
        return self.ranks_per_instance * self.count

    @property
    def chips(self) -> int:
        """Chips of all instances."""
        return self.instance.count * self.count

    @property
    def rank_name(self) -> str:
        """What a rank is."""
        if not self.lnc:
            return "GPU"
        return "NeuronCore" if self.lnc == 1 else f"logical NeuronCore (LNC={self.lnc})"

    @property
    def memory_bytes(self) -> float:
        """HBM of one rank: on Trainium2 a bank, which two NeuronCores share."""
        chips = self.instance.memory_bytes / self.instance.count
        return float(chips) / self.ranks_per_chip

    @property
    def memory_bytes_per_s(self) -> float:
        """HBM bandwidth of one rank."""
        return float(self.chip.memory_bytes_per_s) / self.ranks_per_chip

    def peak(self, dtype: str) -> Rate:
        """Published dense FLOP per second of a whole chip in "fp32", "fp16", "bf16" or "fp8".

        Raises:
            BadInput: for a dtype whose peak is not published.
        """
        peaks = self.chip.peak_flop_per_s
        found = {
            dtype: next((peaks[name] for name in names if name in peaks), None)
            for dtype, names in _NAMES.items()
        }
        rate = found.get(dtype)
        if rate is not None:
            return rate
        known = [name for name, one in found.items() if one is not None]
        raise BadInput(
            f"--dtype {dtype}: {self.chip.name} has no published peak in it; legal: "
            f"{', '.join(known)}",
            fix=f"for example --dtype {known[-1]}" if known else "take another instance",
        )


_NAMES: Final = {
    "fp32": ("fp32",),
    "fp16": ("fp16", "bf16"),
    "bf16": ("bf16",),
    "fp8": ("fp8", "fp8_e4", "mxfp8", "cfp8"),
}
"""By dtype, what its peak is called; what multiplies BF16 multiplies FP16 as fast."""


def machine(name: str, count: int = 1, *, lnc: int = 0, rows: Catalogue | None = None) -> Machine:
    """`count` instances of the type, or of the target's usual type, called `name`.

    Args:
        name: an instance type, or a short name of `trnsim.system.platform.platforms`.
        count: how many instances.
        lnc: NeuronCores of a rank; the chip's default where it is 0.
        rows: the catalogue; the built-in one by default.

    Raises:
        BadInput: for a name that is not known, or a number of instances that cannot be.
    """
    rows = rows or catalogue()
    short = platforms()
    instance = rows.instances.get(short.get(name, name))
    if instance is None:
        legal = ", ".join([*short, *rows.instances])
        raise BadInput(f"target {name!r} is not known; legal: {legal}", fix="for example --on trn2")
    if not 1 <= count <= MOST_INSTANCES:
        raise BadInput(
            f"--instances {count}; legal: from 1 to {MOST_INSTANCES:,}",
            fix="leave the number out for the smallest that fits",
        )
    chip = rows.accelerator(instance.accelerator)
    found = next((one for one in TARGETS.values() if one.chip == chip.name), None)
    usual = int(found.core.logical_core_max) if found else 1
    return Machine(instance, chip, count, (lnc or usual) if chip.is_neuron else 0)
