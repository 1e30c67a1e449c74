"""The versions of NKI that are emulated, each with the SDK that brought it.

Source: nki/migration/index.rst, NKI version to Neuron SDK mapping; release notes of NKI.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Final

from trnsim.errors import BadInput

if TYPE_CHECKING:
    from trnsim.behaviours.behaviour import Behaviour


@dataclass(frozen=True)
class Version:
    """A version of NKI.

    Attributes:
        name: "0.4".
        sdk: the Neuron SDK that brought it.
        released: the date of that SDK.
    """

    name: str
    sdk: str
    released: str

    @cached_property
    def number(self) -> tuple[int, ...]:
        """Its parts as integers, by which versions are ordered."""
        return tuple(map(int, self.name.split(".")))

    def follows(self, behaviour: Behaviour) -> bool:
        """True if `behaviour` holds in this version."""
        return behaviour.first <= self.number < behaviour.end

    def __str__(self) -> str:
        return f"NKI {self.name}"


VERSIONS: Final = {
    version.name: version
    for version in (
        Version("0.2", "2.27.0 and 2.28.0", "2025-12-19"),
        Version("0.3", "2.29.0", "2026-04-09"),
        Version("0.4", "2.30.0", "2026-05-21"),
        Version("0.5", "2.31.0", "2026-07-07"),
        Version("0.6", "2.32.0", "2026-08-17"),
        Version("0.7", "2.33.0", "2026-10-19"),
    )
}
"""The emulated versions by name, the oldest first."""

LATEST: Final = next(reversed(VERSIONS.values()))


def version_named(name: str, asked_by: str) -> Version:
    """The version called `name`: "0.4" or "0.4.0".

    Args:
        name: the name.
        asked_by: the option, variable or comment that gives it, for the error.

    Raises:
        BadInput: no emulated version has that name.
    """
    legal = ", ".join(VERSIONS)
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
        raise BadInput(
            f"{asked_by} names NKI by {type(name).__name__}; legal: a text: {legal}",
            fix=f'write it in quotes: nki="{name}"',
        )
    short = name.strip().removesuffix(".0") if name.count(".") > 1 else name.strip()
    if short in VERSIONS:
        return VERSIONS[short]
    similar_name = get_close_matches(short, VERSIONS, 1, 0.0)[0]
    if short == "0.1":
        similar_name, legal = "0.2", f"{legal} (0.1 is the generation before, neuronxcc.nki)"
    raise BadInput(
        f"{asked_by} names NKI {name!r}; legal: {legal}",
        fix=f"name one of these, such as {similar_name}; or leave it out: the version is then "
        "found from the names that the file uses",
        source="nki/migration/index.rst, NKI version to Neuron SDK mapping",
    )
