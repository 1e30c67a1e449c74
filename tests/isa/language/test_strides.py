"""Strides: the step of the innermost dimension, and half the rate beyond 16 bytes on v2."""

import pytest

from trnsim.dtypes import BFLOAT16, FLOAT32, UINT8
from trnsim.isa import Activation, NcMatmul, TensorCopy, TensorScalar
from trnsim.isa.language.strides import step_bytes
from trnsim.memory import Memory, Tile


def every(work, step, dtype, memory=Memory.SBUF, length=128):
    """A [128, length] tile of every `step`-th element."""
    whole = work.empty((128, length * step), dtype, memory)
    return Tile(whole.storage, dtype, whole.pattern.slice(1, 0, length * step, step))


def interval_s(work, instruction):
    return instruction.price(work.core, instruction.verify(work.core)).interval_s


def test_the_step_is_that_of_the_innermost_dimension_longer_than_one(bench):
    work = bench()
    tile = work.empty((4, 3, 8), FLOAT32)
    assert step_bytes(tile) == 4
    assert step_bytes(Tile(tile.storage, FLOAT32, tile.pattern.slice(2, 5, 6))) == 32
    assert step_bytes(work.empty((4, 1), FLOAT32)) is None
    repeated = work.empty((4, 1), FLOAT32)
    assert step_bytes(Tile(repeated.storage, FLOAT32, repeated.pattern.broadcast(1, 8))) == 0


# The document: 4 elements of 32 bits, 8 of 16 bits, 16 of 8 bits.
@pytest.mark.parametrize(
    ("dtype", "step", "is_slow"),
    [
        (FLOAT32, 1, False),
        (FLOAT32, 4, False),
        (FLOAT32, 5, True),
        (BFLOAT16, 8, False),
        (BFLOAT16, 9, True),
        (UINT8, 16, False),
        (UINT8, 17, True),
    ],
    ids=str,
)
def test_elements_beyond_16_bytes_halve_the_rate_on_v2(
    bench, core_v2, core_v3, core_v4, dtype, step, is_slow
):
    for core, factor in ((core_v2, 2 if is_slow else 1), (core_v3, 1), (core_v4, 1)):
        work = bench(core, has_values=False)
        far, near = every(work, step, dtype), work.empty((128, 128), FLOAT32)
        for one in (
            TensorCopy(near, far),
            TensorScalar(far, near, "add", 1.0),
            Activation(near, "exp", far),
        ):
            assert interval_s(work, one) == pytest.approx(factor * work.cost(one).interval_s)


def test_of_a_matmul_the_moving_tile_alone_streams(bench, core_v2):
    work = bench(core_v2, has_values=False)
    dst = work.empty((128, 128), FLOAT32, Memory.PSUM)
    near, far = work.empty((128, 128), BFLOAT16), every(work, 9, BFLOAT16)
    plain = interval_s(work, NcMatmul(dst, near, near))
    assert interval_s(work, NcMatmul(dst, far, near)) == pytest.approx(plain)
    assert interval_s(work, NcMatmul(dst, near, far)) == pytest.approx(2 * plain)
    wide, spread = work.empty((128, 128), FLOAT32), every(work, 5, FLOAT32)
    four = interval_s(work, NcMatmul(dst, wide, wide))
    assert interval_s(work, NcMatmul(dst, wide, spread)) == pytest.approx(four)
