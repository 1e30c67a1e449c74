"""Graphs by chance: operations over what has been made so far, and numbers that suit them.

Whole numbers stay below what a format holds, so that their sums and comparisons are exact in every
order; others go through smooth functions alone, whose results differ by rounding alone.
"""

from math import prod

import numpy as np

from trnsim.graph import Graph
from trnsim.graph.graph import reference_of
from trnsim.graph.ops.contraction import Attention
from trnsim.graph.ops.layout import Transpose

SIZES = [1, 1, 2, 3, 4, 5, 8, 16, 32, 33, 64, 96, 127, 128, 129, 130, 256, 300, 512, 513]
MOST = 70_000
LIMITS = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**16, "int32": 2**20}
SMOOTH = ("tanh", "logistic", "exponential", "silu", "gelu", "erf", "sine", "softplus", "square")
WHOLE = ("negate", "abs", "square", "relu", "sign", "floor")
BETWEEN = ("add", "subtract", "multiply", "maximum", "minimum")
DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")


class Chance:
    """A graph in the making, with the reference's values of all that it has."""

    def __init__(self, random):
        self.random = random
        self.is_whole = random.choice([True, False])
        self.graph = Graph()
        self.arrays, self.known, self.pool, self.weights = [], {}, [], set()
        self.numbers = np.random.default_rng(random.randint(0, 999))
        floats = ["float32", "float32", "bfloat16", "float16"]
        self.dtypes = [random.choice(floats), random.choice(floats)]

    def made(self, operations):
        """A graph of so many operations or fewer."""
        for _ in range(self.random.randint(1, 3)):
            self.input(self.shape(), self.random.choice(self.dtypes))
        steps = [getattr(self, name) for name in dir(self) if name.startswith(("a_", "an_"))]
        for _ in range(operations):
            self.attempt(self.random.choice(steps))
        made = [one for one in self.pool if one not in self.graph.inputs] or self.pool
        self.graph.outputs = made[-1:]
        if len(made) > 1 and self.random.choice([True, False]):
            self.graph.outputs.append(self.random.choice(made[:-1]))
        self.graph.prune()
        return self.graph

    def attempt(self, step):
        """Take a step, and take it back where its numbers are out of bounds."""
        count, arrays, pool = len(self.graph.nodes), len(self.graph.inputs), len(self.pool)
        found = step()
        is_small = found is not None and len(found.shape) <= 4 and prod(found.shape) <= MOST
        if not is_small or not self.suits(found, count):
            self.graph.truncate(count)
            del self.graph.inputs[arrays:], self.arrays[arrays:], self.pool[pool:]
            return
        self.pool.append(found)

    def suits(self, value, first):
        """Whether the numbers of all new operations are finite, exact and no larger than suits."""
        for node in self.graph.nodes[first:]:
            given = [self.known.get(getattr(o, "number", None), o) for o in node.operands]
            with np.errstate(all="ignore"):
                results = reference_of(node, given)
            for one, array in zip(node.results, results, strict=True):
                self.known[one.number] = array
                wide = np.abs(array.astype(np.float64))
                limit = LIMITS.get(one.dtype, 100) if self.is_whole else 64
                if one.dtype != "bool" and array.size and not wide.max() <= limit:
                    return False
        return value.number in self.known

    # What it chooses from

    def shape(self, rank=None):
        rank = self.random.randint(1, 4) if rank is None else rank
        while True:
            found = tuple(self.random.choice(SIZES) for _ in range(rank))
            if prod(found) <= MOST:
                return found

    def input(self, shape, dtype, low=-2, high=2):
        value = self.graph.input(shape, dtype)
        numbers = self.numbers.integers(low, high + 1, shape)
        if not self.is_whole and value.type.is_floating:
            numbers = self.numbers.uniform(low, high, shape)
        array = np.asarray(numbers).astype(value.type.numpy_dtype())
        self.arrays.append(array)
        self.known[value.number] = array
        self.pool.append(value)
        if self.random.choice([True, False]):
            self.weights.add(value.number)
        return value

    def pick(self, *, floating=None, rank=None):
        suits = [
            one
            for one in self.pool
            if (floating is None or (one.dtype != "bool" and one.type.is_floating == floating))
            and (rank is None or len(one.shape) >= rank)
        ]
        if not suits:
            return None
        return suits[-1] if self.random.choice([True, False]) else self.random.choice(suits)

    def like(self, value, dtype=None):
        """Something of a value's shape: a number, another tensor, or one that is repeated."""
        kind = self.random.randint(0, 4)
        if kind == 0 and dtype is None:
            return float(self.random.choice([1, 2, -1, 0.5 if not self.is_whole else 3]))
        dtype = dtype or value.dtype
        same = [one for one in self.pool if one.shape == value.shape and one.dtype == dtype]
        if kind in (1, 2) and same:
            return self.random.choice(same)
        dims = [dim for dim in range(len(value.shape)) if self.random.choice([True, False])]
        if kind == 3 and dims:
            return self.repeated(self.input([value.shape[d] for d in dims], dtype), value, dims)
        dims = [dim for dim in dims if value.shape[dim] > 1]
        shape = [1 if dim in dims else n for dim, n in enumerate(value.shape)]
        return self.repeated(self.input(shape, dtype), value, range(len(shape)))

    def repeated(self, one, value, dims):
        return self.graph.broadcast_in_dim(one, value.shape, tuple(dims))

    # Steps

    def a_function(self):
        value = self.pick(floating=True)
        if value is None:
            return None
        name = self.random.choice(WHOLE if self.is_whole else SMOOTH)
        return self.graph.elementwise(name, value)

    def a_pair(self):
        value = self.pick(floating=True)
        if value is None:
            return None
        other = self.like(value)
        sides = [value, other] if self.random.choice([True, False]) else [other, value]
        # Of two that are nearly equal the difference is rounding alone.
        names = [one for one in BETWEEN if self.is_whole or one != "subtract"]
        return self.graph.elementwise(self.random.choice(names), *sides)

    a_second_pair = a_third_pair = a_pair

    def a_quotient(self):
        value = self.pick(floating=True)
        if value is None or self.is_whole:
            return None
        lower = self.graph.elementwise("exponential", value)
        return self.graph.elementwise("divide", self.like(value), lower)

    def a_whole_pair(self):
        value = self.pick(floating=False)
        if value is None:
            shape = self.shape()
            value = self.input(shape, self.random.choice(["int32", "int8", "uint8"]), 0, 9)
        name = self.random.choice([*BETWEEN, "and", "or", "xor"])
        if value.dtype == "uint8" and name == "subtract":
            name = "add"
        return self.graph.elementwise(name, value, self.like(value, value.dtype))

    def a_choice(self):
        value = self.pick(floating=self.random.choice([True, False, None]))
        if value is None or not self.is_whole or value.dtype == "bool":
            return None
        direction = self.random.choice(DIRECTIONS)
        said = self.graph.elementwise("compare", value, self.like(value), direction=direction)
        if self.random.choice([True, False]):
            return said
        return self.graph.elementwise("select", said, value, self.like(value, value.dtype))

    def a_conversion(self):
        value = self.pick()
        to = self.random.choice(["float32", "bfloat16", "float16"])
        if self.is_whole and self.random.choice([True, False]):
            to = self.random.choice(["int32", "int8", "float32"])
        if not self.is_whole and not value.type.is_floating:
            to = "float32"
        return self.graph.elementwise("convert", value, dtype=to) if to != value.dtype else None

    def a_reduction(self):
        value = self.pick(rank=1)
        if value is None or value.dtype == "bool":
            return None
        dims = [dim for dim in range(len(value.shape)) if self.random.choice([True, False])]
        op = self.random.choice(["add", "add", "maximum", "minimum", "multiply"])
        dims = dims or [len(value.shape) - 1]
        if prod(value.shape[dim] for dim in dims) > 64 and op == "multiply":
            op = "add"  # infinity times zero, in one order of the factors
        return self.graph.reduce(op, value, dims)

    a_second_reduction = a_reduction

    def a_softmax(self):
        value, g = self.pick(floating=True, rank=1), self.graph
        if value is None or self.is_whole:
            return None
        dim = self.random.randint(0, len(value.shape) - 1)
        others = [one for one in range(len(value.shape)) if one != dim]
        largest = self.repeated(g.reduce("maximum", value, [dim]), value, others)
        powers = g.elementwise("exponential", g.elementwise("subtract", value, largest))
        total = self.repeated(g.reduce("add", powers, [dim]), value, others)
        return g.elementwise("divide", powers, total)

    def a_norm(self):
        value, g = self.pick(floating=True, rank=1), self.graph
        if value is None or self.is_whole:
            return None
        last = len(value.shape) - 1
        wide = g.elementwise("convert", value, dtype="float32")
        total = g.reduce("add", g.elementwise("square", wide), [last])
        mean = g.elementwise("multiply", total, 1 / value.shape[-1])
        scale = g.elementwise("rsqrt", g.elementwise("add", mean, 1e-5))
        done = g.elementwise("multiply", wide, self.repeated(scale, wide, range(last)))
        return g.elementwise("convert", done, dtype=value.dtype)

    def a_reshape(self):
        value = self.pick()
        primes, left = [], prod(value.shape)
        for factor in (2, 3, 5, 7, 13, 19, 43, 127):
            while left % factor == 0 and left:
                primes.append(factor)
                left //= factor
        self.random.shuffle(primes)
        lengths = [left] if left > 1 else []
        lengths += [1] * self.random.randint(1, 4 - len(lengths))
        for factor in primes:
            lengths[self.random.randint(0, len(lengths) - 1)] *= factor
        return self.graph.reshape(value, lengths)

    def a_transpose(self):
        value = self.pick(rank=2)
        if value is None:
            return None
        order = list(range(len(value.shape)))
        self.random.shuffle(order)
        return self.graph.apply(Transpose(tuple(order)), value)

    a_second_transpose = a_transpose

    def a_slice(self):
        value = self.pick(rank=1)
        if value is None:
            return None
        strides = [self.random.choice([1, 1, 1, 2, 3]) for _ in value.shape]
        starts = [self.random.randint(0, n - 1) for n in value.shape]
        starts = [s if self.random.choice([True, False]) else 0 for s in starts]
        shape = [
            self.random.choice([(n - s - 1) // k + 1, max(1, (n - s) // k // 2)])
            for n, s, k in zip(value.shape, starts, strides, strict=True)
        ]
        return self.graph.slice(value, starts, shape, strides)

    def a_concatenation(self):
        value = self.pick(rank=1)
        if value is None:
            return None
        dim = self.random.randint(0, len(value.shape) - 1)
        shape = list(value.shape)
        shape[dim] = self.random.choice(SIZES[:8])
        parts = [value, self.input(shape, value.dtype, 0, 1) if value.dtype != "bool" else value]
        if self.random.choice([True, False]):
            parts.reverse()
        return self.graph.concatenate(parts, dim)

    def a_rotation(self):
        value, g = self.pick(floating=True, rank=1), self.graph
        if value is None or value.shape[-1] % 2:
            return None
        half, outer = value.shape[-1] // 2, value.shape[:-1]
        still = [0] * len(outer)
        low = g.slice(value, [*still, 0], [*outer, half])
        high = g.slice(value, [*still, half], [*outer, half])
        turned = g.concatenate([g.elementwise("negate", high), low], len(outer))
        return g.elementwise("add", value, turned)

    def a_padding(self):
        value = self.pick(rank=1)
        if value is None or value.dtype == "bool":
            return None
        low, high = ([self.random.randint(0, 2) for _ in value.shape] for _ in range(2))
        return self.graph.pad(value, low, high, number=1.0)

    def a_repeat(self):
        value = self.pick()
        dims = sorted(self.random.sample(range(4), len(value.shape)))
        shape = [self.random.choice([1, 2, 3]) for _ in range(4)]
        for dim, n in zip(dims, value.shape, strict=True):
            shape[dim] = n if n > 1 else shape[dim]
        return self.graph.broadcast_in_dim(value, shape, dims) if prod(shape) <= MOST else None

    def a_gather(self):
        value = self.pick(rank=2)
        if value is None or value.dtype == "bool":
            return None
        shape = self.shape(self.random.randint(1, 2))
        indices = self.input(shape, "int32", 0, value.shape[0] - 1)
        self.pool.remove(indices)
        if prod(shape) * prod(value.shape[1:]) > MOST or prod(value.shape[1:]) > 2**14:
            return None
        return self.graph.gather(value, indices)

    def a_product(self):
        value = self.pick(floating=True, rank=2)
        if value is None:
            return None
        rank = len(value.shape)
        mine, other = (rank - self.random.randint(1, 2) for _ in range(2))
        shape = list(value.shape)
        shape[other], free = value.shape[mine], self.random.choice(SIZES)
        shape[2 * rank - 3 - other] = free
        rows = value.shape[2 * rank - 3 - mine]
        if prod(shape) > MOST or prod(shape[:-2]) * rows * free > MOST or prod(shape[:-2]) > 40:
            return None
        if not self.is_whole:
            bound = 2 * shape[other] ** -0.5
            made = self.input(shape, value.dtype, -bound, bound)
        else:
            made = self.input(shape, value.dtype, -1, 1)
        if self.random.choice([True, True, False]):
            return self.graph.dot_general(value, made, (mine, other))
        return self.graph.dot_general(made, value, (other, mine))

    a_second_product = a_third_product = a_product

    def an_attention(self):
        value = self.pick(floating=True, rank=2)
        if value is None or self.is_whole:
            return None
        *heads, rows, width = value.shape
        keys = self.random.choice(SIZES)
        shape = (*heads, keys, width)
        if prod(shape) > MOST or prod((*heads, rows, keys)) > 4 * MOST:
            return None
        key, val = self.input(shape, value.dtype), self.input(shape, value.dtype)
        if len(heads) and self.random.choice([True, False]):
            groups = list(shape)
            groups[0] = 1
            key, val = (
                self.repeated(self.input(groups, value.dtype), key, range(len(shape)))
                for _ in range(2)
            )
        is_causal = self.random.choice([True, False])
        bias = []
        if self.random.choice([True, False]):
            bias = [self.input((*heads, rows, keys), value.dtype)]
        operation = Attention(width**-0.5, is_causal)
        return self.graph.apply_to_all(operation, [value, key, val, *bias])[0]
