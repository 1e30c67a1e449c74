"""The machine of a deployment: an instance type, and the ranks that its cores or GPUs make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.arch import TARGETS
from trnsim.errors import BadInput
from trnsim.system.platform import platform

if TYPE_CHECKING:
    from trnsim.arch.catalogue import Accelerator, Catalogue, Instance
    from trnsim.system.platform import Platform

_LNC: Final = "aws-neuron-sdk, logical-neuroncore-config.rst"


@dataclass(frozen=True, eq=False)
class Machine:
    """An instance type and the size of a rank on it.

    Attributes:
        name: as it was asked for: a short name or the instance's.
        platform: the instance, its chip and the facts about them.
        lnc: NeuronCores of a rank; 0 on GPUs, where a rank is a GPU.
    """

    name: str
    platform: Platform
    lnc: int

    @property
    def instance(self) -> Instance:
        """The instance type."""
        return self.platform.instance

    @property
    def chip(self) -> Accelerator:
        """Its chip."""
        return self.platform.chip

    @property
    def is_neuron(self) -> bool:
        """Whether its chips are AWS's."""
        return self.chip.is_neuron

    @property
    def ranks_per_chip(self) -> int:
        """Ranks of a chip."""
        return self.chip.cores // self.lnc if self.lnc else 1

    @property
    def ranks(self) -> int:
        """Ranks of an instance."""
        return self.instance.count * self.ranks_per_chip

    @property
    def rank_name(self) -> str:
        """What a rank is called."""
        if not self.is_neuron:
            return "GPU"
        return "NeuronCore" if self.lnc == 1 else f"logical NeuronCore of {self.lnc}"

    @property
    def memory_bytes(self) -> float:
        """Memory of a rank."""
        return float(self.chip.memory_bytes) / self.ranks_per_chip

    @property
    def is_fitted(self) -> bool:
        """Whether published decodes of this chip are among the rows that constants rest on."""
        found = next((one for one in TARGETS.values() if one.chip == self.chip.name), None)
        return found is not None and found.is_fitted


def machine(name: str, lnc: int | None = None, rows: Catalogue | None = None) -> Machine:
    """The machine called `name`, with ranks of `lnc` NeuronCores, the chip's default if None.

    Raises:
        BadInput: no such machine, or cores that its chip cannot join.
    """
    found = platform(name, rows)
    if not found.chip.is_neuron:
        if lnc is not None:
            raise BadInput(
                f"lnc is {lnc} on {name}; GPUs have no logical NeuronCores", fix="leave out --lnc"
            )
        return Machine(name, found, 0)
    default = found.chip.cores // found.ranks_per_chip
    legal = (1,) if default == 1 else (1, default)
    if lnc is not None and lnc not in legal:
        raise BadInput(
            f"lnc is {lnc} on {name}; legal: {' or '.join(map(str, legal))}",
            source=_LNC,
            fix=f"--lnc {default}",
        )
    return Machine(name, found, lnc or default)
