"""The sequence of lazily traced programs with collectives, which all ranks must share.

`torch_xla` cuts a program where a value is read or a step ends. A collective within it begins when
all its ranks execute that program. If a rank executes one more, or one whose collectives differ,
ranks wait for each other forever: an error. Programs with equal collectives that differ elsewhere
run, but each rank compiles its own while the others wait: a warning.

The sequence since the last collective of the same ranks is part of what they agree on at the next
one (`trnsim.device.agreement`). Programs without collectives are no part of it.

Source: training-troubleshooting.rst, "NCCL warning": all workers load a graph with a collective;
ranks that compile different ones are waited for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import zip_longest
from typing import Final, NamedTuple

from trnsim.errors import SourceLine
from trnsim.user_warnings import warn

_MOST_PROGRAMS: Final = 8
"""The most programs between two collectives that are named; a digest stands for the others."""
_DIGEST_BYTES: Final = 8
_FIX: Final = (
    "let every rank cut the same programs: what collectives give is read, printed and branched on "
    "by all ranks or in xm.add_step_closure, and a step ends at one line"
)
_WARNING_FIX: Final = (
    "let every rank make the same calls with the same shapes (drop_last=True), and print in "
    "xm.add_step_closure"
)


class ProgramsDiffer(UserWarning):
    """Ranks compile different programs with the same collectives, and wait for each other."""


class CutOfProgram(NamedTuple):
    """A program with collectives among some ranks, as a rank cut it.

    Attributes:
        number: its number among the programs of this process.
        collectives: the collectives among those ranks, each with its line, in order.
        exchanges: a digest of these collectives without their lines.
        digest: the digest of the whole program.
        calls: a digest of the calls of each line, in the order of the lines' first calls.
    """

    number: int
    kind: str
    line: str
    collectives: str
    exchanges: str
    digest: str
    calls: dict[str, str]


class ProgramSequence:
    """The programs that this rank has cut since the last collective of the same ranks."""

    def __init__(self) -> None:
        self._cuts: dict[tuple[int, ...], list[CutOfProgram]] = {}

    def add(self, ranks: Sequence[int], cut: CutOfProgram) -> None:
        """Add a program that has collectives among `ranks`."""
        self._cuts.setdefault(tuple(sorted(ranks)), []).append(cut)

    def published(self, ranks: Sequence[int]) -> str:
        """The programs since the last collective of `ranks`, as text; "" for none."""
        cuts = self._cuts.pop(tuple(sorted(ranks)), [])
        if not cuts:
            return ""
        unnamed = repr([cut.exchanges for cut in cuts[_MOST_PROGRAMS:]]).encode()
        digest = blake2b(unnamed, digest_size=_DIGEST_BYTES).hexdigest()
        return json.dumps([len(cuts), digest, cuts[:_MOST_PROGRAMS]], separators=(",", ":"))


program_sequence: Final = ProgramSequence()
"""The sequence of this process."""


class _Published(NamedTuple):
    """Programs of a rank, as published.

    Attributes:
        total: the number of programs.
        digest: a digest of the programs after the first `_MOST_PROGRAMS`.
        cuts: the first programs.
    """

    total: int
    digest: str
    cuts: list[CutOfProgram]


def sequence_failure(
    by_rank: Mapping[int, str], name: str = "a collective"
) -> tuple[str, str] | None:
    """The reason why ranks with these sequences would wait for each other forever, and its fix.

    None if they would not; a warning tells of programs that differ beside equal collectives. `name`
    is the collective before which the sequences are compared.
    """
    if len(set(by_rank.values())) == 1:
        return None
    ranks = sorted(by_rank)
    sequences = {rank: _parse_published(by_rank[rank]) for rank in ranks}
    first = sequences[ranks[0]]
    for rank in ranks[1:]:
        other = sequences[rank]
        index = _first_difference(
            [cut.exchanges for cut in first.cuts], [cut.exchanges for cut in other.cuts]
        )
        if index is not None or (first.total, first.digest) != (other.total, other.digest):
            pair = {ranks[0]: _cut_at(first, index), rank: _cut_at(other, index)}
            return "\n".join([_problem(pair, name), *_table(pair)]), _FIX
    for rank in ranks[1:]:
        other = sequences[rank]
        index = _first_difference(
            [cut.digest for cut in first.cuts], [cut.digest for cut in other.cuts]
        )
        if index is not None:
            _warn({ranks[0]: first.cuts[index], rank: other.cuts[index]})
            break
    return None


def _parse_published(text: str) -> _Published:
    if not text:
        return _Published(0, "", [])
    total, digest, cuts = json.loads(text)
    return _Published(total, digest, [CutOfProgram(*cut) for cut in cuts])


def _first_difference(own_programs: Sequence[str], other_programs: Sequence[str]) -> int | None:
    """The first index at which two sequences differ or one has ended; None if they are equal."""
    pairs = enumerate(zip_longest(own_programs, other_programs))
    return next((index for index, (mine, theirs) in pairs if mine != theirs), None)


def _cut_at(sequence: _Published, index: int | None) -> CutOfProgram | None:
    return sequence.cuts[index] if index is not None and index < len(sequence.cuts) else None


def _problem(pair: Mapping[int, CutOfProgram | None], name: str) -> str:
    (rank, own_cut), (peer, peer_cut) = pair.items()
    if own_cut is None and peer_cut is None:
        return (
            f"ranks {rank} and {peer} cut other programs with collectives before {name}, from the "
            f"{_MOST_PROGRAMS + 1}th on: on the chip they wait for each other"
        )
    if own_cut is None or peer_cut is None:
        cutting_rank, lacking_rank = (peer, rank) if own_cut is None else (rank, peer)
        return (
            f"rank {cutting_rank} cuts a program with a collective that rank {lacking_rank} does "
            f"not cut before {name}: on the chip it waits in it for rank {lacking_rank}"
        )
    return (
        f"ranks {rank} and {peer} cut programs with other collectives before {name}: on the chip "
        "they wait for each other"
    )


def _table(pair: Mapping[int, CutOfProgram | None]) -> list[str]:
    """A line for each rank; nothing where none of their programs is known."""
    if not any(pair.values()):
        return []
    lines: list[str] = []
    for rank, cut in pair.items():
        if cut is None:
            lines.append(f"  rank {rank}: no program")
        else:
            lines.append(
                f"  rank {rank}: program {cut.number}, cut by {cut.kind} at {cut.line}, with "
                f"{cut.collectives}"
            )
    (first, own_cut), (peer, peer_cut) = pair.items()
    if own_cut is not None and peer_cut is not None:
        lines += _first_calls(first, peer, own_cut, peer_cut)
    return lines


def _first_calls(first: int, peer: int, own_cut: CutOfProgram, peer_cut: CutOfProgram) -> list[str]:
    """The first line of each rank whose calls the other rank does not make alike."""
    lines = {
        rank: next(
            (line for line, calls in cut.calls.items() if other_calls.get(line) != calls), ""
        )
        for rank, cut, other_calls in (
            (first, own_cut, peer_cut.calls),
            (peer, peer_cut, own_cut.calls),
        )
    }
    words = [f"rank {rank} at {line}" for rank, line in lines.items() if line]
    return [f"  the first calls that differ: {', '.join(words)}"] if words else []


def _warn(pair: Mapping[int, CutOfProgram]) -> None:
    rank, peer = pair
    table = "\n".join(_table(pair))
    file, _, number = next(iter(pair.values())).line.rpartition(":")
    warn(
        f"ranks {rank} and {peer} cut different programs with the same collectives: each compiles "
        f"its own, for which the others wait\n{table}\n  fix: {_WARNING_FIX}",
        ProgramsDiffer,
        SourceLine(file, int(number)) if number.isdigit() else None,
    )
