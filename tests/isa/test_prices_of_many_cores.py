"""Prices on many cores at once: those of each core alone, from one evaluation of a formula."""

from dataclasses import replace

import numpy as np
import pytest

from trnsim.arch.draws import sample_core, stack_cores
from trnsim.dtypes import BFLOAT16, FLOAT8_E4M3, FLOAT32
from trnsim.errors import EmulatorError
from trnsim.isa import Instruction
from trnsim.isa.reference.example import Tensor, example, examples, tile
from trnsim.memory import Memory, Tile

KINDS = Instruction.registry
DTYPES = (FLOAT32, BFLOAT16, FLOAT8_E4M3)
TIMES = ("interval_s", "latency_s", "issue_s", "held_load_s")
CORES = ("core_v2", "core_v3", "core_v4")

by_core = pytest.mark.parametrize("name", CORES)


@pytest.fixture
def core(request, name):
    return request.getfixturevalue(name)


def many(core):
    """Cores with other rates; with more than one, a choice by a rate is ambiguous and fails."""
    return [core, *(sample_core(core, draw) for draw in range(6))]


def check_priced(instruction, core):
    """The price on all cores is that on each."""
    cores = many(core)
    dims = instruction.verify(core)
    cost = instruction.price(stack_cores(cores), dims)
    each = [instruction.price(one, dims) for one in cores]
    for time in TIMES:
        found = np.broadcast_to(getattr(cost, time), len(cores))
        assert found.tolist() == [getattr(one, time) for one in each], time
    shares = np.broadcast_to(cost.engine_share, len(cores))
    assert shares.tolist() == pytest.approx([one.engine_share for one in each])
    plain = dict.fromkeys((*TIMES, "engine_share"), 0.0)
    assert {replace(one, **plain) for one in each} == {replace(cost, **plain)}


def instances(declared):
    """The examples, and each with all its tiles of one dtype."""
    for instance in examples(declared):
        yield instance
        tiles = {name: getattr(instance, name) for name in declared.operands}
        for dtype in DTYPES:
            of_dtype = {
                name: tile(old.shape, dtype, old.memory)
                for name, old in tiles.items()
                if isinstance(old, Tile)
            }
            yield replace(instance, **of_dtype)


def is_legal(instruction, core):
    try:
        instruction.verify(core)
    except EmulatorError:
        return False
    return True


@pytest.mark.slow_but_every(3)
@by_core
@pytest.mark.parametrize("declared", KINDS.values(), ids=KINDS)
def test_every_instruction_is_priced_on_many_cores_at_once(declared, core):
    """A formula that chooses by a rate would fail here, and give no interval."""
    for instruction in instances(declared):
        if is_legal(instruction, core):
            check_priced(instruction, core)


def every(step, shape, dtype):
    """A tile of every `step`-th element of a row."""
    rows, columns = shape
    whole = tile((rows, columns * step), dtype, Memory.SBUF)
    return Tile(whole.storage, dtype, whole.pattern.slice(1, 0, columns * step, step))


@by_core
@pytest.mark.parametrize(
    "instruction",
    [
        example(KINDS["nc_matmul"], moving=every(64, (128, 512), BFLOAT16)),
        example(KINDS["tensor_copy"], src=every(64, (128, 512), BFLOAT16)),
        example(KINDS["tensor_tensor"], data1=every(64, (128, 512), BFLOAT16)),
        example(KINDS["dma_copy"], dst=every(2, (128, 512), BFLOAT16)),
        *(
            example(
                KINDS["nc_matmul"],
                **dict.fromkeys(("stationary", "moving"), Tensor(dtype=FLOAT32)),
                is_stationary_onezero=True,
                is_transpose=is_transpose,
                **({"N": 128, "dst": Tensor(dtype=FLOAT32)} if is_transpose else {}),
            )
            for is_transpose in (False, True)
        ),
    ],
    ids=lambda instruction: instruction.opcode,
)
def test_strides_and_passes_are_priced_at_once(instruction, core):
    check_priced(instruction, core)
