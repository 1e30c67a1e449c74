"""Compiled graphs over their physical bound: products, attention, norms, chains, convolutions.

usage: compiled.py [TARGET ...]

Each line is a graph of one or a few operations, its time as one program without the launch, the
bound that no program can be below (products at the peak of their format, what must cross HBM once),
what binds it, and the ratio. The bound is what matters over 200 us; below, fixed costs do.
"""

import sys

from trnsim import arch, compiler
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Attention, AttentionBackward, Convolution

BF16 = "bfloat16"


def product(M, K, N, *, is_linear=True, dtype=BF16):
    """``x @ W``, with W as torch.nn.Linear has it, or not."""
    g = Graph()
    x = g.input((M, K), dtype)
    w = g.input((N, K) if is_linear else (K, N), dtype)
    g.outputs = [g.dot_general(x, w, (1, 1 if is_linear else 0))]
    return g, {w.number}


def mlp(rows, width, hidden):
    """``x + gelu(x @ U) @ D``."""
    g = Graph()
    x, up, down = (g.input(s, BF16) for s in ((rows, width), (hidden, width), (width, hidden)))
    made = g.elementwise("gelu", g.dot_general(x, up, (1, 1)))
    g.outputs = [g.elementwise("add", x, g.dot_general(made, down, (1, 1)))]
    return g, {up.number, down.number}


def attention(batch, heads, shared, queries, keys, width, *, is_causal=False):
    """Heads that share keys in groups."""
    g = Graph()
    group = heads // shared
    q = g.input((batch, shared, group, queries, width), BF16)
    k, v = (g.input((batch, shared, keys, width), BF16) for _ in "kv")
    shape = (batch, shared, group, keys, width)
    wide = [g.broadcast_in_dim(one, shape, (0, 1, 3, 4)) for one in (k, v)]
    operation = Attention(width**-0.5, is_causal)
    g.outputs = [g.apply_to_all(operation, (q, *wide))[0]]
    return g, set()


def attention_gradient(batch, heads, tokens, width, *, is_causal=False):
    """Attention and the gradients of its operands."""
    g = Graph()
    shape = (batch, heads, tokens, width)
    q, k, v, slope = (g.input(shape, BF16) for _ in range(4))
    options = width**-0.5, is_causal
    result, logs = g.apply_to_all(Attention(*options), (q, k, v))
    operands = (q, k, v, slope, result, logs)
    g.outputs = [result, *g.apply_to_all(AttentionBackward(*options), operands)]
    return g, set()


def norm(rows, width):
    """Root mean square, as Llama has it."""
    g = Graph()
    x, w = g.input((rows, width), BF16), g.input((width,), BF16)
    wide = g.elementwise("convert", x, dtype="float32")
    total = g.reduce("add", g.elementwise("square", wide), (1,))
    mean = g.elementwise("multiply", total, 1 / width)
    root = g.elementwise("rsqrt", g.elementwise("add", mean, 1e-5))
    made = g.elementwise("multiply", wide, g.broadcast_in_dim(root, (rows, width), (0,)))
    made = g.elementwise("multiply", made, g.broadcast_in_dim(w, (rows, width), (1,)))
    g.outputs = [g.elementwise("convert", made, dtype=BF16)]
    return g, {w.number}


def chain(rows, width):
    """``silu(x) * y + 1``."""
    g = Graph()
    x, y = g.input((rows, width), BF16), g.input((rows, width), BF16)
    made = g.elementwise("multiply", g.elementwise("silu", x), y)
    g.outputs = [g.elementwise("add", made, 1.0)]
    return g, set()


def adam(elements):
    """A step of AdamW on one parameter in float32."""
    g = Graph()
    p, d, m, v = (g.input((elements,), "float32") for _ in "pdmv")

    def mix(old, new, share):
        parts = g.elementwise("multiply", old, share), g.elementwise("multiply", new, 1 - share)
        return g.elementwise("add", *parts)

    m1, v1 = mix(m, d, 0.9), mix(v, g.elementwise("square", d), 0.999)
    scale = g.elementwise("add", g.elementwise("sqrt", v1), 1e-8)
    step = g.elementwise("multiply", g.elementwise("divide", m1, scale), -1e-3)
    p1 = g.elementwise("add", g.elementwise("multiply", p, 0.99), step)
    g.outputs = [p1, m1, v1]
    return g, set()


def convolution(images, channels, size, kernels, taps, stride=1):
    """Square windows with a border that keeps the size."""
    g = Graph()
    x = g.input((images, channels, size, size), BF16)
    w = g.input((kernels, channels, taps, taps), BF16)
    edge = (taps // 2,) * 2
    ones = (1, 1)
    options = ((stride,) * 2, edge, edge, (0, 0), ones, 1)
    g.outputs = [g.apply(Convolution(*options), x, w)]
    return g, {w.number}


GRAPHS = [
    *(
        ("product", product, (M, K, N))
        for M, K, N in (
            (2048, 768, 2304),
            (2048, 4096, 4096),
            (2048, 4096, 14336),
            (2048, 14336, 4096),
            (4096, 8192, 1024),
            (8192, 8192, 896),
            (1024, 1024, 1024),
            (128, 768, 3072),
            (512, 6144, 6144),
            (2048, 7168, 2048),
        )
    ),
    *(
        ("decode product", product, (M, K, N))
        for M, K, N in (
            (1, 4096, 14336),
            (8, 4096, 14336),
            (1, 8192, 1024),
            (32, 8192, 8192),
            (64, 4096, 4096),
        )
    ),
    *(("mlp", mlp, sizes) for sizes in ((128, 768, 3072), (2048, 1024, 4096), (2048, 4096, 11008))),
    *(
        ("attention", attention, sizes)
        for sizes in (
            (1, 12, 12, 128, 128, 64),
            (16, 12, 12, 128, 128, 64),
            (1, 32, 8, 2048, 2048, 128),
            (1, 8, 8, 4096, 4096, 128),
            (4, 16, 16, 512, 512, 64),
        )
    ),
    *(
        ("decode attention", attention, sizes)
        for sizes in (
            (1, 32, 8, 1, 2048, 128),
            (8, 8, 1, 1, 8192, 128),
            (8, 2, 2, 1, 4096, 128),
        )
    ),
    *(
        ("attention and gradient", attention_gradient, sizes)
        for sizes in ((16, 16, 128, 64), (1, 8, 2048, 128))
    ),
    *(("norm", norm, sizes) for sizes in ((128, 4096), (2048, 4096), (8192, 1024), (1, 8192))),
    *(("chain", chain, sizes) for sizes in ((2048, 4096), (128, 128), (1, 14336), (4096, 11008))),
    *(("AdamW", adam, (elements,)) for elements in (1 << 20, 1 << 24)),
    *(
        ("convolution", convolution, sizes)
        for sizes in (
            (1, 64, 56, 64, 3),
            (1, 3, 224, 64, 7, 2),
            (8, 128, 28, 128, 3),
            (1, 256, 14, 1024, 1),
        )
    ),
]


def main():
    """Print a line for each graph."""
    for target in sys.argv[1:] or ["trn1", "trn2"]:
        arch.target(target)
        print(f"{target}\n{'graph':<42}{'us':>10}{'bound us':>10}  {'binds':<9}{'ratio':>6}")
        for name, make, sizes in GRAPHS:
            graph, weights = make(*sizes)
            found = compiler.compile(graph, target, weights=weights)
            least = found.bound.seconds * 1e6
            text = f"{name} {' x '.join(map(str, sizes))}"
            print(
                f"{text:<42}{found.device_time_s * 1e6:>10.1f}{least:>10.1f}  "
                f"{found.bound.binds:<9}{found.bound_ratio:>6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
