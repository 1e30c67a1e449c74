"""A behaviour: something that holds in some versions of NKI and not in the others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

from trnsim.behaviours.version import VERSIONS, Version
from trnsim.errors import IllegalInstruction, SourceLine

_NEVER: Final = (10**6,)


class Effect(Enum):
    """The consequence for a program that relies on a behaviour, in a version without it."""

    refused = "refused"
    values = "other values"
    time = "another time"
    warned = "a warning"


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """A row of the table of behaviours.

    Attributes:
        name: its name in reports: "ap-offset-adds".
        since: the first version in which it holds.
        until: the first version in which it holds no more; None if it still holds.
        form: how a program's source uses it: a name ("nl.dynamic_range"), a keyword
            ("nisa.dma_copy(dst_rmw_op=)"), or a construct in words; "" if the source cannot show
            it, or if programs of other versions look the same.
        rule: the behaviour as a clause, without a full stop.
        otherwise: the behaviour of the other versions, as a clause.
        instead: what to write so that a program runs in all versions.
        effect: the consequence where it does not hold.
    """

    name: str
    since: str = "0.2"
    until: str | None = None
    form: str = ""
    rule: str
    otherwise: str
    instead: str
    source: str
    effect: Effect = Effect.refused

    @cached_property
    def first(self) -> tuple[int, ...]:
        """The number of the first version in which it holds."""
        return VERSIONS[self.since].number

    @cached_property
    def end(self) -> tuple[int, ...]:
        """The number of the first version in which it holds no more."""
        return _NEVER if self.until is None else VERSIONS[self.until].number

    @property
    def span(self) -> str:
        """The versions in which it holds, in words: "in NKI 0.3 to 0.5", "from NKI 0.5 on"."""
        names = self._version_names()
        if self.until is None:
            return f"from NKI {names[0]} on"
        return f"in NKI {names[0]}" + (f" to {names[-1]}" if len(names) > 1 else "")

    def refusal(
        self, version: Version, usage: str, line: SourceLine | None = None
    ) -> IllegalInstruction:
        """The error of a program that needs this behaviour under a version without it.

        Args:
            version: the version of the running kernel.
            usage: what the program wrote.
            line: the line of the program; None for the innermost on the stack.
        """
        names = self._version_names()
        nearest_name = names[0] if version.number < self.first else names[-1]
        return IllegalInstruction(
            f"{usage} under {version}, where {self.otherwise}; legal: {self.span}",
            fix=f"{self.instead}; or run it as NKI {nearest_name}: --nki {nearest_name}",
            source=self.source,
            line=line,
        )

    def require(self, version: Version, usage: str, line: SourceLine | None = None) -> None:
        """Refuse `usage` if this behaviour does not hold in `version`.

        Raises:
            IllegalInstruction: with the reason and the replacement.
        """
        if not version.follows(self):
            raise self.refusal(version, usage, line)

    def _version_names(self) -> list[str]:
        """The names of the versions in which it holds."""
        return [version.name for version in VERSIONS.values() if version.follows(self)]


def existence(since: str, form: str, instead: str, source: str = "") -> Behaviour:
    """The existence of a name or keyword since a version.

    The source is the release notes of that version, unless another is given.
    """
    return Behaviour(
        name=form,
        since=since,
        form=form,
        rule=f"{form} exists",
        otherwise="it does not exist yet",
        instead=instead,
        source=source or f"release notes of NKI {since}",
    )
