"""einops-style patterns: `tensor.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4})`.

Source: nki.language.NkiTensor.rearrange.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NoReturn

from trnsim.errors import IllegalInstruction
from trnsim.isa.language.fields import is_whole

Group = str | Sequence[str]
_SOURCE = "nki.language.NkiTensor.rearrange"


def split_lengths(
    shape: Sequence[int], pattern: Sequence[Group], sizes: Mapping[str, int]
) -> list[tuple[int, ...]]:
    """For each dimension, the lengths of the names into which the pattern splits it.

    Args:
        shape: lengths of the dimensions.
        pattern: for each dimension its name, or the sequence of names that it is split into.
        sizes: lengths of names that the shape leaves open.

    Raises:
        IllegalInstruction: if the pattern does not fit the shape.
    """
    _check_sizes(sizes)
    _check_pattern(pattern)
    if len(pattern) != len(shape):
        _refuse(f"the pattern {tuple(pattern)} for a tensor of shape {tuple(shape)}")
    return [
        _split(length, names(group), sizes) for length, group in zip(shape, pattern, strict=True)
    ]


def names(group: Group) -> tuple[str, ...]:
    """The names of a group, or of a single name.

    Raises:
        IllegalInstruction: for any other value.
    """
    if isinstance(group, str):
        return (group,)
    _check_group(group)
    return tuple(group)


def _check_sizes(sizes: object) -> None:
    if not isinstance(sizes, Mapping) or any(
        not is_whole(length) or length < 1 for length in sizes.values()
    ):
        _refuse(f"fixed_sizes={sizes!r}")


def _check_group(group: object) -> None:
    if not isinstance(group, Sequence) or not all(isinstance(name, str) for name in group):
        _refuse(f"the group {group!r}")


def _check_pattern(pattern: object) -> None:
    if not isinstance(pattern, Sequence):
        _refuse(f"the pattern {pattern!r}")


def order(source: Sequence[Group], target: Sequence[Group]) -> list[int]:
    """For each name of `target`, its index among the names of `source`.

    Raises:
        IllegalInstruction: if they are not the same names, each once.
    """
    _check_pattern(target)
    source_names = [name for group in source for name in names(group)]
    target_names = [name for group in target for name in names(group)]
    if sorted(source_names) != sorted(target_names) or len(set(source_names)) != len(source_names):
        _refuse(f"the names {source_names} to {target_names}")
    return [source_names.index(name) for name in target_names]


def _split(length: int, group: tuple[str, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The lengths of the names of a group.

    One length may be absent from `sizes`. Several may be absent, and are 1, if the others fill the
    dimension.
    """
    open_names = [name for name in group if name not in sizes]
    known_length = prod(sizes[name] for name in group if name in sizes)
    if len(open_names) > 1 and length == known_length:
        return tuple(sizes.get(name, 1) for name in group)
    if len(open_names) > 1 or length % known_length or (not open_names and known_length != length):
        _refuse(f"a dimension of length {length} as {group} with sizes {dict(sizes)}")
    return tuple(sizes.get(name, length // known_length) for name in group)


def _refuse(reason: str) -> NoReturn:
    raise IllegalInstruction(
        f"rearrange: {reason}; legal: a name or a tuple of names per dimension, each name once on "
        "both sides, lengths of at least 1, and at most one length of a group left open, "
        "or several of 1",
        fix="give the lengths that are not known: fixed_sizes={'h': 4}",
        source=_SOURCE,
    )
