"""The targets that have a feature, and the wording of errors about it."""

from __future__ import annotations

import os
from collections.abc import Callable

from trnsim.arch.neuroncore import NeuronCore
from trnsim.arch.targets import TARGETS, Target, cores
from trnsim.errors import BadInput
from trnsim.formatting import enumerated

Has = Callable[[NeuronCore], object]
"""A predicate on a core; any true value means yes: ``lambda core: core.features.mx``."""

_PAIRED_CORES = 2
CORES_VARIABLE = "NEURON_LOGICAL_NC_CONFIG"
"""AWS's variable for the physical cores in a logical one."""
_OLDER_CORES_VARIABLE = "NEURON_RT_VIRTUAL_CORE_SIZE"
"""The name of that variable in aws-neuron-sdk libraries/nxd-inference/tutorials/trn2-*.rst."""
INSTANCE_VARIABLE = "TRNSIM_INSTANCE"
"""The variable that names the emulated instance."""


def configured_cores() -> tuple[str, str] | None:
    """The name and value of the variable that sets the physical cores in a logical one, if any."""
    names = (CORES_VARIABLE, _OLDER_CORES_VARIABLE)
    return next(((name, os.environ[name]) for name in names if os.environ.get(name)), None)


def having(predicate: Has) -> tuple[Target, ...]:
    """The targets whose cores satisfy `predicate`."""
    return tuple(chip for chip in TARGETS.values() if predicate(chip.core))


def where(predicate: Has) -> str:
    """The NeuronCores that satisfy `predicate`, worded to follow "legal" in an error.

    "from NeuronCore-v3 on" if that one and all later ones do, else a list of names.
    """
    generations = cores()
    supporting = [core for core in generations if predicate(core)]
    if not supporting:
        return "on no NeuronCore"
    if supporting == list(generations[-len(supporting) :]):
        return f"from {supporting[0].name} on"
    return f"on {enumerated([core.name for core in supporting], 'and')}"


def advised(fix: str, predicate: Has) -> str:
    """`fix` with ``{target}`` and ``{core}`` of the first target that satisfies `predicate`."""
    targets = having(predicate)
    if not targets:
        return "no target has it" if "{" in fix else fix
    return fix.replace("{target}", targets[0].name).replace("{core}", targets[0].core.name)


def has_dtype(name: str) -> Has:
    """The predicate "the core has the number format `name`"."""
    return lambda core: name in core.features.dtypes


def paired(chip: Target) -> NeuronCore:
    """The chip's core as one of the two of a logical core (LNC=2).

    Raises:
        BadInput: for a chip whose cores cannot be paired.
    """
    if chip.core.logical_core_max < _PAIRED_CORES:
        alternatives = enumerated([target.name for target in having(makes_pairs)], "or")
        raise BadInput(
            f"a kernel launched as kernel[2] on {chip.core.name}; legal: kernel[1], as its cores "
            "cannot be paired",
            fix=f"launch the kernel without [2], or run it for {alternatives}",
            source=chip.core.logical_core_max.provenance.source,
        )
    return chip.core.paired()


def makes_pairs(core: NeuronCore) -> bool:
    """True if two such cores can form a logical core (logical-neuroncore-config.rst)."""
    return core.logical_core_max >= _PAIRED_CORES
