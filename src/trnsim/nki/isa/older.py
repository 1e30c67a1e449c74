"""Calls of `nki.isa` in the syntax of older versions of NKI, converted to today's syntax.

Each function here takes the operands of a call and returns the opcode and the operands of the
call that means the same today. Instructions have no older form themselves.

Source: nki/migration/index.rst, API breaking changes; the stubs of nki.isa of v2.28 to v2.30.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from numbers import Integral
from typing import Any, Final, NamedTuple

from trnsim.behaviours import Behaviour
from trnsim.behaviours.instructions import (
    AFFINE_SELECT_OFFSET_THIRD,
    DMA_COMPUTE_SCALES_FIRST,
    DMA_COMPUTE_SCALES_OPTIONAL,
    DMA_COPY_MODIFIES,
    DMA_WITHOUT_PRIORITY,
    MATMUL_WITHOUT_ACCUMULATE,
    RANGE_SELECT_OVERRIDES,
    REDUCE_AXIS_1_IS_LAST,
    TRANSPOSE_PADS_RANK,
)
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.isa import DmaEngine, OobMode, ReduceCmd
from trnsim.memory import ScalarIndex, Tile
from trnsim.nki.arguments import check_call
from trnsim.nki.dialect import follows, require, running_version
from trnsim.nki.tensor import NkiTensor

_AXES_BY_RANK: Final = {3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""Rank of the src of a dma_transpose -> the order of its axes in dst."""
_UNCHANGED_OPERANDS: Final = 2
"""Number of positional operands that have the same place in all versions."""


class Call(NamedTuple):
    """A call: the opcode, the positional operands, the keyword operands."""

    opcode: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _operands_by_keyword(
    opcode: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    orders: tuple[tuple[Behaviour, str], ...],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The operands by keyword, under the first signature that the kernel's version follows.

    The operands are unchanged if the version follows none of the signatures.

    Args:
        opcode: the function's name.
        args: positional operands of the call.
        kwargs: keyword operands of the call.
        orders: pairs of a row of the table of behaviours and a signature as text.

    Raises:
        IllegalInstruction: for operands that do not fit the signature, with the call to write.
    """
    for row, order in orders:
        if follows(row):
            signature = _signature(order)
            label = f"nisa.{opcode} under {running_version()}"
            check_call(label, signature, args, kwargs, f"nisa.{opcode}", row.source)
            return (), dict(signature.bind(*args, **kwargs).arguments)
    return args, dict(kwargs)


@cache
def _signature(order: str) -> inspect.Signature:
    """The signature from its text: operands split by spaces, ``name=None`` for an optional one."""
    parameters = []
    for text in order.split():
        name, _, default = text.partition("=")
        default_value = inspect.Parameter.empty if not default else None
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(name, kind, default=default_value))
    return inspect.Signature(parameters)


_COPY_ORDERS: Final = (
    (
        DMA_COPY_MODIFIES,
        "dst src dst_rmw_op=None oob_mode=None dge_mode=None unique_indices=None name=None",
    ),
    (DMA_WITHOUT_PRIORITY, "dst src oob_mode=None dge_mode=None engine=None name=None"),
)
"""Rows of the table of behaviours, each with the signature of dma_copy where it holds."""
_MODIFIERS: Final = frozenset({"dst_rmw_op", "unique_indices"})
"""Keywords of the dma_copy that modifies its dst."""


def dma_copy(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """A read-modify-write, ``dst = dst_rmw_op(dst, src)``, as a dma_compute."""
    args, kwargs = _operands_by_keyword("dma_copy", args, kwargs, _COPY_ORDERS)
    is_unique = kwargs.pop("unique_indices", True)
    operator = kwargs.pop("dst_rmw_op", None)
    if operator is None or args:
        return Call("dma_copy", args, kwargs)
    dst, src = kwargs.pop("dst"), kwargs.pop("src")
    if any(isinstance(tile.index, ScalarIndex) for tile in (dst, src) if isinstance(tile, Tile)):
        raise NotModelled(
            f"dma_copy: dst_rmw_op of {src} and {dst}, one of them at a dynamic address",
            fix="copy that part to a tile of its own with nisa.dma_copy first",
            source=DMA_COPY_MODIFIES.source,
        )
    kwargs.pop("dge_mode", None)  # dma_compute chooses its own
    mode = kwargs.pop("oob_mode", OobMode.error)
    if mode not in (OobMode.error, OobMode.error.value):
        raise IllegalInstruction(
            f"dma_copy: dst_rmw_op with oob_mode {mode}; legal: nisa.oob_mode.error",
            fix="leave oob_mode out, and keep the indices within bounds",
            source="nki.isa.dma_copy of v2.28",
        )
    if is_unique is not True:
        raise NotModelled(
            f"dma_copy: dst_rmw_op with unique_indices={is_unique!r}; emulated: True",
            fix="make the indices unique, and leave it out",
            source="nki.isa.dma_compute, unique_indices",
        )
    operands = {"reduce_op": operator, "scales": None, **kwargs}
    return Call("dma_compute", (dst, [src, dst]), operands)


def dma_compute(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """(dst, srcs, scales, reduce_op), the order of older versions, by keyword."""
    if (
        len(args) > _UNCHANGED_OPERANDS
        and isinstance(args[2], list | tuple)
        and "scales" not in kwargs
    ):
        require(DMA_COMPUTE_SCALES_FIRST, DMA_COMPUTE_SCALES_FIRST.form)
    if len(args) <= _UNCHANGED_OPERANDS and "scales" not in kwargs:
        require(DMA_COMPUTE_SCALES_OPTIONAL, "nisa.dma_compute without scales")
    orders = ((DMA_COMPUTE_SCALES_FIRST, "dst srcs scales reduce_op name=None"),)
    args, kwargs = _operands_by_keyword("dma_compute", args, kwargs, orders)
    is_old = follows(DMA_COMPUTE_SCALES_FIRST)
    if is_old and not isinstance(kwargs["scales"], list | tuple | None):
        raise IllegalInstruction(
            f"dma_compute: scales={kwargs['scales']!r} under {running_version()}, where "
            f"{DMA_COMPUTE_SCALES_FIRST.rule}; legal: a list of a number for each source",
            fix="call it as nisa.dma_compute(dst, srcs, [1.0, 1.0], nl.add)",
            source=DMA_COMPUTE_SCALES_FIRST.source,
        )
    return Call("dma_compute", args, kwargs)


def affine_select(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """(dst, pattern, offset, channel_multiplier, ...), the older order, by keyword."""
    order = ("dst", "pattern", "offset", "channel_multiplier", "on_true_tile", "on_false_value")
    if len(args) > _UNCHANGED_OPERANDS:
        place = order.index("on_true_tile")
        if len(args) > place and isinstance(args[place], Tile):
            require(AFFINE_SELECT_OFFSET_THIRD, AFFINE_SELECT_OFFSET_THIRD.form)
    elif follows(AFFINE_SELECT_OFFSET_THIRD):
        # The stub demands it; cascaded_max of nki-library 2.28 leaves it out.
        kwargs = {"offset": 0, **kwargs}
    orders = ((AFFINE_SELECT_OFFSET_THIRD, f"{' '.join(order)} cmp_op=None name=None"),)
    args, kwargs = _operands_by_keyword("affine_select", args, kwargs, orders)
    return Call("affine_select", args, kwargs)


def register_move(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """The older keyword `imm` as `src`."""
    if "imm" in kwargs:
        kwargs = {"src": kwargs.pop("imm"), **kwargs}
    return Call("register_move", args, kwargs)


def sendrecv(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """The older keyword `use_gpsimd_dma` as `dma_engine`."""
    if "use_gpsimd_dma" in kwargs:
        is_gpsimd = kwargs.pop("use_gpsimd_dma")
        kwargs = {"dma_engine": DmaEngine.gpsimd_dma if is_gpsimd else DmaEngine.dma, **kwargs}
    return Call("sendrecv", args, kwargs)


def nc_matmul(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Operands without a position for `accumulate`, some of them under the names of SDK 2.27."""
    kwargs.pop("psumAccumulateFlag", None)  # never had an effect
    if "is_moving_zero" in kwargs:
        kwargs = {"is_moving_onezero": kwargs.pop("is_moving_zero"), **kwargs}
    if len(args) > _MATMUL_ORDER.index("tile_position"):
        orders = ((MATMUL_WITHOUT_ACCUMULATE, _MATMUL_SIGNATURE),)
        args, kwargs = _operands_by_keyword("nc_matmul", args, kwargs, orders)
    return Call("nc_matmul", args, kwargs)


_MATMUL_ORDER: Final = (
    *("dst", "stationary", "moving", "is_stationary_onezero", "is_moving_onezero"),
    *("is_transpose", "tile_position", "tile_size", "perf_mode", "name"),
)
_MATMUL_SIGNATURE: Final = " ".join((*_MATMUL_ORDER[:3], *(f"{n}=None" for n in _MATMUL_ORDER[3:])))


def tensor_reduce(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """``axis=1`` as the last axis, its meaning in older versions."""
    order = ("dst", "op", "data", "axis")
    operands = {**dict(zip(order, args, strict=False)), **kwargs}
    axis, data = operands.get("axis"), operands.get("data")
    last_axis = len(data.shape) - 1 if isinstance(data, Tile) else 1
    if _is_axis_1(axis) and last_axis > 1:
        usage = f"tensor_reduce: axis=1 of data {data}, whose last axis is {last_axis},"
        require(REDUCE_AXIS_1_IS_LAST, usage)
        place = order.index("axis")
        if len(args) > place:
            return Call("tensor_reduce", (*args[:place], last_axis, *args[place + 1 :]), kwargs)
        kwargs["axis"] = last_axis
    return Call("tensor_reduce", args, kwargs)


def _is_axis_1(axis: object) -> bool:
    """True for 1, (1,) and [1]; an array or another object is left to the instruction's checks."""
    if isinstance(axis, tuple | list) and len(axis) == 1:
        axis = axis[0]
    return isinstance(axis, Integral) and axis == 1


_RANGE_ORDER: Final = (
    "dst on_true_tile comp_op0 comp_op1 bound0 bound1 reduce_cmd=None "
    "reduce_res=None reduce_op=None range_start=None on_false_value=None name=None"
)


def range_select(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Older versions override two operands: on_false_value is FP32_MIN, reduce_cmd reset_reduce."""
    if follows(RANGE_SELECT_OVERRIDES):
        orders = ((RANGE_SELECT_OVERRIDES, _RANGE_ORDER),)
        args, kwargs = _operands_by_keyword("range_select", args, kwargs, orders)
        kwargs.pop("on_false_value", None)
        kwargs["reduce_cmd"] = ReduceCmd.reset_reduce
    return Call("range_select", args, kwargs)


_TRANSPOSE_ORDERS: Final = (
    (DMA_WITHOUT_PRIORITY, "dst src axes=None dge_mode=None oob_mode=None name=None"),
)


def dma_transpose(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """A dst of lower rank gets axes of length 1; operands have no position for `priority`."""
    operands = {**dict(zip(("dst", "src", "axes"), args, strict=False)), **kwargs}
    if len(args) > len(("dst", "src", "axes")):
        args, kwargs = _operands_by_keyword("dma_transpose", args, kwargs, _TRANSPOSE_ORDERS)
    dst, src = operands.get("dst"), operands.get("src")
    if isinstance(dst, NkiTensor) and isinstance(src, NkiTensor):
        padded_dst = _with_padded_rank(dst, src)
        if padded_dst is not dst and follows(TRANSPOSE_PADS_RANK):
            if args:
                return Call("dma_transpose", (padded_dst, *args[1:]), kwargs)
            kwargs["dst"] = padded_dst
    return Call("dma_transpose", args, kwargs)


def _with_padded_rank(dst: NkiTensor, src: NkiTensor) -> NkiTensor:
    """`dst` with axes of length 1 where the transposed src has them; `dst` if shapes differ."""
    axes = _AXES_BY_RANK.get(len(src.shape))
    if axes is None or len(dst.shape) >= len(src.shape):
        return dst
    view = dst
    for place, axis in enumerate(axes):
        length = src.shape[axis]
        if length == 1 and (place >= len(view.shape) or view.shape[place] != 1):
            view = view.expand_dim(place)
    return view if view.shape == tuple(src.shape[axis] for axis in axes) else dst


CONVERSIONS: Final[dict[str, Callable[[tuple[Any, ...], dict[str, Any]], Call]]] = {
    function.__name__: function
    for function in (
        *(dma_copy, dma_compute, dma_transpose, affine_select, register_move, sendrecv),
        *(nc_matmul, tensor_reduce, range_select),
    )
}
"""By opcode: the function that converts a call to today's syntax."""

CURRENT_CALLS: Final[dict[str, tuple[int, frozenset[str]]]] = {
    "dma_copy": (_UNCHANGED_OPERANDS, _MODIFIERS),
    "nc_matmul": (
        _MATMUL_ORDER.index("tile_position"),
        frozenset({"psumAccumulateFlag", "is_moving_zero"}),
    ),
}
"""By frequent opcode: a count of positional operands and a set of keywords.

A call with at most so many positional operands and none of the keywords is valid today. It is
issued without a conversion, which saves a tenth of the time of an issue.
"""
