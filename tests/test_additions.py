"""What is added in one place: an instruction and an operation, each declared by one class.

The script below is the one file that such a change needs in the source, beside a line that imports
a new family and a test.
"""

import subprocess
import sys

import pytest

ONE_INSTRUCTION = '''
import numpy as np
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.instruction import SBUF, Instruction
from trnsim.isa.language.lanes import lane_cost
from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile


class TensorHalve(Instruction, engines=(Engine.vector,), source="a page"):
    """``dst = src / 2``, element by element."""

    dst: Tile = writes("P F", SBUF)
    src: Tile = reads("P F", SBUF)

    def execute(self, machine):
        """In float32, rounded once."""
        del machine
        self.dst.store(self.src.load() / 2)

    def cost(self, core, n):
        """F cycles."""
        return lane_cost(core, self.chosen_engine(core), n.F)


import nki
import nki.isa as nisa
import nki.language as nl
import trnsim
from trnsim.isa.reference.page import page


@nki.jit
def kernel(x):
    tile = nl.load(x)
    half = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_halve(dst=half, src=tile)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=half)
    return out


run = trnsim.run(kernel, np.arange(12, dtype=np.float32).reshape(3, 4), target="trn2")
assert run.outputs[2, 3] == 5.5
assert run.total_time_s > 0
assert page(TensorHalve).startswith("# tensor_halve")
try:
    trnsim.run(kernel, np.zeros((129, 4), np.float32))
except trnsim.errors.EmulatorError as error:
    assert "129" in str(error)
else:
    raise AssertionError("129 partitions")
'''

ONE_OPERATION = '''
import numpy as np
from trnsim.graph import Graph
from trnsim.graph.ops.functions import FloatUnary


class Arctangent(FloatUnary, activation="arctan", source="a page"):
    """The angle of a slope."""

    domain = (-1.5, 1.5)

    def reference(self, operand):
        """The angle."""
        return np.arctan(operand)


from trnsim.lower import costs, evaluate

graph = Graph()
graph.outputs = [graph.elementwise("arctangent", graph.input((3, 40), "float32"))]
given = np.linspace(-1, 1, 120, dtype=np.float32).reshape(3, 40)
(found,) = evaluate(graph, [given])
np.testing.assert_allclose(found, graph.reference([given])[0], rtol=2e-6, atol=1e-7)
assert costs(graph)[0].device_time_s > 0
'''


def check(script):
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_instruction_is_one_class():
    check(ONE_INSTRUCTION)


@pytest.mark.slow
def test_an_operation_is_one_class():
    check(ONE_OPERATION)
