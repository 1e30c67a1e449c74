"""How much of a step's exchanges computation hides.

An exchange runs on a queue of its own beside the kernels, after those that were begun before it. A
call that touches its tensors waits for it, and so does the end of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trnsim.device.call_log import CallSpan


class Moment(NamedTuple):
    """A part of a step, in order.

    Attributes:
        compute_s: seconds of kernels before it.
        what: "begin", "wait", or "end" of the step.
        exchange: the number of the exchange; -1 at the end.
    """

    compute_s: float
    what: str
    exchange: int = -1


class Overlap(NamedTuple):
    """A step with its exchanges.

    Attributes:
        total_s: from its begin to the end of the last kernel and exchange.
        exchanged_s: the time of all exchanges.
        exposed_s: the part in which no kernel ran.
    """

    total_s: float
    exchanged_s: float
    exposed_s: float


def moments(times_s: Sequence[float], spans: Mapping[int, CallSpan], first: int) -> list[Moment]:
    """A step as moments.

    Args:
        times_s: the time of each of its calls.
        spans: by number, the exchanges that begin in it.
        first: the number of its first call in the recording.
    """
    last = len(times_s)
    marks = [(span.begun - first, 0, "begin", number) for number, span in spans.items()]
    marks += [
        (min(span.awaited - first, last), 1, "wait", number)
        for number, span in spans.items()
        if span.awaited is not None
    ]
    in_order: list[Moment] = []
    at = 0
    for place, _, what, number in sorted(marks, key=lambda mark: mark[:2]):
        in_order.append(Moment(sum(times_s[at:place]), what, number))
        at = place
    return [*in_order, Moment(sum(times_s[at:]), "end")]


def overlap(step: Iterable[Moment], times_s: Mapping[int, float]) -> Overlap:
    """A step whose exchanges take `times_s`."""
    now_s = queue_s = compute_s = exchanged_s = 0.0
    ends_s: dict[int, float] = {}
    for moment in step:
        now_s += moment.compute_s
        compute_s += moment.compute_s
        if moment.what == "begin":
            queue_s = ends_s[moment.exchange] = max(queue_s, now_s) + times_s[moment.exchange]
            exchanged_s += times_s[moment.exchange]
        elif moment.what == "wait":
            now_s = max(now_s, ends_s[moment.exchange])
    total_s = max(now_s, queue_s)
    return Overlap(total_s, exchanged_s, total_s - compute_s)
