"""The collectives of a cut's program, for the agreement of ranks on the programs that they cut."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from trnsim.device.program_sequence import CutOfProgram, program_sequence
from trnsim.xla import ranks
from trnsim.xla.cuts.foreign_calls import PAIR, PERMUTATION
from trnsim.xla.cuts.programs import CutProgram
from trnsim.xla.cuts.values import EXCHANGE, Place, RecordedCall

if TYPE_CHECKING:
    from trnsim.xla.cuts.ledger import CutRecord, ProgramRecord

_DIGEST_BYTES: Final = 8
_LINE_BYTES: Final = 4
_MOST_LINES: Final = 256
"""Lines of a program whose calls are compared."""
_MOST_NAMED: Final = 3
"""Collectives of a program that an error names."""
_NO_LINE: Final = "no line"


def note(program: CutProgram, record: ProgramRecord, cut: CutRecord) -> None:
    """Note the execution of a program; ranks compare only programs with collectives."""
    if record.exchanges is None:
        record.exchanges = exchanges_of(program, record.number)
    for members, part in record.exchanges.items():
        program_sequence.add(members, part._replace(kind=cut.kind, line=_text(cut.place)))


def exchanges_of(program: CutProgram, number: int) -> dict[tuple[int, ...], CutOfProgram]:
    """The part of a program that ranks compare, by the ranks; {} without collectives."""
    by_ranks: dict[tuple[int, ...], list[RecordedCall]] = {}
    for node in program.nodes:
        if node.signature.name.startswith(EXCHANGE):
            by_ranks.setdefault(_members(node), []).append(node)
    calls = _digests_by_line(program) if by_ranks else {}
    return {
        members: CutOfProgram(
            number,
            "",
            "",
            _collectives_text(nodes),
            _digest(nodes, _DIGEST_BYTES),
            program.digest,
            calls,
        )
        for members, nodes in by_ranks.items()
    }


def _members(node: RecordedCall) -> tuple[int, ...]:
    """The ranks of the group that this rank is in; a permutation without groups has all ranks."""
    attributes = node.signature.arguments[-1]
    has_groups = node.signature.name != PERMUTATION or attributes[:1] == (PAIR,)
    groups = attributes[1] if has_groups else ()
    own_rank = ranks.ordinal()
    members = next((group for group in groups if own_rank in group), range(ranks.world_size()))
    return tuple(sorted(members))


def _digests_by_line(program: CutProgram) -> dict[str, str]:
    """A digest of the calls of each line, in the order in which the program made them."""
    by_line: dict[str, list[RecordedCall]] = {}
    for node in sorted(program.nodes, key=lambda node: node.number):
        by_line.setdefault(_text(node.place), []).append(node)
    return {line: _digest(by_line[line], _LINE_BYTES) for line in [*by_line][:_MOST_LINES]}


def _digest(nodes: list[RecordedCall], size: int) -> str:
    digest = blake2b(digest_size=size)
    for node in nodes:
        digest.update(node.signature.digest)
    return digest.hexdigest()


def _collectives_text(nodes: list[RecordedCall]) -> str:
    """The first collectives in words: "all_reduce float32[4] at train.py:7"."""
    collectives = [_collective(node) for node in nodes[:_MOST_NAMED]]
    hidden_count = len(nodes) - len(collectives)
    return ", ".join(collectives) + (f" and {hidden_count} more" if hidden_count else "")


def _collective(node: RecordedCall) -> str:
    shape, _, _, dtype = node.signature.results[0]
    name = node.signature.name.removeprefix(EXCHANGE)
    return f"{name} {str(dtype).removeprefix('torch.')}{list(shape)} at {_text(node.place)}"


def _text(place: Place | None) -> str:
    return _NO_LINE if place is None else f"{place[0]}:{place[1]}"
