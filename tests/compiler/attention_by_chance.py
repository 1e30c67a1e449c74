"""Attention by chance: operands of any origin, in any layout, and readers of its results.

Queries, keys and values are inputs, parts of one tensor, projections, rotated, concatenated to a
cache or shared by heads; results are outputs, projected or normalized; gradients of some follow.
"""

import numpy as np
from made_graphs import Made

from trnsim.graph.ops.contraction import Attention, AttentionBackward

HEADS = (1, 1, 2, 3, 4, 8)
WIDTHS = (1, 5, 16, 32, 48, 64, 80, 128, 130, 192, 256)
LENGTHS = (1, 1, 2, 5, 16, 31, 40, 127, 128, 129, 130, 256, 300)
KEYS = (*LENGTHS, 512, 513, 700)
MOST_ELEMENTS = 200_000


class AttentionByChance:
    """An attention and what is around it, as a `Made` graph."""

    def __init__(self, random):
        self.random = random
        self.made = Made(random.choice(["float32", "bfloat16"]), random.randint(0, 999))
        self.graph = self.made.graph
        self.batch, self.heads = random.choice([1, 1, 2, 3]), random.choice(HEADS)
        self.width = random.choice(WIDTHS)
        self.value_width = random.choice([self.width, self.width, *WIDTHS])
        self.queries = random.choice(LENGTHS)
        self.keys = random.choice([self.queries, *KEYS])
        widest = max(self.width, self.value_width)
        while self.batch * self.heads * self.keys * max(self.queries, widest) > MOST_ELEMENTS:
            self.batch, self.heads = max(self.batch // 2, 1), max(self.heads // 2, 1)
            self.keys = max(self.keys // 2, 1)
        sizes = [size for size in range(1, self.heads + 1) if self.heads % size == 0]
        self.group = random.choice([1, *sizes])

    def outputs(self):
        """The graph's outputs."""
        query = self.side(self.queries, self.heads, self.width)
        key, value = self.shared(self.width), self.shared(self.value_width)
        if self.width == self.value_width and self.random.random() < 0.1:
            value = key
        is_causal = self.random.choice([True, False])
        bias = [self.bias()] if self.random.random() < 0.3 else []
        operands, scale = [query, key, value, *bias], self.width**-0.5
        result, logs = self.graph.apply_to_all(Attention(scale, is_causal), operands)
        found = [self.read(result), *self.random.choice([[], [logs]])]
        if self.random.random() < 0.3:
            slope = self.side(self.queries, self.heads, self.value_width)
            operands = [query, key, value, slope, result, logs, *bias]
            gradients = self.graph.apply_to_all(AttentionBackward(scale, is_causal), operands)
            found += map(self.read, gradients)
        return found

    def shared(self, width):
        """Keys or values, each read by the heads of a group."""
        heads = self.heads // self.group
        one = self.side(self.keys, heads, width)
        shape = (self.batch, heads, self.group, self.keys, width)
        wide = self.graph.broadcast_in_dim(one, shape, (0, 1, 3, 4))
        return self.graph.reshape(wide, (self.batch, self.heads, self.keys, width))

    def side(self, length, heads, width):
        """An operand [batch, heads, length, width]."""
        origins = ("given", "by_tokens", "across", "projected", "part", "joined", "turned")
        return getattr(self, self.random.choice(origins))(length, heads, width)

    def given(self, length, heads, width):
        return self.made.given(self.batch, heads, length, width)

    def by_tokens(self, length, heads, width):
        return self.graph.transpose(self.made.given(self.batch, length, heads, width), (0, 2, 1, 3))

    def across(self, length, heads, width):
        return self.graph.transpose(self.made.given(self.batch, heads, width, length), (0, 1, 3, 2))

    def projected(self, length, heads, width):
        x = self.made.given(self.batch, length, self.random.choice([16, 64, 130]))
        return self.made.heads(self.made.linear(x, heads * width), heads)

    def part(self, length, heads, width):
        more = self.random.choice([0, 1, 64])
        wide = self.made.given(self.batch, heads, length + 1, width + more)
        if self.random.choice([True, False]):
            wide = self.made.of("tanh", wide)
        starts = [0, 0, self.random.randint(0, 1), self.random.randint(0, more)]
        return self.graph.slice(wide, starts, (self.batch, heads, length, width))

    def joined(self, length, heads, width):
        if length == 1:
            return self.given(length, heads, width)
        past = self.random.randint(1, length - 1)
        sides = [self.given(past, heads, width), self.projected(length - past, heads, width)]
        return self.graph.concatenate(sides, 2)

    def turned(self, length, heads, width):
        one = self.projected(length, heads, width)
        return one if width % 2 else self.made.rotary(one)

    def bias(self):
        shape = (self.batch, self.heads, self.queries, self.keys)
        dims = self.random.choice([(0, 3), (2, 3), (1, 2, 3), (0, 1, 2, 3)])
        numbers = self.made.random.standard_normal([shape[dim] for dim in dims])
        numbers[self.made.random.random(numbers.shape) < 0.2] = -np.inf
        numbers[..., 0] = 0.0
        value = self.made.given(*numbers.shape, array=numbers)
        return self.graph.broadcast_in_dim(value, shape, dims)

    def read(self, value):
        """An output, or the result of a reader of it."""
        kind = self.random.randint(0, 3)
        if kind == 0:
            return value
        if kind == 1:
            return self.made.linear(self.made.joined(value), 16)
        return self.made.of("tanh", value) if kind == 2 else self.made.rms_norm(value)
