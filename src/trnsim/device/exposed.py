"""The part of a step's exchanges that is exposed, not hidden by computation.

An exchange runs on a queue of its own beside the kernels, after earlier exchanges. A call that
touches its tensors waits for it, and so does the end of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trnsim.device.call_log import CallSpan


class Moment(NamedTuple):
    """An event of a step: begin of or wait for an exchange, or the end of the step.

    Attributes:
        compute_s: seconds of kernels since the moment before.
        kind: "begin", "wait", or "end" of the step.
        exchange: the number of the exchange; -1 at the end.
    """

    compute_s: float
    kind: str
    exchange: int = -1


class Overlap(NamedTuple):
    """The time of a step with its exchanges.

    Attributes:
        total_s: time to the end of the last kernel and exchange.
        exchanged_s: time of all exchanges.
        exposed_s: the part of `total_s` in which no kernel runs.
    """

    total_s: float
    exchanged_s: float
    exposed_s: float


def moments(times_s: Sequence[float], spans: Mapping[int, CallSpan], first: int) -> list[Moment]:
    """A step as moments.

    Args:
        times_s: time of each call of the step.
        spans: spans of the exchanges that begin in it, by number.
        first: number of its first call in the recording.
    """
    last = len(times_s)
    marks = [(span.begun - first, 0, "begin", number) for number, span in spans.items()]
    marks += [
        (min(span.awaited - first, last), 1, "wait", number)
        for number, span in spans.items()
        if span.awaited is not None
    ]
    step_moments: list[Moment] = []
    previous = 0
    for call, _, kind, number in sorted(marks, key=lambda mark: mark[:2]):
        step_moments.append(Moment(sum(times_s[previous:call]), kind, number))
        previous = call
    return [*step_moments, Moment(sum(times_s[previous:]), "end")]


def overlap(step: Iterable[Moment], times_s: Mapping[int, float]) -> Overlap:
    """The overlap in a step whose exchanges take `times_s`, by their numbers."""
    now_s = queue_s = compute_s = exchanged_s = 0.0
    ends_s: dict[int, float] = {}
    for moment in step:
        now_s += moment.compute_s
        compute_s += moment.compute_s
        if moment.kind == "begin":
            queue_s = ends_s[moment.exchange] = max(queue_s, now_s) + times_s[moment.exchange]
            exchanged_s += times_s[moment.exchange]
        elif moment.kind == "wait":
            now_s = max(now_s, ends_s[moment.exchange])
    total_s = max(now_s, queue_s)
    return Overlap(total_s, exchanged_s, total_s - compute_s)
