"""Platforms by name: a chip, a family of instances or an instance type, in any case.

                examples                       `instance`              `instances`
chip            trn2, trainium2, gen3, h100    its usual instance      all types that have it
family          trn1n, p5en, p6, p6-b200       its largest instance    all of its types
instance type   trn2.48xlarge                  itself                  itself
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from trnsim.arch import TARGETS
from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.errors import BadInput

_FAMILY_PATTERN: Final = re.compile(r"[a-z]+\d+[a-z]*")
_MAX_SUGGESTIONS: Final = 3


@dataclass(frozen=True)
class Platform:
    """A named platform.

    Attributes:
        name: its name in the catalogue's spelling; for an AWS chip the short one, "trn2".
        instance: the instance type that stands for it where a single one is needed.
        instances: its instance types, in the catalogue's order.
        chip: the key of its chip or GPU in the catalogue.
    """

    name: str
    instance: str
    instances: tuple[str, ...]
    chip: str


def family(name: str) -> str:
    """The family of an instance type: p6 of p6-b200.48xlarge; "" of a name without one."""
    match = _FAMILY_PATTERN.match(name.lower())
    return match.group() if match else ""


def _families(name: str) -> set[str]:
    """The names of an instance type's family: p6 and p6-b200 of p6-b200.48xlarge."""
    prefix, dot, _ = name.lower().partition(".")
    return {family(name), prefix if dot else ""} - {""}


def platform(name: str, hardware: Catalogue | None = None) -> Platform:
    """The platform called `name`.

    Raises:
        BadInput: for an unknown name, with those like it; for a chip that no instance has.
    """
    hardware = hardware or catalogue()
    lower_name = name.strip().lower()
    for key, instance in hardware.instances.items():
        if key.lower() == lower_name:
            return Platform(key, key, (key,), instance.accelerator)
    chip = _chip_keys(hardware).get(lower_name)
    types = tuple(key for key in hardware.instances if lower_name in _families(key)) or tuple(
        key for key, instance in hardware.instances.items() if instance.accelerator == chip
    )
    if not types:
        raise _unknown_name(name, hardware) if chip is None else _in_no_instance(name, hardware)
    for target in TARGETS.values():
        if target.chip == chip:
            return Platform(target.name, target.instance, types, target.chip)
    largest = max(types, key=lambda key: (hardware.instances[key].count, types.index(key)))
    return Platform(lower_name, largest, types, hardware.instances[largest].accelerator)


def listed_names(on: Sequence[str] | None) -> list[str]:
    """The names in the values of --on, without duplicates; [] if `on` is None.

    Raises:
        BadInput: the values name nothing.
    """
    names = [name.strip() for text in on or () for name in text.split(",")]
    names = list(dict.fromkeys(name for name in names if name))
    if on and not names:
        raise BadInput("--on names no platform", fix="for example --on trn2,p5en")
    return names


def short_names(hardware: Catalogue | None = None) -> tuple[str, ...]:
    """Names of AWS's chips, then of families of instances."""
    hardware = hardware or catalogue()
    return tuple(dict.fromkeys([*TARGETS, *filter(None, map(family, hardware.instances))]))


def platform_names(hardware: Catalogue | None = None) -> tuple[str, ...]:
    """Names that `platform` knows: AWS chips, families, instance types, other chips."""
    hardware = hardware or catalogue()
    return tuple(
        dict.fromkeys(
            [
                *short_names(hardware),
                *(name for key in hardware.instances for name in sorted(_families(key))),
                *hardware.instances,
                *_chip_keys(hardware),
            ]
        )
    )


def _chip_keys(hardware: Catalogue) -> dict[str, str]:
    """Names of chips and their generations in small letters -> the chip's key in the catalogue."""
    targets = TARGETS.values()
    return {
        **{target.name: target.chip for target in targets},
        **{target.generation_name: target.chip for target in targets if target.generation_name},
        **{
            alias.lower(): chip.name
            for chip in (*hardware.chips.values(), *hardware.gpus.values())
            for alias in (chip.name, *chip.aliases)
        },
    }


def _unknown_name(name: str, hardware: Catalogue) -> BadInput:
    by_name = {platform_name.lower(): platform_name for platform_name in platform_names(hardware)}
    similar_names = get_close_matches(name.strip().lower(), by_name, _MAX_SUGGESTIONS)
    return BadInput(
        f"{name!r} is no chip, family or instance type; legal: "
        f"{', '.join(short_names(hardware))}, or a type such as trn2.48xlarge",
        fix=f"perhaps {' or '.join(by_name[match] for match in similar_names)}"
        if similar_names
        else "trnsim instances lists all types",
    )


def _in_no_instance(name: str, hardware: Catalogue) -> BadInput:
    return BadInput(
        f"AWS rents no instance with {name}; legal: {', '.join(short_names(hardware))}",
        fix=f"name one of these; trnsim explain {name} prints what is known of it",
    )
