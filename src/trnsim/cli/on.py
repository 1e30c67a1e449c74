"""The option --on: chips, families and instance types, read alike by every command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from trnsim.arch import TARGETS, Target
from trnsim.errors import BadInput
from trnsim.place.platform import Platform, listed_names, platform, platform_names

_HELP: Final = (
    f"Chips ({', '.join(TARGETS)}), families (p5en) or instance types (trn2.48xlarge), in any "
    "case; with commas, or --on again."
)
_SINGLE_HELP: Final = (
    f"A chip ({', '.join(TARGETS)}), a family (trn2u) or an instance type (trn2.48xlarge), in any "
    "case."
)


def _completions(incomplete: str) -> list[str]:
    """Completions of a typed list of names, whose last name may be unfinished."""
    typed_names, comma, last = incomplete.rpartition(",")
    return [
        f"{typed_names}{comma}{name}" for name in platform_names() if name.startswith(last.lower())
    ]


def on_option(default: str = "", *former_names: str, is_single: bool = False) -> Any:
    """The declaration of --on.

    Args:
        default: in words, the platforms without the option.
        former_names: former names of the option.
        is_single: True if it takes one platform alone.
    """
    return typer.Option(
        "--on",
        *former_names,
        help=_SINGLE_HELP if is_single else _HELP,
        metavar="NAME" if is_single else "NAME,...",
        show_default=default or False,
        autocompletion=_completions,
    )


On = Annotated[list[str] | None, on_option()]
RequiredOn = Annotated[list[str], on_option(is_single=True)]


def platforms(on: Sequence[str] | None) -> list[Platform]:
    """The platforms that --on names; none where it is not given.

    Raises:
        BadInput: it names nothing, or something unknown.
    """
    return [platform(name) for name in listed_names(on)]


def one_platform(on: Sequence[str] | None, default: str = "") -> Platform:
    """The only platform that --on names.

    Raises:
        BadInput: it names several, or nothing and there is no default.
    """
    matches = platforms(on or ([default] if default else None))
    if len(matches) != 1:
        names = ", ".join(platform.name for platform in matches) or "nothing"
        raise BadInput(f"--on names {names}; legal: one platform", fix="for example --on trn2")
    return matches[0]


def chips(on: Sequence[str] | None, default: str = "trn2") -> list[Target]:
    """The emulated chips that --on names, each once: those of its families and instance types.

    Raises:
        BadInput: a platform is unknown, or has a chip that trnsim plans for and does not emulate.
    """
    by_chip = {target.chip: target for target in TARGETS.values()}
    targets: dict[str, Target] = {}
    for entry in platforms(on or [default]):
        target = by_chip.get(entry.chip)
        if target is None:
            raise BadInput(
                f"--on {entry.name}: {entry.chip} is planned for and priced, not emulated; "
                f"legal: {', '.join(TARGETS)}, their families and instance types",
                fix="for example --on trn2; trnsim plan takes every platform",
            )
        targets[target.name] = target
    return list(targets.values())
