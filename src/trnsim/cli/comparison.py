"""Platforms side by side, of which some may have no answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from trnsim.document.answer import Note
from trnsim.errors import BadInput, EmulatorError, NotModelled, OutOfMemory

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Refusal:
    """A platform without an answer, and the reason.

    Attributes:
        platform: its name, with the number of its instances where several are compared.
    """

    platform: str
    error: EmulatorError

    @property
    def values(self) -> dict[str, str]:
        """The refusal as values of JSON."""
        return {"platform": self.platform, "reason": self.error.reason, "fix": self.error.fix}

    @property
    def note(self) -> Note:
        """The refusal in words, without the table that a reason may end in."""
        reason = self.error.reason.partition("\n")[0]
        fix = f"; fix: {self.error.fix}" if self.error.fix else ""
        return Note(f"{self.platform}: no answer: {reason}{fix}", kind="strong")


@dataclass(frozen=True)
class Comparison:
    """A question that is put to several platforms.

    Attributes:
        refusals: the platforms without an answer, in the order of the questions.
    """

    refusals: list[Refusal] = field(default_factory=list[Refusal])

    def ask(self, platform: str, question: Callable[[], Answer]) -> list[Answer]:
        """The answer of one platform; none, and a refusal, if it has none."""
        try:
            return [question()]
        except (BadInput, NotModelled, OutOfMemory) as error:
            self.refusals.append(Refusal(platform, error))
            return []

    def check(self, answers: Sequence[object], *, needs_all: bool = False) -> None:
        """Refuse a comparison without an answer, or with `needs_all` with a refusal.

        Raises:
            EmulatorError: that of the first platform that was refused.
        """
        if self.refusals and (needs_all or not answers):
            raise self.refusals[0].error
