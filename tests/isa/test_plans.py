"""Plans: the same bytes, accumulators and errors as `execute`, on drawn operands."""

import random

import numpy as np
import pytest

from trnsim.arch import NEURONCORE_V3
from trnsim.dtypes import FLOAT32
from trnsim.errors import EmulatorError
from trnsim.isa import Activation, ReduceCmd, TensorScalar
from trnsim.isa.language.machine import Machine
from trnsim.memory import AccessPattern, Memory, Storage, Tile

FUNCTIONS = ("square", "copy", "relu", "exp", "abs", "sqrt", "rsqrt", "sigmoid", "tanh")


class Draw:
    """Tiles of three tensors, which may be the same, overlap, or have gaps."""

    def __init__(self, seed):
        self.chance = random.Random(seed)  # noqa: S311  no secret
        self.rows, self.width = self.chance.choice((1, 2, 32)), self.chance.choice((2, 8, 24))
        self.pitch = 3 * self.width + 5
        values = np.random.default_rng(seed).standard_normal((3, self.rows * self.pitch))
        values[:, ::7], values[:, 3], values[:, 5] = 0, np.nan, -0.0
        self.bytes = values.astype(np.float32).view(np.uint8)
        self.storages = [
            Storage(Memory.SBUF, len(row), self.pitch * 4, data=row.copy(), is_written=True)
            for row in self.bytes
        ]

    def tile(self, storage, shape):
        step = self.chance.choice((1, 1, 2))
        start = self.chance.randrange(self.pitch - (self.width - 1) * step) * 4
        steps = (4 * step,) if len(shape) == 2 else (4 * step * shape[2], 4 * step)
        return Tile(storage, FLOAT32, AccessPattern(shape, (self.pitch * 4, *steps), start))

    def column(self):
        place = 4 * self.chance.randrange(self.pitch)
        pattern = AccessPattern((self.rows, 1), (self.pitch * 4, 4), place)
        return Tile(self.chance.choice(self.storages), FLOAT32, pattern)

    def instruction(self):
        chance = self.chance
        is_deep = chance.random() < 0.2
        shape = (self.rows, self.width // 2, 2) if is_deep else (self.rows, self.width)
        data = self.tile(self.storages[0], shape)
        dst = chance.choice((data, *(self.tile(storage, shape) for storage in self.storages[:2])))
        operands = [chance.choice((0.5, -0.0, 1, self.column())) for _ in range(2)]
        if chance.random() < 0.5:
            first, second = (chance.choice(("add", "multiply", "minimum")) for _ in range(2))
            reverse = chance.random() < 0.3
            return TensorScalar(dst, data, first, operands[0], reverse, second, operands[1])
        sums = (None, None, ReduceCmd.idle)
        if chance.random() < 0.5:
            sums = ("add", self.column(), ReduceCmd.reset_reduce)
        return Activation(dst, chance.choice(FUNCTIONS), data, *operands, *sums)

    def outcome(self, run, instruction):
        """All that an execution leaves."""
        machine = Machine(NEURONCORE_V3)
        for storage, before in zip(self.storages, self.bytes, strict=True):
            storage.data[:] = before
        try:
            with np.errstate(all="ignore"):
                run(instruction, machine)
        except EmulatorError as error:
            return str(error), [storage.data.tobytes() for storage in self.storages]
        registers = [vars(accumulator) for accumulator in machine.accumulators.values()]
        arrays = [value for each in registers for value in each.values() if hasattr(value, "dtype")]
        return [array.tobytes() for array in (*arrays, *(s.data for s in self.storages))]


@pytest.mark.parametrize("first", [0, 100, 200])
def test_a_plan_does_what_execute_does(first):
    planned = 0
    for seed in range(first, first + 100):
        draw = Draw(seed)
        instruction = draw.instruction()
        plan = instruction.plan()
        if plan is not None:
            planned += 1
            alone = draw.outcome(type(instruction).execute, instruction)
            assert draw.outcome(plan, instruction) == alone, seed
    assert planned > 60
