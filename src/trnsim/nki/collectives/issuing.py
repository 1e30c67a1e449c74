"""Conversion of a collective's operands, and its issue to the current core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from trnsim.behaviours.collectives import NAME_PARAMETERS, PRIORITIZED, RETURN_INSTRUCTIONS
from trnsim.errors import IllegalInstruction
from trnsim.isa import Collective, Instruction, Setting
from trnsim.memory import Tile
from trnsim.nki.arguments import label_of
from trnsim.nki.collectives.replica_group import groups_of
from trnsim.nki.dialect import follows, require
from trnsim.nki.instruction import NkiInstruction
from trnsim.nki.loop_bodies import check_turn
from trnsim.nki.settling import settle
from trnsim.program import current_core

Tensors = Sequence[Any]


class Options(NamedTuple):
    """The options that all collectives have.

    Attributes:
        priority: the priority of its transfers, 0 to 3; None for the default.
        name: the label of the instruction.
    """

    priority: int | None
    name: str | None


def instruction_of(kind: Any, **operands: Any) -> Any:
    """The instruction of a collective, among the ranks with which the kernel was launched.

    Args:
        kind: class of the instruction.
        operands: its fields by name; the ranks and their network are added here.
    """
    link = current_core().world(kind.opcode)
    tiles = [
        tile
        for value in operands.values()
        if isinstance(value, tuple)
        for tile in value
        if isinstance(tile, Tile)
    ]
    setting = Setting(link.fabric, link.ranks, is_joint=_is_joint(kind, link.fabric.lnc, tiles))
    return kind(**operands, setting=setting)


def issue_grouped(
    kind: type[Collective],
    srcs: Tensors,
    dsts: Tensors,
    group: Any,
    options: Options,
    **rest: Any,
) -> NkiInstruction | None:
    """Issue a collective of a group, from `srcs` to `dsts`."""
    return issue(
        kind,
        options,
        srcs=as_tensors(srcs),
        dsts=as_tensors(dsts),
        replica_group=groups_of(kind.opcode, group),
        **rest,
    )


def issue(kind: type[Collective], options: Options, **operands: Any) -> NkiInstruction | None:
    """Issue a collective."""
    check_options(kind.opcode, options)
    return issue_of_version(
        instruction_of(kind, **operands, priority=options.priority), options.name
    )


def issue_of_version(instruction: Instruction, name: str | None) -> NkiInstruction | None:
    """Issue `instruction` to the current core, and return its handle.

    None in versions of NKI whose collectives return nothing.
    """
    handle = issue_instruction(instruction, name)
    return handle if follows(RETURN_INSTRUCTIONS) else None


def issue_instruction(instruction: Instruction, name: str | None) -> NkiInstruction:
    """Issue `instruction`, labelled `name`, to the current core, and return its handle."""
    core = current_core()
    if core.nesting.turns:
        check_turn(instruction)
    core.issue(settle(instruction))
    return NkiInstruction(core, name)


def check_options(call: str, options: Options) -> None:
    """Refuse options that the version of NKI lacks.

    Raises:
        IllegalInstruction: for such an option.
    """
    check_name(call, options.name)
    if options.priority is not None and call in PRIORITIZED:
        require(PRIORITIZED[call], f"ncc.{call}(priority={options.priority!r})")


def check_name(call: str, name: str | None) -> None:
    """Refuse a label that is no text, or where the version of NKI has none.

    Raises:
        IllegalInstruction: for such a label.
    """
    label_of(f"ncc.{call}", name, f"nki.collectives.{call}, name")
    if name is not None and call in NAME_PARAMETERS:
        require(NAME_PARAMETERS[call], f"ncc.{call}(name={name!r})")


def _is_joint(kind: Any, cores: int, tiles: Sequence[Tile]) -> bool:
    """True if the cores of a logical core take part as one rank, with tensors in shared HBM.

    Args:
        kind: class of the collective.
        cores: physical cores of a logical core (LNC).
        tiles: its operands.

    Raises:
        IllegalInstruction: if only some of the tensors are shared.
    """
    if cores == 1:
        return True
    sharing = {tile.storage.is_shared for tile in tiles if not tile.memory.is_on_chip}
    if len(sharing) > 1:
        raise IllegalInstruction(
            f"{kind.opcode}: some tensors are in shared and some in private HBM; legal: all in one",
            fix="allocate them all with buffer=nl.shared_hbm",
            source="nki.collectives",
        )
    return sharing == {True}


def as_tensors(tensors: Any) -> Any:
    """A list of tensors as a tuple; the instruction refuses other values."""
    return tuple(tensors) if isinstance(tensors, list | tuple) else tensors


def as_tuples(items: Any) -> Any:
    """Lists and ranges as tuples, also nested; the instruction refuses other values."""
    is_many = isinstance(items, list | tuple | range)
    return tuple(map(as_tuples, items)) if is_many else items
