"""Single operations: as kernels, which eager calls take, and as programs of the compiler.

usage: single_operations.py [--family NAME] [--json FILE] [--before FILE] [TARGET ...]

Each line is one operation, or the few of one operator of a framework, with its operands in HBM:
the time of its kernels and that of a graph of it alone as one program, both without the launch,
their instructions, and the seconds of this computer that each took. --json writes what was found,
and --before compares the kernels with what an earlier call wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

os.environ["TRNSIM_CACHE"] = "off"

from trnsim.compiler.program_times import time_graph
from trnsim.compiler.schedules import CompileOptions
from trnsim.errors import EmulatorError
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Attention, AttentionBackward, DotGeneral
from trnsim.graph.ops.layout import Reverse
from trnsim.graph.types import TensorType
from trnsim.lower import costs

BF16, F32, I32 = "bfloat16", "float32", "int32"


def of(make, *given):
    """A graph of what `make` gives of inputs of these shapes and element types."""
    g = Graph()
    found = make(g, *(g.input(shape, dtype) for shape, dtype in given))
    g.outputs = list(found) if isinstance(found, tuple | list) else [found]
    return g


def elementwise(name, *others, dtype="", **attributes):
    """An elementwise operation of tensors, and of numbers after them."""
    return lambda g, *x: g.elementwise(name, *x, *others, dtype=dtype, **attributes)


def reduced(op, *dims):
    """A reduction over dimensions."""
    return lambda g, x: g.reduce(op, x, dims)


def spread(g, value, like):
    """One number to a row, along all of it."""
    return g.broadcast_in_dim(value, like.shape, tuple(range(len(value.shape))))


def softmax(g, x):
    """Of the last dimension."""
    last = (len(x.shape) - 1,)
    less = g.elementwise("subtract", x, spread(g, g.reduce("maximum", x, last), x))
    power = g.elementwise("exponential", less)
    return g.elementwise("divide", power, spread(g, g.reduce("add", power, last), x))


def layer_norm(g, x, weight, bias):
    """Of the last dimension, with a weight and a bias."""
    last, n = (len(x.shape) - 1,), x.shape[-1]
    mean = g.elementwise("multiply", g.reduce("add", x, last), 1 / n)
    less = g.elementwise("subtract", x, spread(g, mean, x))
    squares = g.reduce("add", g.elementwise("square", less), last)
    variance = g.elementwise("multiply", squares, 1 / n)
    root = g.elementwise("rsqrt", g.elementwise("add", variance, 1e-5))
    made = g.elementwise("multiply", less, spread(g, root, x))
    wide = [g.broadcast_in_dim(one, x.shape, last) for one in (weight, bias)]
    return g.elementwise("add", g.elementwise("multiply", made, wide[0]), wide[1])


def adam(g, p, d, m, v):
    """A step of AdamW on one parameter."""

    def mix(old, new, share):
        parts = g.elementwise("multiply", old, share), g.elementwise("multiply", new, 1 - share)
        return g.elementwise("add", *parts)

    m1, v1 = mix(m, d, 0.9), mix(v, g.elementwise("square", d), 0.999)
    scale = g.elementwise("add", g.elementwise("sqrt", v1), 1e-8)
    step = g.elementwise("multiply", g.elementwise("divide", m1, scale), -1e-3)
    return g.elementwise("add", g.elementwise("multiply", p, 0.99), step), m1, v1


def silu_times(g, x, y):
    """``silu(x) * y``."""
    return g.elementwise("multiply", g.elementwise("silu", x), y)


def product(contracting):
    """A product, its contraction over these dimensions."""
    return lambda g, x, y: g.apply(DotGeneral(contracting), x, y)


def attention(*, is_causal):
    """Attention of queries, keys and values."""
    return lambda g, q, k, v: g.apply_to_all(Attention(q.shape[-1] ** -0.5, is_causal), (q, k, v))[
        0
    ]


def attention_gradient(g, q, k, v, slope, result, logs):
    """The gradients of queries, keys and values."""
    operation = AttentionBackward(q.shape[-1] ** -0.5, True)
    return g.apply_to_all(operation, (q, k, v, slope, result, logs))


def families():
    """Name, words, and graph of each operation."""
    for dtype in (BF16, F32):
        yield from _movement(dtype)
        yield from _elementwise(dtype)
        yield from _reductions(dtype)
        yield from _products(dtype)
        yield from _attention(dtype)
        yield from _indexing(dtype)
    yield from _integers()


def _rows(family, words, make, *given):
    shapes = " ".join(dict.fromkeys("x".join(map(str, shape)) for shape, _ in given))
    return family, f"{words} {shapes} {given[0][1]}", of(make, *given)


def _movement(dtype):
    def turned(*order):
        return lambda g, x: g.transpose(x, order)

    for make, shape in (
        (turned(1, 0), (1024, 1024)),
        (turned(1, 0), (4096, 768)),
        (turned(0, 2, 1, 3), (8, 128, 12, 64)),
        (turned(0, 2, 3, 1), (8, 128, 12, 64)),
    ):
        yield _rows("movement", "transpose", make, (shape, dtype))
    for shape, starts, size, strides in (
        ((4096, 1024), (1024, 0), (1024, 1024), (1, 1)),
        ((1024, 3072), (0, 1024), (1024, 1024), (1, 1)),
        ((1024, 1024), (0, 0), (512, 512), (2, 2)),
    ):
        yield _rows(
            "movement",
            "slice",
            lambda g, x, a=starts, b=size, c=strides: g.slice(x, a, b, c),
            (shape, dtype),
        )
    for dim, shape in ((0, (1024, 1024)), (1, (1024, 1024)), (1, (4096, 64))):
        yield _rows(
            "movement",
            f"concatenate {dim}",
            lambda g, *x, d=dim: g.concatenate(x, d),
            *[(shape, dtype)] * 2,
        )
    yield _rows("movement", "pad", lambda g, x: g.pad(x, (1, 1), (1, 1)), ((1022, 1022), dtype))
    yield _rows("movement", "reverse", lambda g, x: g.apply(Reverse((0,)), x), ((64, 1024), dtype))
    yield _rows(
        "movement",
        "expand rows",
        lambda g, x: g.broadcast_in_dim(x, (1024, 1024), (1,)),
        ((1024,), dtype),
    )
    yield _rows(
        "movement",
        "expand columns",
        lambda g, x: g.broadcast_in_dim(x, (1024, 1024), (0,)),
        ((1024,), dtype),
    )


def _elementwise(dtype):
    for shape in ((64,), (128, 768), (4096, 1024), (1 << 22,), (8, 12, 128, 128)):
        yield _rows("elementwise", "add", elementwise("add"), *[(shape, dtype)] * 2)
        yield _rows("elementwise", "multiply by 2", elementwise("multiply", 2.0), (shape, dtype))
        yield _rows("elementwise", "gelu", elementwise("gelu"), (shape, dtype))
    one = ((2048, 1024), dtype)
    yield _rows("elementwise", "divide", elementwise("divide"), one, one)
    yield _rows("elementwise", "tanh", elementwise("tanh"), one)
    yield _rows("elementwise", "power", elementwise("power", 3.0), one)
    yield _rows("elementwise", "remainder", elementwise("remainder"), one, one)
    yield _rows("elementwise", "less", elementwise("compare", direction="LT"), one, one)
    masked = (((2048, 1024), "bool"), one, one)
    yield _rows("elementwise", "select", elementwise("select"), *masked)
    other = F32 if dtype == BF16 else BF16
    yield _rows("elementwise", "convert", elementwise("convert", dtype=other), one)
    yield _rows("elementwise", "to int32", elementwise("convert", dtype=I32), one)
    yield _rows("elementwise", "silu(x) * y", silu_times, one, one)
    filled = of(lambda g: g.constant(1.0, TensorType((1024, 1024), dtype)))
    yield "elementwise", f"filled 1024x1024 {dtype}", filled
    row = ((1024,), dtype)
    yield _rows(
        "elementwise",
        "add a row",
        lambda g, x, y: g.elementwise("add", x, g.broadcast_in_dim(y, x.shape, (1,))),
        one,
        row,
    )
    yield _rows(
        "elementwise",
        "add a column",
        lambda g, x, y: g.elementwise("add", x, g.broadcast_in_dim(y, x.shape, (0,))),
        one,
        ((2048,), dtype),
    )
    if dtype == F32:
        for elements in (1 << 20, 1 << 24, 768):
            yield _rows("elementwise", "AdamW", adam, *[((elements,), dtype)] * 4)


def _reductions(dtype):
    for shape in ((128, 768), (2048, 1024), (16, 50257), (1 << 20,)):
        last = len(shape) - 1
        for op in ("add", "maximum"):
            yield _rows("reductions", op, reduced(op, last), (shape, dtype))
    for shape in ((1024, 1024), (8192, 768)):
        yield _rows("reductions", "add first", reduced("add", 0), (shape, dtype))
    yield _rows("reductions", "maximum first", reduced("maximum", 0), ((1024, 1024), dtype))
    yield _rows("reductions", "add all", reduced("add", 0, 1), ((1024, 1024), dtype))
    yield _rows("reductions", "add middle", reduced("add", 1), ((8, 128, 768), dtype))
    for shape in ((128, 128), (1536, 128), (2048, 4096), (16, 50257)):
        yield _rows("reductions", "softmax", softmax, (shape, dtype))
    for shape in ((128, 768), (4096, 1024)):
        row = (shape[-1:], dtype)
        yield _rows("reductions", "layer norm", layer_norm, (shape, dtype), row, row)


def _products(dtype):
    for M, K, N in (
        (16, 16, 16),
        (128, 128, 128),
        (128, 768, 3072),
        (1024, 1024, 1024),
        (2048, 768, 2304),
        (1, 4096, 4096),
        (8, 768, 50257),
    ):
        yield _rows("products", "mm", product((1, 0)), ((M, K), dtype), ((K, N), dtype))
        yield _rows("products", "linear", product((1, 1)), ((M, K), dtype), ((N, K), dtype))
    yield _rows(
        "products", "gradient", product((0, 0)), ((2048, 768), dtype), ((2048, 2304), dtype)
    )
    for shape in ((96, 128, 64), (12, 1024, 64)):
        yield _rows("products", "bmm scores", product((2, 2)), (shape, dtype), (shape, dtype))
        square = (*shape[:2], shape[1])
        yield _rows("products", "bmm values", product((2, 1)), (square, dtype), (shape, dtype))


def _attention(dtype):
    for shape in ((1, 12, 128, 64), (1, 12, 1024, 64), (4, 16, 512, 64)):
        for is_causal in (False, True):
            words = "causal attention" if is_causal else "attention"
            given = [(shape, dtype)] * 3
            yield _rows("attention", words, attention(is_causal=is_causal), *given)
    wide = [((1, 4, 256, 256), dtype)] * 3
    yield _rows("attention", "wide attention", attention(is_causal=True), *wide)
    query, keys = (1, 32, 1, 128), (1, 32, 2048, 128)
    given = [(query, dtype), (keys, dtype), (keys, dtype)]
    yield _rows("attention", "decode attention", attention(is_causal=False), *given)
    for shape in ((1, 12, 128, 64), (1, 12, 1024, 64), (1, 4, 256, 256)):
        given = [(shape, dtype)] * 5 + [(shape[:3], F32)]
        yield _rows("attention", "gradient of attention", attention_gradient, *given)


def _indexing(dtype):
    table, places = ((50257, 768), dtype), ((512,), I32)
    yield _rows("indexing", "rows", lambda g, x, i: g.gather(x, i), table, places)
    yield _rows(
        "indexing",
        "in rows",
        lambda g, x, i: g.gather_in_rows(x, i),
        ((128, 1024), dtype),
        ((128, 1), I32),
    )
    yield _rows(
        "indexing",
        "added to rows",
        lambda g, table, u, i: g.scatter(table, i, u),
        ((1024, 768), dtype),
        ((512, 768), dtype),
        places,
    )
    yield _rows("indexing", "cumsum", lambda g, x: g.scan("add", x), ((128, 4096), dtype))
    yield _rows("indexing", "top 8", lambda g, x: g.top_k(x, 8), ((128, 4096), dtype))


def _integers():
    one = ((2048, 1024), I32)
    for name in ("add", "multiply", "divide", "remainder", "and"):
        yield _rows("integers", name, elementwise(name), one, one)
    yield _rows("integers", "add 1", elementwise("add", 1), one)
    yield _rows("integers", "equal", elementwise("compare", direction="EQ"), one, one)
    yield _rows("integers", "to float32", elementwise("convert", dtype=F32), one)
    yield _rows("integers", "sum", reduced("add", 1), one)
    yield _rows(
        "integers", "counted", lambda g, x: g.elementwise("add", g.iota(x.shape, 1), x), one
    )


def as_kernels(graph, target):
    """Microseconds, instructions and this computer's seconds of an operation's kernels."""
    start = time.process_time()
    found = costs(graph, target)
    spent = time.process_time() - start
    return sum(one.device_time_s for one in found) * 1e6, sum(c.instructions for c in found), spent


def as_program(graph, target):
    """The same of a graph of it alone as one program."""
    start = time.process_time()
    found = time_graph(graph, frozenset(), CompileOptions(target)).figures
    return found.device_time_s * 1e6, found.instructions, time.process_time() - start


def tried(way, graph, target):
    """What a way gives; the reason where it gives nothing."""
    try:
        return way(graph, target)
    except EmulatorError as error:
        return str(error).partition("\n")[0][:60]


def main():
    """Print a line for each operation."""
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("targets", nargs="*", default=["trn1", "trn2"])
    parser.add_argument("--family", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--before", type=Path)
    asked = parser.parse_args()
    before = json.loads(asked.before.read_text()) if asked.before else {}
    found = {}
    for target in asked.targets or ["trn1", "trn2"]:
        print(f"{target}\n{'operation':<54}{'kernels us':>11}{'program us':>11}{'ratio':>7}")
        for family, words, graph in families():
            if asked.family not in ("", family):
                continue
            both = [tried(way, graph, target) for way in (as_kernels, as_program)]
            found[f"{target} {family}: {words}"] = both
            _print(words, both, before.get(f"{target} {family}: {words}"))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))


def _print(words, both, before):
    text = f"{words:<54}"
    text += "".join(f"{one if isinstance(one, str) else f'{one[0]:.1f}':>11}" for one in both)
    if not any(isinstance(one, str) for one in both):
        (kernels, many, spent), (program, few, other) = both
        text += f"{program / kernels:>7.2f}  {many}, {few} instructions; {spent:.2f}, {other:.2f} s"
    if before and not any(isinstance(one, str) for one in (before[0], both[0])):
        text += f"; before {before[0][0]:.1f}, {both[0][0] / before[0][0]:.3f}"
    print(text, flush=True)


if __name__ == "__main__":
    main()
