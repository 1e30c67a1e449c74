"""What ran between timing events: enough to say the time between any two, in bounded memory.

Only events that a program still holds can be asked, so what ran between two marks is counted
by call, marks that nobody holds are forgotten, and a long count is turned into its time.
"""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trnsim.torch.api.cores import target
from trnsim.torch.aten.calls import call_of
from trnsim.torch.device_time import time_of
from trnsim.torch.recording import Recorded, Recording, recordings

if TYPE_CHECKING:
    from trnsim.torch.api.streams import Event

_MOST: Final = 4096
"""Different calls that are counted before their time is computed."""


@dataclass
class Span:
    """What ran between two marks.

    Attributes:
        calls: how often each call came, of those whose time is not computed yet.
        device_time_s: the time of the others.
        missing: how many of the others have no time, by reason.
    """

    calls: Counter[Recorded] = field(default_factory=Counter)
    device_time_s: float = 0.0
    missing: Counter[str] = field(default_factory=Counter)

    def add(self, call: Recorded, number: int = 1) -> None:
        """Count a call."""
        self.calls[call] += number
        if len(self.calls) >= _MOST:
            self.settle()

    def absorb(self, later: Span) -> None:
        """Go on to the end of the span that follows."""
        self.device_time_s += later.device_time_s
        self.missing += later.missing
        for call, number in later.calls.items():
            self.add(call, number)

    def settle(self) -> None:
        """Compute the time of the calls, and forget them."""
        for call, number in self.calls.items():
            found = time_of(call, target().name)
            self.device_time_s += number * found.device_time_s
            if found.missing:
                self.missing[found.missing] += number
        self.calls.clear()


class Clock(Recording):
    """The spans between the marks that somebody holds."""

    def __init__(self) -> None:
        super().__init__()
        self._spans: dict[int, Span] = {}
        self._held: dict[weakref.ref[Event], int] = {}
        self._next = 0

    def note(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Count a call, if anybody may ask."""
        if self._held:
            self.note_call(call_of(name, args, kwargs, result), 0)

    def note_call(self, call: Recorded, core: int) -> None:
        """Count what is known already."""
        del core
        span = self._spans.get(self._next - 1)
        if span is not None:
            span.add(call)

    def mark(self, event: Event) -> int:
        """The number of a new mark, in the place of the one that `event` held."""
        if self not in recordings:
            recordings.append(self)
        self._held[weakref.ref(event, self._released)] = self._next
        self._spans[self._next] = Span()
        self._next += 1
        self._forget()
        return self._next - 1

    def between(self, start: int, end: int) -> Span:
        """What ran from one mark to another."""
        whole = Span()
        for number, span in list(self._spans.items()):  # a lost event may clear them meanwhile
            if start <= number < end:
                span.settle()
                whole.absorb(span)
        return whole

    def _released(self, event: weakref.ref[Event]) -> None:
        self._held.pop(event, None)
        if not self._held:  # nobody can ask; no span is kept
            self._spans.clear()

    def _forget(self) -> None:
        """Join what ran after a mark that nobody holds to what ran before it, if that is kept."""
        held, kept = set(self._held.values()), dict[int, Span]()
        last: Span | None = None
        for number, span in list(self._spans.items()):
            if number in held or number == self._next - 1:
                kept[number] = last = span
            elif last is not None:
                last.absorb(span)
        self._spans = kept


_clocks: Final[list[Clock]] = []


def clock() -> Clock:
    """The clock that all timing events share."""
    if not _clocks:
        _clocks.append(Clock())
    return _clocks[0]
