"""Tensor indirection, and rows that DMA gathers and scatters: a legal step for each family.

As `computing`. Which operands may be indirect views is the paragraph Tensor indirection of each
instruction's page.
"""

from __future__ import annotations

import multiplying
import numpy as np
from formats import FLOATS, FORMATS
from kernel import Name, Step, op
from maker import ANY, SBUF, V3, V4, command, engine

_ANYWHERE = ("sbuf", "sbuf", "psum")
# The Scalar Engine scatters into SBUF alone.
_BY_SCALAR = ("activation", "tensor_copy")
_INDEX = ("uint32", "int32", "uint16")


def snake(g, view, count, *, is_scattered=False, group=16):
    """`count` columns of a tile in the order that an index of its own names."""
    P, F = g.oracle.shape(view)
    columns = -(-count // group)
    rows = g.rng.integers(0, F, (P // group, columns * group))
    if is_scattered:  # no element twice
        rows = np.argsort(g.rng.random((P // group, F)), axis=1)[:, :count]
        rows = np.pad(rows, ((0, 0), (0, columns * group - count)))
    snake = rows.reshape(-1, columns, group).transpose(0, 2, 1).reshape(P, columns)
    index = g.given(snake.astype(name := g.pick(_INDEX)), name, is_placed=False)
    return view.then("indirect", Name(str(index)), count)


def _size(g, group=16):
    """Whole groups of partitions, columns, and how many of them."""
    P, F = g.pick((16, 32, 64, 128) if group == 16 else (32, 64, 128)), g.pick((4, 8, 16, 33))
    return P, F, int(g.rng.integers(1, F + 1))


def _pair(g, formats, written):
    """Operands of `count` columns each: read, written; one or both of them indirect."""
    P, F, count = _size(g)
    which = g.pick(((True, False), (False, True), (True, True)))
    tiles = []
    for is_indirect, is_scattered in zip(which, (False, True), strict=True):
        memories = written if is_scattered else _ANYWHERE
        name = g.pick([f for f in g.formats if f in formats])
        columns = F if is_indirect else count
        tile = g.filled((P, columns), name, g.pick(memories), is_placed=False)
        view = snake(g, tile, count, is_scattered=is_scattered) if is_indirect else tile
        tiles.append(view)
    return P, count, *tiles


def elementwise(g):
    """tensor_copy, tensor_tensor, tensor_scalar and what follows them, of indirect views."""
    if g.generation < V4:
        return
    kind = g.pick(tuple(_STEPS))
    P, count, src, dst = _pair(
        g, _FORMATS.get(kind, ANY), SBUF if kind in _BY_SCALAR else _ANYWHERE
    )
    args = _STEPS[kind](g, P, count, src)
    g.do(Step(kind, {"dst": dst, **args}))


def _tensor_copy(g, P, count, src):
    del P, count
    return {"src": src, "engine": engine(g.pick(("vector", "scalar")))}


def _tensor_tensor(g, P, count, src):
    return {
        "data1": src,
        "data2": g.read(P, count, ANY, SBUF),
        "op": op(g.pick(("add", "maximum", "less"))),
        "engine": engine("vector"),
    }


def _tensor_scalar(g, P, count, src):
    del count
    return {"data": src, "op0": op("multiply"), "operand0": g.column(P), **_VECTOR}


def _tensor_scalar_reduce(g, P, count, src):
    del count
    args = {"data": src, "op0": op("multiply"), "operand0": g.column(P), "reduce_op": op("add")}
    return args | {"reduce_res": g.write(P, 1, FLOATS)}


def _activation(g, P, count, src):
    del count
    return {"op": op(g.pick(("copy", "exp", "relu"))), "data": src, "scale": g.column(P)}


def _tensor_scalar_cumulative(g, P, count, src):
    del P, count
    return {"src": src, "op0": op("add"), "op1": op("maximum"), "imm0": g.number()}


def _exponential(g, P, count, src):
    del P, count
    return {"src": src, "max_value": g.number(), "reduce_cmd": command("idle")}


_FORMATS = {
    "exponential": tuple(f for f in ANY if f not in {"tfloat32", "float8_e4m3fn", "uint32"}),
    "tensor_scalar_cumulative": tuple(f for f in ANY if f not in {"tfloat32", "int32", "uint32"}),
}
_VECTOR = {"engine": engine("vector")}
_STEPS = {
    "tensor_copy": _tensor_copy,
    "tensor_tensor": _tensor_tensor,
    "tensor_scalar": _tensor_scalar,
    "tensor_scalar_reduce": _tensor_scalar_reduce,
    "tensor_scalar_cumulative": _tensor_scalar_cumulative,
    "activation": _activation,
    "exponential": _exponential,
}


def array(g):
    """nc_matmul of columns that an index picks, 32 partitions to a group."""
    if g.generation < V4:
        return
    K, width, M = _size(g, group=32)
    N = int(g.rng.integers(1, width + 1))
    formats = [f for f in g.formats if f in FLOATS and FORMATS[f].itemsize < 4]
    first, second = g.pick(formats), g.pick(formats)
    if {first, second} == {"float8_e4m3", "float8_e4m3fn"}:
        return
    tiles = [g.filled((K, width), f, is_placed=False) for f in (first, second)]
    args = {
        name: snake(g, tile, count, group=32)
        for name, tile, count in zip(("stationary", "moving"), tiles, (M, N), strict=True)
    }
    if g.chance(0.3):
        args["moving"] = g.filled((K, N), second)
    dst = multiplying.result(g, M, N)
    if g.chance(0.4):
        M = g.pick((32, 64, 128))
        args["stationary"] = g.filled((K, M), first)
        dst = g.filled((M, width), "float32", "psum")
        dst = snake(g, dst, N, is_scattered=True, group=32)
    g.do(Step("nc_matmul", {"dst": dst, **args}))


def scaled(g):
    """nc_matmul_mx of packed columns and their scales, which one index picks."""
    if g.generation < V4:
        return
    K, width, M = _size(g, group=32)
    sizes, args = (M + M % 2, g.pick(g.columns)), {}
    for name, F in zip(("stationary", "moving"), sizes, strict=True):
        data, scale = multiplying.packed(g, K, max(F, width), is_whole=True)
        if g.oracle.shape(data)[1] != F or g.chance(0.6):
            data = snake(g, data, F, group=32)
            scale = scale.then(*data.chain[-1][:1], *data.chain[-1][1])
        args |= {name: data, f"{name}_scale": scale}
    g.do(Step("nc_matmul_mx", {"dst": multiplying.result(g, *sizes), **args}))


def gather(g):
    """Rows of a tensor in HBM, by a column of indices in SBUF; from there to other rows."""
    if g.generation < V3:
        return
    P, F = g.size()
    rows, name = g.pick(g.partitions), g.pick(f for f in g.formats if f != "tfloat32")
    index = g.indices((P, 1), g.pick(("int32", "uint32")), rows)
    source = g.array((rows, F), name).then("vector_select", 0, Name(str(index)))
    dst = g.alloc((P, F), name)
    if g.do(Step("dma_copy", {"dst": dst, "src": source})) and g.chance(0.5):
        _scatter(g, dst, name)


def added(g):
    """Rows of a tensor in HBM, by an index, added to a tile: read, modify, write."""
    if g.generation < V3:
        return
    P, F = g.size()
    rows = g.pick(g.partitions)
    formats = [f for f in g.formats if f != "tfloat32"]
    index = g.indices((P, 1), "int32", rows)
    source = g.array((rows, F), g.pick(formats)).then("vector_select", 0, Name(str(index)))
    dst = g.filled((P, F), g.pick(formats))
    g.do(Step("dma_compute", {"dst": dst, "srcs": [dst, source], "reduce_op": op("add")}))


def _scatter(g, src, name):
    """Rows of a tile to rows of a tensor in HBM, no two to the same one."""
    P, F = g.oracle.shape(src)
    index = g.given(g.rng.permutation(P)[:, None].astype("int32"), "int32")
    far, back = g.alloc((P, F), name, "private_hbm"), g.alloc((P, F), name)
    target = far.then("vector_select", 0, Name(str(index)))
    if g.do(Step("dma_copy", {"dst": target, "src": src})):
        g.do(Step("dma_copy", {"dst": back, "src": far}))
