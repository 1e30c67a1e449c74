"""Equivalence classes of the ranks of a world: by their arguments, and by the time they take.

A kernel is compiled once for all ranks that call it with equal shapes and constants, and each of
them runs the same instructions; their effects differ by `rank_id` and by the values of tensors. A
run without values sees neither, so a single rank may be traced for all ranks of equal arguments, as
long as nothing reads a rank's number.

Ranks with equal programs take the same time if they meet ranks of the same classes. That holds if
each group consists of ranks of a single class, or of all ranks of several classes: by induction
over meetings, ranks of a class are then always ready together.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any

import numpy as np

from trnsim.isa import Collective
from trnsim.program.program import Program

Ranks = tuple[int, ...]
_BY_VALUE = frozenset({NoneType, bool, int, str, bytes, range})


def rank_classes(arguments: Sequence[Sequence[object]]) -> list[Ranks]:
    """Classes of ranks whose arguments are alike for a run without values, that of rank 0 first.

    Args:
        arguments: the arguments of each rank, which may be nested in containers.
    """
    keys: dict[int, Hashable] = {}

    def key(part: object) -> Hashable:
        if id(part) not in keys:
            try:
                keys[id(part)] = _argument_key(part)
            except RecursionError:  # a container that contains itself
                keys[id(part)] = object, id(part)
        return keys[id(part)]

    classes: dict[Hashable, list[int]] = {}
    for rank, parts in enumerate(arguments):
        classes.setdefault(tuple(map(key, parts)), []).append(rank)
    return [tuple(ranks) for ranks in classes.values()]


def is_plain_data(result: object) -> bool:
    """True if a result consists of containers of numbers, strings and None: no registers."""
    if isinstance(result, dict):
        return all(map(is_plain_data, result.values()))
    if isinstance(result, tuple | list):
        return all(map(is_plain_data, result))
    return type(result) in _BY_VALUE or type(result) is float


def timing_classes(programs: Sequence[tuple[Program, ...]]) -> list[Ranks]:
    """Classes of ranks whose programs are equal and take the same time, that of rank 0 first.

    Args:
        programs: the programs of the cores of each rank.
    """
    ranks_by_identity: dict[int, list[int]] = {}
    for rank, rank_programs in enumerate(programs):
        ranks_by_identity.setdefault(id(rank_programs), []).append(rank)
    ranks_by_key: dict[Hashable, list[int]] = {}
    for ranks in ranks_by_identity.values():
        key = tuple(program.timing_key() for program in programs[ranks[0]])
        ranks_by_key.setdefault(key, []).extend(ranks)
    classes = sorted(tuple(sorted(ranks)) for ranks in ranks_by_key.values())
    distinct_programs = {
        id(program): program for ranks in classes for program in programs[ranks[0]]
    }
    groups = {
        group
        for program in distinct_programs.values()
        for checked in program.checked
        if isinstance(checked.instruction, Collective)
        for group in checked.instruction.groups()
    }
    while split_classes := _split_classes(classes, groups):
        classes = sorted(
            part
            for ranks in classes
            for part in (_single_ranks(ranks) if ranks in split_classes else [ranks])
        )
    return classes


def keeps_classes(classes: Iterable[Ranks], groups: Iterable[Ranks]) -> bool:
    """True if each group has ranks of a single class, or all ranks of several classes."""
    return not _split_classes(classes, groups)


def _split_classes(classes: Iterable[Ranks], groups: Iterable[Ranks]) -> set[Ranks]:
    """The classes that a group splits: it has some of their ranks, and ranks of other classes."""
    class_of = {rank: ranks for ranks in classes for rank in ranks}
    split_classes: set[Ranks] = set()
    for group in groups:
        group_classes = {class_of[group[0]]} if group else set()
        if not set(group) <= set(*group_classes):
            members = set(group)
            group_classes = {class_of[rank] for rank in group}
            split_classes |= {ranks for ranks in group_classes if not members.issuperset(ranks)}
    return split_classes


def _single_ranks(ranks: Ranks) -> list[Ranks]:
    return [(rank,) for rank in ranks]


def _argument_key(value: Any, *, is_operand: bool = True) -> Hashable:
    """Key of all that a run without values can read of an argument; else the object's identity.

    Args:
        value: the argument, or a part of it.
        is_operand: true if an array would become a tensor of the kernel, which has no values.
    """
    kind, items = type(value), _items(value)
    if items is not None:  # a dataclass enters the kernel unchanged
        is_operand = is_operand and isinstance(value, tuple | list | dict)
        return kind, tuple(
            (name, _argument_key(item, is_operand=is_operand)) for name, item in items
        )
    if kind in _BY_VALUE:
        return kind, value
    if kind is float:
        return kind, value.hex()
    if isinstance(value, np.generic):
        return kind, value.dtype, value.tobytes()
    if is_operand and _is_tensor(value):
        return kind, tuple(value.shape), str(value.dtype), str(getattr(value, "device", ""))
    return object, id(value)


def _items(value: Any) -> list[tuple[Hashable, Any]] | None:
    """The named items of a container or a frozen dataclass; None for other values."""
    kind: type = type(value)
    if kind is dict:
        return [(_argument_key(name), item) for name, item in value.items()]
    if kind in (tuple, list) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return list(enumerate(value))
    if is_dataclass(kind) and getattr(vars(kind).get("__dataclass_params__"), "frozen", False):
        return [(field.name, getattr(value, field.name)) for field in fields(kind)]
    return None


def _is_tensor(value: Any) -> bool:
    """True for an array of numpy, torch or jax, but not of a subclass."""
    origin = type(value).__module__.partition(".")[0]
    return (
        type(value) is np.ndarray
        or (origin == "torch" and hasattr(value, "detach"))
        or (origin in ("jax", "jaxlib") and hasattr(value, "__array__"))
    )
