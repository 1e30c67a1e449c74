"""Algorithms of an exchange as straight lines: a fixed time and a time for each byte."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """The time of one algorithm of an exchange as a function of bytes.

    Attributes:
        name: the algorithm.
        fixed_s: seconds of a message without bytes.
        per_byte_s: seconds of each byte of the whole message.
    """

    name: str
    fixed_s: float
    per_byte_s: float

    def time_s(self, nbytes: float) -> float:
        """``fixed_s + nbytes per_byte_s``."""
        return self.fixed_s + nbytes * self.per_byte_s

    def then(self, next_line: Line, share: float = 1.0) -> Line:
        """The line of this stage, then of `next_line` with a share of the bytes."""
        names = dict.fromkeys((self.name, next_line.name))
        return Line(
            ", then ".join(name for name in names if name),
            self.fixed_s + next_line.fixed_s,
            self.per_byte_s + share * next_line.per_byte_s,
        )


def fastest(lines: Iterable[Line], nbytes: float) -> Line:
    """The line with the least time for `nbytes`."""
    return min(lines, key=lambda line: line.time_s(nbytes))


def combined_lines(stages: Iterable[tuple[tuple[Line, ...], float]]) -> tuple[Line, ...]:
    """Every combination of the stages' lines in succession, each with its share of the bytes."""
    ways: tuple[Line, ...] = (Line("", 0.0, 0.0),)
    for lines, share in stages:
        ways = tuple(line_so_far.then(line, share) for line_so_far in ways for line in lines)
    return ways
