"""Random kernels of loops, recorded and run with affine steps and without: equal bit for bit.

A kernel is some loops whose bodies are drawn instructions. Operands are tiles that each turn
allocates, slices of tensors from before the loop that move by a constant (0, negative, less than
their size, so that turns overlap), rows that an index picks, accumulators in PSUM. Which turns
depend on which is left to chance.
"""

from __future__ import annotations

import argparse
import random
import warnings
from dataclasses import dataclass, field

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim
from trnsim.errors import EmulatorError
from trnsim.program.affine import without_affine_steps

P, WIDTH = 32, 96
ROWS = 6 * P
OPERATORS = (nl.add, nl.multiply, nl.subtract, nl.maximum, nl.minimum, nl.greater, nl.power)
FUNCTIONS = (nl.square, nl.copy, nl.relu, nl.exp, nl.abs, nl.sqrt)
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, 3e38], np.float32)


@dataclass
class Loop:
    """A loop: its turns, the width of its tiles, and the seed of its body."""

    turns: int
    width: int
    body: int
    length: int


@dataclass
class LoopKernel:
    """A drawn kernel; `cores` run the same loops on their own rows."""

    seed: int
    cores: int = 1
    loops: list[Loop] = field(default_factory=list)

    @classmethod
    def drawn(cls, seed):
        chance = random.Random(seed)  # noqa: S311  no secret
        loops = [
            Loop(
                chance.choice((1, 2, 3, 4, 5, 7)),
                chance.choice((1, 2, 5, 8, 16)),
                chance.randrange(1 << 30),
                chance.randint(1, 7),
            )
            for _ in range(chance.randint(1, 3))
        ]
        return cls(seed, chance.choice((1, 1, 1, 2)), loops)

    def arrays(self, number):
        """The inputs number `number`: x, a table, indices, and a tensor that may be written."""
        rng = np.random.default_rng((self.seed, number))
        x, table, kept = (rng.standard_normal((ROWS, WIDTH)).astype(np.float32) for _ in range(3))
        if number % 2:
            places = rng.integers(0, x.size, 12)
            x.reshape(-1)[places] = rng.choice(SPECIAL, 12)
        high = ROWS + 1 if number % 3 == 2 else ROWS
        return x, table, rng.integers(0, high, (ROWS, 1)).astype(np.int32), kept

    def kernel(self):
        """The kernel."""

        @nki.jit
        def looped(x, table, indices, kept):
            core = nl.program_id(0)
            out = nl.ndarray((self.cores * ROWS, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
            own = out[core * ROWS : (core + 1) * ROWS]
            zeros = filled(P, WIDTH)
            for row in range(0, ROWS, P):
                nisa.dma_copy(dst=own[row : row + P], src=zeros)
            wide, other = filled(P, WIDTH), filled(P, WIDTH)
            reset = nisa.reduce_cmd.reset_reduce
            nisa.activation(dst=other, op=nl.copy, data=zeros, reduce_op=nl.add, reduce_cmd=reset)
            nisa.dma_copy(dst=wide, src=x[0:P])
            kept = kept if self.cores == 1 else x
            for loop in self.loops:
                Body(loop, x, table, indices, kept, own, wide, other).run()
            nisa.dma_copy(dst=own[0:P], src=wide)
            return out

        return looped[2] if self.cores > 1 else looped


def sbuf(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def filled(*shape):
    tile = sbuf(*shape)
    nisa.memset(dst=tile, value=0.5)
    return tile


class Body:
    """The turns of a loop while they issue their instructions."""

    def __init__(self, loop, x, table, indices, kept, out, wide, other):
        self.loop, self.x, self.table, self.indices = loop, x, table, indices
        self.kept, self.out, self.wide, self.other = kept, out, wide, other
        chance = random.Random(loop.body)  # noqa: S311  no secret
        kinds = [getattr(self, name) for name in dir(self) if name.startswith("issue_")]
        self.drawn = [(chance.choice(kinds), chance.randrange(1 << 30)) for _ in range(loop.length)]

    def run(self):
        for turn in range(self.loop.turns):
            tile = sbuf(P, self.loop.width)
            nisa.dma_copy(dst=tile, src=self.rows(self.x, turn, 7))
            self.tiles = [tile]
            for issue, seed in self.drawn:
                issue(turn, random.Random(seed))  # noqa: S311  no secret

    def start(self, turn, chance, length, size):
        """The start of a slice that moves by a constant, within a dimension."""
        span = length - size
        step = chance.choice((0, 1, -1, size - 1, size, -size, size + 1, 2 * size))
        first = chance.choice((0, span, span // 2, chance.randint(0, span)))
        return min(max(first + turn * step, 0), span)

    def rows(self, tensor, turn, seed):
        """P rows of a tensor in HBM, `width` columns."""
        chance, width = random.Random(seed), self.loop.width  # noqa: S311  no secret
        row = self.start(turn, chance, ROWS, P)
        column = self.start(turn, chance, WIDTH, width)
        return tensor[row : row + P, column : column + width]

    def tile(self, turn, chance):
        """An operand on chip."""
        width, kind = self.loop.width, chance.randrange(6)
        if kind < 3:
            return self.tiles[chance.randrange(len(self.tiles))]
        start = self.start(turn, chance, WIDTH, width)
        return (self.wide if kind < 5 else self.other)[:, start : start + width]

    def result(self, turn, chance):
        """A place for a result: a new tile, or any operand."""
        if chance.random() < 0.5:
            self.tiles.append(sbuf(P, self.loop.width))
            return self.tiles[-1]
        return self.tile(turn, chance)

    def column(self, turn, chance):
        """A column of an operand."""
        tile = self.tile(turn, chance)
        return tile[:, 0:1]

    def issue_load(self, turn, chance):
        src = self.rows(chance.choice((self.x, self.table)), turn, chance.random())
        nisa.dma_copy(dst=self.result(turn, chance), src=src)

    def issue_store(self, turn, chance):
        dst = self.rows(self.out, turn, chance.random())
        nisa.dma_copy(dst=dst, src=self.tile(turn, chance))

    def issue_write_of_input(self, turn, chance):
        if self.kept is not self.x and chance.random() < 0.3:
            dst = self.rows(self.kept, turn, chance.random())
            nisa.dma_copy(dst=dst, src=self.tile(turn, chance))

    def issue_read_of_written(self, turn, chance):
        src = self.rows(chance.choice((self.out, self.kept)), turn, chance.random())
        nisa.dma_copy(dst=self.result(turn, chance), src=src)

    def issue_gather(self, turn, chance):
        index = sbuf(P, 1, dtype=nl.int32)
        row = self.start(turn, chance, ROWS, P)
        nisa.dma_copy(dst=index, src=self.indices[row : row + P])
        width = self.loop.width
        source = self.table.ap([[WIDTH, P], [1, width]], vector_offset=index)
        nisa.dma_copy(dst=self.result(turn, chance), src=source)

    def issue_two(self, turn, chance):
        first, second = self.tile(turn, chance), self.tile(turn, chance)
        op = chance.choice(OPERATORS)
        nisa.tensor_tensor(dst=self.result(turn, chance), data1=first, data2=second, op=op)

    def issue_scaled(self, turn, chance):
        data, numbers = self.tile(turn, chance), (0.0, -0.0, 1, 1.5, -2.0)
        operands = [
            self.column(turn, chance) if chance.random() < 0.4 else chance.choice(numbers)
            for _ in range(2)
        ]
        second = {"op1": chance.choice(OPERATORS), "operand1": operands[1]}
        nisa.tensor_scalar(
            dst=self.result(turn, chance),
            data=data,
            op0=chance.choice(OPERATORS),
            operand0=operands[0],
            reverse0=chance.random() < 0.3,
            **(second if chance.random() < 0.5 else {}),
        )

    def issue_function(self, turn, chance):
        sums = {}
        if chance.random() < 0.5:
            command = chance.choice((nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reset_reduce,
                                     nisa.reduce_cmd.reduce))  # fmt: skip
            sums = {"reduce_op": nl.add, "reduce_res": sbuf(P, 1), "reduce_cmd": command}
        data = self.tile(turn, chance)
        nisa.activation(
            dst=self.result(turn, chance),
            op=chance.choice(FUNCTIONS),
            data=data,
            scale=self.column(turn, chance) if chance.random() < 0.3 else chance.choice((1, 0.5)),
            **sums,
        )
        if sums:
            target = self.tile(turn, chance)
            nisa.tensor_copy(dst=target[:, 0:1], src=sums["reduce_res"])

    def issue_reduction(self, turn, chance):
        sums, op = sbuf(P, 1), chance.choice((nl.add, nl.maximum, nl.minimum, nl.multiply))
        negate = chance.random() < 0.3
        nisa.tensor_reduce(dst=sums, op=op, data=self.tile(turn, chance), axis=1, negate=negate)
        nisa.tensor_copy(dst=self.tile(turn, chance)[:, 0:1], src=sums)

    def issue_cast(self, turn, chance):
        short = sbuf(P, self.loop.width, dtype=chance.choice((nl.bfloat16, nl.float16)))
        nisa.tensor_copy(dst=short, src=self.tile(turn, chance))
        nisa.tensor_tensor(dst=self.result(turn, chance), data1=short, data2=short, op=nl.add)

    def issue_fill(self, turn, chance):
        nisa.memset(dst=self.result(turn, chance), value=chance.choice((0.0, -0.0, 2.5)))

    def issue_product(self, turn, chance):
        if turn == 0:
            self.sums = nl.ndarray((P, self.loop.width), dtype=nl.float32, buffer=nl.psum)
        moving = self.tile(turn, chance)
        nisa.nc_matmul(dst=self.sums, stationary=self.wide[:, 0:P], moving=moving)
        nisa.tensor_copy(dst=self.result(turn, chance), src=self.sums)


def outcome(replay, arrays):
    """The bytes of all that a run gives and changes, or its error."""
    try:
        outputs = replay(*arrays).outputs
    except EmulatorError as error:
        return str(error), str(error.line)
    return [array.tobytes() for array in (outputs, *arrays)]


def differences(kernel, calls=3):
    """The inputs on which steps change anything; and how many instructions are in steps.

    None for a kernel that cannot be recorded.
    """
    made = kernel.kernel()
    try:
        replay = trnsim.record(made, *kernel.arrays(0))
    except EmulatorError:
        return None
    wrong = []
    for number in range(1, 1 + calls):
        arrays = kernel.arrays(number)
        if number == calls:  # an input beside itself
            arrays = (arrays[3], arrays[1], arrays[2], arrays[3])
        copies = [array.copy() for array in arrays]
        if number == calls:
            copies[0] = copies[3]
        together = outcome(replay, arrays)
        with without_affine_steps():
            alone = outcome(replay, copies)
        if together != alone:
            wrong.append(number)
    return wrong, sum(recording.saved_steps for recording in replay.recordings)


def main(arguments=None):
    """Compare the kernels of many seeds; returns the number of those that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    wrong = recorded = together = 0
    for seed in range(options.first, options.first + options.kernels):
        compared = differences(LoopKernel.drawn(seed))
        if compared is None:
            continue
        recorded += 1
        together += compared[1]
        if compared[0]:
            wrong += 1
            print(f"seed {seed}: differs on inputs {compared[0]}")
    print(f"{options.kernels} kernels, {recorded} recorded, {together} instructions in steps")
    return wrong


if __name__ == "__main__":
    raise SystemExit(min(main(), 1))
