"""Who has what: which targets have a feature, and how an error says so."""

from __future__ import annotations

from collections.abc import Callable

from trnsim.arch.neuroncore import NeuronCore
from trnsim.arch.targets import TARGETS, Target, cores
from trnsim.errors import BadInput
from trnsim.text import listed

Has = Callable[[NeuronCore], object]
"""A question to a core, answered by a true value: ``lambda core: core.features.mx``."""

_PAIR = 2


def having(has: Has) -> tuple[Target, ...]:
    """The targets whose cores have it."""
    return tuple(chip for chip in TARGETS.values() if has(chip.core))


def where(has: Has) -> str:
    """Which NeuronCores have it, after the word "legal".

    "from NeuronCore-v3 on" where all later ones have it, else their names.
    """
    known = cores()
    found = [core for core in known if has(core)]
    if not found:
        return "on no NeuronCore"
    if found == list(known[-len(found) :]):
        return f"from {found[0].name} on"
    return f"on {listed([core.name for core in found], 'and')}"


def advised(fix: str, has: Has) -> str:
    """`fix` with the first target that has it for ``{target}``, and its core for ``{core}``."""
    found = having(has)
    if not found:
        return "no target has it" if "{" in fix else fix
    return fix.replace("{target}", found[0].name).replace("{core}", found[0].core.name)


def has_dtype(name: str) -> Has:
    """Whether a core has the number format of that name."""
    return lambda core: name in core.features.dtypes


def paired(chip: Target) -> NeuronCore:
    """The chip's core as one of the two of a logical core (LNC=2).

    Raises:
        BadInput: for a core that has no logical cores of two.
    """
    if chip.core.logical_core_max < _PAIR:
        others = listed([one.name for one in having(makes_pairs)], "or")
        raise BadInput(
            f"a kernel launched as kernel[2] on {chip.core.name}; legal: kernel[1], as it has no "
            "logical cores of two",
            fix=f"launch the kernel without [2], or run it for {others}",
            source=chip.core.logical_core_max.provenance.source,
        )
    return chip.core.paired()


def makes_pairs(core: NeuronCore) -> bool:
    """Whether two of the cores make a logical core (logical-neuroncore-config.rst)."""
    return core.logical_core_max >= _PAIR
