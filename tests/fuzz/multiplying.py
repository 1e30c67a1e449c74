"""The Tensor Engine, and what quantizes for it: for each family a legal step of it.

As `computing`.
"""

from __future__ import annotations

import numpy as np
from formats import FLOATS, FORMATS
from kernel import At, Loop, Name, Step
from maker import SBUF, V3, V4

_WIDE = ("float32", "tfloat32")
_FP8 = ("float8_e4m3", "float8_e5m2", "float8_e4m3fn")
_MX = ("float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4")
_DEVICE_LOOPS = ("nl.dynamic_range", "nl.fori_loop")
_LOOPS = ("nl.affine_range", "nl.sequential_range", "range", *_DEVICE_LOOPS)


def result(g, M, N):
    """A tile in PSUM for sums of products."""
    formats = ("float32", "bfloat16") if g.generation >= V4 else ("float32",)
    return g.alloc((M, N), g.pick(formats), "psum")


def _narrow(g):
    """Formats of 16 and 8 bits that may meet: one of the two kinds of E4M3 at most."""
    banned = g.pick(("float8_e4m3", "float8_e4m3fn"))
    return tuple(f for f in g.formats if f in FLOATS and f not in {*_WIDE, banned})


def _accumulating(g, opcode, dst, operands, count):
    """A few steps, each of which adds to what the first one wrote."""
    for number in range(count):
        accumulate = g.pick((None, number > 0))
        given = {} if accumulate is None else {"accumulate": accumulate}
        if not g.do(Step(opcode, {"dst": dst, **operands(), **given})):
            return


def nc_matmul(g):
    """One, or a few that accumulate in PSUM, also in a loop."""
    K, M = g.pick(g.partitions), g.pick((1, 4, 7, 32, 64, 128))
    N, count = g.pick(g.columns), g.pick((1, 1, 2, 3))
    formats = _WIDE if g.chance(0.4) else _narrow(g)
    dst = result(g, M, N)
    if count == 1 or g.chance(0.5):
        operands = {"stationary": M, "moving": N}
        _accumulating(
            g,
            "nc_matmul",
            dst,
            lambda: {name: g.read(K, n, formats, SBUF) for name, n in operands.items()},
            count,
        )
        return
    chosen, kind = [g.pick(formats) for _ in range(2)], g.pick(_LOOPS)
    args = {"dst": dst}
    for name, width, dtype in zip(("stationary", "moving"), (M, N), chosen, strict=True):
        if kind == "nl.fori_loop":  # NKI 0.6 refuses arithmetic on its variable
            tile, part = g.filled((K, count, width), dtype), (Name("i"), slice(0, width))
        else:
            tile, part = g.filled((K, count * width), dtype), (At("i", width, width),)
        args[name] = tile.then("[]", slice(0, K), *part)
    if kind in _DEVICE_LOOPS and count > 1:  # one flag for all turns: the sum begins before
        before = {
            "stationary": g.read(K, M, formats, SBUF),
            "moving": g.read(K, N, formats, SBUF),
        }
        if not g.do(Step("nc_matmul", {"dst": dst, **before})):
            return
    bounds = f"0, {count}" if kind == "nl.fori_loop" else ""
    g.do(Loop("i", range(count), kind, (Step("nc_matmul", args),), bounds))


def double_row(g):
    """FP8 with twice the contraction: [K, 2, M] and [K, 2, N]."""
    if g.generation < V3:
        return
    K, M = g.pick(g.partitions), g.pick((1, 4, 7, 64, 128))
    N, count = g.pick(g.columns), g.pick((1, 1, 2))
    formats = tuple(f for f in _narrow(g) if f in _FP8)

    def operands():
        mode = {"perf_mode": Name("nisa.matmul_perf_mode.double_row")}
        return {
            "stationary": g.filled((K, 2, M), g.pick(formats)),
            "moving": g.filled((K, 2, N), g.pick(formats)),
        } | mode

    _accumulating(g, "nc_matmul", result(g, M, N), operands, count)


# Microscaling: scales lie in the quadrant of their data, as do tensors without an address


def _codes(g, shape, name):
    """Packed elements that are numbers, as integers."""
    element = name.removesuffix("_x4")
    if element == "float4_e2m1fn":
        return g.rng.integers(0, 1 << 16, shape).astype("uint16")
    values = FORMATS[element].rounded(g.rng.normal(size=(*shape, 4)) * 2.0 ** g.rng.integers(-3, 5))
    return values.astype(FORMATS[element].stored).view("uint32").reshape(shape)


def _as_integers(g, view, name):
    """A copy of a tensor of codes as what can be compared: the integers of its bits."""
    stored = FORMATS[name].stored.name
    seen = view.then("view", Name(f"nl.{stored}"))
    copy = g.alloc(g.oracle.shape(view), stored)
    g.do(Step("tensor_copy", {"dst": copy, "src": seen, "engine": Name("nisa.engine.vector")}))


def _scales(g, K, F, *, is_filled, is_whole=False):
    """A tile for scales; the rows behind each four of a quadrant are another's."""
    rows = K if is_whole else g.pick((K, K - 28))
    name = g.pick(("uint8", "float8_e8m0fnu"))
    if not is_filled:
        scale = g.alloc((rows, F), name, is_placed=False)
        if name == "uint8" and g.chance(0.5):
            g.do(Step("memset", {"dst": scale, "value": 7}))
        return scale
    values = g.rng.integers(120, 134, (rows, F)).astype("uint8")
    seen = "" if name == "uint8" else name
    return g.given(values, "uint8", seen=seen, is_placed=False)


def quantized(g, K, F):
    """Data [K, F] of packed elements and their scales, made by quantize_mx; None where not."""
    name = g.pick(_MX[:2])
    size = 2.0 ** g.pick((0, int(g.rng.integers(-30, 20)), int(g.rng.integers(-130, 120))))
    values = FORMATS["bfloat16"].rounded(g.rng.normal(size=(K, 4 * F)) * size)
    if g.chance(0.3):
        values[:, : 4 * g.pick(range(1, F + 1))] = 0
    if g.chance(0.3):  # a power of two, and what rounds up to one
        values = np.where(g.chance(0.5), 1.0, 1.9921875) * np.sign(values)
    source = FORMATS["float16"].rounded(values) if g.chance(0.3) else values
    kind = "bfloat16" if source is values else "float16"
    src = g.given(source.astype(FORMATS[kind].stored), kind, is_placed=False)
    dst = g.alloc((K, F), name, is_placed=False)
    scale = _scales(g, K, F, is_filled=False)
    if not g.do(Step("quantize_mx", {"dst": dst, "src": src, "dst_scale": scale})):
        return None
    _as_integers(g, dst, name)
    if g.oracle.tensor(scale).written.all():
        _as_integers(g, scale, g.oracle.format(scale).name)
    return dst, scale


def quantize_mx(g):
    """And the scales of a second tensor in the same tile, now and then."""
    if g.generation < V4:
        return
    K, F = g.pick((32, 64, 128)), g.pick(g.columns)
    made = quantized(g, K, F)
    if made is None or g.chance(0.5):
        return
    _, scale = made
    rows = g.oracle.shape(scale)[0]
    start = g.pick((4, 8, 12))
    if rows != K:
        return
    src = g.filled((K, 4 * F), "bfloat16", is_placed=False)
    dst = g.alloc((K, F), g.pick(_MX[:2]), is_placed=False)
    part = scale.then("[]", slice(start, K))
    if g.do(Step("quantize_mx", {"dst": dst, "src": src, "dst_scale": part})):
        _as_integers(g, dst, g.oracle.format(dst).name)


def packed(g, K, F, *, is_whole=False):
    """Data [K, F] of packed elements and their scales, as the host or quantize_mx made them."""
    made = quantized(g, K, F) if not is_whole and g.chance(0.3) else None
    if made is None:
        name = g.pick(_MX)
        codes = _codes(g, (K, F), name)
        data = g.given(codes, FORMATS[name].stored.name, seen=name, is_placed=False)
        made = data, _scales(g, K, F, is_filled=True, is_whole=is_whole)
    return made


def nc_matmul_mx(g):
    if g.generation < V4:
        return
    K, M, N = g.pick((32, 64, 128)), g.pick((2, 6, 64, 128)), g.pick(g.columns)

    def operands():
        (stationary, first), (moving, second) = packed(g, K, M), packed(g, K, N)
        return {
            "stationary": stationary,
            "moving": moving,
            "stationary_scale": first,
            "moving_scale": second,
        }

    _accumulating(g, "nc_matmul_mx", result(g, M, N), operands, g.pick((1, 1, 2)))


# Structured sparsity


def _tags(g, K, M, kept, length):
    """Distinct places of each block's values, four of them in a uint16."""
    order = np.argsort(g.rng.random((K // kept, length, M)), axis=1)[:, :kept]
    tags = np.sort(order, axis=1).reshape(K, M // 4, 4).astype(np.uint16)
    return (tags << np.arange(0, 16, 4, dtype=np.uint16)).sum(axis=2).astype("uint16")


def nc_matmul_sparse(g):
    """4:8, 4:12 and 4:16 (trainium2_arch.rst, M:N Structured Sparsity)."""
    if g.generation < V3:
        return
    K, M, N = g.pick((4, 32, 64, 128)), g.pick((4, 8, 64, 128)), g.pick(g.columns)
    ratio, kept = g.pick((2, 3, 4)), 4
    formats = ("tfloat32",) if g.chance(0.2) else _narrow(g)

    def operands():
        return {
            "moving": g.filled((K, ratio, N), g.pick(formats)),
            "stationary": g.filled((K, M), g.pick(formats)),
            "tag": g.given(_tags(g, K, M, kept, kept * ratio), "uint16"),
            "compress_ratio": ratio,
        }

    _accumulating(g, "nc_matmul_sparse", result(g, M, N), operands, g.pick((1, 1, 2)))
