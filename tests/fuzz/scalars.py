"""Random programs of scalars, int32 and int64, compared with Python's integers that wrap.

python tests/fuzz/scalars.py --seed 0 --programs 5000

A program loads one to three scalars, applies operators to them and to constants, and stores every
result. What the chip would give is what Python gives, modulo 2**32 or 2**64.
"""

from __future__ import annotations

import argparse
import operator
import sys
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

import trnsim
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl

BITS = {np.int32: 32, np.int64: 64}
BINARY = {"+": operator.add, "-": operator.sub, "*": operator.mul}
UNARY = {"-x": operator.neg, "+x": operator.pos}
ORACLE = BINARY | UNARY
"""The operators that Python applies; those on scalars are the same, applied to scalars."""


@dataclass(frozen=True)
class Operation:
    """An operator on the values with these numbers, or on constants.

    Attributes:
        sign: a key of `BINARY` or of `UNARY`.
        operands: ("value", number) or ("constant", integer) for each operand.
    """

    sign: str
    operands: tuple[tuple[str, int], ...]

    def of(self, values, operators=MappingProxyType(BINARY | UNARY)):
        """Its result, for integers or scalars."""
        picked = [values[n] if kind == "value" else n for kind, n in self.operands]
        return operators[self.sign](*picked)


@dataclass(frozen=True)
class Program:
    """Inputs of one dtype, operations in order, and the memory where each result is stored."""

    dtype: type
    inputs: tuple[int, ...]
    operations: tuple[Operation, ...]
    buffers: tuple[str, ...]

    def expected(self):
        """Each result, by Python's integers."""
        values = list(self.inputs)
        for operation in self.operations:
            values.append(wrapped(operation.of(values, ORACLE), BITS[self.dtype]))
        return values[len(self.inputs) :]


def wrapped(value, bits):
    """`value` as two's complement of so many bits."""
    value &= 2**bits - 1
    return value - 2**bits if value >> (bits - 1) else value


def generate(seed):
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    dtype = (np.int32, np.int64)[int(rng.integers(2))]
    inputs = tuple(_integer(rng, BITS[dtype]) for _ in range(int(rng.integers(1, 4))))
    operations, count = [], len(inputs)
    for _ in range(int(rng.integers(1, 13))):
        operations.append(_operation(rng, count, BITS[dtype]))
        count += 1
    buffers = tuple(("hbm", "sbuf")[int(rng.integers(2))] for _ in range(count))
    return Program(dtype, inputs, tuple(operations), buffers)


def _integer(rng, bits):
    """An integer of so many bits: near a limit, small, or any."""
    half = 2 ** (bits - 1)
    kind = int(rng.integers(4))
    if kind == 0:
        return int((-half, half - 1, -half + 1, half - 2, half // 2)[int(rng.integers(5))])
    if kind == 1:
        return int(rng.integers(-3, 4))
    if kind == 2:
        return 1 << int(rng.integers(bits - 1))
    return int(rng.integers(-half, half, dtype=np.int64))


def _operation(rng, count, bits):
    """An operation on one of `count` values, and on another one or a constant."""
    value = "value", int(rng.integers(count))
    if rng.random() < 0.2:
        return Operation(tuple(UNARY)[int(rng.integers(2))], (value,))
    other = ("constant", _integer(rng, bits))
    if rng.random() < 0.5:
        other = "value", int(rng.integers(count))
    pair = (value, other) if rng.random() < 0.5 else (other, value)
    return Operation(tuple(BINARY)[int(rng.integers(3))], pair)


@jit
def compute(inputs, program):
    """The results of `program` as a tensor [operations, 1]."""
    dtype, count = inputs.dtype, inputs.shape[0]
    out = nl.ndarray((len(program.operations), 1), dtype, buffer=nl.shared_hbm)
    values = []
    for number in range(count):
        source = inputs[number : number + 1]
        if program.buffers[number] == "sbuf":
            tile = nl.ndarray((1, 1), dtype)
            nisa.dma_copy(dst=tile, src=source)
            source = tile
        values.append(nisa.scalar_load(source))
    for number, operation in enumerate(program.operations):
        values.append(operation.of(values))
        place = out[number : number + 1]
        if program.buffers[count + number] == "hbm":
            nisa.scalar_store(place, values[-1])
        else:
            tile = nl.ndarray((1, 1), dtype)
            nisa.scalar_store(tile, values[-1])
            nisa.dma_copy(dst=place, src=tile)
    return out


def failure(program):
    """The difference of a program from Python, or ""."""
    inputs = np.array(program.inputs, program.dtype).reshape(-1, 1)
    expected = program.expected()
    got = trnsim.run(compute, inputs, program).outputs.reshape(-1).tolist()
    if got == expected:
        return ""
    return f"{program}\n  expected {expected}\n  but got  {got}"


def main(arguments=None):
    """Run random programs; returns 1 and prints the first that differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=5000)
    chosen = parser.parse_args(arguments)
    for seed in range(chosen.seed, chosen.seed + chosen.programs):
        text = failure(generate(seed))
        if text:
            print(f"seed {seed}: {text}")
            return 1
    print(f"{chosen.programs} programs of scalars equal Python's integers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
