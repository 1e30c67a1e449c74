"""Parts of models as graphs, and what their programs give beside the reference."""

import numpy as np

from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Attention
from trnsim.lower.program import run_graph

CHIPS = ("trn1", "inf2", "trn2", "trn3")
NEAR = {"float32": 2e-4, "float16": 1e-2, "bfloat16": 4e-2}
"""Of the largest element: formats round each operation's result, and products keep float32."""


class Made:
    """A graph in the making, with numbers for its inputs."""

    def __init__(self, dtype="float32", seed=0):
        self.graph, self.dtype = Graph(), dtype
        self.random = np.random.default_rng(seed)
        self.arrays, self.weights = [], set()

    # Inputs

    def given(self, *shape, dtype="", array=None, scale=1.0):
        """An input of normal numbers, or of those given."""
        value = self.graph.input(shape, dtype or self.dtype)
        if array is None:
            array = self.random.standard_normal(shape) * scale
        self.arrays.append(np.asarray(array).astype(value.type.numpy_dtype()))
        return value

    def weight(self, *shape, dtype="", scale=None):
        """An input that does not change from call to call."""
        value = self.given(*shape, dtype=dtype, scale=shape[-1] ** -0.5 if scale is None else scale)
        self.weights.add(value.number)
        return value

    # Parts of models

    def repeated(self, value, like, dims):
        return self.graph.broadcast_in_dim(value, like.shape, tuple(dims))

    def row(self, value, like):
        return self.repeated(value, like, [len(like.shape) - 1])

    def of(self, name, *operands, **options):
        return self.graph.elementwise(name, *operands, **options)

    def linear(self, x, columns, *, has_bias=True):
        """``x @ w.T + b`` as PyTorch's linear layers are."""
        *outer, width = x.shape
        rows = self.graph.reshape(x, (int(np.prod(outer)), width))
        found = self.graph.dot_general(rows, self.weight(columns, width), (1, 1))
        found = self.graph.reshape(found, (*outer, columns))
        if has_bias:
            found = self.of("add", found, self.row(self.weight(columns), found))
        return found

    def mean(self, x):
        """Over the last dimension, repeated."""
        total = self.graph.reduce("add", x, [len(x.shape) - 1])
        mean = self.of("multiply", total, 1 / x.shape[-1])
        return self.repeated(mean, x, range(len(x.shape) - 1))

    def layer_norm(self, x):
        wide = self.of("convert", x, dtype="float32") if x.dtype != "float32" else x
        less = self.of("subtract", wide, self.mean(wide))
        scale = self.of("rsqrt", self.of("add", self.mean(self.of("square", less)), 1e-5))
        done = self.of("multiply", less, scale)
        done = self.of("convert", done, dtype=x.dtype) if x.dtype != "float32" else done
        done = self.of("multiply", done, self.row(self.weight(x.shape[-1], scale=1.0), done))
        return self.of("add", done, self.row(self.weight(x.shape[-1]), done))

    def rms_norm(self, x):
        wide = self.of("convert", x, dtype="float32") if x.dtype != "float32" else x
        scale = self.of("rsqrt", self.of("add", self.mean(self.of("square", wide)), 1e-6))
        done = self.of("multiply", wide, scale)
        done = self.of("convert", done, dtype=x.dtype) if x.dtype != "float32" else done
        return self.of("multiply", done, self.row(self.weight(x.shape[-1], scale=1.0), done))

    def softmax(self, x, dim=-1):
        dim %= len(x.shape)
        others = [one for one in range(len(x.shape)) if one != dim]
        largest = self.repeated(self.graph.reduce("maximum", x, [dim]), x, others)
        powers = self.of("exponential", self.of("subtract", x, largest))
        total = self.repeated(self.graph.reduce("add", powers, [dim]), x, others)
        return self.of("divide", powers, total)

    def heads(self, x, heads):
        """[B, T, heads * E] as [B, heads, T, E]."""
        batch, tokens, width = x.shape
        split = self.graph.reshape(x, (batch, tokens, heads, width // heads))
        return self.graph.transpose(split, (0, 2, 1, 3))

    def joined(self, x):
        """[B, heads, T, E] as [B, T, heads * E]."""
        batch, heads, tokens, width = x.shape
        moved = self.graph.transpose(x, (0, 2, 1, 3))
        return self.graph.reshape(moved, (batch, tokens, heads * width))

    def attention(self, query, key, value, *bias, is_causal=False):
        operation = Attention(query.shape[-1] ** -0.5, is_causal)
        return self.graph.apply_to_all(operation, [query, key, value, *bias])[0]

    def halves(self, x):
        """``concatenate(-x[half:], x[:half])``, of rotary embeddings."""
        *outer, width = x.shape
        still, half = [0] * len(outer), width // 2
        low = self.graph.slice(x, [*still, 0], [*outer, half])
        high = self.graph.slice(x, [*still, half], [*outer, half])
        return self.graph.concatenate([self.of("negate", high), low], len(outer))

    def rotary(self, x):
        """Queries or keys [B, heads, T, E] turned by angles [1, 1, T, E]."""
        shape = (1, 1, *x.shape[2:])
        cosine, sine = (self.repeated(self.given(*shape), x, range(4)) for _ in range(2))
        turned = self.of("multiply", self.halves(x), sine)
        return self.of("add", self.of("multiply", x, cosine), turned)

    # What programs give

    def run(self, *outputs, chip="trn2"):
        """The program's time and instructions, without values."""
        self.graph.outputs = list(outputs)
        weights = frozenset(self.weights)
        return run_graph(self.graph, self.arrays, chip, weights, numerics=False)

    def opcodes(self, *outputs, chip="trn2"):
        """The names of its instructions, in order."""
        return [span.opcode for span in self.run(*outputs, chip=chip).timeline.spans()]

    def check(self, *outputs, chip="trn2", near=None):
        """Its values beside the reference's."""
        self.graph.outputs = list(outputs)
        found = evaluate_program(self.graph, self.arrays, chip, frozenset(self.weights))
        with np.errstate(all="ignore"):
            wanted = self.graph.reference(self.arrays)
        assert_near(found, wanted, near or NEAR.get(self.dtype, 0))
        return found


def assert_near(found, wanted, near):
    """Equal to a part of the largest element; integers and truth values exactly."""
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if theirs.dtype.kind in "iub":
            np.testing.assert_array_equal(ours, theirs)
        elif theirs.size:
            wide = theirs.astype(np.float64)
            off = np.abs(ours.astype(np.float64) - wide).max()
            assert off <= near * max(np.abs(wide).max(), 0.05), (off, np.abs(wide).max())
