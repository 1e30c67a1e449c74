"""Checks of the arguments of grids. Errors are also of Python's classes, such as TypeError.

Source: nki.language.alloc_tiles and alloc_blocks, Raises.
"""

from __future__ import annotations

from typing import Any

from trnsim.errors import IllegalInstruction, OutOfMemory

_LEAST_RANK = 2
"""Dimensions of a tile: partitions and at least one free dimension."""


class GridTypeError(IllegalInstruction, TypeError):
    """A value of a type that a grid is not made from."""


class GridValueError(IllegalInstruction, ValueError):
    """A shape that no grid has."""


class GridIndexError(IllegalInstruction, IndexError):
    """An index that a grid lacks."""


class GridNotAllocated(IllegalInstruction, AssertionError):
    """An allocation that the memory refuses."""


class GridOutOfMemory(OutOfMemory, AssertionError):
    """An allocation that exceeds its memory."""


def check_shape(function: str, keyword: str, shape: Any, rank: int | None = None) -> None:
    """Refuse a `shape` that is no tuple of positive integers.

    Args:
        function: name of the function in a program.
        keyword: name of its argument.
        shape: the argument.
        rank: number of its dimensions, if that is known.

    Raises:
        GridTypeError: for a value other than a tuple of Python's own integers.
        GridValueError: for a length below 1, and for another number of dimensions.
    """
    source = f"nki.language.{function}, {keyword}"
    usage = f"nl.{function}: {keyword}={shape!r}"
    if not isinstance(shape, tuple) or any(type(length) is not int for length in shape):
        raise GridTypeError(
            f"{usage}; legal: a tuple of Python's own integers",
            fix=f"write {keyword}=(128, 512), numpy's integers as int(n), a list as tuple(list)",
            source=source,
        )
    if any(length < 1 for length in shape):
        raise GridValueError(
            f"{usage}; legal: lengths of at least 1",
            fix="give every dimension at least one element or tile; skip an empty tensor with `if`",
            source=source,
        )
    if rank is not None and len(shape) != rank:
        raise GridValueError(
            f"{usage} has rank {len(shape)}; legal: rank {rank}, that of tile_shape",
            fix="give a number of tiles for each dimension of tile_shape, 1 where none are grouped",
            source=source,
        )


def check_tile_shape(function: str, tile_shape: Any, extent: tuple[int, ...], label: str) -> None:
    """Refuse a `tile_shape` that does not tile the last dimensions of `extent`.

    Args:
        function: name of the function in a program.
        tile_shape: the argument.
        extent: lengths of the tensor.
        label: the tensor or parameter of that extent, in words.

    Raises:
        GridTypeError: for a value other than a tuple of Python's own integers.
        GridValueError: for a length below 1, fewer than two dimensions or more than `extent` has,
            and for an extent of 0.
    """
    check_shape(function, "tile_shape", tile_shape)
    source = f"nki.language.{function}, tile_shape"
    min_rank, max_rank = _LEAST_RANK, len(extent)
    if not min_rank <= len(tile_shape) <= max_rank:
        ranks = f"{min_rank} to {max_rank}" if max_rank > min_rank else f"{min_rank}"
        raise GridValueError(
            f"nl.{function}: tile_shape={tile_shape} has rank {len(tile_shape)}, {label} "
            f"{list(extent)} has rank {max_rank}; legal: "
            f"{f'rank {ranks}' if max_rank >= min_rank else 'a tensor of rank 2 or more'}",
            fix="tile the last dimensions, at least two of them: (1, n) for a row; "
            "tensor.reshape((1, n)) gives a vector two dimensions",
            source=source,
        )
    if 0 in extent:
        raise GridValueError(
            f"nl.{function}: {label} {list(extent)} has a dimension of 0 elements; legal: at "
            "least 1 in each",
            fix="skip an empty tensor with `if`: its shape is known when the kernel is compiled",
            source=source,
        )
